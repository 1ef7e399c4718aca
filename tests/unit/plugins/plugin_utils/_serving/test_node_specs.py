# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Sparks bring, and the files that come of it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import containers, node_specs

COMMIT = "0123"
SERVED = {
    "image": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
    "target": "a/target",
    "draft": "/models/draft",
    "method": "eagle3",
    "draft_length": 3,
    "family": "auto",
    "origins": {},
    "concurrency": 1,
}
CONFIG = {"options": {"speculative_config": {"speculative_model": "/models/draft"}}, "warnings": ["It is slow."]}
PLAN = {
    "served": SERVED,
    "engine_options": {"max_batch_size": 1},
    "sparks": 1,
    "checked": "abc",
    "context": 1024,
    "memory_guard": "",
    "takes": 64_000_000_000,
    "share": 0.0,
    "config": CONFIG,
}


def asked(rank: int = 0, **changes: t.Any) -> dict[str, t.Any]:
    rail = {"interface": "enp1s0f1np1", "rdma": None, "subnet": "192.168.100.0/24", "address": f"192.168.100.1{rank}"}
    return {
        "name": f"spark-{rank + 1}",
        "deployment": "mine",
        "directory": "/state/mine",
        "cache": "/hub",
        "cluster_directory": "/state/cluster",
        "cluster_image": "pair:1",
        "volume": "slot-cache",
        "host": "127.0.0.1",
        "port": 8000,
        "models": {"a/target": {"commit": COMMIT}},
        "stall_timeout_s": 300,
        "probe_interval_s": 60,
        "worker_timeout_s": 60,
        "ready_timeout": 3600,
        "environment": {},
        "log_level": "info",
        "rails": [rail],
        "worker_port": 2233,
        "trust": "t",
        "devices": [],
        "capabilities": [],
        "settings": {"network": "host"},
        "slot": None,
        "record": None,
        "is_verified": False,
        **changes,
    }


@pytest.fixture(name="programs")
def fixture_programs(tmp_path: Path) -> Path:
    (tmp_path / "server").mkdir()
    for name in ("entrypoint.py", "server/b.py", "server/a.py", "check_options.py"):
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    return tmp_path


def test_what_runs_in_the_container_is_brought(programs: Path) -> None:
    found = node_specs.node_spec(asked(programs=str(programs)), PLAN, {"tiktoken_encodings": ["one"]})
    assert list(found["files"]) == ["entrypoint.py", "server/a.py", "server/b.py"]
    assert found["files"]["server/a.py"] == "# server/a.py\n"
    node = found["node"]
    assert (node["reference"], node["checked"], node["subdirectories"]) == (
        *(SERVED["image"], "abc"),
        ["state", "trial", "tiktoken_encodings"],
    )
    # As the container finds it.
    assert "/models/draft/draft" in found["config"]["text"]
    # The record keeps what the recipe says of its image.
    noted = {"note": "It is new.", "image": SERVED["image"]}
    warnings = node_specs.node_spec(asked(programs=str(programs)), PLAN, noted)["config"]["warnings"]
    assert warnings == ["It is new.", "It is slow."]


@pytest.mark.parametrize(
    ("host", "network", "url", "published"),
    [
        ("127.0.0.1", "host", "http://127.0.0.1:8000", False),
        ("0.0.0.0", "host", "http://127.0.0.1:8000", False),
        ("192.0.2.1", "bridge", "http://192.0.2.1:8000", True),
        ("::1", "host", "http://[::1]:8000", False),
        ("::", "host", "http://[::1]:8000", False),
    ],
)
def test_where_it_listens(programs: Path, host: str, network: str, url: str, published: bool) -> None:
    settings = {"network": network, "published_ports": ["8000:8000"]}
    node = node_specs.node_spec(asked(programs=str(programs), host=host, settings=settings), PLAN, {})["node"]
    assert (node["url"], node["bridged"], "published_ports" in node["settings"]) == (url, published, published)


