# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the deployment looks like, from the Spark's own point of view."""

from __future__ import annotations

import re

import openai
import pytest
import testinfra.host
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import NOT_COMPARED

from tests import slot
from tests.deployed import DEPLOYMENT, HOME, Deployed
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

MODEL = "gpt-oss-120b"
IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc29"
HEAD_COMMIT = "633caf45f31288cbb70ee237f7c939db707ecc94"


def test_the_spark_has_no_network_card(spark: Spark) -> None:
    """As an up-to-date one without a QSFP cable; all that follows was deployed on it."""
    found = spark.exec("ls -d /sys/bus/pci/devices/*; ls -d /sys/class/net/en* /sys/class/infiniband/* /dev/infiniband")
    assert found.stdout.split() == ["/sys/bus/pci/devices/000f:01:00.0"]


def test_the_container_has_the_flags_of_nvidias_page(deployed: Deployed) -> None:
    facts = deployed.inspect()
    host = facts["HostConfig"]
    assert facts["Config"]["Image"] == IMAGE
    assert host["NetworkMode"] == "host"
    assert host["IpcMode"] == "host"
    assert {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in host["Ulimits"]} == {
        "memlock": (-1, -1),
        "stack": (67108864, 67108864),
        "nofile": (1048576, 1048576),
    }
    assert host["DeviceRequests"][0]["Count"] == -1
    assert host["DeviceRequests"][0]["Capabilities"] == [["gpu"]]


def test_root_in_the_container_reaches_its_files_and_can_do_no_more(spark: Spark) -> None:
    assert slot.capabilities(spark) == slot.FILES


def test_the_container_survives_reboots_and_does_not_fill_the_disk(deployed: Deployed) -> None:
    facts = deployed.inspect()
    assert facts["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
    assert facts["HostConfig"]["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "3", "max-size": "50m"}}
    assert facts["Config"]["StopTimeout"] == 120
    assert not facts["HostConfig"]["AutoRemove"]


def test_only_one_mount_can_be_written_and_none_holds_keys(deployed: Deployed) -> None:
    mounts = {mount["Destination"]: mount for mount in deployed.inspect()["Mounts"]}
    assert {target: mount["RW"] for target, mount in mounts.items()} == {
        "/cache/huggingface/hub": False,
        "/deployment": False,
        "/deployment/state": True,
        "/deployment/trial": False,
        "/deployment/tiktoken_encodings": False,
        "/cache/modules": True,
        "/cache/kernels": True,
    }
    assert mounts["/cache/modules"]["Type"] == "volume"
    # Kernels that were compiled for another image are not found.
    image = deployed.inspect()["Image"].removeprefix("sha256:")
    assert mounts["/cache/kernels"]["Name"] == f"{mounts['/cache/modules']['Name']}-{image[:12]}"
    assert not [mount for mount in mounts.values() if ".ssh" in mount["Source"]]


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (DEPLOYMENT, 0o700),
        (f"{DEPLOYMENT}/record.json", 0o644),
        (f"{DEPLOYMENT}/state/state.json", 0o644),
    ],
)
def test_files_belong_to_the_login_user(host: testinfra.host.Host, path: str, mode: int) -> None:
    file = host.file(path)
    assert (file.user, file.group, file.mode) == ("spark", "spark", mode)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *(("", 0o755), ("options.yml", 0o644), ("serve.sh", 0o644), ("entrypoint.py", 0o644)),
        *(("server", 0o755), ("server/supervisor.py", 0o644)),
    ],
)
def test_what_the_container_has_mounted_is_a_generation(
    host: testinfra.host.Host, spark: Spark, name: str, mode: int
) -> None:
    assert spark.mounted().rpartition("/")[0] == f"{DEPLOYMENT}/generations"
    file = host.file(f"{spark.mounted()}/{name}")
    assert (file.user, file.group, file.mode) == ("spark", "spark", mode)


def test_nothing_on_the_spark_belongs_to_root_that_the_run_made(host: testinfra.host.Host) -> None:
    assert host.check_output("find /home/spark/.cache /home/spark/.local -not -user spark") == ""


