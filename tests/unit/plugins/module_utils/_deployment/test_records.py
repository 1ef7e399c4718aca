# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import record_types, records

from tests.unit.entrypoint_container import lease_until

LABELS = {"dgx_spark.speculative.deployment": "mine", "dgx_spark.speculative.configuration": "abc"}
ON_DISK = {"dgx_spark.speculative.directory": "/state/mine", "dgx_spark.speculative.generation": "0123"}
RECORD: dict[str, t.Any] = {
    "deployment": "mine",
    "deployed_at": "2026-10-04T09:12:44Z",
    "url": "http://127.0.0.1:8000",
    "listens_on": "127.0.0.1",
    "image": {"id": "sha256:1", "reference": "r:1", "digests": []},
    "models": {"lab/one": {"commit": "1" * 40, "snapshot": "/models/one"}},
    "options": {},
    "script": {},
    "findings": [],
    "container": {
        "image": "r:1",
        "labels": {**LABELS, **ON_DISK},
        **{name: [] for name in ("command", "mounts", "ulimits", "devices", "device_requests", "published_ports")},
        **{name: {} for name in ("environment", "healthcheck")},
        **dict.fromkeys(("network", "ipc_mode", "stop_timeout", "log_max_size", "log_max_files"), "x"),
    },
    "files": {"options.yml": "", "serve.sh": "", "entrypoint.py": ""},
}


def read(state: Path, deployment: str | None, labels: t.Mapping[str, str], rdma_filter: str = "") -> t.Any:
    return records.load_records(state, deployment, labels, rdma_filter)


def store(directory: Path, text: str, name: str = "mine") -> None:
    (directory / name).mkdir(exist_ok=True)
    (directory / name / "record.json").write_text(text, encoding="utf-8")


def test_nothing_was_ever_deployed(tmp_path: Path) -> None:
    assert read(tmp_path, "mine", {}) == {
        "latest": None,
        "slot_directory": None,
        "slot": None,
        "present": None,
        "previous": None,
        "previous_damaged": False,
        "previous_lacks": [],
        "trial": None,
        "choice": None,
        "verdict": {},
        "option_checks": {},
        "ranks": [],
        "network": None,
        "files": {},
        "images": {"known": [], "unused": [], "ids": [], "receipts": []},
    }


def test_what_is_kept_beside_a_record(tmp_path: Path) -> None:
    (tmp_path / "mine/check").mkdir(parents=True)
    (tmp_path / "mine/state").mkdir()
    for name, text in {"one": '{"accepted": true}', "two": "{", "three": "[1]"}.items():
        (tmp_path / f"mine/check/{name}.json").write_text(text, encoding="utf-8")
    (tmp_path / "mine/state/ranks.json").write_text('{"ranks": [{"rank": 0}]}', encoding="utf-8")
    found = read(tmp_path, "mine", {})
    assert (found["option_checks"], found["ranks"]) == ({"one": {"accepted": True}}, [{"rank": 0}])
    # A rank's network is known while it runs.
    (tmp_path / "mine/state/nccl.a.7").write_text("a:7:9 [0] NCCL INFO Using network IB\n", encoding="utf-8")
    for state, network in (("starting", None), ("running", "IB"), ("rank_runs", "IB"), ("stopped", None)):
        (tmp_path / "mine/state/state.json").write_text(json.dumps({"state": state}), encoding="utf-8")
        assert (read(tmp_path, "mine", {})["network"] or {}).get("name") == network
    assert read(tmp_path, None, {})["option_checks"] == {}
    (tmp_path / "mine/state/ranks.json").write_text('{"ranks": 1}', encoding="utf-8")
    assert read(tmp_path, "mine", {})["ranks"] == []


def test_what_a_benchmark_has_chosen(tmp_path: Path) -> None:
    store(tmp_path, json.dumps(RECORD))
    choice = {"draft_length": 3, "models": {}, **dict.fromkeys(("method", "date", "sentence", "recipe", "image"), "x")}
    (tmp_path / "mine" / "benchmark.json").write_text(json.dumps(choice), encoding="utf-8")
    assert read(tmp_path, "mine", {})["choice"] == choice
    assert read(tmp_path, None, LABELS)["choice"] == choice
    assert read(tmp_path, "other", LABELS)["choice"] is None
    for damaged in ("{", "[]", json.dumps({**choice, "models": None})):
        (tmp_path / "mine" / "benchmark.json").write_text(damaged, encoding="utf-8")
        assert read(tmp_path, "mine", {})["choice"] is None


def test_what_is_in_the_slot(tmp_path: Path) -> None:
    record = {**RECORD, "more": 1}
    store(tmp_path, json.dumps(record))
    found = read(tmp_path, "mine", LABELS)
    assert found["latest"] == found["slot"] == found["present"] == record
    assert found["slot_directory"] == str(tmp_path / "mine")


