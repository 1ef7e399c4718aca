# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.cluster_view import (
    ClusterView,
    Link,
    Rail,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status import (
    Disk,
    Job,
    Model,
    Previous,
    Removable,
    Status,
    UnusedImage,
    UnusedModel,
    UsedCache,
    cluster_facts,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.deployment_facts import DeploymentFacts
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.access import Reach
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.status import (
    heading,
    render,
    size,
    status_of,
)

SERVING = Status(
    state="ready",
    container={"name": "slot", "state": "running", "uptime_s": 273000},
    deployment="single_eagle3",
    deployed_at="2026-10-04T09:12:44Z",
    url="http://127.0.0.1:8000",
    listens_on="127.0.0.1",
    target_model="openai/gpt-oss-120b",
    served_model="gpt-oss-120b",
    method="eagle3",
    draft_length=5,
    models=[
        Model("openai/gpt-oss-120b", "target", "b5c939de8f754692c1647ca79fbf85e8c1e70f8a", 65_250_000_000),
        Model("nvidia/gpt-oss-120b-Eagle3-long-context", "draft", None, None),
    ],
    image={"reference": "r/release:1.3.0rc12", "id": "sha256:00", "digests": ["r/release@sha256:4567efab89012345678"]},
    acceptance_length=2.4,
    tokens_per_second=44.94,
    measured="now",
    restarts=1,
    memory_total=128_500_000_000,
    memory_available=18_200_000_000,
    disk=Disk(
        image_bytes=35_000_000_000,
        unused_images=[UnusedImage("r/release:1.2.0rc1", 20_400_000_000)],
        caches=[
            UsedCache("slot-cache-4567efab8901", "4567efab8901", 2_100_000_000, True),
            UsedCache("slot-cache-0123456789ab", "0123456789ab", None, False),
            UsedCache("slot-cache", None, 3_000_000, True),
        ],
        models_used_bytes=68_100_000_000,
        unused_models=[UnusedModel("meta/llama", 15_000_000_000)],
        unused_files=[Removable("openai/gpt-oss-120b", "original/", 65_000_000_000)],
        incomplete_downloads=[Removable("openai/gpt-oss-120b", "blobs/a.incomplete", 1_200_000_000)],
        logs_bytes=12_000_000,
        cache_free_bytes=1_500_000_000_000,
        docker_free_bytes=None,
        reclaimable_bytes=81_200_000_000,
    ),
    previous=Previous("single_draft_target", "draft_target", 4, "2026-09-30T08:00:00Z"),
)


def test_the_table() -> None:
    assert "\n".join(render("spark-1", SERVING)) == (
        """\
spark-1 serves gpt-oss-120b with EAGLE-3, draft length 5

  state              ready, up 3 days 3 h, restarted 1 time
  deployment         single_eagle3, deployed 2026-10-04T09:12:44Z
  URL                http://127.0.0.1:8000/v1 (reachable from this Spark only)
  image              r/release:1.3.0rc12 (sha256:4567efab8901)
  target model       openai/gpt-oss-120b at b5c939de8f75, 65.2 GB
  draft model        nvidia/gpt-oss-120b-Eagle3-long-context, unknown
  speed              44.9 tokens/s, acceptance length 2.40 (measured now)
  memory             18.2 GB of 128 GB available
  disk: image        35.0 GB
    unused images    r/release:1.2.0rc1 20.4 GB
  disk: kernels      2.1 GB of image 4567efab8901, 3.0 MB of downloaded code
    unused kernels   unknown of image 0123456789ab
  disk: models       68.1 GB in use
    unused models    meta/llama 15.0 GB
    unused files     original/ of openai/gpt-oss-120b 65.0 GB
    incomplete       1.2 GB in 1 file
  disk: logs         12.0 MB
  disk: free         1500 GB for models, unknown for images
  previous           single_draft_target with Draft-Target, draft length 4, deployed
                     2026-09-30T08:00:00Z

  Next:
    - Free 81.2 GB of unused files: cleanup.yml -e unused=true"""
    )


def test_the_size_of_a_compressed_image_is_called_so() -> None:
    disk = dataclasses.replace(SERVING.disk, compressed_images=True, previous_image_bytes=20_000_000_000)
    lines = render("spark-1", dataclasses.replace(SERVING, disk=disk))
    assert "  disk: image        35.0 GB compressed, the previous one's 20.0 GB compressed" in lines
    assert "    unused images    r/release:1.2.0rc1 20.4 GB compressed" in lines
    # Nothing is said of a size that is not known.
    disk = dataclasses.replace(disk, image_bytes=None, previous_image_bytes=None)
    assert "  disk: image        none in use" in render("spark-1", dataclasses.replace(SERVING, disk=disk))


def test_a_stopped_server_has_no_url_and_no_tunnel() -> None:
    laptop = Reach(local=False, host="10.0.0.5")
    assert "127.0.0.1:8000" in "\n".join(render("spark-1", SERVING, reach=laptop))
    stopped = dataclasses.replace(SERVING, state="stopped")
    assert "127.0.0.1:8000" not in "\n".join(render("spark-1", stopped, reach=laptop))


def test_a_chat_page_on_another_machine_has_a_tunnel_of_its_own() -> None:
    serving = dataclasses.replace(SERVING, chat_url="http://127.0.0.1:3000")
    tunnel = "ssh -N -L 3000:127.0.0.1:3000 10.0.0.5"
    assert tunnel in "\n".join(render("spark-1", serving, reach=Reach(local=False, host="10.0.0.5")))
    assert tunnel not in "\n".join(render("spark-1", serving))


def test_facts_are_read_back() -> None:
    for status in (
        SERVING,
        dataclasses.replace(SERVING, jobs=[Job("pull", 12.5, "8 GB")], lease={"owner": "a@b"}),
        Status(),
    ):
        assert status_of(json.loads(json.dumps(status.facts()))) == status


def test_nothing_known_is_still_a_table() -> None:
    status = Status(not_checked=["Docker cannot be asked: it is not installed."])
    lines = render("spark-1", status)
    assert lines[0] == "spark-1: state unknown"
    assert "  state              unknown" in lines
    assert "    - Docker cannot be asked: it is not installed." in lines
    assert json.loads(json.dumps(status.facts()))["disk"]["image_bytes"] is None


def test_lines_are_not_too_wide_and_lose_nothing() -> None:
    why = "The server ended with exit code 1 (a Python error): " + "a long reason " * 30
    finding = {"id": "x", "message": "word " * 60}
    lines = render("spark-1", dataclasses.replace(SERVING, state="dead", reason=why, findings=[finding]))
    assert max(map(len, lines)) <= 100
    assert " ".join(" ".join(lines).split()).count("a long reason") == 30


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("ready", "spark-1 serves gpt-oss-120b with EAGLE-3, draft length 5"),
        ("busy", "spark-1 serves gpt-oss-120b with EAGLE-3, draft length 5"),
        ("loading", "spark-1 is loading gpt-oss-120b with EAGLE-3, draft length 5"),
        ("failed", "spark-1 is not serving gpt-oss-120b with EAGLE-3, draft length 5"),
        ("absent", "spark-1: nothing is deployed"),
        (
            "trial",
            "spark-1 is running a benchmark of gpt-oss-120b with EAGLE-3, draft length 5",
        ),
        (None, "spark-1: state unknown; last deployment: gpt-oss-120b with EAGLE-3, draft length 5"),
    ],
)
def test_headings(state: str | None, words: str) -> None:
    assert heading("spark-1", dataclasses.replace(SERVING, state=state)) == words


