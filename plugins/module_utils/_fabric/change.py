# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Change the fabric's addresses: prepare, start, confirm, undo."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import ipaddress
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from .._data.files import read_object
from .._spark import whole
from .._spark.application import zip_application
from .._spark.whole import write_whole
from . import undo
from .netplan import (
    FILE,
    NETPLAN_DIRECTORIES,
    PENDING,
    STATUS,
    TRIAL_FILE,
    Document,
    addresses_of,
    before_of,
    claims,
    document_of,
    is_ours,
    named_in,
    netplan_files,
    render,
    way_out,
)
from .ports import FabricError, Run, addresses, ask_ip, run

UNIT = "dgx-spark-speculative-network"
EMPTY = "network:\n  version: 2\n"
POLL_S = 0.2
# More than applying, waiting for addresses and undoing both can take, which is tried twice.
END_DEADLINE_S = 3 * undo.APPLY_DEADLINE_S + 2 * undo.SETTLE_S + 30.0

State = dict[str, t.Any]


def usable(address: str) -> bool:
    """Return whether the address was configured: not a link-local one, and with a network."""
    result = ipaddress.IPv4Interface(address)
    return not result.is_link_local and result.network.prefixlen < 32


class Network:
    """The netplan file of this collection on the host, and a pending change of it."""

    def __init__(self, runner: Run = run, root: Path = Path("/")) -> None:
        self.root = root
        self._run = runner
        self.file, self.trial_file = self._at(FILE), self._at(TRIAL_FILE)
        self.directory = self._at(STATUS.parent)

    def _at(self, path: Path) -> Path:
        return self.root / path.relative_to("/")

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Two runs must not start two changes."""
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (self.directory / "network.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # What is there

    def state(self) -> State | None:
        return read_object(self.directory / STATUS.name)

    def pending(self) -> State | None:
        """Return the pending change."""
        state = self.state()
        if state is None or state.get("state") not in PENDING:
            return None
        # The unit starts again by itself when its program is killed; only if that is hopeless it is gone.
        code, output, _error = self._run(["systemctl", "is-active", f"{UNIT}.service"])
        return state if code == 0 or output.strip() in ("activating", "deactivating") else None

    def text(self) -> str | None:
        """Our file's text; None where there is none. Raises FabricError for a file that is not ours."""
        try:
            text = self.file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FabricError(f"{FILE} cannot be read ({error.strerror}).") from None
        if not is_ours(text):
            raise FabricError(
                f"{FILE} is there, but was not written by this collection, so it is left alone. Move it to another "
                "name in the same directory if it is in use, or delete it, then run again."
            )
        return text

    def effective_text(self) -> str | None:
        """Return the text of our file, or of a trial whose watching program has ended."""
        text = self.text()
        if text is None and self.trial_file.exists():
            tried = self.trial_file.read_text(encoding="utf-8", errors="replace")
            return tried if is_ours(tried) else None
        return text

    def own_interfaces(self) -> set[str]:
        """Return the interfaces that our file names, or what is being tried in its place."""
        tried = self.trial_file.read_text(encoding="utf-8", errors="replace") if self.trial_file.exists() else ""
        return named_in(text for text in (self.text() or "", tried) if is_ours(text))

    def requirements(self) -> None:
        for program, package in (("netplan", "netplan.io"), ("systemd-run", "systemd"), ("ip", "iproute2")):
            path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
            if shutil.which(program, path=path) is None:
                raise FabricError(
                    f"{program} is not installed, so the network cannot be configured safely. Install it with 'sudo "
                    f"apt-get install {package}', or set the addresses yourself and set spark_network_mode to adopt."
                )

    def links(self) -> dict[str, dict[str, t.Any]]:
        """Addresses, MTU and whether it is switched on, for each interface."""
        return {
            str(row.get("ifname")): {
                "addresses": [f"{a['address']}/{a['prefix']}" for a in addresses(row)],
                "mtu": row.get("mtu"),
                "up": "UP" in (row.get("flags") or []),
                "mac": str(row.get("address") or ""),
            }
            for row in ask_ip(self._run, "-json", "address", "show")
        }

    def device(self, name: str) -> dict[str, str]:
        """Return the state of an interface in NetworkManager, the uuid of its profile, and whether it autoconnects."""
        fields = ("STATE", "CON-UUID", "AUTOCONNECT")
        command = ["nmcli", "-t", "-f", ",".join(f"GENERAL.{field}" for field in fields), "device", "show", name]
        code, output, error = self._run(command)
        if code != 0:
            raise FabricError(
                f"NetworkManager does not tell about {name} ({(error or output).strip() or f'exit code {code}'}). "
                "Start it ('sudo systemctl start NetworkManager'), or set spark_network_renderer to networkd, then run "
                "again."
            )
        return dict(line.split(":", 1) for line in output.splitlines() if ":" in line)

    def former(self, name: str) -> str | None:
        """Return the profile that an interface has; empty if NetworkManager is to choose one.

        None if it is to have none.
        """
        said = self.device(name)
        if said.get("GENERAL.CON-UUID"):
            return said["GENERAL.CON-UUID"]
        return None if said.get("GENERAL.AUTOCONNECT") == "no" else ""

    def foreign_files(self, name: str, mac: str) -> list[str]:
        """Return the netplan files of others that set up this interface."""
        result = []
        for path in netplan_files(self.root):
            if path.name != FILE.name and claims(path.name, path.read_text("utf-8", "replace"), name, mac):
                result.append(f"/{path.relative_to(self.root)}")
        return result

    # What is to be

    def check(self, document: Document) -> None:
        """Refuse what others have set up, and what is not there."""
        links, own = self.links(), self.own_interfaces()
        for name, wanted in addresses_of(document).items():
            if name not in links:
                raise FabricError(f"there is no interface {name} on this host.")
            live = [address for address in links[name]["addresses"] if address not in wanted and usable(address)]
            if live and name not in own:
                raise FabricError(
                    f"addresses are already set on {name} ({' and '.join(live)}), and not by this collection, so "
                    "nothing is configured there. Use them (spark_network_mode: auto, with addresses in the same "
                    "subnet on the other Sparks), or remove them first."
                )
            files = self.foreign_files(name, links[name]["mac"])
            if files:
                raise FabricError(
                    f"{' and '.join(files)} configures {name} and is not this collection's, so nothing is changed "
                    "there. Add usable addresses to it and set spark_network_mode to adopt, or " + way_out(files, name)
                )
            by = document["network"]["ethernets"][name].get("renderer")
            if by == "NetworkManager" and "(unmanaged)" in self.device(name).get("GENERAL.STATE", ""):
                raise FabricError(
                    f"NetworkManager does not manage {name}, so it gives it no address. Run 'sudo nmcli device set "
                    f"{name} managed yes', or set spark_network_renderer to networkd, then run again."
                )

    def validate(self, text: str) -> None:
        """Ask netplan itself, in a copy of all its files."""
        code, said = self._generate(text)
        if code == 0:
            return
        if self._generate(None)[0] != 0:
            raise FabricError(
                f"netplan already refuses the files that are on this host, without any change: {said}. Correct them "
                "('sudo netplan generate' shows it), then run again."
            )
        raise FabricError(f"netplan refuses the configuration, so nothing was changed: {said}")

    def _generate(self, text: str | None) -> tuple[int, str]:
        with tempfile.TemporaryDirectory(prefix="dgx-spark-netplan-") as directory:
            copy = Path(directory)
            for place in NETPLAN_DIRECTORIES:
                (copy / place).mkdir(parents=True, exist_ok=True)
            for path in netplan_files(self.root):
                if path != self.trial_file:
                    shutil.copy(path, copy / path.relative_to(self.root))
            if text is not None:
                write_whole(copy / TRIAL_FILE.relative_to("/"), text, 0o600)
            code, output, error = self._run(["netplan", "generate", "--root-dir", directory])
            said = " ".join((error or output).replace(f"{directory}/", "/").split())
            return code, said or f"exit code {code}"

    def wanted_text(self, document: Document) -> str:
        """Return the file's text; what was there before us is kept as it was noted first."""
        present = self.effective_text()
        before = before_of(present) if present else {}
        links = self.links()
        for name in addresses_of(document):
            if name not in before and name in links:
                before[name] = {"mtu": links[name]["mtu"], "up": links[name]["up"]}
        return render(document, before)

    def in_force(self, document: Document) -> bool:
        """Return whether the interfaces have the settings in the document."""
        links = self.links()
        interfaces = document["network"]["ethernets"]
        return all(
            name in links
            and set(entry["addresses"]) <= set(links[name]["addresses"])
            and links[name]["mtu"] == entry["mtu"]
            for name, entry in interfaces.items()
        )

    # The change

    def request(self, document: Document | None, timeout: float) -> State:
        """Return the request for the program on the host. Without a document it removes all our files."""
        present = self.effective_text()
        old = document_of(present) if present else {}
        links = self.links()
        after, prior = addresses_of(document or {}), addresses_of(old)
        noted = before_of(present) if present else {}
        gone = [name for name in prior if name not in after and name in links]
        fresh = [name for name in after if name not in prior and name in links]
        free = {name for name in {*gone, *fresh} if not self.foreign_files(name, links[name]["mac"])}
        renderers = {
            str(entry.get("renderer"))
            for some in (document, old)
            for entry in ((some or {}).get("network") or {}).get("ethernets", {}).values()
        }
        by = "NetworkManager" if "NetworkManager" in renderers else "networkd"
        # If both backends have a part in it, only netplan itself makes one of them release it.
        by_profile = renderers == {"NetworkManager"} and self._run(["nmcli", "general"])[0] == 0
        content = self.wanted_text(document) if document else None
        return {
            "id": secrets.token_hex(8),
            "action": "present" if document else "absent",
            "timeout": timeout,
            "file": str(self.file),
            "trial_file": str(self.trial_file),
            "content": content,
            "trial_content": content if content is not None else EMPTY,
            "forward": {
                "renderer": by,
                "by_profile": by_profile,
                "expect": after,
                # Another file may still say something about it.
                "gone": {name: f"netplan-{name}" for name in gone},
                "remove": {
                    name: [a for a in prior[name] if a not in after.get(name, [])]
                    for name in prior
                    if name in links and (name in after or name in free)
                },
                # Before our file is removed, an MTU that only our file sets is restored.
                "mtu": {n: noted[n]["mtu"] for n in gone if n in free and noted.get(n, {}).get("mtu")},
                "down": [n for n in gone if n in free and noted.get(n, {}).get("up") is False],
            },
            "back": {
                "renderer": by,
                "by_profile": by_profile,
                "expect": {name: values for name, values in prior.items() if name in links},
                "gone": {name: self.former(name) for name in fresh} if by_profile else {},
                "remove": {
                    name: [a for a in after[name] if a not in prior.get(name, []) + links[name]["addresses"]]
                    for name in after
                    if name in links
                },
                "mtu": {n: links[n]["mtu"] for n in fresh if n in free},
                "down": [n for n in fresh if n in free and not links[n]["up"]],
            },
        }

    def start(self, request: State) -> None:
        """Hand the change to a unit of its own on this host, which outlives this connection."""
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        undo.remove(self.directory / "network.confirm")
        program = self.directory / "network.pyz"
        modules = {module.__name__: inspect.getsource(module) for module in (undo, whole)}
        write_whole(program, zip_application(undo.__name__, modules), 0o600)
        write_whole(self.directory / "network.request", json.dumps(request), 0o600)
        begun = {"id": request["id"], "action": request["action"], "state": "starting", "error": None}
        write_whole(self.directory / STATUS.name, json.dumps(begun) + "\n", 0o644)
        self._run(["systemctl", "reset-failed", f"{UNIT}.service"])
        command = ["systemd-run", f"--unit={UNIT}", "--collect", "--quiet"]
        # A killed program does not prevent the undo.
        command += ["--property=Restart=on-failure", "--property=RestartSec=1", "--property=OOMScoreAdjust=-900"]
        command += ["--description=Change of the cable's addresses, undone unless confirmed"]
        code, output, error = self._run([*command, sys.executable, "-I", str(program), str(self.directory)])
        if code != 0:
            undo.remove(self.directory / STATUS.name)
            raise FabricError(
                f"the change could not be handed to systemd, so nothing was changed: {(error or output).strip()}"
            )

    def requested(self) -> State:
        """Return the last request of the program."""
        return read_object(self.directory / "network.request") or {}

    def answer(self, change: str, answer: str) -> None:
        write_whole(self.directory / "network.confirm", json.dumps({"id": change, "answer": answer}) + "\n", 0o600)

    def wait(self, states: t.Container[str], seconds: float) -> State:
        """Wait until the change is in one of these states; the last one seen is handed out."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.state() or {}
            if state.get("state") in states or time.monotonic() > deadline:
                return state
            if state and self.pending() is None:
                return self.state() or {}
            time.sleep(POLL_S)