def test_another_configuration_was_never_seen_to_serve(tmp_path: Path) -> None:
    store(tmp_path, json.dumps(RECORD))
    found = read(tmp_path, "other", {**LABELS, "dgx_spark.speculative.configuration": "def"})
    assert found["slot"] == RECORD
    assert found["present"] is None
    assert found["latest"] is None


def test_a_deployment_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "else"
    elsewhere.mkdir()
    store(elsewhere, json.dumps(RECORD))
    labels = {**LABELS, "dgx_spark.speculative.directory": str(elsewhere / "mine")}
    assert read(tmp_path, None, labels)["present"] == RECORD


def test_what_served_before(tmp_path: Path) -> None:
    (tmp_path / "previous.json").write_text(json.dumps(RECORD), encoding="utf-8")
    found = read(tmp_path, None, {})
    assert found["previous"] == RECORD
    assert found["previous_damaged"] is False
    # Of its models nothing is where it was.
    assert found["previous_lacks"] == ["lab/one"]
    here = {**RECORD, "models": {"lab/one": {"snapshot": str(tmp_path)}}}
    (tmp_path / "previous.json").write_text(json.dumps(here), encoding="utf-8")
    assert read(tmp_path, None, {})["previous_lacks"] == []


def test_a_trial_of_the_deployment_in_the_slot(tmp_path: Path) -> None:
    store(tmp_path, json.dumps(RECORD))
    lease = {"id": "draft-3", "title": "draft length 3", **lease_until(60)}
    (tmp_path / "mine" / "trial").mkdir()
    path = tmp_path / "mine" / "trial" / "lease.json"
    path.write_text(json.dumps(lease), encoding="utf-8")
    known = read(tmp_path, None, LABELS)["trial"]
    assert known == {name: lease[name] for name in ("id", "title", "until")}
    # Not of what is in the slot.
    assert read(tmp_path, "mine", {})["trial"] is None
    path.write_text(json.dumps({**lease, **lease_until(-1)}), encoding="utf-8")
    assert read(tmp_path, None, LABELS)["trial"] is None


@pytest.mark.parametrize("text", ["", "{", '{"deployment": "mi', "[]", "null", "{}", "[" * 100_000])
def test_a_damaged_file_is_no_record(tmp_path: Path, text: str) -> None:
    store(tmp_path, text)
    (tmp_path / "previous.json").write_text(text, encoding="utf-8")
    found = read(tmp_path, "mine", LABELS)
    assert found["latest"] is found["slot"] is found["present"] is found["previous"] is None
    assert found["previous_damaged"] is True


@pytest.mark.parametrize("key", RECORD)
def test_what_a_record_needs(tmp_path: Path, key: str) -> None:
    store(tmp_path, json.dumps({name: value for name, value in RECORD.items() if name != key}))
    assert read(tmp_path, "mine", {})["latest"] is None
    store(tmp_path, json.dumps({**RECORD, key: 5}))
    assert read(tmp_path, "mine", {})["latest"] is None


@pytest.mark.parametrize("key", sorted(RECORD["container"]))
def test_what_a_container_needs(tmp_path: Path, key: str) -> None:
    container = {name: value for name, value in RECORD["container"].items() if name != key}
    store(tmp_path, json.dumps({**RECORD, "container": container}))
    assert read(tmp_path, "mine", {})["latest"] is None


@pytest.mark.parametrize("models", [{"lab/one": 5}, {"lab/one": {"commit": "1" * 40}}, {"/m": {"snapshot": None}}])
def test_where_its_models_are_is_needed(tmp_path: Path, models: t.Any) -> None:
    store(tmp_path, json.dumps({**RECORD, "models": models}))
    assert read(tmp_path, "mine", {})["latest"] is None


@pytest.mark.parametrize(("ports", "whole"), [(["127.0.0.1:8000:8000"], True), (None, False), ("8000:8000", False)])
def test_ports_of_a_record_are_a_list(tmp_path: Path, ports: t.Any, whole: bool) -> None:
    store(tmp_path, json.dumps({**RECORD, "container": {**RECORD["container"], "published_ports": ports}}))
    assert (read(tmp_path, "mine", {})["latest"] is not None) is whole


@pytest.mark.parametrize("label", ON_DISK)
def test_what_labels_a_container_needs(tmp_path: Path, label: str) -> None:
    labels = {name: value for name, value in RECORD["container"]["labels"].items() if name != label}
    store(tmp_path, json.dumps({**RECORD, "container": {**RECORD["container"], "labels": labels}}))
    assert read(tmp_path, "mine", {})["latest"] is None


