# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recorded can be read, and what was recorded is run as what was planned is."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import records
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._query.query import Run
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import (
    deployment,
    option_check,
    result_query,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.deployment import Deployment, Observation

from tests.golden import stories

CONFIGURATION = "dgx_spark.speculative.configuration"
DIRECTORY = "/home/spark/.local/share/dgx-spark-speculative/mine"
GENERATION = "0123456789ab"
LABELS = {
    CONFIGURATION: "abc",
    "dgx_spark.speculative.directory": DIRECTORY,
    "dgx_spark.speculative.generation": GENERATION,
    "dgx_spark.speculative.options": "abc",
}
NOW = datetime.datetime(2026, 10, 4, 11, 12, 44, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
RAIL = {"interface": "enp1s0f1np1", "address": "192.168.100.10"}
PAIR = {
    "rank": 0,
    "nodes": ["spark-1", "spark-2"],
    "rails": [RAIL],
    "image": "r/pair:1",
}
FULL: dict[str, t.Any] = {
    **{name: [] for name in ("command", "mounts", "ulimits", "devices", "device_requests", "published_ports")},
    "image": "r:1",
    "labels": LABELS,
    "environment": {},
    "healthcheck": {},
    "network": "host",
    "ipc_mode": "host",
    "stop_timeout": 120,
    "log_max_size": "50m",
    "log_max_files": 3,
}
ODD = {"id": "odd", "message": "Odd."}
RDMA = {"name": "IB", "rdma": True, "devices": ["rocep1s0f1"], "missing": [], "why": "", "fix": ""}
SOCKETS = {**RDMA, "name": "Socket", "rdma": False, "devices": ["enp1s0f1np1"], "why": "no device", "fix": "look"}
SMALLER = {"id": "smaller_context", "message": "Smaller."}


def planned(variant: t.Any = "", **changes: t.Any) -> Deployment:
    plan = {
        "node": {
            "deployment": "mine",
            "engine": "tensorrt_llm",
            "url": "http://127.0.0.1:8001",
            "host": "127.0.0.1",
            "reference": "r:1",
            "models": {"a/target": {"commit": "1" * 40, "snapshot": "/models/target"}},
            "target": "a/target",
        },
        "container": {"image": "r:1", "labels": LABELS, "mounts": []},
        "unchanged": False,
        "script": {},
        "cluster": {},
        **changes,
    }
    values = {"draft": "", "method": "none", "draft_length": 0, "origins": {}, "concurrency": "2", "break_even": None}
    return deployment.build(
        plan,
        recipe={"title": "Mine", "source": "me", "variant": variant},
        values=values,
        memory={"context": 1024, "rows": [{"what": "weights", "bytes": 1}], "free_for_gpu": "not known"},
        config={"family": "1.3", "options": {"max_seq_len": 1024}, "text": "max_seq_len: 1024\n"},
        files={"entrypoint.py": "pass\n", "serve.sh": "true\n"},
        own={"files": {"entrypoint.py": "earlier\n"}},
    )


def seen(**changes: t.Any) -> Observation:
    answered = {"http": {"models": ["target"]}, "findings": [SMALLER], "answer": {"text": "42"}, "tool_call": None}
    return Observation(
        **{
            **{
                "answered": answered,
                "figures": {"findings": [SMALLER, ODD], "measurements": {"tokens_per_second": 45.0}},
            },
            "image": {"id": "sha256:1", "repo_digests": ["r@sha256:2"]},
            "container": FULL,
            "option_check": {},
            "memory_available": 5,
            "ranks": [],
            "networks": {},
            **changes,
        }
    )


def test_what_a_model_made_of_a_text_to_continue_is_no_finding() -> None:
    looped = {"id": "repetition", "message": "The answer repeats itself: red"}
    record = planned().record(seen(figures={"findings": [looped, ODD], "measurements": {}}), NOW)
    assert record["findings"] == [SMALLER, ODD]


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    for changes in ({}, {"cluster": PAIR}):
        record = planned(**changes).record(seen(), NOW)
        path = tmp_path / "record.json"
        path.write_text(json.dumps(record), encoding="utf-8")
        assert records.complete_record(path) == record
        # Nothing has another type than its readers expect; what is null has none.
        assert records.read_record(path) == {key: value for key, value in record.items() if key != "break_even"}


@pytest.mark.parametrize("case", ["single_eagle3-bare", "qwen3_235b_a22b_eagle3-bare"])
def test_a_record_has_the_keys_that_it_always_had(case: str) -> None:
    expected = yaml.safe_load((stories.EXPECTED / f"{case}.yml").read_text(encoding="utf-8"))
    for told in expected.values():
        (kept,) = (file["json"] for name, file in told["files"].items() if name.endswith("/record.json"))
        record = planned(cluster=PAIR if kept["cluster"] else {}).record(seen(), NOW)
        assert set(record) == set(kept)
        for key in ("image", "cluster"):
            assert kept[key] == "<as on spark-1>" or set(record[key]) == set(kept[key])


def test_a_record_names_the_variant_of_its_recipe() -> None:
    assert planned().variant == ""
    assert planned("qa").variant == "qa"


def test_a_record_is_a_deployment_with_what_was_seen() -> None:
    record = planned().record(seen(option_check={"available": True, "with_models": False}), NOW)
    assert record["deployed_at"] == "2026-10-04T09:12:44Z"
    assert record["image"] == {"reference": "r:1", "id": "sha256:1", "digests": ["r@sha256:2"]}
    assert (record["served_model"], record["concurrency"], record["context"]) == ("target", 2, 1024)
    assert record["files"]["options.yml"] == "max_seq_len: 1024\n"
    # What the cache holds is of the moment; each finding is told once.
    assert (record["findings"], record["outcome"]) == ([SMALLER, ODD], "serving with findings")
    assert record["checks"] == ["the image itself accepts the engine options"]
    assert record["cluster"] == {}
    answered = {**seen().answered, "findings": [], "tool_call": {"name": "sum"}}
    figures = {"findings": [SMALLER], "measurements": {}}
    ranks, networks = [{"rank": 0}, {"rank": 1}], {"spark-1": RDMA, "spark-2": {}}
    quiet = planned(cluster=PAIR).record(seen(answered=answered, figures=figures, ranks=ranks, networks=networks), NOW)
    assert (quiet["findings"], quiet["outcome"], quiet["checks"]) == ([], "serving", ["the model called the tool sum"])
    assert quiet["cluster"] == {**PAIR, "ranks": [{"rank": 0, "network": RDMA}, {"rank": 1, "network": None}]}


def test_a_record_says_what_the_image_did_not_judge() -> None:
    answer = {"available": False, "accepted": False, "version": "", "error": "no parser", "without_models": None}
    assert planned().record(seen(option_check=answer), NOW)["warnings"] == option_check.warnings("r:1", answer)
    asked_again = {"available": True, "accepted": True, "error": None, "without_models": None}
    assert planned().record(seen(option_check=asked_again), NOW)["warnings"] == []


def test_what_nccl_uses_is_found() -> None:
    networks = {"spark-1": RDMA, "spark-2": SOCKETS}
    record = planned(cluster=PAIR).record(seen(ranks=[{"rank": 0}, {"rank": 1}], networks=networks), NOW)
    (told,) = [row["message"] for row in record["findings"] if row["id"] == "pair_by_tcp"]
    assert told.startswith("NCCL of spark-2 uses Socket over enp1s0f1np1 and not RDMA")
    # A restart may change it: what is known now counts.
    now = deployment.with_liveness(record, {"findings": []}, {"spark-1": RDMA, "spark-2": RDMA}, {})
    assert now["findings"] == [ODD]
    assert [rank["network"] for rank in now["cluster"]["ranks"]] == [RDMA, RDMA]
    now = deployment.with_liveness(record, {"findings": []}, {"spark-1": SOCKETS, "spark-2": SOCKETS}, {})
    assert now["findings"][0]["message"].startswith("NCCL of spark-1 and spark-2 uses Socket")


@pytest.mark.parametrize(
    ("version", "ranks", "told"),
    [("2.28.9", 2, 1), ("2.29.2", 2, 1), ("2.28.9", 1, 0), ("2.28.7", 2, 0), ("2.29.3", 2, 0)],
)
def test_the_fault_of_a_version_of_nccl_is_told_by_that(version: str, ranks: int, told: int) -> None:
    said = [{"rank": number, "versions": {"NCCL": version}} for number in range(ranks)]
    warnings = planned(cluster=PAIR).record(seen(ranks=said), NOW)["warnings"]
    assert len(warnings) == told
    assert all(f"NCCL {version}: it was seen to crash on two Sparks" in str(warning) for warning in warnings)


@pytest.mark.parametrize(
    ("cache", "told"),
    [
        ({"tokens": None, "planned": 131_168}, [records.NOT_COMPARED]),
        ({"tokens": 131_168, "planned": 131_168}, []),
        ({"tokens": None, "planned": None}, []),
        (None, []),
    ],
)
def test_a_kv_cache_of_which_the_log_tells_nothing_is_not_compared(cache: t.Any, told: list[str]) -> None:
    answered = {**seen().answered, "findings": [], "server": {"state": "running", "kv_cache": cache}}
    record = planned().record(seen(answered=answered, figures={"findings": [], "measurements": {}}), NOW)
    assert (record["outcome"], record["checks"]) == ("serving", told)


def recorded(found: t.Mapping[str, t.Any], slot: t.Any, **more: t.Any) -> dict[str, t.Any]:
    """As the query answers, of a head and a worker of which the head speaks for both."""
    known = vars(seen())
    asked = {
        "deployment": found,
        "records": {"latest": None, "slot": None, "present": None, "previous": {"before": 1}},
        "container": known["container"],
        "option_check": {},
        "ranks": {},
        "networks": {},
        "answer": {"spark-1": known["answered"], "spark-2": {}},
        "measurement": {"spark-1": known["figures"], "spark-2": {}},
        "observation": {
            "docker": {"image": known["image"], "slot": slot, "state": "usable", "detail": ""},
            "machine": {"memory_available": known["memory_available"]},
            "records": {"option_checks": {"abc": {"available": True}}},
        },
        **more,
    }
    return result_query.record(Run(t.cast("t.Any", None), "spark-1", {}), **asked)


def test_what_was_noted_on_the_way_is_seen_too() -> None:
    ours = {"labels": LABELS}
    ranks = {"spark-1": [{"rank": 0}], "spark-2": []}
    record = recorded(vars(planned(cluster=PAIR)), ours, ranks=ranks)["record"]
    assert record["checks"] == ["the image itself accepts the engine options"]
    assert record["cluster"]["ranks"] == [{"rank": 0, "network": None}]
    # Nobody may have asked the image, and one Spark alone has no ranks.
    labels = {**LABELS, "dgx_spark.speculative.options": "other"}
    other = planned(container={"image": "r:1", "labels": labels, "mounts": []})
    record = recorded(vars(other), ours)["record"]
    assert (record["checks"], record["cluster"]) == ([], {})


def test_what_came_back_has_its_record_and_is_what_is_in_the_slot() -> None:
    back = {"deployment": "mine", "deployed_at": "2026-10-04T09:12:44Z", "container": {"labels": LABELS}}
    assert recorded(back, {"labels": LABELS}) == {"record": back, "replaced_record": {"before": 1}}
    assert recorded(back, None)["failed"]


@pytest.mark.parametrize("is_back", [False, True])
def test_what_a_benchmark_found_of_a_deployment_is_known_whenever_it_serves(is_back: bool) -> None:
    deployment = planned().record(seen(), NOW) if is_back else vars(planned())
    verdict = {"date": "2026-11-28", "sentence": "Keep draft length 5.", "configuration": LABELS[CONFIGURATION]}
    known = {"option_checks": {}, "verdict": verdict}
    docker = {"image": seen().image, "slot": {"labels": LABELS}, "state": "usable", "detail": ""}
    observed = {"docker": docker, "machine": {"memory_available": 1}, "records": known}
    assert recorded(deployment, None, observation=observed)["record"]["verdict"] == verdict
    # Another configuration of that name was measured since.
    known["verdict"] = {**verdict, "configuration": "other"}
    assert "verdict" not in recorded(deployment, None, observation=observed)["record"]


def test_a_docker_that_is_being_restarted_has_nothing_to_record() -> None:
    gone = {"image": None, "slot": None, "state": "not_running", "detail": "Nothing listens at /run/docker.sock."}
    seen_now = {"docker": gone, "machine": {"memory_available": 1}, "records": {"option_checks": {}}}
    said = recorded(vars(planned()), None, observation=seen_now)
    assert said["msg"].startswith(
        "spark-1: the deployment was not recorded, because its container changed during the run: Docker or the Spark "
        "restarted (Nothing listens at /run/docker.sock)."
    )


def test_what_answered_may_be_another_one() -> None:
    usable = {"state": "usable", "detail": ""}
    assert deployment.changed_during_run({"labels": LABELS}, {**usable, "slot": {"labels": LABELS}}) == ""
    other = {"labels": {**LABELS, CONFIGURATION: "other"}, "name": "dgx-spark-speculative", "state": "running"}
    aside = {**other, "name": "dgx-spark-speculative-standby"}
    for slot, why in (
        (None, "a user removed or replaced it"),
        (other, "a user removed or replaced it"),
        (aside, "Docker or the Spark restarted"),
        # It is what there is: nobody has started it.
        ({**aside, "state": "exited"}, "a user removed or replaced it"),
    ):
        said = deployment.changed_during_run({"labels": LABELS}, {**usable, "slot": slot})
        assert said.startswith(f"the deployment was not recorded, because its container changed during the run: {why}")


MEASURED = {"tokens_per_second": 45.0, "request": {"prompt": "1, 2,", "max_tokens": 128}}


def measured(**changes: t.Any) -> dict[str, t.Any]:
    """A record with a speed."""
    return {**planned().record(seen(figures={"findings": [], "measurements": MEASURED}), NOW), **changes}


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ({"method": "eagle3", "draft_length": 3}, True),
        # As the one that serves now.
        ({}, False),
        ({"method": "eagle3", "image": {"id": "sha256:2"}}, False),
        ({"method": "eagle3", "models": {"a/target": {"commit": "2"}}}, False),
        ({"method": "eagle3", "cluster": {"nodes": ["spark-1", "spark-2"]}}, False),
        ({"method": "eagle3", "measurements": {**MEASURED, "request": {"prompt": "Why?", "max_tokens": 128}}}, False),
        ({"method": "eagle3", "measurements": {**MEASURED, "tokens_per_second": None}}, False),
    ],
)
def test_speeds_are_compared_if_only_the_speculation_differs(changes: dict[str, t.Any], compared: bool) -> None:
    record = deployment.with_comparison(measured(method="none"), measured(**{"method": "none", **changes}))
    told = {"speculation": "with EAGLE-3, draft length 3", "tokens_per_second": 45.0}
    assert record.get("compared") == (told if compared else None)
    assert "compared" not in deployment.with_comparison({**record, "compared": told}, None)


