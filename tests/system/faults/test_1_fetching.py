# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong on the way from the Hub to the disk. The Spark is bare at first, and serves at the end."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.twin.control import Internet, Spark
from tests.twin.models import STRANGER

pytest_plugins = ["tests.scenario"]

TARGET = "openai/gpt-oss-120b"
HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"
HUB, CDN = "huggingface.co", "cdn-lfs.huggingface.co"
FILES = "*/resolve/*"
SHARD = "model-00002-of-00004.safetensors"
RECIPE = playbook.ROOT / "playbooks" / "recipes" / "single_eagle3.yml"


def own_recipe(directory: Path, **changes: t.Any) -> dict[str, str]:
    """The variables that serve the shipped recipe with these changes, as a user's own file."""
    recipe = {**yaml.safe_load(RECIPE.read_text(encoding="utf-8")), **changes}
    path = directory / "mine.yml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return {"recipe": str(path)}


def fetched(internet: Internet, spark: Spark) -> list[str]:
    """The files whose content was sent from the beginning, in order."""
    return [
        request["path"].rpartition("/")[2]
        for request in internet.requests()
        if "/resolve/" in request["path"] and request["method"] == "GET"
    ]


def parts(spark: Spark) -> str:
    return spark.exec("find ~spark/.cache/huggingface -name '*.incomplete'").stdout


def test_what_the_hub_does_not_have(internet: Internet, spark: Spark, tmp_path: Path) -> None:
    recipe = own_recipe(tmp_path, draft_model={"id": HEAD, "revision": "v9"})
    text = playbook.fail("serve", variables=recipe).message
    for word in (HEAD, "has no revision 'v9'", f"https://huggingface.co/{HEAD}/commits/main"):
        assert word in text
    assert internet.bytes_to(spark.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") < 100_000


def test_a_hub_that_is_down(internet: Internet) -> None:
    internet.set_faults([{"host": HUB, "action": "status", "status": 503}])
    text = playbook.fail("single_eagle3").message
    assert "https://huggingface.co " in text


def test_a_registry_that_is_down(internet: Internet) -> None:
    internet.set_faults([{"host": "nvcr.io", "action": "down"}])
    text = playbook.fail("single_eagle3").message
    assert "nvcr.io" in text
    assert "network" in text or "run again" in text


def test_a_draft_that_does_not_belong_to_the_target(internet: Internet, spark: Spark, tmp_path: Path) -> None:
    # The Hub limits requests meanwhile.
    limit = {"host": HUB, "path": "/api/*", "action": "status", "status": 429, "retry_after": 20, "times": 1}
    internet.set_faults([limit])
    outcome = playbook.fail("serve", variables=own_recipe(tmp_path, draft_model={"id": STRANGER}))
    assert "continues in 5 s" in outcome.output
    for word in (STRANGER, TARGET, "128256", "201088"):
        assert word in outcome.message
    assert internet.bytes_to(spark.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") < 100_000


def test_a_file_that_the_hub_lists_and_does_not_have(internet: Internet) -> None:
    internet.set_faults([{"host": HUB, "path": f"{FILES}{SHARD}", "action": "missing"}])
    text = playbook.fail("single_eagle3").message
    assert SHARD in text


LIBRARY = "/usr/lib/aarch64-linux-gnu/libEGL_nvidia.so.580.159.04"


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ({"cuda_error": 999}, ["cuInit(0) failed with CUDA error 999", "nvidia-cdi-refresh", "1.19.1"]),
        ({"hook_error": f"{LIBRARY}: no such file or directory"}, [LIBRARY, "nvidia-cdi-refresh", "/etc/cdi"]),
        ({"hook_error": "nvidia-container-cli: unknown option"}, ["unknown option", "nvidia-ctk runtime configure"]),
    ],
    ids=["CUDA does not start", "CDI of another driver", "toolkit"],
)
def test_a_container_that_does_not_reach_the_gpu(spark: Spark, gpu: dict[str, t.Any], words: list[str]) -> None:
    with spark.gpu(**gpu):
        text = playbook.fail("single_eagle3").message
    for word in ["the host sees its GPU", *words]:
        assert word in text
    # What the image greets with.
    assert "NVIDIA Release" not in text


def test_a_checksum_that_is_wrong_costs_that_file_and_no_other(internet: Internet, spark: Spark) -> None:
    internet.set_faults([{"host": "*", "path": f"*{SHARD}*", "action": "corrupt"}])
    text = playbook.fail("single_eagle3").message
    assert SHARD in text
    assert "checksum" in text
    assert parts(spark) == ""


