# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What containers are, held against those that shipped playbooks asked Docker for: tests/golden/expected."""

from __future__ import annotations

import os
import shlex
import subprocess
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import load
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import containers
from server.cluster import Cluster

from tests.golden import normal, once, stories

SLOT = "dgx-spark-speculative"
STATE = f"/home/spark/.local/share/{SLOT}"
COMMIT = "0123456789abcdef" * 2 + "01234567"
HASH = "0123456789abcdef" * 4
LABEL = "dgx_spark.speculative.configuration"
RDMA = {"enp1s0f1np1": "rocep1s0f1", "enP2p1s0f1np1": "roceP2p1s0f1"}
# The other cases ask for a container that one of these has asked for.
DEPLOYING = sorted(path.name for way in ("bare", "serving") for path in stories.EXPECTED.glob(f"*-{way}.yml"))


def spark(rank: int, **changes: t.Any) -> dict[str, t.Any]:
    """What a Spark of a cluster brings; the head's address is everybody's peer."""
    rails = [
        {
            "interface": interface,
            "rdma": rdma,
            "subnet": f"192.168.{network}.0/24",
            "address": f"192.168.{network}.{10 + rank}",
            "peer_address": f"192.168.{network}.{10 + (not rank)}",
        }
        for network, (interface, rdma) in enumerate(RDMA.items(), start=100)
    ]
    return {
        "name": f"spark-{rank + 1}",
        "deployment": "mine",
        "engine": "tensorrt_llm",
        "directory": f"{STATE}/mine",
        "cache": "/home/spark/.cache/huggingface/hub",
        "cluster_directory": f"{STATE}/cluster",
        "volume": f"{SLOT}-cache",
        "reference": "release:1",
        "cluster_image": "the-pairs:1",
        "host": "127.0.0.1",
        "port": 8000,
        "url": "http://127.0.0.1:8000",
        "bridged": False,
        "target": "a/target",
        "draft": "a/draft",
        "environment": {},
        "models": {"a/target": {"commit": COMMIT}, "a/draft": {"commit": COMMIT}},
        "rails": rails,
        "worker_port": 2233,
        "log_level": "info",
        "stall_timeout_s": 300,
        "probe_interval_s": 60,
        "worker_timeout_s": 60,
        "ready_timeout": 3600,
        "memory_guard": f"floor={4 * 2**30} seconds=3",
        "takes": 64_000_000_000,
        "share": 0.0,
        "generation": f"0123456789a{rank}",
        "subdirectories": ["state", "trial"],
        "checked": HASH,
        "trust": f"trust-{rank}",
        "devices": [],
        "capabilities": [],
        "settings": {},
        "slot": None,
        "recorded": None,
        **changes,
    }


def serve_script(engine: str, script: dict[str, t.Any]) -> str:
    """The script of the head, as Ansible writes it."""
    templates = normal.ROOT / "roles/speculative_serve/templates"
    environment = jinja2.Environment(trim_blocks=True, loader=jinja2.FileSystemLoader(templates))
    environment.filters.update(quote=shlex.quote, comment=lambda text: f"#\n# {text}\n#")
    written = environment.get_template(f"serve_{engine}.sh.j2").render(
        ansible_managed="Ansible managed",
        script=script,
    )
    return normal.text(written.rstrip())


def sparks(number: int, **changes: t.Any) -> list[dict[str, t.Any]]:
    return [spark(rank, **changes) for rank in range(number)]


def written(expected: dict[str, t.Any], look: t.Callable[[dict[str, t.Any]], dict[str, t.Any]]) -> t.Iterator[t.Any]:
    """Yield what is written of each host, with what it shares with the first."""
    first = look(next(iter(expected.values())))
    for host in expected.values():
        yield shared(look(host), first)


def shared(each: t.Any, first: t.Any) -> t.Any:
    """Return a value with the parts of the first host's that it refers to."""
    if each == "<as on spark-1>":
        return first
    if isinstance(each, dict) and isinstance(first, dict):
        return {key: shared(value, first.get(key)) for key, value in each.items()}
    return each


