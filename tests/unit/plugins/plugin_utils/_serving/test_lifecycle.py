# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a run, decided."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import lifecycle

HERE = "127.0.0.1"
PROBE = {"prompt": "What is 6 times 7?", "expect": ["42"], "max_tokens": 500}


@pytest.mark.parametrize(
    ("host", "expose", "allowed", "network", "hosts", "said"),
    [
        (HERE, "local", False, "host", ["a"], ""),
        ("::1", "lan", False, "host", ["a", "b"], ""),
        (HERE, "lan", False, "bridge", ["a"], ""),
        ("0.0.0.0", "local", True, "host", ["a"], ""),
        (
            "0.0.0.0",
            "local",
            False,
            "host",
            ["a"],
            "speculative_serve_host is 0.0.0.0: anyone who can reach",
        ),
        # A name may lead anywhere.
        ("localhost", "local", False, "host", ["a"], "speculative_serve_host is localhost: anyone who can reach"),
        ("192.0.2.1", "lan", True, "host", ["a"], "speculative_serve_expose is lan, but speculative_serve_host is"),
        (HERE, "local", False, "bridge", ["a", "b"], "engine_container_network is bridge, but"),
    ],
)
def test_who_is_let_in(host: str, expose: str, allowed: bool, network: str, hosts: list[str], said: str) -> None:
    refusal = lifecycle.exposure_problem(ENGINES["tensorrt_llm"], host, expose, allowed, network, hosts)
    assert refusal.startswith(said) if said else refusal == ""


def test_only_the_head_has_the_api_and_asks_the_registry() -> None:
    assert lifecycle.api_endpoint("a", ["a", "b"], "0.0.0.0", 8000) == {
        "port": 8000,
        "address": "0.0.0.0",
        "pull": True,
    }
    assert lifecycle.api_endpoint("b", ["a", "b"], "0.0.0.0", 8000) == {"port": 0, "address": HERE, "pull": False}


@pytest.mark.parametrize(
    ("network", "host", "port", "published", "looked_at"),
    [
        ("host", HERE, 8000, None, {"port": 8000}),
        # Docker publishes it, and nobody but the container listens there.
        ("bridge", HERE, "8000", None, {"published_ports": ["127.0.0.1:8000:8000"]}),
        ("bridge", "::1", 8000, None, {"published_ports": ["[::1]:8000:8000"]}),
        ("bridge", HERE, 8000, [], {"published_ports": []}),
        ("host", HERE, 8000, ["127.0.0.1:1:1"], {"port": 8000}),
        # A worker.
        ("host", HERE, 0, None, {}),
        ("bridge", HERE, 0, None, {"published_ports": []}),
    ],
)
def test_what_is_looked_at_where_it_is_to_listen(
    network: str, host: str, port: t.Any, published: list[str] | None, looked_at: dict[str, t.Any]
) -> None:
    found = lifecycle.docker_query({"address": host, "port": port}, network, "r:1", published, "/hub")
    assert found == {"image": "r:1", "address": host, "usage": True, "compare_path": "/hub", **looked_at}


def test_a_recorded_deployment_is_looked_at_where_it_listened() -> None:
    container = {"network": "bridge", "published_ports": ["127.0.0.1:8100:8100"]}
    record = {"listens_on": "0.0.0.0", "url": "http://127.0.0.1:8100", "image": {"id": "sha256:1"}}
    found = lifecycle.former_query("a", ["a", "b"], {**record, "container": container}, "/hub")
    assert found == {
        "image": "sha256:1",
        "address": "0.0.0.0",
        "usage": True,
        "compare_path": "/hub",
        "published_ports": ["127.0.0.1:8100:8100"],
    }
    assert "port" not in lifecycle.former_query(
        "b", ["a", "b"], {**record, "container": {**container, "network": "host"}}, "/hub"
    )


def asked(
    recorded: bool, known: t.Any, changed: t.Any, probe: t.Any = PROBE, chat: bool = True, tools: bool = True
) -> dict[str, t.Any]:
    return lifecycle.probe_request(recorded, dict(zip("ab", known)), dict(zip("ab", changed)), probe, chat, tools)


JUDGED = {"kind": "chat", "prompt": PROBE["prompt"], "expect": ["42"], "max_tokens": 500, "tools": True}
SIGN = {"expect": [], "max_tokens": 16, "tools": False}


