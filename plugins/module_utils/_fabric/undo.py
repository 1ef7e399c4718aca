# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Apply a change of the network, and undo it unless the run confirms in time that the host is still reachable.

The module copies this file to the host, where systemd runs it as a unit of its own: it must outlive the connection that
the change may cut. It imports the standard library and the one file that is packed with it.

What is tried lies in /run/netplan, where it hides the file of the same name in /etc/netplan: a reboot undoes it, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from .._spark.whole import sync_directory, write_whole

# The answer to the run that started the change is sent first.
START_AFTER_S = 1.0
POLL_S = 0.2
# The backend sets addresses some time after the command.
SETTLE_S = 15.0
# NetworkManager may prefer another profile of the same interface; after this time ours is activated explicitly.
INSIST_AFTER_S = 3.0
APPLY_DEADLINE_S = 90.0
# A backend that is just being restarted takes the second one.
APPLY_AGAIN_AFTER_S = 1.0
TEXT_LIMIT = 600

State = dict[str, t.Any]


def remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


class Change:
    """A change by its request. Its state file has the progress."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.status = directory / "network.json"
        self.confirmation = directory / "network.confirm"
        self.request: State = json.loads((directory / "network.request").read_text(encoding="utf-8"))
        self.state: State = {
            "id": self.request["id"],
            "action": self.request["action"],
            "state": "starting",
            "error": None,
        }

    # The outside world, replaced in tests.

    def run(self, *command: str, deadline: float = 20.0) -> tuple[int, str]:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=deadline,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            return 124, f"it did not end within {deadline:.0f} s"
        except OSError as error:
            return 127, f"{command[0]}: {error.strerror}"
        return done.returncode, done.stdout

    def addresses(self, interface: str) -> list[str]:
        code, output = self.run("ip", "-json", "-4", "address", "show", "dev", interface)
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            return [
                f"{info['local']}/{info['prefixlen']}"
                for row in json.loads(output if code == 0 else "[]")
                for info in row.get("addr_info", [])
                if "local" in info and "prefixlen" in info
            ]
        return []

    # The steps

    def say(self, state: str, error: str | None = None) -> None:
        self.state.update(state=state, since=time.time())
        if error:
            self.state["error"] = error[:TEXT_LIMIT]
        write_whole(self.status, json.dumps(self.state) + "\n", 0o644)

    def must(self, *command: str, deadline: float = APPLY_DEADLINE_S) -> str | None:
        """Run a command, and return why it failed; None if it did not."""
        code, output = self.run(*command, deadline=deadline)
        if code == 0:
            return None
        text = " ".join(output.split())
        return f"'{' '.join(command)}' ended with exit code {code}: {text or 'it gave no reason'}"

    def apply(self, wanted: t.Mapping[str, t.Any]) -> str | None:
        """Apply a document, and return why that failed; None if it did not."""
        return self.switch(wanted) if wanted.get("by_profile") else self.must("netplan", "apply")

    def switch(self, wanted: t.Mapping[str, t.Any]) -> str | None:
        """Have NetworkManager change over these interfaces only: 'netplan apply' disconnects all that netplan names."""
        gone = wanted.get("gone") or {}
        for interface in gone:
            self.run("nmcli", "--wait", "5", "connection", "down", f"netplan-{interface}")
        error = self.must("netplan", "generate") or self.must("nmcli", "connection", "reload")
        for interface, profile in gone.items():
            # The previous addresses may take some time, as with DHCP, or not return.
            back = ("connection", "up", profile) if profile else ("device", "disconnect", interface)
            if profile != "":
                self.run("nmcli", "--wait", "0", *back)
        for interface in wanted.get("expect") or {}:
            error = error or self.must("nmcli", "--wait", "15", "connection", "up", f"netplan-{interface}")
        return error

    def settle(self, wanted: t.Mapping[str, t.Any]) -> str | None:
        """Have the addresses that should be there, and none of those that should be gone."""
        for interface, gone in (wanted.get("remove") or {}).items():
            for address in set(gone) & set(self.addresses(interface)):
                self.run("ip", "address", "del", address, "dev", interface)
        for interface, mtu in (wanted.get("mtu") or {}).items():
            self.run("ip", "link", "set", "dev", interface, "mtu", str(mtu))
        for interface in wanted.get("down") or []:
            self.run("ip", "link", "set", "dev", interface, "down")
        started, insisted = time.monotonic(), False
        while True:
            missing = {
                interface: sorted(set(expected) - set(self.addresses(interface)))
                for interface, expected in (wanted.get("expect") or {}).items()
            }
            missing = {interface: rest for interface, rest in missing.items() if rest}
            waited = time.monotonic() - started
            if not missing:
                return None
            if waited > SETTLE_S:
                each = ", ".join(f"{' and '.join(rest)} on {interface}" for interface, rest in missing.items())
                return f"{SETTLE_S:.0f} s after that was done there was still no {each}"
            if wanted.get("renderer") == "NetworkManager" and waited > INSIST_AFTER_S and not insisted:
                insisted = True
                for interface in missing:
                    self.run("nmcli", "--wait", "5", "connection", "up", f"netplan-{interface}")
            time.sleep(POLL_S)

    def confirmed(self) -> str:
        """Return what was requested: 'keep', 'undo', or nothing yet."""
        with contextlib.suppress(OSError, ValueError):
            data = json.loads(self.confirmation.read_text(encoding="utf-8"))
            if data.get("id") == self.request["id"]:
                return str(data.get("answer"))
        return ""

    def try_it(self) -> str | None:
        """Return why the change must be undone; None if it stays."""
        if self.state["state"] == "starting":
            time.sleep(START_AFTER_S)
            self.state["deadline"] = time.monotonic() + float(self.request["timeout"]) + APPLY_DEADLINE_S
            self.say("applying")
            write_whole(Path(self.request["trial_file"]), self.request["trial_content"], 0o600)
            error = self.apply(self.request["forward"]) or self.settle(self.request["forward"])
            if error:
                return error
            self.state["deadline"] = time.monotonic() + float(self.request["timeout"])
            self.say("waiting")
        while True:
            answer = self.confirmed()
            if answer == "keep":
                return None
            if answer == "undo":
                return "it was asked to"
            if time.monotonic() > self.state["deadline"]:
                return f"no confirmation arrived within {self.request['timeout']:g} s that this host is reachable"
            time.sleep(POLL_S)

    def keep(self) -> None:
        file = Path(self.request["file"])
        if self.request["content"] is None:
            remove(file)
            sync_directory(file.parent)
        else:
            write_whole(file, self.request["content"], 0o600)
        remove(Path(self.request["trial_file"]))
        self.say("confirmed")

    def undo(self, reason: str) -> None:
        self.say("undoing", reason)
        remove(Path(self.request["trial_file"]))
        refused = self.apply(self.request["back"])
        if refused:
            time.sleep(APPLY_AGAIN_AFTER_S)
            refused = self.apply(self.request["back"])
        # Settings that were made directly are removed, even if netplan fails.
        errors = [error for error in (refused, self.settle(self.request["back"])) if error]
        text = f"{reason}; it could not be undone, because {', and '.join(errors)}" if errors else None
        self.say("failed" if errors else "undone", text)

    def resume(self) -> None:
        """Take up where a killed predecessor ended."""
        with contextlib.suppress(OSError, ValueError):
            data = json.loads(self.status.read_text(encoding="utf-8"))
            if data.get("id") == self.request["id"]:
                self.state = data

    def act(self) -> None:
        self.resume()
        before = self.state["state"]
        if before in ("confirmed", "undone", "failed"):
            return
        if before in ("applying", "undoing"):
            self.undo(self.state["error"] or "the program that watched over it was ended")
            return
        reason = self.try_it()
        if reason is None:
            self.keep()
        else:
            self.undo(reason)


if __name__ == "__main__":
    Change(Path(sys.argv[1])).act()