def script_text(text: str) -> str:
    """Return a recorded text, or that of the file to which it refers."""
    if not text.startswith("<as in ~"):
        return text
    path = text[len("<as in ") : -1]
    files = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(stories.EXPECTED.iterdir())]
    entries = (host["files"].get(path) for file in files for host in file.values())
    return next(entry["text"] for entry in entries if isinstance(entry, dict) and not entry["text"].startswith("<"))


@pytest.mark.parametrize("name", DEPLOYING)
def test_what_was_asked_for_is_asked_for(name: str) -> None:
    expected = yaml.safe_load((stories.EXPECTED / name).read_text(encoding="utf-8"))
    recipe = load(normal.ROOT / "playbooks" / "recipes" / f"{name.rpartition('-')[0]}.yml")
    directory = f"{STATE}/{recipe['name']}"
    wanted = {
        "deployment": recipe["name"],
        "directory": directory,
        "reference": recipe["image"],
        "cluster_image": f"{SLOT}/{recipe['image'].rpartition('/')[2]}",
        "port": recipe["port"],
        "url": f"http://127.0.0.1:{recipe['port']}",
        "environment": recipe["environment"],
        **{key: recipe[key] for key in ("target", "draft")},
        "subdirectories": ["state", "trial", *(["tiktoken_encodings"] if recipe["tiktoken_encodings"] else [])],
        "trust": HASH,
        "models": {model: {"commit": COMMIT} for model in (recipe["target"], recipe["draft"]) if model},
    }
    brought = [spark(rank, name=host, **wanted) for rank, host in enumerate(expected)]
    records = list(written(expected, lambda host: host["files"][normal.text(f"{directory}/record.json")]["json"]))
    asked = written(expected, lambda host: next(one for one in host["containers"] if one["name"] == SLOT))
    for one, record in zip(brought, records):
        one["takes"] = sum(row["bytes"] for row in record["plan"])
    for (host, planned), record, created in zip(containers.plan(brought).items(), records, asked):
        container = normal.Normal().data(planned["container"])
        # Docker was asked for just that, by the module that runs it, and it is recorded.
        recorded = once.recorded(created)
        assert container == {key: recorded[key] for key in container}
        assert record["container"] == once.ASKED
        scripts = expected[host]["files"].get(f"{normal.text(directory)}/generations/<hash>/serve.sh")
        if scripts:
            assert serve_script("tensorrt_llm", planned["script"]) == script_text(scripts["text"]).rstrip()
        # Only the head has one.
        assert bool(scripts) == (host == next(iter(expected)))
        own = {key: value for key, value in record["cluster"].items() if key != "ranks"}
        assert (
            planned["cluster"] == {**own, "rails": brought[planned["cluster"]["rank"]]["rails"]} if own else own == {}
        )


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_record_names_all_in_the_order_of_the_ranks(number: int) -> None:
    names = [f"spark-{rank + 1}" for rank in range(number)]
    pairs = [each["cluster"] for each in containers.plan(sparks(number)).values()]
    assert [(pair["rank"], pair["nodes"]) for pair in pairs] == [(rank, names) for rank in range(number)]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_cluster_of_any_size(number: int) -> None:
    plan = containers.plan(sparks(number))
    made = [each["container"] for each in plan.values()]
    assert list(plan) == [f"spark-{rank + 1}" for rank in range(number)]
    assert [each["command"][2:] for each in made] == [[], *[["worker"]] * (number - 1)]
    # One configuration, so that a change of any makes all of them anew.
    assert len({each["labels"][LABEL] for each in made}) == 1
    assert [each["start_order"] for each in plan.values()] == (
        ["last", *["first"] * (number - 1)] if number > 1 else ["at once"]
    )
    script = plan["spark-1"]["script"]
    assert (script["ranks"], script["workers"]) == (number, [f"192.168.100.{10 + rank}" for rank in range(1, number)])