@pytest.mark.parametrize("is_back", [False, True])
def test_a_record_has_the_speed_that_it_replaced(is_back: bool) -> None:
    labels = {**LABELS, CONFIGURATION: "served"}
    before = measured(method="eagle3", draft_length=3, container={**FULL, "labels": labels})
    served = {"latest": before, "slot": before, "present": before, "previous": None}
    figures = {"spark-1": {"findings": [], "measurements": MEASURED}}
    what = measured() if is_back else vars(planned())
    record = recorded(what, {"labels": LABELS}, records=served, measurement=figures)["record"]
    assert record["compared"] == {"speculation": "with EAGLE-3, draft length 3", "tokens_per_second": 45.0}


def test_what_serves_is_what_it_takes_the_place_of() -> None:
    """Whatever the last record of that name says, which may be in another directory."""
    served = {"deployment": "mine", "container": {"labels": {**LABELS, CONFIGURATION: "served"}}}
    records = {"latest": None, "slot": served, "present": served}
    assert deployment.previous_record(planned(), records) == served


def test_what_has_served_all_along_keeps_its_record() -> None:
    record = planned().record(seen(), NOW)
    origin = {"draft_length": {"from": "given", "says": "draft length 3"}}
    reviewed = deployment.with_liveness(record, {"findings": []}, {"spark-1": {}}, origin)
    assert reviewed == {**record, "findings": [ODD], "origins": origin}
    healthy = {**record, "findings": [], "outcome": "serving"}
    assert deployment.with_liveness(healthy, {"findings": []}, {}, {})["outcome"] == "serving"