def test_heading_without_a_record() -> None:
    assert heading("s", Status(state="loading", deployment="mine")) == "s is loading mine"
    assert heading("s", Status(state="ready")) == "s serves something that this collection did not deploy"
    assert heading("s", Status(state="ready", deployment="m", method="none")) == "s serves m without speculation"
    raw = Status(state="ready", deployment="m", method="")
    assert heading("s", raw) == "s serves m with a speculative_config of its own"


def test_jobs_and_an_open_address() -> None:
    lines = render("s", dataclasses.replace(SERVING, jobs=[Job("fetch", 42.4, "model")], listens_on="0.0.0.0"))
    assert "  fetch runs         model (42 %)" in lines
    assert "  URL                http://127.0.0.1:8000/v1 (open to everyone who can reach 0.0.0.0)" in lines


def test_a_benchmark_that_has_the_server() -> None:
    why = "A benchmark tries draft length 3; the deployment's own options apply again when it ends."
    job = Job("benchmark", 41.6, "draft length 3 (4 of 5): prompt 7 of 45")
    lines = render("spark-1", dataclasses.replace(SERVING, state="trial", reason=why, measured="deployed", jobs=[job]))
    assert row(lines, "state").startswith("trial, up 3 days 3 h")
    assert row(lines, "state").endswith(why)
    assert row(lines, "benchmark runs") == "draft length 3 (4 of 5): prompt 7 of 45 (42 %)"
    assert row(lines, "speed").endswith("(at deployment)")
    # What would end the benchmark is not proposed.
    assert not [line for line in lines if "previous=true" in line]