@pytest.mark.parametrize(
    ("number", "rank", "told"),
    [
        (2, 0, "192.168.100.11,192.168.101.11"),
        (2, 1, "192.168.100.10,192.168.101.10"),
        (4, 0, "192.168.100.11,192.168.100.12,192.168.100.13,192.168.101.11,192.168.101.12,192.168.101.13"),
        (4, 2, "192.168.100.10,192.168.100.11,192.168.100.13,192.168.101.10,192.168.101.11,192.168.101.13"),
    ],
)
def test_each_rank_is_told_of_all_others(number: int, rank: int, told: str) -> None:
    made = containers.plan(sparks(number))[f"spark-{rank + 1}"]["container"]
    assert made["environment"]["DGX_SPARK_PEER_ADDRESSES"] == told
    # What the program in the container makes of it: the first rail's, by rank.
    found = Cluster.from_environment(made["environment"])
    assert (found.rank, found.own) == (rank, f"192.168.100.{10 + rank}")
    assert list(found.peers) == told.split(",")[: number - 1]


def test_who_serves_alone_needs_no_fabric_whatever_cable_it_has() -> None:
    (alone,) = containers.plan(sparks(1)).values()
    assert sorted(alone["container"]["environment"]) == [
        *("DGX_SPARK_DRAFT", "DGX_SPARK_ENGINE", "DGX_SPARK_GUARD", "DGX_SPARK_PROBE_INTERVAL_S", "DGX_SPARK_STALL_S"),
        *("DGX_SPARK_TAKES_BYTES", "DGX_SPARK_TARGET", "DGX_SPARK_URL"),
    ]
    assert (alone["container"]["devices"], alone["container"]["image"], alone["cluster"]) == ([], "release:1", {})
    assert "/cluster" not in [mount["target"] for mount in alone["container"]["mounts"]]
    assert "dgx_spark.speculative.rank" not in alone["container"]["labels"]


def test_a_rank_takes_all_rails_and_those_without_rdma() -> None:
    head, worker = sparks(2)
    head["rails"][1]["rdma"] = None
    plan = containers.plan([head, worker])
    told = plan["spark-1"]["container"]["environment"]
    assert (told["NCCL_IB_HCA"], told["NCCL_SOCKET_IFNAME"]) == ("rocep1s0f1", "enp1s0f1np1,enP2p1s0f1np1")
    assert plan["spark-2"]["container"]["environment"]["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"
    assert plan["spark-2"]["container"]["environment"]["DGX_SPARK_RANK"] == "1"


def test_a_rank_of_vllm_has_its_own_address_and_no_keys() -> None:
    plan = containers.plan(sparks(2, engine="vllm"))
    made = plan["spark-2"]["container"]
    # gloo takes one interface, and NCCL all.
    expected = {
        "VLLM_HOST_IP": "192.168.100.11",
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), "enp1s0f1np1"),
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    }
    assert {name: made["environment"][name] for name in expected} == expected
    assert not [name for name in made["environment"] if name.startswith(("OMPI_", "UCX_"))]
    assert "/cluster" not in [mount["target"] for mount in made["mounts"]]
    assert made["image"] == "the-pairs:1"


def test_the_users_own_value_of_a_ranks_variable_wins() -> None:
    (head, _worker) = containers.plan(sparks(2, engine="vllm", environment={"NCCL_IGNORE_CPU_AFFINITY": 0})).values()
    assert head["container"]["environment"]["NCCL_IGNORE_CPU_AFFINITY"] == "0"


