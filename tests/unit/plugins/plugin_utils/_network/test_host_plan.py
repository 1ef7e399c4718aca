# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network import host_plan
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.host_plan import outcome, ports
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.links import NetworkRequest, PlanError

# The NIC watcher, the NIC without a cable, the fabric filter, and two ports.
INPUTS: dict[str, t.Any] = {
    **dict.fromkeys(("start_on_nic", "keep_nic_on", "close_fabric"), "auto"),
    "worker_port": 1,
    "copy_port": 2,
}


@pytest.mark.parametrize(
    ("why", "stage", "stuck", "said"),
    [
        ("No way.", "", "", "No way."),
        ("No way.", "undone", "", "No way. The addresses were taken back."),
        ("No way.", "confirmed", "", "No way. The addresses are configured and stay."),
        ("No way.", "", "No way back.", "No way. Taking the addresses back failed, too: No way back."),
        # It went wrong on the other Spark; this one may have had nothing to do.
        ("", "", "", "the network was not configured, because that failed on spark-2."),
        (
            "",
            "undone",
            "",
            "the network was not configured, because that failed on spark-2. The addresses were taken back.",
        ),
        ("", "confirmed", "", "the addresses are configured and stay, but configuring spark-2 failed. Run again."),
        (
            "",
            "",
            "No way back.",
            "the network was not configured, because that failed on spark-2. Taking the addresses back failed, too: No "
            "way back.",
        ),
    ],
)
def test_how_a_change_ended_that_was_not_kept(why: str, stage: str, stuck: str, said: str) -> None:
    assert outcome(why, "spark-2", stage, stuck) == said


def test_others_connect_to_the_first_address() -> None:
    rails = [{"address": "10.0.0.1"}, {"address": "10.0.1.1"}]
    assert ports([], 2233, 2234) == []
    assert ports(rails, 2233, 2234) == [
        {"address": "10.0.0.1", "port": 2233, "input": "spark_network_worker_port", "use": "container"},
        {"address": "10.0.0.1", "port": 2234, "input": "spark_network_copy_port", "use": "copies"},
    ]


def info(*macs: str | None) -> dict[str, t.Any]:
    return {"ports": [{"interfaces": [{"mac": mac}]} for mac in macs]}


def test_two_names_of_one_machine_are_told_before_its_ports_are_planned() -> None:
    hosts = {"spark-1": info("a", "b"), "spark-2": info("c", "d"), "spark-3": info("b", "a")}
    wanted = "^spark-1 and spark-3 lead to the same machine: correct ansible_host of one of them in the inventory.$"
    with pytest.raises(PlanError, match=wanted):
        host_plan.host_plan("spark-1", NetworkRequest(hosts=hosts, **INPUTS))
    with pytest.raises(PlanError, match="spark-2: the Sparks cannot be joined, as the message of spark-1 says"):
        host_plan.host_plan("spark-2", NetworkRequest(hosts=hosts, **INPUTS))


@pytest.mark.parametrize("unknown", [info(), info(None, ""), {}])
def test_machines_whose_cards_are_not_known_are_not_the_same(unknown: dict[str, t.Any]) -> None:
    host_plan.check_machines({"spark-1": unknown, "spark-2": unknown})
    host_plan.check_machines({"spark-1": info("a"), "spark-2": info("b")})


SLOT = {"state": "running", "labels": {"dgx_spark.speculative.rank": "1"}}


@pytest.mark.parametrize(
    ("slot", "refused"),
    [
        (SLOT, True),
        # Docker is about to start it again.
        ({**SLOT, "state": "restarting"}, True),
        ({**SLOT, "state": "paused"}, True),
        *(({**SLOT, "state": state}, False) for state in ("exited", "created", "dead")),
        ({**SLOT, "labels": {}}, False),
        ({**SLOT, "labels": None}, False),
        (None, False),
    ],
)
def test_the_cable_is_not_taken_from_half_a_model_that_serves(slot: dict[str, t.Any] | None, refused: bool) -> None:
    said = host_plan.in_use(slot, "the-slot", "spark-2")
    assert ("the container the-slot serves a model together with spark-2 over it." in said) is refused
    assert bool(said) is refused


def planned(
    monkeypatch: pytest.MonkeyPatch,
    *,
    configure: bool = False,
    measure: bool = False,
    kind: str = "nics",
    **unit: t.Any,
) -> t.Any:
    """The part of the first of two, with something to do about a unit of this kind."""
    rails = [{"interface": "i", "address": "10.0.0.1", "peer_address": "10.0.0.2"}]
    own: dict[str, t.Any] = {"rails": rails, "configure": configure, "document": {}}
    fabric = {
        "hosts": {"a": own, "b": own},
        "configure": configure,
        "measure": measure,
        "findings": ["F."],
        "lines": [],
    }
    nothing: dict[str, t.Any] = {"install": [], "remove": [], "move": [], "lacking": True}
    idle = {"hosts": {"a": nothing, "b": nothing}, "findings": [], "lines": []}
    monkeypatch.setattr(host_plan, "plan", lambda *_: fabric)
    for each in ("nics", "filters"):
        monkeypatch.setattr(host_plan, f"plan_{each}", lambda *_: idle)
    busy = {"hosts": {"a": {**nothing, **unit}, "b": nothing}, "findings": [], "lines": []}
    monkeypatch.setattr(host_plan, f"plan_{kind}", lambda *_: busy)
    return host_plan.host_plan("a", NetworkRequest(hosts={"a": info("m"), "b": info("n")}, **INPUTS))


def test_a_link_that_is_there_is_proven_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(monkeypatch)
    assert (found["verify_rails"], found["is_complete"]) == (found["rails"], True)


@pytest.mark.parametrize(
    "left",
    [
        {"measure": True},
        {"install": [{"src": "s"}]},
        {"remove": ["/etc/x"]},
        {"move": ["a", "b"]},
        {"kind": "filters", "install": [{"content": "s"}]},
    ],
)
def test_what_else_is_to_be_done_about_a_link(monkeypatch: pytest.MonkeyPatch, left: dict[str, t.Any]) -> None:
    found = planned(monkeypatch, **left)
    assert (found["verify_rails"], found["is_complete"]) == (found["rails"], False)
    assert len(found["units"]) == (0 if "measure" in left else 1)


def test_a_link_without_addresses_is_proven_when_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(monkeypatch, configure=True)
    assert (found["verify_rails"], found["is_complete"]) == ([], False)
