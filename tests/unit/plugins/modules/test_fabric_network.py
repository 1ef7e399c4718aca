# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import change as fabric_change
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import undo
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.netplan import FILE, TRIAL_FILE, is_ours
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import whole
from ansible_collections.dgx_spark.speculative.plugins.modules import fabric_network

from tests.unit import modules
from tests.unit.waiting import until

NAME = "enp1s0f1np1"


def document(address: str = "192.168.100.10/24", mtu: int = 9000) -> dict[str, t.Any]:
    entry = {"renderer": "networkd", "dhcp4": False, "mtu": mtu, "addresses": [address]}
    return {"network": {"version": 2, "ethernets": {NAME: entry}}}


PROGRAMS = {
    # The network is a file; netplan fills it from what it finds in its directories. Two changes may look at it at once.
    "ip": """
import json, os, pathlib, sys
net = pathlib.Path(os.environ["FAKE"], "net.json")
data = json.loads(net.read_text())
if sys.argv[1:3] == ["address", "del"]:
    data["addresses"].remove(sys.argv[3])
elif sys.argv[1:3] == ["link", "set"]:
    if "mtu" in sys.argv: data["mtu"] = int(sys.argv[-1])
else:
    info = [{"family": "inet", "local": a.split("/")[0], "prefixlen": int(a.split("/")[1])} for a in data["addresses"]]
    link = {"ifname": "enp1s0f1np1", "flags": ["UP"], "mtu": data["mtu"], "address": "4c:bb:47:00:00:01"}
    print(json.dumps([{**link, "addr_info": info}]))
    sys.exit()
whole = net.with_suffix(f".{os.getpid()}")
whole.write_text(json.dumps(data))
whole.replace(net)
""",
    "netplan": """
import json, os, pathlib, sys
root = pathlib.Path(os.environ["FAKE"])
name = "40-dgx-spark-speculative.yaml"
if sys.argv[1] == "generate":
    copy = pathlib.Path(sys.argv[3])
    for path in sorted(copy.rglob("*.yaml")):
        if "broken" in path.read_text():
            sys.exit("%s: broken" % path)
    sys.exit(0)
if (root / "refuse").exists():
    sys.exit("it is not possible")
places = [root / "run/netplan" / name, root / "etc/netplan" / name]
active = next((place.read_text() for place in places if place.exists()), "")
net = root / "net.json"
data = json.loads(net.read_text())
for line in active.splitlines():
    key, _separator, value = line.strip().partition(": ")
    if key == "mtu":
        data["mtu"] = int(value)
    if key == "addresses":
        data["addresses"] += [a for a in value.strip("[]").split(", ") if a not in data["addresses"]]
whole = net.with_suffix(f".{os.getpid()}")
whole.write_text(json.dumps(data))
whole.replace(net)
""",
    # A device that is managed and has a profile, unless a test says otherwise.
    "nmcli": """
import os, pathlib, sys
said = pathlib.Path(os.environ["FAKE"], "device")
if sys.argv[-3:-1] == ["device", "show"]:
    print(said.read_text() if said.exists() else "GENERAL.STATE:100 (connected)\\nGENERAL.CON-UUID:11-22")
    sys.exit(10 if said.exists() and not said.read_text() else 0)
""",
    # A unit is a process in a session of its own.
    "systemd-run": """
import os, pathlib, subprocess, sys
if pathlib.Path(os.environ["FAKE"], "no-systemd").exists():
    sys.exit("Failed to connect to bus")
command = sys.argv[next(n for n, a in enumerate(sys.argv) if n and not a.startswith("-")):]
log = open(os.environ["FAKE"] + "/log", "w")
process = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=subprocess.STDOUT)
pathlib.Path(os.environ["FAKE"], "pid").write_text(str(process.pid))
""",
    "systemctl": """
import os, pathlib, sys
if sys.argv[1] != "is-active": sys.exit(0)
try:
    pid = pathlib.Path(os.environ["FAKE"], "pid").read_text()
    alive = pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
except OSError:
    alive = False
print("active" if alive else "inactive")
sys.exit(0 if alive else 3)
""",
}