@pytest.mark.parametrize(
    ("engine", "image", "kept"),
    [
        ("vllm", "vllm/vllm-openai:v0.28.0", False),
        ("vllm", "nvcr.io/nvidia/vllm:26.08-py3", True),
        ("vllm", "example.org/nvcr.io/nvidia/vllm:26.08-py3", False),
        ("tensorrt_llm", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc29", True),
        ("tensorrt_llm", "example.org/copies/release:1.3.0rc29", True),
    ],
)
def test_the_image_decides_about_its_entrypoint(engine: str, image: str, kept: bool) -> None:
    """Also that of a cluster image, which was built from it."""
    for number in (1, 2):
        plan = containers.plan(sparks(number, engine=engine, reference=image))
        assert [each["container"]["keep_entrypoint"] for each in plan.values()] == [kept] * number


FILES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE"]
LOGIN = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT"]


@pytest.mark.parametrize(
    ("number", "changes", "expected"),
    [
        (1, {}, [FILES]),
        (1, {"engine": "vllm"}, [FILES]),
        (1, {"port": 80}, [[*FILES, "CAP_NET_BIND_SERVICE"]]),
        (1, {"capabilities": ["CAP_SYS_PTRACE", "CAP_CHOWN"]}, [[*FILES, "CAP_SYS_PTRACE"]]),
        (2, {}, [[*FILES, "CAP_NET_RAW"], sorted([*FILES, "CAP_NET_RAW", *LOGIN])]),
        (2, {"engine": "vllm"}, [[*FILES, "CAP_NET_RAW"]] * 2),
    ],
    ids=["alone", "vllm", "system port", "the user's own", "sshd", "vllm's ranks"],
)
def test_a_container_has_the_capabilities_that_its_programs_need(
    number: int, changes: dict[str, t.Any], expected: list[list[str]]
) -> None:
    plan = containers.plan(sparks(number, **changes))
    assert [each["container"]["capabilities"] for each in plan.values()] == expected


def test_vllm_keeps_all_compiled_kernels(tmp_path: Path) -> None:
    plan = containers.plan(sparks(1, engine="vllm"))
    script = serve_script("vllm", plan["spark-1"]["script"]).replace("<hash>", COMMIT)
    (tmp_path / "vllm").write_text("#!/bin/sh\nenv\n", encoding="utf-8")
    (tmp_path / "vllm").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True).stdout
    kept = dict(line.split("=", 1) for line in said.splitlines() if "=/cache/kernels/" in line)
    assert {"VLLM_CACHE_ROOT", "TILELANG_CACHE_DIR", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"} <= set(kept)


@pytest.mark.parametrize(
    ("rank", "begins", "ends"),
    [
        (1, ["serve"], ["--headless"]),
        (0, ["/deployment/entrypoint.py", "ranks", "serve"], ["--host", "127.0.0.1", "--port", "8000"]),
    ],
)
def test_the_script_of_vllms_ranks(tmp_path: Path, rank: int, begins: list[str], ends: list[str]) -> None:
    """One text on all Sparks: what it starts is asked of the shell, with programs of the test's."""
    plan = containers.plan(sparks(2, engine="vllm"))
    script = serve_script("vllm", plan["spark-1"]["script"]).replace("<hash>", COMMIT)
    for name in ("vllm", "python3"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DGX_SPARK_RANK": str(rank), "DGX_SPARK_OPTIONS": "/o"}
    words = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True).stdout
    said = words.splitlines()
    assert (said[: len(begins)], said[-len(ends) :]) == (begins, ends)
    assert ("--worker" in said) == (rank == 0)
    # The ranks' own words are the same on both.
    begin = said.index("--tensor-parallel-size")
    assert said[begin : begin + 10] == [
        *("--tensor-parallel-size", "2", "--nnodes", "2", "--node-rank", str(rank)),
        *("--master-addr", "192.168.100.10", "--master-port", "2233"),
    ]


@pytest.mark.parametrize("name", ["DGX_SPARK_OPTIONS", "DGX_SPARK_RANK"])
def test_no_variable_replaces_a_decision_of_the_launcher(name: str) -> None:
    plan = containers.plan(sparks(2, engine="vllm"))["spark-1"]["script"]
    script = serve_script("vllm", {**plan, "environment": {name: "/evil"}})
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert f"{name}: readonly variable" in result.stderr


def test_somebodys_own_environment_is_stronger_and_text() -> None:
    plan = containers.plan(sparks(2, environment={"NCCL_IB_HCA": "mine", "NCCL_DEBUG_LEVEL": 3}))
    for each in plan.values():
        assert each["container"]["environment"]["NCCL_IB_HCA"] == "mine"
        assert each["container"]["environment"]["NCCL_DEBUG_LEVEL"] == "3"


def test_the_patience_with_a_lost_worker_is_told() -> None:
    plan = containers.plan(sparks(2, worker_timeout_s=7))
    assert [each["container"]["environment"]["DGX_SPARK_PEER_LOST_S"] for each in plan.values()] == ["7"] * 2


def test_ways_that_one_of_them_lacks_are_told() -> None:
    head, worker = sparks(2)
    worker["rails"] = worker["rails"][:1]
    with pytest.raises(ValueError, match="spark-1 and spark-2 have not as many ways to each other"):
        containers.plan([head, worker])


@pytest.mark.parametrize("key", ["generation", "trust", "deployment", "directory", "cache", "cluster_image"])
def test_what_changes_on_one_spark_makes_all_containers_anew(key: str) -> None:
    """By its label, so that what serves is put aside and not just replaced, also where only its name is another one."""
    before, changed = sparks(3), sparks(3)
    changed[1][key] = "another"
    for old, new in zip(containers.plan(before).values(), containers.plan(changed).values()):
        assert old["container"]["labels"][LABEL] != new["container"]["labels"][LABEL]


def test_files_of_a_directory_may_change_on_one_spark() -> None:
    models = {"/srv/target/": {"commit": None, "fingerprint": "one"}, "a/draft": {"commit": COMMIT}}
    before = sparks(2, target="/srv/target/", models=models)
    changed = [before[0], {**before[1], "models": {**models, "/srv/target/": {"fingerprint": "two"}}}]
    old, new = (list(containers.plan(each).values()) for each in (before, changed))
    assert old[0]["container"] == new[0]["container"]
    assert old[1]["container"]["labels"][LABEL] != new[1]["container"]["labels"][LABEL]


def test_models_in_directories_have_mounts_of_their_own() -> None:
    models = {"/srv/target": {"commit": None, "fingerprint": "one"}}
    (alone,) = containers.plan(sparks(1, target="/srv/target", draft="", models=models)).values()
    assert alone["container"]["mounts"][6:] == [
        {"type": "bind", "source": "/srv/target", "target": "/models/target/target", "read_only": True}
    ]
    assert (alone["script"]["target"], alone["script"]["draft"]) == ("/models/target/target", "")
    assert alone["script"]["served"] == "/tmp/models/target"
    assert alone["container"]["environment"]["DGX_SPARK_DRAFT"] == ""


def test_on_dockers_bridge_the_server_listens_on_its_own_address() -> None:
    given = {"host": "192.0.2.7", "url": "http://192.0.2.7:8000"}
    (host,) = containers.plan(sparks(1, **given)).values()
    (bridge,) = containers.plan(sparks(1, bridged=True, **given)).values()
    assert (host["script"]["listen"], bridge["script"]["listen"]) == ("192.0.2.7", "0.0.0.0")
    assert host["container"]["environment"]["DGX_SPARK_URL"] == "http://192.0.2.7:8000"
    assert bridge["container"]["environment"]["DGX_SPARK_URL"] == "http://127.0.0.1:8000"
    # People go on using the host's.
    assert bridge["container"]["labels"]["dgx_spark.speculative.url"] == "http://192.0.2.7:8000"


@pytest.mark.parametrize(("seconds", "period"), [(3600, "900s"), (600, "600s"), ("600", "600s")])
def test_a_server_is_given_time_to_load(seconds: t.Any, period: str) -> None:
    (alone,) = containers.plan(sparks(1, ready_timeout=seconds)).values()
    assert alone["container"]["healthcheck"]["start_period"] == period


def test_the_order_of_starting() -> None:
    running = {"state": "running", "labels": containers.plan(sparks(3))["spark-1"]["container"]["labels"]}
    all_serve = containers.plan(sparks(3, slot=running))
    assert [(each["is_running"], each["start_order"]) for each in all_serve.values()] == [(True, "at once")] * 3
    one_is_gone = containers.plan([spark(0, slot=running), spark(1, slot=running), spark(2)])
    assert [each["is_running"] for each in one_is_gone.values()] == [True, True, False]
    assert [each["start_order"] for each in one_is_gone.values()] == ["last", "first", "first"]
    for slot in ({**running, "state": "exited"}, {"state": "running", "labels": {}}):
        assert not containers.plan(sparks(1, slot=slot))["spark-1"]["is_running"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": {}}, "'a/target'"),
        ({"ready_timeout": "long"}, "invalid literal for int"),
        ({"more": 1}, "unexpected keyword argument 'more'"),
    ],
)
def test_what_cannot_be_planned_is_said(changes: dict[str, t.Any], words: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError), match=words):
        containers.plan(sparks(1, **changes))