def way(run: t.Mapping[str, t.Any], turn: str | None = None, slot: t.Any = None) -> dict[str, t.Any]:
    return deployment.run_plan(run, turn, slot)


def test_what_was_planned_is_run() -> None:
    run = vars(planned())
    how = way(run)
    assert (how["files"], how["preparation"], how["from_record"]) == ([], "", False)
    assert (how["directory"], how["port"], how["address"], how["has_api"]) == (DIRECTORY, 8001, "127.0.0.1", True)
    # Whether just this was seen to answer, its record says.
    assert how["verified_before"] is False
    for labels, known in ((LABELS, True), ({**LABELS, CONFIGURATION: "other"}, False)):
        assert deployment.run_plan(run, None, None, {"container": {"labels": labels}})["verified_before"] is known


def test_what_was_recorded_gets_its_files_back() -> None:
    how = way(planned().record(seen(), NOW))
    assert (how["from_record"], how["verified_before"]) == (True, True)
    # As they were written: what goes back writes nothing over that is the same.
    assert [(file["name"], file.keys()) for file in how["files"]] == [
        (name, {"name", "content"}) for name in ("entrypoint.py", "serve.sh", "options.yml")
    ]


def test_what_goes_on_serving_keeps_its_files() -> None:
    assert planned(unchanged=True).files == {"entrypoint.py": "earlier\n"}