@pytest.mark.parametrize(
    ("count", "words"),
    [(None, "unknown"), (0, "0 bytes"), (65_248_815_744, "65.2 GB")],
)
def test_sizes(count: int | None, words: str) -> None:
    assert size(count) == words


HEAD = ClusterView(
    0,
    (
        Rail("enp1s0f1np1", "192.168.100.10", "192.168.100.11", "192.168.100.0/24", 9000, 200_000),
        Rail("enP2p1s0f1np1", "192.168.101.10", "192.168.101.11", "192.168.101.0/24", 9000, 200_000),
    ),
    nodes=("spark-1", "spark-2"),
)
WELL = [Link(True, True, 9000, 200_000)] * 2
SEEN = {"address": "192.168.100.11", "reachable": True, "since": 0}


def half(
    rank: int, state: str | None, answers: str = "open", links: list[Link] = WELL, noticed: t.Any = None
) -> Status:
    facts = DeploymentFacts(cluster=dataclasses.replace(HEAD, rank=rank), links=links, peer_answers=answers)
    facts.state = {"peers": [noticed]} if noticed else None
    return dataclasses.replace(SERVING, state=state, cluster=cluster_facts(facts, "abc"))


def of_four(rank: int, answers: str = "open") -> Status:
    nodes = tuple(f"spark-{number}" for number in range(1, 5))
    pair = dataclasses.replace(HEAD, rank=rank, nodes=nodes, others=("10.0.0.2", "10.0.0.3", "10.0.0.4"))
    facts = DeploymentFacts(cluster=pair, links=WELL, peer_answers=answers)
    return dataclasses.replace(SERVING, state="ready", cluster=cluster_facts(facts, "abc"))


def test_the_head_of_four_tells_of_all() -> None:
    lines = render("spark-1", of_four(0))
    assert lines[0] == "spark-1, spark-2, spark-3 and spark-4 serve gpt-oss-120b with EAGLE-3, draft length 5"
    assert row(lines, "role") == "the head, with spark-2, spark-3 and spark-4 as its workers"
    assert ", with 3 others, " in row(lines, "fabric")
    assert row(render("spark-1", of_four(0, "silent")), "other Spark") == (
        "one of spark-2, spark-3 and spark-4 does not answer at 10.0.0.2, 10.0.0.3 and 10.0.0.4"
    )
    assert "rank 3 of " in render("spark-4", of_four(3))[0]
    assert row(render("spark-4", of_four(3)), "role") == "the worker of spark-1"


