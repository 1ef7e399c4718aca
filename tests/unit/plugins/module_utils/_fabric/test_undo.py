# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import threading
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import undo
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.whole import write_whole

from tests.unit.waiting import WITHIN_S

NAME, NEW, OLD = "enp1s0f1np1", "192.168.100.10/24", "10.0.0.1/24"


class Host(undo.Change):
    """A change on a host whose network is a dictionary; netplan gives the interface what the files say."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.commands: list[str] = []
        self.has: list[str] = []
        self.refuses: list[str] = []
        self.forgets = False

    def run(self, *command: str, deadline: float = 20.0) -> tuple[int, str]:
        text = " ".join(command)
        self.commands.append(text)
        if text == "netplan apply":
            if self.refuses:
                return 78, self.refuses.pop(0)
            trial, file = Path(self.request["trial_file"]), Path(self.request["file"])
            active = trial if trial.exists() else file
            said = active.read_text() if active.exists() else ""
            # The backends leave the addresses of an interface that they do not manage any more.
            self.has = [] if self.forgets else [*self.has, *(a for a in (NEW, OLD) if a in said and a not in self.has)]
        elif command[:3] == ("ip", "address", "del"):
            self.has.remove(command[3])
        elif command[:3] == ("ip", "-json", "-4"):
            info = [{"local": a.split("/")[0], "prefixlen": int(a.split("/")[1])} for a in self.has]
            return 0, json.dumps([{}, {"ifname": NAME, "addr_info": info}])
        return 0, ""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "START_AFTER_S": 0.0,
        "APPLY_AGAIN_AFTER_S": 0.0,
        "POLL_S": 0.01,
        "SETTLE_S": 0.1,
        "INSIST_AFTER_S": 0.02,
    }.items():
        monkeypatch.setattr(undo, name, value)


def request(root: Path, **changes: t.Any) -> Path:
    directory = root / "run"
    directory.mkdir()
    (root / "etc").mkdir()
    (root / "trial").mkdir()
    content = {
        "id": "1",
        "action": "present",
        "timeout": 0.3,
        "file": str(root / "etc/40.yaml"),
        "trial_file": str(root / "trial/40.yaml"),
        "content": f"new {NEW}",
        "trial_content": f"new {NEW}",
        "forward": {"renderer": "NetworkManager", "expect": {NAME: [NEW]}, "remove": {NAME: []}, "mtu": {}, "down": []},
        "back": {"expect": {}, "remove": {NAME: [NEW]}, "mtu": {NAME: 1500}, "down": []},
        **changes,
    }
    (directory / "network.request").write_text(json.dumps(content))
    return directory


def answer(directory: Path, what: str, change: str = "1") -> None:
    write_whole(directory / "network.confirm", json.dumps({"id": change, "answer": what}), 0o600)


def state(directory: Path) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads((directory / "network.json").read_text()))


def test_what_is_confirmed_stays(tmp_path: Path) -> None:
    directory = request(tmp_path)
    host = Host(directory)
    answer(directory, "keep")
    host.act()
    assert state(directory)["state"] == "confirmed"
    assert (tmp_path / "etc/40.yaml").read_text() == f"new {NEW}"
    assert (tmp_path / "etc/40.yaml").stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "trial").iterdir()) == []
    assert (host.has, host.commands.count("netplan apply")) == ([NEW], 1)
    assert (directory / "network.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("confirmed_other", [False, True])
def test_what_nobody_confirms_is_undone(tmp_path: Path, confirmed_other: bool) -> None:
    directory = request(tmp_path)
    host = Host(directory)
    if confirmed_other:
        answer(directory, "keep", change="another")
    host.act()
    found = state(directory)
    assert found["state"] == "undone"
    assert found["error"] == "no confirmation arrived within 0.3 s that this host is reachable"
    assert (host.has, list((tmp_path / "trial").iterdir()), list((tmp_path / "etc").iterdir())) == ([], [], [])
    assert host.commands.count("netplan apply") == 2
    assert f"ip link set dev {NAME} mtu 1500" in host.commands


def test_an_older_file_of_ours_is_in_force_again(tmp_path: Path) -> None:
    directory = request(tmp_path, back={"expect": {NAME: [OLD]}, "remove": {NAME: [NEW]}})
    (tmp_path / "etc/40.yaml").write_text(f"old {OLD}")
    host = Host(directory)
    host.has = [OLD]
    answer(directory, "undo")
    host.act()
    assert (state(directory)["state"], state(directory)["error"]) == ("undone", "it was asked to")
    assert host.has == [OLD]
    assert (tmp_path / "etc/40.yaml").read_text() == f"old {OLD}"


def test_being_without_is_tried_too(tmp_path: Path) -> None:
    gone = {"expect": {}, "remove": {NAME: [OLD]}, "mtu": {NAME: 1500}, "down": [NAME]}
    directory = request(tmp_path, content=None, trial_content="empty", forward=gone, back={"expect": {NAME: [OLD]}})
    (tmp_path / "etc/40.yaml").write_text(f"old {OLD}")
    host = Host(directory)
    host.has = [OLD]
    answer(directory, "keep")
    host.act()
    assert (state(directory)["state"], host.has) == ("confirmed", [])
    assert host.commands[-2:] == [f"ip link set dev {NAME} mtu 1500", f"ip link set dev {NAME} down"]
    assert list((tmp_path / "etc").iterdir()) == list((tmp_path / "trial").iterdir()) == []


def test_netplan_that_refuses_is_undone_at_once(tmp_path: Path) -> None:
    directory = request(tmp_path, timeout=60)
    host = Host(directory)
    host.refuses = ["Error:\n  no"]
    host.act()
    assert (state(directory)["state"], state(directory)["error"]) == (
        "undone",
        "'netplan apply' ended with exit code 78: Error: no",
    )


def test_addresses_that_do_not_come_are_undone(tmp_path: Path) -> None:
    directory = request(tmp_path, timeout=60)
    host = Host(directory)
    host.forgets = True
    host.act()
    assert f"nmcli --wait 5 connection up netplan-{NAME}" in host.commands
    assert state(directory)["error"].endswith(f"there was still no {NEW} on {NAME}")
    assert state(directory)["state"] == "undone"


BY_PROFILE = {
    "forward": {"by_profile": True, "expect": {NAME: [NEW]}, "gone": {}},
    "back": {"by_profile": True, "expect": {}, "remove": {NAME: [NEW]}, "gone": {NAME: "11-22"}},
}


class Managed(Host):
    """A host whose NetworkManager has profiles, which netplan writes."""

    def run(self, *command: str, deadline: float = 20.0) -> tuple[int, str]:
        if command[0] == "netplan" and command[1] == "generate" and self.refuses:
            return 78, self.refuses.pop(0)
        if command[-2:] == ("up", f"netplan-{NAME}"):
            trial, file = Path(self.request["trial_file"]), Path(self.request["file"])
            said = next((place.read_text() for place in (trial, file) if place.exists()), "")
            self.has = [address for address in (NEW, OLD) if address in said]
        if command[-2:] == ("down", f"netplan-{NAME}"):
            self.has = []
        return super().run(*command, deadline=deadline)


def spoken(host: Host) -> list[str]:
    return [command for command in host.commands if command.startswith(("netplan", "nmcli"))]


def test_networkmanager_changes_over_these_interfaces_only(tmp_path: Path) -> None:
    directory = request(tmp_path, **BY_PROFILE)
    host = Managed(directory)
    host.act()
    assert (state(directory)["state"], host.has) == ("undone", [])
    generate = ["netplan generate", "nmcli connection reload"]
    assert spoken(host) == [
        *generate,
        f"nmcli --wait 15 connection up netplan-{NAME}",
        f"nmcli --wait 5 connection down netplan-{NAME}",
        *generate,
        "nmcli --wait 0 connection up 11-22",
    ]


@pytest.mark.parametrize(
    ("former", "last"), [("", "nmcli connection reload"), (None, f"nmcli --wait 0 device disconnect {NAME}")]
)
def test_an_interface_without_a_profile_is_as_it_was(tmp_path: Path, former: str | None, last: str) -> None:
    directory = request(tmp_path, **{**BY_PROFILE, "back": {**BY_PROFILE["back"], "gone": {NAME: former}}})
    host = Managed(directory)
    answer(directory, "undo")
    host.act()
    assert spoken(host)[-1] == last


def test_a_profile_that_does_not_come_up_is_undone_at_once(tmp_path: Path) -> None:
    class Refusing(Managed):
        def run(self, *command: str, deadline: float = 20.0) -> tuple[int, str]:
            return (4, "Error: not available") if "up" in command else super().run(*command, deadline=deadline)

    directory = request(tmp_path, **BY_PROFILE)
    Refusing(directory).act()
    assert (state(directory)["state"], state(directory)["error"]) == (
        "undone",
        f"'nmcli --wait 15 connection up netplan-{NAME}' ended with exit code 4: Error: not available",
    )


def test_addresses_go_though_netplan_is_broken_meanwhile(tmp_path: Path) -> None:
    directory = request(tmp_path, **BY_PROFILE)
    host = Managed(directory)
    write_whole(directory / "network.json", json.dumps({"id": "1", "state": "undoing", "error": "so"}), 0o644)
    host.has, host.refuses = [NEW], ["first", "second"]
    host.act()
    assert (state(directory)["state"], host.has) == ("failed", [])
    assert "because 'netplan generate' ended with exit code 78: second" in state(directory)["error"]


def test_undoing_that_fails_is_told(tmp_path: Path) -> None:
    directory = request(tmp_path)
    host = Host(directory)
    host.refuses = ["first", "second", "third"]
    host.act()
    assert state(directory)["state"] == "failed"
    assert state(directory)["error"] == (
        "'netplan apply' ended with exit code 78: first; it could not be undone, because 'netplan apply' ended with "
        "exit code 78: third"
    )
    assert list((tmp_path / "trial").iterdir()) == []


def test_what_was_set_directly_is_taken_back_though_netplan_refuses(tmp_path: Path) -> None:
    directory = request(tmp_path, back={"expect": {NAME: [OLD]}, "remove": {NAME: [NEW]}, "mtu": {NAME: 1500}})
    host = Host(directory)
    write_whole(directory / "network.json", json.dumps({"id": "1", "state": "undoing", "error": "so"}), 0o644)
    host.has, host.refuses = [NEW], ["first", "second"]
    host.act()
    assert (host.has, f"ip link set dev {NAME} mtu 1500" in host.commands) == ([], True)
    error = state(directory)["error"]
    assert "it could not be undone, because 'netplan apply' ended with exit code 78: second, and 0 s after" in error
    assert error.endswith(f"there was still no {OLD} on {NAME}")


def test_undoing_is_tried_twice(tmp_path: Path) -> None:
    directory = request(tmp_path)
    host = Host(directory)
    host.refuses = ["first", "second"]
    host.act()
    assert (state(directory)["state"], host.commands.count("netplan apply")) == ("undone", 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"state": "applying"}, "undone"),
        ({"state": "undoing"}, "undone"),
        ({"state": "waiting", "deadline": 0.0}, "undone"),
        ({"state": "confirmed"}, "confirmed"),
    ],
)
def test_a_successor_takes_up_where_a_killed_one_ended(tmp_path: Path, before: dict[str, t.Any], after: str) -> None:
    directory = request(tmp_path, timeout=60)
    write_whole(directory / "network.json", json.dumps({"id": "1", "error": None, **before}), 0o644)
    (tmp_path / "trial/40.yaml").write_text(f"new {NEW}")
    host = Host(directory)
    host.has = [NEW]
    host.act()
    assert state(directory)["state"] == after
    assert host.has == ([NEW] if after == "confirmed" else [])


def test_the_rest_of_the_time_is_waited_for(tmp_path: Path) -> None:
    directory = request(tmp_path, timeout=60)
    deadline = time.monotonic() + 30
    write_whole(
        directory / "network.json",
        json.dumps({"id": "1", "state": "waiting", "deadline": deadline, "error": None}),
        0o644,
    )
    host = Host(directory)
    thread = threading.Thread(target=host.act)
    thread.start()
    answer(directory, "keep")
    thread.join(timeout=WITHIN_S)
    assert state(directory)["state"] == "confirmed"
    assert host.commands == []


def test_a_program_that_hangs_or_is_missing_is_no_exception(tmp_path: Path) -> None:
    change = undo.Change(request(tmp_path))
    assert change.run("sleep", "5", deadline=0.1)[0] == 124
    assert change.run("no-such-program-here") == (127, "no-such-program-here: No such file or directory")
