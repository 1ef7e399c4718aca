# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cache that was filled by pasting: as root, with everything in the repository, with a token beside it."""

from __future__ import annotations

import pytest

from tests import playbook
from tests.twin.control import Internet, Spark
from tests.twin.names import REGISTRY_HOST, RELEASE, RELEASE_REPOSITORY

pytest_plugins = ["tests.scenario"]

IMAGE = f"{REGISTRY_HOST}/{RELEASE_REPOSITORY}:{RELEASE}"
TARGET = "openai/gpt-oss-120b"
CACHE = "/home/spark/.cache/huggingface"
MODEL = f"{CACHE}/hub/models--openai--gpt-oss-120b"


@pytest.fixture(scope="module", autouse=True)
def pasted(spark: Spark) -> None:
    """What the page's commands leave behind: they run as the container's root."""
    spark.exec(["docker", "pull", IMAGE])
    command = [*("docker", "run", "--rm", "--network", "host", "-v", f"{CACHE}:/cache", "-e", "HF_HOME=/cache"), IMAGE]
    done = spark.exec([*command, "hf", "download", TARGET])
    assert done.returncode == 0, done.stderr
    spark.write_file(f"{CACHE}/token", "hf_twin_valid")
    # Of another program's, and none of this collection's business.
    spark.exec(f"mkdir -p {CACHE}/hub/models--somebody--elses {CACHE}/xet")
    spark.exec("printf 'export HF_HOME=/home/spark/elsewhere\\n' >> ~spark/.bashrc")


def owners(spark: Spark, path: str) -> set[str]:
    return set(spark.exec(f"find {path} -printf '%u\\n'").stdout.split())


def test_root_s_files_are_named_and_kept_when_nothing_may_be_taken_over(spark: Spark, internet: Internet) -> None:
    message = playbook.fail("single_eagle3", variables={"huggingface_cache_fix_ownership": False}).message
    assert f"{CACHE}/hub" in message
    assert "belongs to root" in message
    assert "sudo chown" in message
    assert owners(spark, f"{CACHE}/hub") == {"root"}
    assert internet.bytes_to(spark.address, f"{REGISTRY_HOST}/v2/nvidia/tensorrt-llm/release/blobs") < 100_000


def test_without_a_password_one_sentence_says_what_is_needed(spark: Spark) -> None:
    # The first run with a password has put the user into the group.
    message = playbook.fail("single_eagle3", "-e", "ansible_become_password=").message
    assert "-K" in message
    assert owners(spark, f"{CACHE}/hub") == {"root"}


def test_what_is_there_is_taken_over_stated_and_used(spark: Spark, internet: Internet) -> None:
    outcome = playbook.succeed("single_eagle3")
    fetched = [one["path"] for one in internet.requests("huggingface.co") if "/resolve/" in one["path"]]
    assert [path for path in fetched if TARGET in path and path.endswith(".safetensors")] == []
    for words in (
        f"{MODEL}",
        "metal/ and original/",
        "cleanup.yml -e unused=true",
        "token",
        "HF_HOME",
        "/home/spark/elsewhere",
    ):
        assert words in " ".join(outcome.output.split()), words
    assert owners(spark, MODEL) == {"spark"}
    assert owners(spark, f"{CACHE}/hub/models--somebody--elses") == {"root"}
    assert owners(spark, f"{CACHE}/xet") == {"root"}
    assert owners(spark, f"{CACHE}/token") == {"root"}


def test_the_token_beside_the_cache_is_not_mounted(spark: Spark) -> None:
    listed = spark.exec(
        ["docker", "exec", "dgx-spark-speculative", "find", "/cache", "-name", "*token", "-o", "-name", "stored_tokens"]
    )
    assert listed.stdout == ""
    assert (
        "models--openai--gpt-oss-120b"
        in spark.exec(["docker", "exec", "dgx-spark-speculative", "ls", "/cache/huggingface/hub"]).stdout
    )


def test_the_unserved_files_go_with_the_command_that_was_named(spark: Spark) -> None:
    assert spark.exec(f"ls {MODEL}/snapshots/*/original").returncode == 0
    before = int(spark.exec(f"du -sb {MODEL}").stdout.split()[0])
    playbook.succeed("cleanup", variables={"unused": True})
    assert spark.exec(f"ls {MODEL}/snapshots/*/original").returncode != 0
    assert int(spark.exec(f"du -sb {MODEL}").stdout.split()[0]) < before - 10_000_000
    assert playbook.succeed("single_eagle3").changed == []


def test_the_directory_of_the_login_shell_is_used_on_request(spark: Spark) -> None:
    playbook.succeed("single_eagle3", variables={"huggingface_cache_from_environment": True})
    mounts = spark.exec(["docker", "inspect", "--format", "{{json .Mounts}}", "dgx-spark-speculative"]).stdout
    assert "/home/spark/elsewhere/hub" in mounts
    assert "models--openai--gpt-oss-120b" in spark.exec(["ls", "/home/spark/elsewhere/hub"]).stdout
    playbook.succeed("single_eagle3")


def test_who_holds_memory_and_port_is_named_with_the_command(spark: Spark) -> None:
    playbook.succeed("stop")
    with spark.stranger(IMAGE, 71_000_000_000, port=8000):
        port = playbook.fail("single_eagle3").message
        full = playbook.fail("single_eagle3", variables={"speculative_serve_port": 8003}).message
        shown = playbook.succeed("diagnose").output
    assert "port 8000 on 127.0.0.1 is in use" in port
    for message in (port, full):
        assert "docker stop vllm" in message
        assert "71 GB" in message
    assert "more than is available" in full
    assert "vllm" in shown
    playbook.succeed("start")