FORMAT_LABEL = {"dgx_spark.speculative.format": "1"}
OTHER_LABEL = {"dgx_spark.speculative.format": "2"}
UNRELEASED = "deployed by an unreleased state of this collection"
READS = "but this release reads format 1"
REMOVE = "Run cleanup.yml first. Nothing was changed."
LATER = "Run cleanup.yml first, or use the release that deployed it. Nothing was changed."
OLD = {**RECORD, "deployment": "old"}


@pytest.mark.parametrize(
    ("labels", "used", "text"),
    [
        ({}, [None], None),
        ({**LABELS, **FORMAT_LABEL}, [{**RECORD, "format": 1}], None),
        # A container of another user's.
        ({"other": "label"}, [], None),
        (LABELS, [], f"mine was {UNRELEASED}. {REMOVE}"),
        # Of a container and its record it is told once.
        (LABELS, [RECORD], f"mine was {UNRELEASED}. {REMOVE}"),
        ({}, [RECORD, OLD], f"mine was {UNRELEASED}; old was {UNRELEASED}. {REMOVE}"),
        ({**LABELS, **OTHER_LABEL}, [{**RECORD, "format": 2}], f"the container of mine has format 2, {READS}. {LATER}"),
        ({}, [{**RECORD, "format": 2}], f"the record of mine has format 2, {READS}. {LATER}"),
        # A user has edited it.
        ({}, [{**RECORD, "format": "1"}], f'the record of mine has format "1", {READS}. {REMOVE}'),
        (
            {**LABELS, **FORMAT_LABEL},
            [OLD, {**RECORD, "format": 0}],
            f"old was {UNRELEASED}; the record of mine has format 0, {READS}. {REMOVE}",
        ),
    ],
)
def test_another_format_is_refused(labels: dict[str, str], used: list[t.Any], text: str | None) -> None:
    if text is None:
        records.require_format(labels, *used)
        return
    with pytest.raises(records.FormatError) as error:
        records.require_format(labels, *used)
    assert str(error.value) == text


def test_the_records_of_a_query_are_of_slot_name_and_previous(tmp_path: Path) -> None:
    for name in ("mine", "named", "idle"):
        store(tmp_path, json.dumps({**RECORD, "deployment": name}), name)
    (tmp_path / "previous.json").write_text(json.dumps(OLD), encoding="utf-8")
    used = records.used_records(tmp_path, "named", LABELS)
    assert [record["deployment"] for record in used if record] == ["mine", "named", "old"]
    assert [record["deployment"] for record in records.used_records(tmp_path, None, {}) if record] == ["old"]


PAIR = {"rank": 0, "nodes": ["a", "b"], "image": "r/pair:1", "rails": [], "ranks": []}
WORKERS_FILES = {"options.yml": "", "entrypoint.py": ""}


@pytest.mark.parametrize(
    ("changes", "whole"),
    [
        ({"cluster": {}}, True),
        ({"cluster": PAIR}, True),
        ({"cluster": {**PAIR, "rank": 1}, "files": WORKERS_FILES}, True),
        # Only a worker starts nothing by itself.
        ({"cluster": PAIR, "files": WORKERS_FILES}, False),
        ({"files": WORKERS_FILES}, False),
        ({"cluster": {"rank": 1}, "files": WORKERS_FILES}, False),
        ({"cluster": None}, False),
        ({"cluster": []}, False),
    ],
)
def test_a_record_of_two_sparks(tmp_path: Path, changes: dict[str, t.Any], whole: bool) -> None:
    store(tmp_path, json.dumps({**RECORD, **changes}))
    assert (read(tmp_path, "mine", {})["latest"] is not None) is whole


ODD = {"id": "odd", "message": "Odd."}
MOUNT = {"source": "/models", "target": "/cache"}
RAIL = {"address": "192.168.100.10", "interface": "enp1s0f1np1"}
SEEN: dict[str, t.Any] = {
    "findings": [ODD],
    "measurements": {"ttft_s": 0.2, "request": {"prompt": "Why?", "max_tokens": 128}},
    "break_even": {"best": 2.5, "worst": 4},
    "answer": {"text": "42", "reasoning": None},
    "memory_available": 5,
}