MOUNTS = [
    {"type": "bind", "source": "/hub", "target": "/cache/hub", "read_only": True},
    {"type": "bind", "source": f"{DIRECTORY}/generations/{GENERATION}", "target": "/deployment", "read_only": True},
    {"type": "bind", "source": f"{DIRECTORY}/state", "target": "/deployment/state", "read_only": False},
    {"type": "bind", "source": f"{DIRECTORY}/trial", "target": "/deployment/trial", "read_only": True},
]


def test_what_was_recorded_has_its_generation_again() -> None:
    container = {**FULL, "mounts": MOUNTS}
    how = way({**planned().record(seen(), NOW), "container": container})
    assert (how["generation"], how["subdirectories"], how["container"]) == (GENERATION, ["state", "trial"], container)


def test_what_was_planned_is_run_as_it_was_planned() -> None:
    run = vars(planned(container={"image": "r:1", "labels": LABELS, "mounts": MOUNTS}))
    assert way(run)["container"] == run["container"]


def test_files_are_where_the_container_has_them() -> None:
    assert deployment.mounted_generation({**FULL, "mounts": MOUNTS}, {"serve.sh": "true\n"}) == {
        "generation": GENERATION,
        "subdirectories": ["state", "trial"],
        "files": [{"name": "serve.sh", "content": "true\n"}],
    }


