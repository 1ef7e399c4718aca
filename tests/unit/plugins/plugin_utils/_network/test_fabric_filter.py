# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.fabric_filter import UNIT
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.hotplug import digest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.fabric_filter import (
    CHAIN,
    plan_filters,
    unit_text,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.links import PlanError

Info = dict[str, t.Any]

HEAD, WORKER = "spark-1", "spark-2"
BOTH = {HEAD: True, WORKER: True}
NEITHER = {HEAD: False, WORKER: False}
ADDRESSES = ["192.168.100.10", "192.168.101.10", "192.168.100.11", "192.168.101.11"]
TEXT = unit_text(["f1", "p1"], ADDRESSES)
THERE: Info = {"files": {str(UNIT): digest(TEXT.encode())}, "enabled": True}


def rails(last: int, *thirds: int) -> list[dict[str, t.Any]]:
    return [{"port": 1, "address": f"192.168.{third}.{last}", "subnet": f"192.168.{third}.0/24"} for third in thirds]


RAILS = {HEAD: rails(10, 100, 101), WORKER: rails(11, 100, 101)}


def info(state: Info | None = None, login: list[str] | None = None) -> Info:
    """A Spark with two ports, as spark_info describes it."""
    ports = [{"interfaces": [{"name": f"{kind}{n}", "port": n} for kind in "fp"]} for n in (0, 1)]
    return {"ports": ports, "filter": state or {"files": {}, "enabled": False}, "login": login}


def planned(
    state: Info | None = None,
    close: t.Any = "auto",
    configure: t.Mapping[str, bool] = NEITHER,
    login: list[str] | None = None,
    fabric: t.Mapping[str, list[dict[str, t.Any]]] = RAILS,
) -> dict[str, t.Any]:
    return plan_filters({HEAD: info(state), WORKER: info(state, login)}, fabric, close, configure)


def commands(text: str, key: str) -> list[list[str]]:
    lines = [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]
    return [shlex.split(line.removeprefix("-")) for line in lines]


def test_each_spark_gets_the_filter_of_all_addresses() -> None:
    result = planned(close="yes")
    for name in (HEAD, WORKER):
        assert result["hosts"][name]["install"] == [{"content": TEXT, "dest": str(UNIT), "mode": "0644"}]
    assert result["lines"] == [f"{name}: fabric filter: to be installed" for name in (HEAD, WORKER)]
    assert planned(THERE, close=True)["lines"] == planned(close=False, configure=BOTH)["lines"] == []


@pytest.mark.parametrize("state", [None, {**THERE, "enabled": False}, {**THERE, "files": {str(UNIT): "x"}}])
def test_its_absence_is_a_finding(state: Info | None) -> None:
    (finding,) = planned(state)["findings"]
    assert finding.startswith("spark-1 and spark-2: machines of other networks can reach the ports of the ranks")
    assert finding.endswith("run again with -K and -e spark_network_close_fabric=true.")
    for result in (planned(THERE), planned(state, close=False), planned(state, configure=BOTH)):
        assert result["findings"] == []


def test_without_rails_there_is_nothing_to_close() -> None:
    result = planned(close=True, fabric={HEAD: [], WORKER: []})
    assert result == {"hosts": {}, "findings": [], "lines": []}


def test_a_misspelt_input() -> None:
    with pytest.raises(PlanError, match=r"^spark_network_close_fabric is 'lan', but must be auto, true or false\.$"):
        planned(close="lan")


@pytest.mark.parametrize(
    ("login", "refused"),
    [
        (["192.0.2.9", "192.168.100.11"], True),
        # From the head, by the cable.
        (["192.168.100.10", "192.168.100.11"], False),
        (["192.0.2.9", "192.0.2.30"], False),
        (["fe80::2%f1", "fe80::1%f1"], False),
        (None, False),
    ],
)
def test_a_run_does_not_lock_itself_out(login: list[str] | None, refused: bool) -> None:
    assert planned(login=login)["findings"]
    assert planned(THERE, close=True, login=login)["lines"] == []
    if not refused:
        assert planned(close=True, login=login)["lines"]
        return
    with pytest.raises(PlanError) as error:
        planned(close=True, login=login)
    assert str(error.value) == (
        "spark-2: spark_network_close_fabric would close 192.168.100.11, at which this run reaches the host from "
        "192.0.2.9. Set ansible_host to an address outside the fabric, or set spark_network_close_fabric to false."
    )


def test_packets_by_the_cable_and_of_the_host_itself_pass_before_the_rest_is_dropped() -> None:
    start = [" ".join(command) for command in commands(TEXT, "ExecStart")]
    ways = [words[words.index("--in-interface") + 1] for words in map(str.split, start) if "--in-interface" in words]
    assert ways == ["f1", "p1", "lo"]
    drop = next(number for number, command in enumerate(start) if command.endswith("--jump DROP"))
    assert f"--destination {','.join(ADDRESSES)} " in start[drop]
    assert all("RETURN" not in command for command in start[drop:])
    # The packets come last, when all rules are there.
    assert CHAIN in start[-1].partition("--insert PREROUTING")[2]


def test_what_starts_it_is_undone_when_it_stops() -> None:
    *_rules, (_shell, _option, jump) = commands(TEXT, "ExecStart")
    insert = shlex.split(jump.partition("||")[2])
    delete, flush, remove = commands(TEXT, "ExecStop")
    assert delete == ["--delete" if word == "--insert" else word for word in insert]
    assert (flush[-2:], remove[-2:]) == (["--flush", CHAIN], ["--delete-chain", CHAIN])


def test_it_starts_at_boot_before_docker() -> None:
    assert "\nBefore=docker.service\n" in TEXT
    assert TEXT.endswith("[Install]\nWantedBy=multi-user.target\n")