def test_what_somebody_wants_besides_comes_first() -> None:
    for number, further in ((1, []), (2, ["/dev/infiniband:/dev/infiniband"])):
        (one, *_others) = containers.plan(sparks(number, devices=["/dev/fuse:/dev/fuse"])).values()
        assert one["container"]["devices"] == ["/dev/fuse:/dev/fuse", *further]


def test_sparks_without_a_network_cannot_be_planned_together() -> None:
    with pytest.raises(ValueError, match="spark-1 has no network to the others"):
        containers.plan(sparks(2, rails=[]))


def test_the_same_files_are_the_same_directory() -> None:
    files = {"serve.sh": "true\n", "options.yml": "x: 1\n"}
    name = containers.generation(files, ["state", "trial"])
    assert (len(name), int(name, 16) > 0) == (12, True)
    assert containers.generation(dict(reversed(files.items())), ["trial", "state"]) == name
    others = [
        *(
            containers.generation({**files, file: text}, ["state", "trial"])
            for file, text in (("serve.sh", ""), ("x", ""))
        ),
        containers.generation(files, ["state"]),
    ]
    assert len({name, *others}) == 4


def test_what_is_mounted_is_a_generation_and_what_lives_is_beside_it() -> None:
    (alone,) = containers.plan(sparks(1, subdirectories=["state", "trial", "tiktoken_encodings"])).values()
    inside = {mount["target"]: (mount["source"], mount["read_only"]) for mount in alone["container"]["mounts"]}
    assert {target: inside[target] for target in inside if target.startswith("/deployment")} == {
        "/deployment": (f"{STATE}/mine/generations/0123456789a0", True),
        "/deployment/state": (f"{STATE}/mine/state", False),
        "/deployment/trial": (f"{STATE}/mine/trial", True),
        "/deployment/tiktoken_encodings": (f"{STATE}/mine/tiktoken_encodings", True),
    }
    assert alone["container"]["labels"]["dgx_spark.speculative.generation"] == "0123456789a0"
    assert alone["container"]["labels"]["dgx_spark.speculative.directory"] == f"{STATE}/mine"