SLOT = {"state": "running", "labels": LABELS}
OTHER = {"state": "running", "labels": {}}


@pytest.mark.parametrize(
    ("recorded", "rank", "turn", "slot", "before"),
    [
        (False, 0, "last", OTHER, "stop"),
        (False, 0, "last", SLOT, "stop"),
        (False, 0, "last", None, ""),
        (False, 0, "at once", SLOT, ""),
        (False, 1, "first", OTHER, ""),
        (True, 0, "last", OTHER, "stop"),
        (True, 0, "last", SLOT, ""),
        (True, 1, "first", OTHER, ""),
    ],
)
def test_a_head_of_something_else_is_stopped_before_its_workers_start(
    recorded: bool, rank: int, turn: str, slot: t.Any, before: str
) -> None:
    one = planned(cluster={**PAIR, "rank": rank})
    # Of a record the order is known.
    how = way(one.record(seen(), NOW), slot=slot) if recorded else way(vars(one), turn, slot=slot)
    assert how["preparation"] == before
    assert (how["start_order"], how["has_api"]) == (turn, rank == 0)


@pytest.mark.parametrize(
    ("recorded", "rank", "turn", "slot", "aside"),
    [
        # One alone, and each of several, as far as it changes; and a head that starts anew with its workers.
        (False, 0, "at once", OTHER, True),
        (False, 1, "first", OTHER, True),
        (False, 0, "last", OTHER, True),
        (False, 0, "last", SLOT, True),
        (False, 0, "at once", SLOT, False),
        (True, 0, "last", OTHER, True),
        (True, 0, "last", SLOT, False),
        # What somebody has stopped must not come back by itself.
        (False, 0, "at once", {**OTHER, "state": "exited"}, False),
        (False, 0, "last", None, False),
    ],
)
def test_what_was_proven_and_runs_is_put_aside(recorded: bool, rank: int, turn: str, slot: t.Any, aside: bool) -> None:
    one = planned(cluster={} if turn == "at once" else {**PAIR, "rank": rank})
    run, asked = (one.record(seen(), NOW), None) if recorded else (vars(one), turn)
    how = deployment.run_plan(run, asked, slot, {"container": {"labels": LABELS}}, proven=True)
    assert (how["preparation"] == "standby") is aside
    # Docker must not start two after a power cut, and of what is known to answer starts that.
    assert how["provisional"] is aside