def row(lines: list[str], name: str) -> str:
    """The text of a row, with the lines that it was wrapped into."""
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"  {name:<19}"))
    text = [lines[begin][21:]]
    for line in lines[begin + 1 :]:
        if not line.startswith(" " * 21):
            break
        text.append(line.strip())
    return " ".join(text)


def test_the_head_tells_of_both() -> None:
    lines = render("spark-1", half(0, "ready"))
    assert lines[0] == "spark-1 and spark-2 serve gpt-oss-120b with EAGLE-3, draft length 5"
    assert row(lines, "role") == "the head, with spark-2 as its worker"
    assert row(lines, "fabric") == (
        "enp1s0f1np1 192.168.100.10 - 192.168.100.11, 200 Gb/s, MTU 9000 "
        "enP2p1s0f1np1 192.168.101.10 - 192.168.101.11, 200 Gb/s, MTU 9000"
    )
    assert row(lines, "other Spark") == "spark-2 answers at 192.168.100.11"
    assert row(lines, "URL").startswith("http://127.0.0.1:8000/v1")


def test_what_the_memory_guard_says_of_itself() -> None:
    guard = {"on": True, "floor": 4 * 2**30, "lowest": 14_200_000_000, "locked": True}
    told = "on, limit 4.3 GB, least available since start 14.2 GB"
    assert row(render("spark-1", dataclasses.replace(SERVING, memory_guard=guard)), "memory guard") == told
    lines = render("spark-1", dataclasses.replace(SERVING, memory_guard={**guard, "locked": False}))
    assert "; it could not lock its memory, so swapping may delay it" in " ".join(" ".join(lines).split())
    off = {"on": False, "why": "off by speculative_serve_memory_guard"}
    lines = render("spark-1", dataclasses.replace(SERVING, memory_guard=off, oom_daemons=["earlyoom", "systemd-oomd"]))
    assert row(lines, "memory guard").startswith("off by speculative_serve_memory_guard ")
    text = " ".join(" ".join(lines).split())
    assert "earlyoom runs, too: it ends the largest program" in text
    assert "systemd-oomd runs, too: it may kill the container" in text
    # One that does not run says nothing of it.
    assert "memory guard" not in "\n".join(render("spark-1", SERVING))


def test_the_worker_tells_of_its_rank() -> None:
    lines = render("spark-2", half(1, "rank_runs"))
    assert lines[0] == "spark-2 is rank 1 of single_eagle3; its head is spark-1"
    assert row(lines, "state").startswith("rank runs, up 3 days")
    assert row(lines, "role") == "the worker of spark-1"
    assert row(lines, "memory") == "18.2 GB of 128 GB available"
    # Nobody can ask it, and the port is the head's.
    assert not [line for line in lines if line.startswith("  URL")]


@pytest.mark.parametrize(
    ("rank", "state", "words"),
    [
        (0, "loading", "spark-1 and spark-2 are loading gpt-oss-120b with EAGLE-3, draft length 5"),
        (0, "waiting", "spark-1 waits for spark-2 to serve gpt-oss-120b with EAGLE-3, draft length 5"),
        (
            0,
            "trial",
            "spark-1 and spark-2 are running a benchmark of gpt-oss-120b with EAGLE-3, draft length 5",
        ),
        (0, "unhealthy", "spark-1 and spark-2 are not serving gpt-oss-120b with EAGLE-3, draft length 5"),
        (1, "waiting", "spark-1 is rank 1 of single_eagle3; its head is spark-1"),
        (1, "stopped", "spark-1 does not run rank 1 of single_eagle3; its head is spark-1"),
        (1, None, "spark-1: state unknown; last deployment: rank 1 of single_eagle3; its head is spark-1"),
    ],
)
def test_headings_of_two(rank: int, state: str | None, words: str) -> None:
    assert heading("spark-1", half(rank, state)) == words