def test_the_user_joined_the_group(host: testinfra.host.Host) -> None:
    assert "docker" in host.user("spark").groups


def test_the_server_listens_on_the_loopback_address_only(host: testinfra.host.Host) -> None:
    listening = host.check_output("ss -Hltn 'sport = :8000'").split()
    assert "127.0.0.1:8000" in listening
    assert "0.0.0.0:8000" not in listening


def test_the_options_are_those_of_the_page_and_of_the_plan(deployed: Deployed) -> None:
    options = deployed.options()
    draft = options["speculative_config"].pop("speculative_model")
    assert draft.endswith(f"models--nvidia--gpt-oss-120b-Eagle3-long-context/snapshots/{HEAD_COMMIT}")
    assert options == {
        # From one conversation of the model's whole context, by the plan.
        "max_batch_size": 1,
        "max_seq_len": 131072,
        "enable_chunked_prefill": True,
        "enable_attention_dp": False,
        "disable_overlap_scheduler": False,
        "enable_autotuner": False,
        "cuda_graph_config": {"max_batch_size": 1},
        "kv_cache_config": {
            "free_gpu_memory_fraction": 0.9,
            "enable_block_reuse": False,
            "max_tokens": 131168,
            # The same in bytes, by which this release goes: 2 x (36 layers and 1 of the head) x 8 heads x 64 x 2 bytes.
            "max_gpu_total_bytes": 131168 * 75_776,
        },
        "speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 5},
    }


def test_the_kv_cache_is_as_large_as_planned_though_the_files_were_just_read(deployed: Deployed, spark: Spark) -> None:
    assert deployed.has_the_planned_pool()
    # The collection knows no line that this release logs of it: that is no fault, and is said.
    assert deployed.state()["kv_cache"] == {"tokens": None, "planned": 131168}
    assert NOT_COMPARED in deployed.record()["checks"]
    # What is not held is free again, but for what any machine has in its page cache.
    assert spark.memory("MemFree") > spark.memory() - 7e9


def test_the_record_says_what_was_deployed_and_how_it_did(deployed: Deployed) -> None:
    record = deployed.record()
    assert record["image"]["reference"] == IMAGE
    assert re.fullmatch(r"nvcr\.io/nvidia/tensorrt-llm/release@sha256:[0-9a-f]{64}", record["image"]["digests"][0])
    assert record["models"]["nvidia/gpt-oss-120b-Eagle3-long-context"]["commit"] == HEAD_COMMIT
    assert record["outcome"] == "serving"
    assert "276" in record["answer"]["text"]
    assert record["measurements"]["tokens_per_second"] > 0
    assert record["measurements"]["ttft_s"] > 0
    assert 1.2 < record["measurements"]["acceptance_length"] <= 6
    assert record["memory_available"] > 0


def test_the_use_is_not_reported(deployed: Deployed, spark: Spark) -> None:
    assert "usage data would be sent" not in spark.read_file(f"{DEPLOYMENT}/state/server.log")
    warnings = " ".join(deployed.record()["warnings"])
    assert "No run of TensorRT-LLM 1.3.0rc29 on a DGX Spark is reported" in warnings


def test_docker_says_it_is_healthy_or_starting(deployed: Deployed) -> None:
    assert deployed.inspect()["State"]["Health"]["Status"] in ("healthy", "starting")


def test_the_completions_route_answers_the_openai_client(api: str) -> None:
    client = openai.OpenAI(base_url=api, api_key="none")
    reply = client.completions.create(model=MODEL, prompt="What is 17 + 25?", max_tokens=64, temperature=0)
    assert "42" in reply.choices[0].text
    assert reply.usage is not None
    assert reply.usage.completion_tokens > 0


def test_the_chat_route_streams_to_the_openai_client(api: str) -> None:
    client = openai.OpenAI(base_url=api, api_key="none")
    question: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "What is 17 + 25?"}]
    chunks = client.chat.completions.create(model=MODEL, messages=question, max_tokens=512, temperature=0, stream=True)
    assert "42" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_nothing_else_was_put_on_the_spark(host: testinfra.host.Host) -> None:
    assert sorted(host.file(HOME).listdir()) == ["images", "jobs", "models", "single_eagle3"]