@pytest.mark.parametrize(
    ("recorded", "known", "changed", "is_new", "expected"),
    [
        (False, [True], [True], True, JUDGED),
        # The run that made the container may have been cut off.
        (False, [False], [False], True, JUDGED),
        (False, [True], [False], False, {"kind": "chat", "prompt": PROBE["prompt"], **SIGN}),
        # What is new on one of them is new.
        (False, [True, True], [False, True], True, JUDGED),
        # One that was lost on the way says nothing of it.
        (False, [True, {}], [False, {}], False, {"kind": "chat", "prompt": PROBE["prompt"], **SIGN}),
        (True, [True], [True], False, {"kind": "completion", "prompt": "", **SIGN}),
    ],
)
def test_what_is_new_is_judged_and_the_rest_gives_a_sign_of_life(
    recorded: bool, known: t.Any, changed: t.Any, is_new: bool, expected: t.Any
) -> None:
    assert asked(recorded, known, changed) == {"is_new": is_new, **expected}


def test_a_question_that_nobody_has_set_is_the_probes_own() -> None:
    found = asked(False, [False], [True], probe={"expect": []}, chat=False)
    assert found == {
        "is_new": True,
        "kind": "completion",
        "prompt": "",
        "expect": None,
        "max_tokens": 1024,
        "tools": False,
    }


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"msg": "a: It failed."}, "It failed."),
        ({"msg": "b: It failed.", "error": "The server died."}, "The server died."),
        ({}, ""),
    ],
)
def test_why_it_failed_is_said_without_the_name_of_the_host(result: t.Any, why: str) -> None:
    found = lifecycle.failure_facts("a", result, None, "It serves again.", {}, {}, {})
    assert (found["reason"], found["fallback"], found["rollback_text"]) == (why, None, "No server runs now.")


RECORD = {"deployment": "mine"}


@pytest.mark.parametrize(
    ("slots", "comes_back"),
    [
        ({}, True),
        ({"a": {"state": "running"}}, True),
        ({"a": {"state": "exited"}, "b": {"state": "running"}}, True),
        ({"a": {"state": "exited"}, "b": {}}, False),
        ({"a": {}, "b": {}}, False),
    ],
)
def test_what_served_comes_back_on_all_or_on_none(slots: t.Any, comes_back: bool) -> None:
    found = lifecycle.failure_facts("a", {}, RECORD, "It serves again.", slots, {}, {})
    assert (found["fallback"], found["rollback_text"]) == (
        (RECORD, "It serves again.") if comes_back else (None, "No server runs now.")
    )


@pytest.mark.parametrize(
    ("changed", "untouched"),
    # A container that could not be made has handed out nothing.
    [([False, False], True), ([False, True], False), ([False, {}], False)],
)
def test_whether_a_run_has_changed_anything(changed: list[t.Any], untouched: bool) -> None:
    known = {"a": True, "b": True}
    assert lifecycle.failure_facts("a", {}, None, "", {}, dict(zip("ab", changed)), known)["can_retry"] is untouched
    # Who goes back does not say: what served until then was put aside.
    assert lifecycle.failure_facts("a", {}, None, "", {}, {}, {})["can_retry"] is False


def test_what_a_run_that_was_cut_off_has_made_gives_way_to_what_served_before() -> None:
    slots = {"a": {"state": "running"}}
    found = lifecycle.failure_facts("a", {}, RECORD, "It serves again.", slots, {"a": False}, {"a": False})
    assert (found["can_retry"], found["fallback"]) == (False, RECORD)


def test_what_a_run_ends_with() -> None:
    whys = {"a": "The server died.", "b": "", "c": "The server died."}
    assert lifecycle.failure_message("a", whys, "/state/failed.log", "It serves again.", {}) == (
        "a: The server died. Its log is in /state/failed.log. It serves again."
    )
    assert lifecycle.failure_message("a", whys, "", "", {"msg": "a: It is gone."}) == (
        "a: The server died. It left no log. The previous deployment could not be started again either: It is gone."
    )
    same = lifecycle.failure_message("a", whys, "", "", {"msg": "a: The server died."})
    assert same.count("The server died.") == 1
    assert same.endswith("either: the reason is the same.")
    # It is only here because another one could not.
    assert lifecycle.failure_message("a", whys, "", "", {"msg": ""}).endswith("either: it failed on another Spark.")