@pytest.mark.parametrize(
    ("rank", "answers", "words"),
    [
        (
            0,
            "refused",
            "spark-2 answers at 192.168.100.11, but nothing listens there on port 2233: its container does not run, or "
            "just starts",
        ),
        # The head has no port for its worker.
        (1, "refused", "spark-1 answers at 192.168.100.11"),
        (0, "silent", "spark-2 does not answer at 192.168.100.11"),
    ],
)
def test_what_is_seen_of_the_other_one(rank: int, answers: str, words: str) -> None:
    assert row(render("x", half(rank, "waiting", answers)), "other Spark") == words


def test_what_the_container_noticed_and_how_the_links_are() -> None:
    down = [Link(False, True), Link(True, False, 1500)]
    lines = render("spark-1", half(0, "waiting", "silent", down, {**SEEN, "reachable": False, "since": 86400}))
    assert row(lines, "other Spark") == (
        "spark-2 does not answer at 192.168.100.11; the container has not reached it since 1970-01-02T00:00:00Z"
    )
    assert "MTU 9000: the link is down" in row(lines, "fabric")
    assert "MTU 9000: the address is gone, its MTU is 1500 now" in row(lines, "fabric")
    # To start it plugs no cable in.
    assert [line.strip() for line in lines if ".yml" in line][:2] == [
        "- Find out what is wrong: diagnose.yml",
        "- See what spark-2 does: status.yml",
    ]
    told = [line.strip() for line in render("spark-1", half(0, "waiting", "refused"))]
    assert {"- See what spark-2 does: status.yml", "- Start both: start.yml"} <= set(told)


def test_what_nccl_used_before_is_not_what_it_uses() -> None:
    network = {"name": "IB", "rdma": True, "devices": ["rocep1s0f1"], "missing": [], "why": "", "fix": ""}

    def told(state: str) -> list[str]:
        one = half(1, state)
        return render("spark-2", dataclasses.replace(one, cluster={**(one.cluster or {}), "nccl": network}))

    assert row(told("rank_runs"), "RDMA") == "NCCL uses RDMA (IB) over rocep1s0f1"
    assert "NCCL" not in "\n".join(told("waiting"))


@pytest.mark.parametrize(
    ("state", "offered"), [("ready", True), ("loading", True), ("stopped", False), ("dead", False)]
)
def test_a_server_that_is_down_has_no_address(state: str, offered: bool) -> None:
    lines = render("spark-1", dataclasses.replace(SERVING, state=state), reach=Reach(local=False, host="spark-1"))
    assert any(line.startswith("  URL") for line in lines) is offered
    assert any("ssh -N -L" in line for line in lines) is offered


def test_the_time_of_a_server_that_serves_is_its_own() -> None:
    """And not that of its container."""
    assert row(render("x", dataclasses.replace(SERVING, serving_s=47)), "state").startswith("ready, up 47 s, ")


def test_a_pair_as_data() -> None:
    facts = json.loads(json.dumps(half(0, "ready", noticed=SEEN).facts()))["cluster"]
    assert (facts["rank"], facts["role"], facts["options"]) == (0, "head", "abc")
    assert facts["nodes"] == ["spark-1", "spark-2"]
    assert facts["rails"][0]["up"] is True
    assert facts["rails"][1]["address"] == "192.168.101.10"
    assert facts["peer"] == {
        "name": "spark-2",
        "address": "192.168.100.11",
        "port": 2233,
        "answers": "open",
        "noticed": SEEN,
    }
    assert SERVING.facts()["cluster"] is None


def test_a_variant_is_named() -> None:
    previous = dataclasses.replace(t.cast("Previous", SERVING.previous), variant="page")
    text = "\n".join(render("spark-1", dataclasses.replace(SERVING, variant="qa", previous=previous)))
    assert "deployment         single_eagle3 (variant qa), deployed " in text
    assert "previous           single_draft_target (variant page) with Draft-Target" in text