def test_the_memory_guard_is_told_what_the_plan_says(programs: Path) -> None:
    told = {"memory_guard": "off", "takes": 1_000_000_000, "share": 0.9}
    node = node_specs.node_spec(asked(programs=str(programs)), {**PLAN, **told}, {})["node"]
    assert {key: node[key] for key in told} == told


def test_models_that_are_not_known_are_named(programs: Path) -> None:
    with pytest.raises(KeyError, match="a/target"):
        node_specs.node_spec(asked(programs=str(programs), models={}), PLAN, {})


def render(engine: str, script: t.Mapping[str, t.Any]) -> str:
    return f"export LEVEL={script['log_level']}\nexec trtllm-serve {script['target']} --ranks {script['ranks']}\n"


def test_only_the_head_starts_the_server(programs: Path) -> None:
    everybody = [node_specs.node_spec(asked(rank, programs=str(programs)), PLAN, {}) for rank in range(2)]
    (head, head_files), (worker, worker_files) = node_specs.completed_specs(everybody, render)
    assert head_files["serve.sh"].endswith("--ranks 2\n")
    assert "serve.sh" not in worker_files
    for node, files, brought in zip((head, worker), (head_files, worker_files), everybody):
        texts = {**files, "options.yml": brought["config"]["text"]}
        assert node["generation"] == containers.generation(texts, ["state", "trial"])


def test_each_spark_starts_a_rank_of_vllm(programs: Path) -> None:
    everybody = [
        node_specs.node_spec(asked(rank, programs=str(programs)), PLAN, {"engine": "vllm"}) for rank in range(2)
    ]
    (_head, head_files), (_worker, worker_files) = node_specs.completed_specs(everybody, render)
    assert head_files["serve.sh"] == worker_files["serve.sh"]


def test_what_is_recorded_for_the_same_is_known(programs: Path) -> None:
    first = node_specs.node_spec(asked(programs=str(programs)), PLAN, {})
    (node,) = containers.read([first["node"]])
    own = {
        "files": {"options.yml": first["config"]["text"]},
        "script": containers.script([node], node),
        "models": {"a/target": {"commit": COMMIT}},
        "container": {"image": "r:1"},
        "listens_on": "127.0.0.1",
    }
    for record, known in ((own, {"image": "r:1"}), ({**own, "models": {}}, None)):
        brought = node_specs.node_spec(asked(programs=str(programs), record=record), PLAN, {})
        ((made, _files),) = node_specs.completed_specs([brought], render)
        assert made["recorded"] == known


def test_a_spark_gets_its_part(programs: Path) -> None:
    everybody = {
        f"spark-{rank + 1}": node_specs.node_spec(asked(rank, programs=str(programs)), PLAN, {}) for rank in (0, 1)
    }
    plan = node_specs.node_plan("spark-2", everybody, {"title": "Mine"}, render)
    assert (plan["start_order"], plan["deployment"]["title"], plan["deployment"]["context"]) == ("first", "Mine", 1024)
    assert plan["container"]["command"][-1] == "worker"
    assert [file["name"] for file in plan["files"]] == ["entrypoint.py", "server/a.py", "server/b.py", "options.yml"]
    assert plan["generation"] == plan["container"]["labels"]["dgx_spark.speculative.generation"]


def test_room_is_reserved_for_the_records_of_what_is_new(programs: Path) -> None:
    def plan(own: t.Mapping[str, t.Any] | None) -> t.Mapping[str, t.Any]:
        brought = node_specs.node_spec(asked(programs=str(programs), record=own), PLAN, {})
        return node_specs.node_plan("spark-1", {"spark-1": brought}, {"title": "Mine"}, render)

    new = plan(None)
    (place,) = new["run_plan"]["reservations"]
    assert [file["name"].rpartition("/")[2] for file in place["files"]] == ["previous.json", "record.json"]
    known = {**new["deployment"], "container": new["container"]}
    assert plan(known)["run_plan"]["reservations"] == []