RAILS = [{"interface": "enp1s0f1np1", "address": "192.168.100.10"}]
PAIR = {"cluster": {"nodes": ["a", "b", "c"], "rails": RAILS}}
RANK = "dgx_spark.speculative.rank"


def test_a_start_of_one_alone_waits_for_its_server() -> None:
    nothing = {"has_api": True, "ssh_address": "", "worker_timeout": 60, "problem": "", "missing_workers": ""}
    assert lifecycle.start_conditions("a", {}, None, [], ["b"], {}) == nothing
    assert lifecycle.start_conditions("a", {RANK: "0"}, PAIR, ["192.168.100.10"], [], {}) == nothing


STOPPED = {"state": "stopped", "url": "http://192.168.1.5:8100", "cluster": None}


@pytest.mark.parametrize(
    ("server", "published", "place"),
    [
        (STOPPED, [], (8100, "192.168.1.5")),
        ({**STOPPED, "url": "http://[::1]:8000", "state": "failed", "cluster": {"role": "head"}}, [], (8000, "::1")),
        ({**STOPPED, "state": "dead", "url": None}, [], (0, "127.0.0.1")),
        # Its own server has the port.
        ({**STOPPED, "state": "ready"}, [], (0, "192.168.1.5")),
        # Docker names who has one that is published.
        (STOPPED, ["127.0.0.1:8100:8100"], (0, "192.168.1.5")),
        ({**STOPPED, "cluster": {"role": "worker"}}, [], (0, "192.168.1.5")),
    ],
)
def test_the_port_of_what_does_not_run_is_looked_at_before_a_start(
    server: t.Any, published: list[str], place: tuple[int, str]
) -> None:
    found = lifecycle.restart_endpoint(server, published)
    assert (found["port"], found["address"]) == place


def test_a_worker_waits_for_its_head() -> None:
    found = lifecycle.start_conditions("b", {RANK: "1"}, PAIR, ["192.168.100.10"], ["c"], {})
    assert (found["has_api"], found["ssh_address"], found["missing_workers"]) == (False, "192.168.100.10", "")


def test_addresses_that_are_gone_are_said() -> None:
    assert lifecycle.start_conditions("a", {RANK: "0"}, PAIR, [HERE], [], {})["problem"] == (
        "a no longer has 192.168.100.10 on enp1s0f1np1, so the other Sparks cannot reach it. The "
        "containers run and wait. Check the cable and run 'sudo netplan apply' there, or run the deployment's "
        "playbook again."
    )


def test_half_a_pair_that_was_kept_is_not_waited_for() -> None:
    """The head has recorded what is new, and its worker has gone back; who is not there says nothing."""
    options = "dgx_spark.speculative.options"
    labels = {"a": {options: "new"}, "b": {options: "old"}, "c": {}, "d": {options: "another's"}}

    def gone(**changes: t.Any) -> t.Any:
        return lifecycle.start_conditions("a", {RANK: "0"}, PAIR, ["192.168.100.10"], [], {**labels, **changes})[
            "problem"
        ]

    assert gone().startswith("a: the Sparks have different deployments (new and old), probably because an earlier run")
    assert gone(b={options: "new"}) == ""


@pytest.mark.parametrize(
    ("pair", "missing", "lost"),
    [
        (PAIR["cluster"], ["b", "c", "d"], "b and c"),
        ({"nodes": ["a", "b", "c", "d"]}, ["b", "c", "d"], "b, c and d"),
        ({"nodes": ["a", "b"]}, ["c"], ""),
        ({}, ["c"], ""),
    ],
)
def test_a_head_does_not_wait_for_workers_that_are_missing(pair: t.Any, missing: list[str], lost: str) -> None:
    text = lifecycle.start_conditions("a", {RANK: "0"}, {"cluster": pair}, ["192.168.100.10"], missing, {})[
        "missing_workers"
    ]
    assert text == (
        f"a: the container runs and waits, because {lost} could not be started (see the error above). It serves as "
        f"soon as {'they run' if ' ' in lost else 'that runs'}."
        if lost
        else ""
    )