def by_another_release(number: int, **changes: t.Any) -> list[dict[str, t.Any]]:
    """Sparks on which a release with other programs has deployed what is wanted."""
    brought = sparks(number, **changes)
    made = containers.plan([{**each, "generation": "fedcba987654"} for each in brought])
    recorded = [made[each["name"]]["container"] for each in brought]
    return [
        {**each, "recorded": one, "slot": {"state": "running", "labels": one["labels"]}}
        for each, one in zip(brought, recorded)
    ]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_serves_the_same_wish_goes_on_as_it_is(number: int) -> None:
    brought = by_another_release(number)
    for each, planned in zip(brought, containers.plan(brought).values()):
        assert planned["container"] == each["recorded"]
        assert (planned["unchanged"], planned["is_running"], planned["start_order"]) == (True, True, "at once")
    # Just what is planned is nothing of another release.
    assert [each["unchanged"] for each in containers.plan(sparks(number)).values()] == [False] * number


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"recorded": None},
            {"slot": None},
            {"stall_timeout_s": 7},
            {"environment": {"NCCL_DEBUG": "INFO"}},
            {"port": 8001},
        ),
        *({"url": "http://192.0.2.7:8000"}, {"cluster_image": "the-pairs:2"}, {"devices": ["/dev/fuse:/dev/fuse"]}),
        *({"cache": "/srv/hub"}, {"ready_timeout": 60}, {"directory": "/srv/mine"}, {"deployment": "other"}),
        {"capabilities": ["CAP_SYS_PTRACE"]},
    ],
)
def test_what_is_another_wish_on_one_spark_is_made_anew_on_all(changes: dict[str, t.Any]) -> None:
    brought = by_another_release(2)
    if "port" in changes:
        changes = {**changes, "bridged": True}
    for each in containers.plan([brought[0], {**brought[1], **changes}]).values():
        assert (each["unchanged"], each["is_running"]) == (False, False)
        assert "/generations/" in each["container"]["mounts"][1]["source"]