def test_a_file_that_is_another_one_than_the_hub_listed(internet: Internet, spark: Spark) -> None:
    internet.set_faults([{"host": HUB, "path": f"{FILES}{SHARD}", "action": "etag", "etag": "b" * 64}])
    assert (
        f"The Hub has another {SHARD} now than it listed ({'b' * 64} instead of "
        in playbook.fail("single_eagle3").message
    )


def test_a_connection_cut_in_the_middle_costs_what_was_in_flight(internet: Internet, spark: Spark) -> None:
    internet.reset_counters()
    cut = {"host": CDN, "path": "*", "action": "cut", "after_bytes": 300_000}
    odd = [
        {**cut, "times": 2},
        # Links that have expired, servers without ranges, and a file network that fails and limits.
        {"host": CDN, "path": "*", "action": "status", "status": 403, "times": 1},
        {"host": CDN, "path": "*", "action": "no_ranges", "times": 1},
        {"host": CDN, "path": "*", "action": "no_ranges", "refused": True, "times": 1},
        {"host": CDN, "path": "*", "action": "status", "status": 500, "times": 1},
        {"host": CDN, "path": "*", "action": "status", "status": 429, "retry_after": 1, "times": 1},
    ]
    internet.set_faults(odd)
    playbook.succeed("single_eagle3")
    assert [fault["times"] for fault in internet.faults()] == [0] * len(odd)
    assert parts(spark) == ""
    complete = [name for name in fetched(internet, spark) if name.startswith("model-") and name != SHARD]
    assert complete == [], "finished files were fetched again"


def test_a_byte_that_the_disk_has_spoilt_is_found_on_request_and_fetched_again(spark: Spark) -> None:
    file = f"$(readlink -f ~spark/.cache/huggingface/hub/models--openai--gpt-oss-120b/snapshots/*/{SHARD})"
    # A disk does not tell: neither size nor time is another one.
    spoilt = f"printf '???' | dd of={file} bs=1 seek=99 conv=notrunc"
    spoil = f"cp -p {file} /tmp/whole && {spoilt} && touch -r /tmp/whole {file}"
    assert spark.exec(spoil).returncode == 0
    assert playbook.succeed("single_eagle3").changed == []
    outcome = playbook.succeed("single_eagle3", variables={"verify": True})
    assert f"The checksum of {SHARD} of {TARGET} was not the Hub's" in " ".join(outcome.output.split())
    assert spark.exec(f"cmp {file} /tmp/whole && rm /tmp/whole").returncode == 0
    assert playbook.succeed("single_eagle3").changed == []


def test_a_disk_that_fills_up_while_downloading(spark: Spark, internet: Internet, tmp_path: Path) -> None:
    playbook.succeed("cleanup", variables={"models": "all"})
    cache = "/home/spark/.cache/huggingface"
    spark.exec(f"rm -rf {cache} && mkdir -p {cache} && chown spark: /home/spark/.cache {cache}")
    spark.exec(f"mount -t tmpfs -o size=12m,uid=1000,gid=1000,mode=755 tmpfs {cache}")
    internet.set_faults([{"host": "*", "path": "*", "action": "slow", "bytes_per_second": 500_000}])
    small = {"huggingface_cache_reserve_gib": 0, "huggingface_cache_image_bytes": 0}
    try:
        run = playbook.Background(
            tmp_path / "log", "single_eagle3", "-e", yaml.safe_dump(small, default_flow_style=True)
        )
        run.wait_for(lambda: parts(spark) != "")
        spark.exec(f"dd if=/dev/zero of={cache}/filler bs=1M count=9")
        assert run.process.wait(timeout=240) != 0
        output = run.log.read_text(encoding="utf-8")
        assert "No space left" in output or "is full" in output
        assert "Traceback" not in output
        spark.exec(["rm", f"{cache}/filler"])
        internet.clear_faults()
        playbook.succeed("single_eagle3", variables=small)
        assert parts(spark) == ""
        playbook.succeed("cleanup", variables={"models": "all"})
    finally:
        spark.exec(f"umount {cache}")


def test_two_runs_at_once_do_the_work_once(spark: Spark, internet: Internet, tmp_path: Path) -> None:
    internet.set_faults([{"host": HUB, "path": FILES, "action": "slow", "bytes_per_second": 1_500_000}])
    first = playbook.Background(tmp_path / "first", "single_eagle3")
    first.wait_for(lambda: parts(spark) != "")
    second = playbook.succeed("single_eagle3", variables={"wait_minutes": 10})
    assert first.process.wait(timeout=240) == 0, first.log.read_text(encoding="utf-8")
    assert second.changed == []
    shards = [name for name in fetched(internet, spark) if name == SHARD]
    assert len(shards) <= 2, "one request for its size and one for its content, at most"
    assert spark.exec(["docker", "ps", "--quiet"]).stdout.count("\n") == 1
    assert playbook.succeed("single_eagle3").changed == []