class Host:
    """A host in a directory, with the programs that a change of the network uses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for place in ("etc/netplan", "run/netplan"):
            (root / place).mkdir(parents=True)
        self.file, self.trial = root / str(FILE)[1:], root / str(TRIAL_FILE)[1:]
        self.set(addresses=[], mtu=1500)

    def set(self, **values: t.Any) -> None:
        (self.root / "net.json").write_text(json.dumps(values))

    @property
    def net(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", json.loads((self.root / "net.json").read_text()))

    def call(self, state: str, check_mode: bool = False, **args: t.Any) -> dict[str, t.Any]:
        params = {"state": state, **args, "_ansible_check_mode": check_mode, "_ansible_diff": True}
        return modules.run(fabric_network, params)

    def until(self, stage: str) -> dict[str, t.Any]:
        def there() -> dict[str, t.Any] | None:
            found = self.call("tried")
            return found if found["stage"] == stage else None

        return until(there, lambda: self.call("tried")) or {}

    def configured(self, **args: t.Any) -> dict[str, t.Any]:
        """Try something and keep it."""
        tried = self.call("present", **{"document": document(), **args})
        assert tried["trial"], tried
        return self.call("confirmed", change=tried["change"])


@pytest.fixture(name="host")
def fixture_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Host]:
    root = tmp_path / "host"
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        # Fast enough to be called many times.
        (programs / name).write_text(f"#!{sys.executable} -IS\n{text}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(root))
    monkeypatch.setattr(fabric_network, "ROOT", root)
    source = Path(undo.__file__).read_text(encoding="utf-8")
    source = source.replace("APPLY_AGAIN_AFTER_S = 1.0", "APPLY_AGAIN_AFTER_S = 0.0")
    quick = source.replace("START_AFTER_S = 1.0", "START_AFTER_S = 0.0").replace("SETTLE_S = 15.0", "SETTLE_S = 1.0")
    sources = {undo: quick.replace("POLL_S = 0.2", "POLL_S = 0.02"), whole: inspect.getsource(whole)}
    monkeypatch.setattr(fabric_change.inspect, "getsource", sources.get)
    monkeypatch.setattr(fabric_change, "POLL_S", 0.05)
    monkeypatch.setattr(fabric_network.os, "geteuid", lambda: 0)
    host = Host(root)
    yield host
    subprocess.run(["kill", (root / "pid").read_text()], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture(autouse=True)
def a_pid(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/pid").write_text("999999999")


def test_try_confirm_and_a_second_run(host: Host) -> None:
    tried = host.call("present", document=document())
    assert (tried["changed"], tried["trial"], tried["path"]) == (True, True, str(FILE))
    host.until("waiting")
    assert (host.trial.exists(), host.file.exists(), host.net["mtu"]) == (True, False, 9000)
    kept = host.call("confirmed", change=tried["change"])
    assert (kept["changed"], kept["stage"]) == (True, "confirmed")
    assert is_ours(host.file.read_text())
    assert host.file.stat().st_mode & 0o777 == 0o600
    assert not host.trial.exists()
    again = host.call("present", document=document())
    assert (again["changed"], again["trial"], again["change"]) == (False, False, "")
    assert host.call("confirmed", change=tried["change"])["changed"] is False


def test_what_nobody_confirms_undoes_itself(host: Host) -> None:
    tried = host.call("present", document=document(), timeout=1)
    found = host.until("undone")
    assert "no confirmation arrived within 1 s" in found["reason"]
    assert host.net == {"addresses": [], "mtu": 1500}
    assert not host.trial.exists()
    assert not host.file.exists()
    late = host.call("confirmed", change=tried["change"])
    assert late["failed"]
    assert late["refused"]
    assert "no confirmation arrived within 1 s" in late["msg"]


def test_a_killed_program_is_taken_for_gone(host: Host) -> None:
    host.call("present", document=document())
    host.until("waiting")
    pid = int((host.root / "pid").read_text())
    os.kill(pid, 9)
    until(lambda: host.call("present", document=document())["changed"] is True)
    tried = host.call("tried")
    assert host.call("confirmed", change=tried["change"])["stage"] == "confirmed"


def test_a_second_run_joins_the_same_change(host: Host) -> None:
    first = host.call("present", document=document())
    host.until("waiting")
    second = host.call("present", document=document())
    assert (second["changed"], second["trial"], second["change"]) == (True, True, first["change"])


def test_another_change_waits_for_the_end_of_the_first(host: Host) -> None:
    first = host.call("present", document=document(), timeout=1)
    second = host.call("present", document=document("10.0.0.1/24"))
    assert second["change"] != first["change"]
    host.until("waiting")
    assert host.net["addresses"] == ["10.0.0.1/24"]
    confirmed = host.call("confirmed", change=first["change"])
    assert "another run has begun another change" in confirmed["msg"]


def test_taking_back_at_once(host: Host) -> None:
    tried = host.call("present", document=document())
    taken = host.call("reverted", change=tried["change"])
    assert (taken["changed"], taken["stage"], host.net["addresses"]) == (True, "undone", [])
    assert host.call("reverted", change=tried["change"])["changed"] is False


def test_new_addresses_replace_the_old_and_can_be_taken_back(host: Host) -> None:
    host.configured()
    tried = host.call("present", document=document("192.168.200.12/24", 1500))
    host.until("waiting")
    assert host.net == {"addresses": ["192.168.200.12/24"], "mtu": 1500}
    host.call("reverted", change=tried["change"])
    assert host.net == {"addresses": ["192.168.100.10/24"], "mtu": 9000}
    host.configured(document=document("192.168.200.12/24", 1500))
    assert host.net["addresses"] == ["192.168.200.12/24"]
    # What was there before the first change is still known.
    assert '# before: {"enp1s0f1np1": {"mtu": 1500, "up": true}}' in host.file.read_text()


def test_absent_restores_what_was_there(host: Host) -> None:
    host.configured()
    looked = host.call("absent", check_mode=True)
    assert (looked["changed"], looked["trial"], looked["diff"]["after"]) == (True, False, "")
    tried = host.call("absent")
    host.until("waiting")
    assert host.net == {"addresses": [], "mtu": 1500}
    assert host.file.exists()
    assert host.call("confirmed", change=tried["change"])["stage"] == "confirmed"
    assert (host.file.exists(), host.trial.exists()) == (False, False)
    assert host.call("absent")["changed"] is False


def test_absent_undoes_itself_too(host: Host) -> None:
    host.configured()
    host.call("absent", timeout=1)
    host.until("undone")
    assert host.net == {"addresses": ["192.168.100.10/24"], "mtu": 9000}


def test_addresses_that_somebody_took_away_are_set_again(host: Host) -> None:
    host.configured()
    host.set(addresses=[], mtu=9000)
    assert host.call("present", document=document())["trial"]


def test_check_mode_shows_the_file_and_touches_nothing(host: Host) -> None:
    looked = host.call("present", check_mode=True, document=document())
    assert (looked["changed"], looked["trial"], looked["diff"]["before"]) == (True, False, "")
    assert "addresses: [192.168.100.10/24]" in looked["diff"]["after"]
    assert sorted(path.name for path in (host.root / "run").rglob("*")) == ["netplan"]
    host.configured()
    assert host.call("present", check_mode=True, document=document())["changed"] is False


def test_netplan_refuses_ours(host: Host) -> None:
    result = host.call("present", document=document("broken"))
    assert result["msg"] == (
        "netplan refuses the configuration, so nothing was changed: /run/netplan/40-dgx-spark-speculative.yaml: broken"
    )
    assert not host.trial.exists()


def test_netplan_refuses_already_what_is_there(host: Host) -> None:
    (host.root / "etc/netplan/01-mine.yaml").write_text("broken")
    assert "netplan already refuses the files that are on this host" in host.call("present", document=document())["msg"]


def test_a_file_of_that_name_that_is_not_ours(host: Host) -> None:
    host.file.write_text("network: {}\n")
    for state in ("present", "absent"):
        result = host.call(state, document=document())
        assert result["msg"].startswith(
            f"{FILE} is there, but was not written by this collection, so it is left alone."
        )
    assert host.file.read_text() == "network: {}\n"


def test_a_file_of_others_that_sets_up_the_interface(host: Host) -> None:
    (host.root / "etc/netplan/40-cx7.yaml").write_text(f"network:\n  ethernets:\n    {NAME}:\n      mtu: 1500\n")
    result = host.call("present", document=document())
    assert result["msg"].startswith(f"/etc/netplan/40-cx7.yaml configures {NAME} and is not this collection's")
    assert result["refused"]


@pytest.mark.parametrize("live", ["10.0.0.1/24", "192.168.100.10/16"])
def test_live_addresses_of_others_stay(host: Host, live: str) -> None:
    host.set(addresses=[live], mtu=1500)
    result = host.call("present", document=document())
    assert result["msg"].startswith(f"addresses are already set on {NAME} ({live}), and not by this collection, so ")
    assert (result["refused"], host.trial.exists()) == (True, False)


@pytest.mark.parametrize("live", ["169.254.3.4/16", "10.0.0.1/32", "192.168.100.10/24"])
def test_addresses_that_are_nobodys_or_wanted_are_no_reason(host: Host, live: str) -> None:
    host.set(addresses=[live], mtu=1500)
    assert host.call("present", check_mode=True, document=document())["changed"]


def test_an_interface_that_is_not_there(host: Host) -> None:
    wrong = {"network": {"ethernets": {"enp9": {"addresses": ["10.0.0.1/24"], "mtu": 1500}}}}
    assert host.call("present", document=wrong)["msg"] == "there is no interface enp9 on this host."


@pytest.mark.parametrize("wrong", [{"x": 1}, {"network": {"ethernets": {}}}, {"network": {"ethernets": {NAME: {}}}}])
def test_a_document_that_is_none(host: Host, wrong: dict[str, t.Any]) -> None:
    assert "the document does not name network.ethernets" in host.call("present", document=wrong)["msg"]


def test_netplan_apply_fails(host: Host) -> None:
    (host.root / "refuse").touch()
    host.call("present", document=document())
    found = host.until("failed")
    assert found["reason"].count("'netplan apply' ended with exit code 1: it is not possible") == 2


def test_no_systemd(host: Host) -> None:
    (host.root / "no-systemd").touch()
    result = host.call("present", document=document())
    assert result["msg"] == (
        "the change could not be handed to systemd, so nothing was changed: Failed to connect to bus"
    )
    assert host.call("tried")["stage"] == ""


def managed() -> dict[str, t.Any]:
    wanted = document()
    wanted["network"]["ethernets"][NAME]["renderer"] = "NetworkManager"
    return wanted


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "GENERAL.STATE:10 (unmanaged)",
            f"NetworkManager does not manage {NAME}, so it gives it no address. Run 'sudo nmcli device set {NAME} "
            "managed yes', or set spark_network_renderer to networkd, then run again.",
        ),
        (
            "",
            f"NetworkManager does not tell about {NAME} (exit code 10). Start it ('sudo systemctl start "
            "NetworkManager'), or set spark_network_renderer to networkd, then run again.",
        ),
    ],
)
def test_an_interface_that_networkmanager_does_not_manage(host: Host, said: str, sentence: str) -> None:
    (host.root / "device").write_text(said)
    for check_mode in (False, True):
        assert host.call("present", check_mode, document=managed())["msg"] == sentence


@pytest.mark.parametrize(
    ("said", "former"),
    [
        ("GENERAL.STATE:100 (connected)\nGENERAL.CON-UUID:11-22\nGENERAL.AUTOCONNECT:yes", "11-22"),
        ("GENERAL.STATE:30 (disconnected)\nGENERAL.CON-UUID:\nGENERAL.AUTOCONNECT:yes", ""),
        ("GENERAL.STATE:30 (disconnected)\nGENERAL.CON-UUID:\nGENERAL.AUTOCONNECT:no", None),
    ],
)
def test_only_the_profiles_of_the_change_are_touched(host: Host, said: str, former: str | None) -> None:
    (host.root / "device").write_text(said)
    network = fabric_change.Network(root=host.root)
    request = network.request(managed(), 1)
    assert [request[way]["by_profile"] for way in ("forward", "back")] == [True, True]
    assert (request["forward"]["gone"], request["back"]["gone"]) == ({}, {NAME: former})
    # What networkd renders, or rendered before, is netplan's to apply.
    assert not network.request(document(), 1)["forward"]["by_profile"]
    host.file.write_text(fabric_change.render(document("10.0.0.1/24"), {}))
    assert not network.request(managed(), 1)["forward"]["by_profile"]
    host.file.write_text(fabric_change.render(managed(), {}))
    gone = network.request(None, 1)
    assert (gone["forward"]["by_profile"], gone["forward"]["gone"]) == (True, {NAME: f"netplan-{NAME}"})


def test_asking_changes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, t.Any] = {"heard": None, "ports_in_use": {NAME: {}}}
    monkeypatch.setattr(fabric_network, "neighbours", lambda addresses, greet, seconds: {**found, "of": addresses})
    result = host.call("discovered", check_mode=True, discover={"greet": False, "addresses": {NAME: ["10.0.0.1"]}})
    assert (result["changed"], result["neighbours"]) == (False, {**found, "of": {NAME: ["10.0.0.1"]}})


def test_asking_by_an_interface_that_has_gone(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_arguments: t.Any) -> t.NoReturn:
        raise OSError(19, "No such device", NAME)

    monkeypatch.setattr(fabric_network, "neighbours", gone)
    result = host.call("discovered", discover={"addresses": {NAME: []}})
    assert result["msg"] == (
        "enp1s0f1np1 cannot be used to ask who is on the wire: No such device. If it has gone, plug the cable into "
        "both Sparks until it clicks and wait 30 s; then run again."
    )


def test_no_netplan(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_change.shutil, "which", lambda program, path: None if program == "netplan" else program)
    assert host.call("present", document=document())["msg"].startswith("netplan is not installed")


def test_nothing_to_confirm(host: Host) -> None:
    assert "there is no change of the network to confirm: the host was restarted" in host.call("confirmed")["msg"]
    assert host.call("reverted")["changed"] is False


def test_only_root(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_network.os, "geteuid", lambda: 1000)
    assert host.call("absent")["msg"] == "Changing the network needs root: use this module with become."