def test_what_is_not_just_what_was_recorded_is_made_anew() -> None:
    (one,) = by_another_release(1)
    slot = one["slot"]
    for other in ({**slot, "state": "exited"}, {**slot, "labels": {**slot["labels"], LABEL: "cut off"}}):
        (planned,) = containers.plan([{**one, "slot": other}]).values()
        assert not planned["unchanged"]


def test_a_container_with_all_of_dockers_capabilities_is_made_anew() -> None:
    """As a release made it that did not plan them."""
    (one,) = by_another_release(1)
    del one["recorded"]["capabilities"]
    (planned,) = containers.plan([one]).values()
    assert not planned["unchanged"]


def test_keys_that_changed_make_containers_anew() -> None:
    brought = by_another_release(2)
    assert not any(each["unchanged"] for each in containers.plan([brought[0], {**brought[1], "trust": "new"}]).values())


def test_what_is_mounted_beside_a_generation_is_wished_for() -> None:
    (one,) = by_another_release(1)
    for brought, kept in ((one, True), ({**one, "subdirectories": ["state", "trial", "tiktoken_encodings"]}, False)):
        (planned,) = containers.plan([brought]).values()
        assert (planned["unchanged"], planned["is_running"]) == (kept, kept)


def test_what_goes_on_is_run_as_it_was_unless_somebody_asks_for_something_else() -> None:
    (one,) = by_another_release(1)
    one["recorded"].update({"ulimits": ["memlock:-1:-1"], "log_max_size": "9m"})
    (planned,) = containers.plan([{**one, "settings": {"log_max_size": "9m"}}]).values()
    assert (planned["unchanged"], planned["container"]) == (True, one["recorded"])
    (planned,) = containers.plan([{**one, "settings": {"ulimits": ["memlock:1:1"]}}]).values()
    assert not planned["unchanged"]
    assert "ulimits" not in planned["container"]


def test_the_memory_guard_is_told_what_the_engine_takes() -> None:
    (planned,) = containers.plan(sparks(1, takes=None)).values()
    assert "DGX_SPARK_TAKES_BYTES" not in planned["container"]["environment"]
    for planned in containers.plan(sparks(2, memory_guard="off", share=0.9)).values():
        environment = planned["container"]["environment"]
        assert (environment["DGX_SPARK_TAKES_BYTES"], environment["DGX_SPARK_GUARD"]) == ("64000000000", "off")
        assert environment["DGX_SPARK_TAKES_SHARE"] == "0.9"


def test_an_arithmetic_of_another_release_restarts_nothing_and_other_limits_do() -> None:
    for before in ({"takes": None}, {"takes": 1}):
        (one,) = by_another_release(1, **before)
        (planned,) = containers.plan([{**one, "takes": 64_000_000_000}]).values()
        assert planned["unchanged"]
        assert planned["container"]["environment"] == one["recorded"]["environment"]
    (planned,) = containers.plan([{**by_another_release(1)[0], "memory_guard": "off"}]).values()
    assert not planned["unchanged"]