def test_what_nobody_has_seen_answer_is_on_trial() -> None:
    assert way(vars(planned()))["provisional"]
    assert not way(planned().record(seen(), NOW))["provisional"]


def test_more_room_is_reserved_for_the_records_than_they_take() -> None:
    record = planned().record(seen(), NOW)

    def rooms(before: t.Mapping[str, t.Any] | None) -> dict[str, int]:
        places = deployment.reserved_space(vars(planned()), before, "/state")
        return {f"{place['directory']}/{file['name']}": file["reserve"] for place in places for file in place["files"]}

    assert list(rooms(None)) == ["/state/previous.json", f"{DIRECTORY}/record.json"]
    below = deployment.reserved_space(vars(planned()), None, str(Path(DIRECTORY).parent))
    assert [file["name"] for place in below for file in place["files"]] == ["previous.json", "mine/record.json"]
    assert len(below) == 1
    assert min(rooms(None).values()) > len(json.dumps(record, indent=4))
    # What is replaced may be longer.
    assert min(rooms({**record, "files": {"long": "x" * 10**6}}).values()) > 10**6


def test_one_spark_alone_replaces_what_is_there() -> None:
    how = way(planned().record(seen(), NOW), slot=OTHER)
    assert (how["preparation"], how["start_order"]) == ("", "at once")


def test_what_was_made_for_addresses_that_are_gone_is_refused() -> None:
    rails = [RAIL, {"interface": "enP2p1s0f1np1", "address": "192.168.101.10"}]
    record = {**planned(cluster={**PAIR, "rails": rails}).record(seen(), NOW), "deployed_at": "2026-01-01T00:00:00Z"}
    here = ["127.0.0.1", "192.168.100.10", "192.168.101.10"]
    assert deployment.unreachable_reason(record, here) == ""
    assert deployment.unreachable_reason(record, here[:2]).startswith(
        "cannot roll back to 'mine' (deployed 2026-01-01T00:00:00Z): this Spark no longer has"
        " 192.168.101.10 on enP2p1s0f1np1."
    )
    # One Spark alone needs no other one.
    assert deployment.unreachable_reason(planned(cluster={}).record(seen(), NOW), []) == ""