@pytest.mark.parametrize(
    "edited",
    [
        *({"url": url} for url in ("127.0.0.1:8000", "http://127.0.0.1", "http://[", "http://127.0.0.1:99999")),
        *({"findings": findings} for findings in ([5], ["odd"], [ODD, {"id": "odd"}], [{**ODD, "message": 5}])),
        *({"measurements": {"request": {"max_tokens": many}}} for many in (-5, 0, "128", True)),
        *({"measurements": figures} for figures in (5, ["fast"], {"ttft_s": "fast"})),
        *({"container": {**RECORD["container"], "mounts": mounts}} for mounts in ([5], [{"source": "/models"}])),
        *(
            {"cluster": {**PAIR, "rails": rails}}
            for rails in ([5], [{**RAIL, "address": 5}], [{"address": "192.0.2.1"}])
        ),
        *({"cluster": {**PAIR, "nodes": nodes}} for nodes in (5, ["a", 5], None)),
        *({"answer": answer} for answer in (5, "42", {"text": ["42"]})),
        *({"break_even": bounds} for bounds in (["2.5"], {"best": "2.5"})),
        *({name: "x"} for name in ("memory_available", "draft_length", "context", "checks", "warnings", "benchmark")),
        {"options": {"speculative_config": 5}},
        {"method": ["eagle3"]},
    ],
    ids=str,
)
def test_a_record_that_somebody_has_edited_is_damaged(tmp_path: Path, edited: dict[str, t.Any]) -> None:
    """Each of these ended every later run, at the latest in its summary."""
    store(tmp_path, json.dumps({**RECORD, **SEEN, **edited}))
    assert read(tmp_path, "mine", {})["latest"] is None
    # Who only looks tells what can be told.
    record = records.read_record(tmp_path / "mine" / "record.json")
    assert record is not None
    assert record["deployment"] == "mine"


@pytest.mark.parametrize(
    "edited",
    [{}, {"measurements": None}, {"break_even": None}, {"cluster": {**PAIR, "rails": [RAIL]}}],
)
def test_what_is_not_known_is_no_damage(tmp_path: Path, edited: dict[str, t.Any]) -> None:
    container = {**RECORD["container"], "mounts": [MOUNT]}
    store(tmp_path, json.dumps({**RECORD, **SEEN, "container": container, **edited}))
    assert read(tmp_path, "mine", {})["latest"] == {**RECORD, **SEEN, "container": container, **edited}


def test_who_only_looks_leaves_out_what_is_no_answer(tmp_path: Path) -> None:
    asked = {"prompt": "Why?", "max_tokens": -5}
    store(tmp_path, json.dumps({**RECORD, "findings": [5, ODD, {}], "measurements": {"request": asked}, "url": "x"}))
    record = records.read_record(tmp_path / "mine" / "record.json") or {}
    assert (record["findings"], record["measurements"]) == ([ODD], {"request": {"prompt": "Why?"}})
    assert "url" not in record


def test_where_a_container_has_its_files_from() -> None:
    label = "dgx_spark.speculative.generation"
    place = Path("/state/mine")
    assert records.files_directory(place, {label: "0123"}) == place / "generations" / "0123"
    assert records.files_directory(place, {}) is None


def test_what_there_is_of_a_deployment_is_remembered(tmp_path: Path) -> None:
    generation = tmp_path / "mine/generations/abc"
    generation.mkdir(parents=True)
    (generation / "options.yml").write_text("a: 1\n", encoding="utf-8")
    for path, mode in ((tmp_path / "mine", 0o700), (generation.parent, 0o755), (generation, 0o755)):
        path.chmod(mode)
    (generation / "options.yml").chmod(0o644)
    digest = hashlib.sha256(b"a: 1\n").hexdigest()
    directories = {".": "0700", "generations": "0755"}
    files = {"generations/abc/options.yml": f"0644 {digest}"}
    assert read(tmp_path, "mine", {f"{records.LABEL}generation": "abc"})["files"] == {**directories, **files}
    # Of another generation than that in the slot nothing is told.
    assert read(tmp_path, "mine", {})["files"] == directories
    assert read(tmp_path, None, {})["files"] == {}


def test_two_records_of_a_deployment_are_told_apart() -> None:
    now = {"deployment": "mine", "context": 4096, "options": {"a": 1, "b": 2}, "image": {"reference": "r:2"}}
    assert records.differences(now, now) == []
    assert records.differences({**now, "context": 2048}, now) == ["context 2048"]
    assert records.differences({**now, "image": {"reference": "r:1"}}, now) == ["image r:1"]
    assert records.differences({**now, "options": {"a": 2, "b": 2}}, now) == ["other engine options (a)"]
    # How drafts are made is told with each of them.
    assert records.differences({**now, "draft_length": 3, "options": {"a": 2}}, now) == []
    assert records.differences({**now, "deployment": "other", "context": 1}, now) == []


def test_python_3_9_evaluates_the_types_of_a_record() -> None:
    """It does not know X | None, which ruff would write."""
    kinds = [kind for kind in vars(record_types).values() if dataclasses.is_dataclass(kind)]
    hints = [str(hint) for kind in kinds for hint in vars(kind)["__annotations__"].values()]
    assert len(hints) > 50
    assert not [hint for hint in hints if "|" in hint]
