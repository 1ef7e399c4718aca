# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.filter.failure_message import failure_message

LOOP = {
    "failed": True,
    "msg": "One or more items failed",
    "results": [
        {"skipped": True},
        {"failed": False, "msg": "fine"},
        {"failed": True, "msg": "spark-1: the port is taken."},
    ],
}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"failed": True, "msg": "spark-1: no."}, "spark-1: no."),
        (LOOP, "spark-1: the port is taken."),
        ({"failed": True, "msg": "All of it.", "results": [{"failed": True}]}, "All of it."),
        ({"failed": True, "msg": "", "results": []}, "The task failed without a word."),
        ({"failed": True}, "The task failed without a word."),
    ],
)
def test_why_a_task_failed(result: dict[str, t.Any], message: str) -> None:
    assert failure_message(result) == message


def test_the_host_is_left_out_in_front_only() -> None:
    assert failure_message({"msg": "spark.1: ask spark.1: it knows."}, "spark.1") == "ask spark.1: it knows."
    assert failure_message({"msg": "sparkx1: no."}, "spark.1") == "sparkx1: no."


STARTING = (
    "Error starting container 0123: 500 Server Error for http+docker://localhost/v1.51/containers/0123/start: "
    'Internal Server Error ("failed to create task for container: failed to create shim task: OCI runtime create failed'
    ": runc create failed: unable to start container process: error during container init: {}"
)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        # Tdarr issue 1423.
        (
            STARTING.format("/usr/lib/aarch64-linux-gnu/libEGL_nvidia.so.580.159.04: no such file or directory"),
            "systemctl restart nvidia-cdi-refresh",
        ),
        # NVIDIA/nvidia-settings issue 124.
        (
            STARTING.format(
                "failed to fulfil mount request: open /usr/lib/libnvidia-gtk3.so.610.43.03: no such file or directory"
            ),
            "systemctl restart nvidia-cdi-refresh",
        ),
        # NVIDIA/nvidia-container-toolkit issue 1239, as Docker words it.
        ('Error response ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all")', "/etc/cdi"),
        ('could not select device driver "nvidia" with capabilities: [[gpu]]', "nvidia-ctk runtime configure"),
        (STARTING.format('exec /usr/bin/python3: exec format error")'), "Correct engine_container_image"),
        ("exec /opt/nvidia/nvidia_entrypoint.sh: exec format error", "Correct engine_container_image"),
        ("== TensorRT-LLM ==\n\ncuInit(0) failed with CUDA error 999\n", "than 1.19.1 and 1.20.0"),
        ("cuInit(0) gave no answer within 60 s", "reboot"),
        ("CUDA cannot be loaded: libcuda.so.1: cannot open shared object file", "apt-get install nvidia-container"),
        (STARTING.format("nvidia-container-cli: initialization error: nvml error: driver not loaded"), "Reboot"),
        ("something else", "nvidia-ctk runtime configure"),
    ],
)
def test_why_a_container_does_not_reach_the_gpu(said: str, remedy: str) -> None:
    text = failure_message({"msg": said}, "spark-1", "gpu")
    assert text.startswith(" ".join(said.split())[:40])
    assert remedy in text.partition(" ".join(said.split())[-20:].rstrip("."))[2]
    assert "\n" not in text


BANNER = "\n==================\n== TensorRT LLM ==\n==================\n\nNVIDIA Release 1.3.0rc12 (build 1)\n"


def test_a_banner_is_no_reason() -> None:
    answer = '{"problem": "cuInit(0) failed with CUDA error 999", "free": null}'
    text = failure_message({"msg": f"{BANNER}\ndgx-spark-speculative-gpu:{answer}\nbye\n"}, "spark-1", "gpu")
    assert text.startswith("cuInit(0) failed with CUDA error 999. Containers get the GPU, but CUDA cannot")
    assert "NVIDIA Release" not in text
    assert "bye" not in text


def test_what_is_no_result() -> None:
    with pytest.raises(AnsibleFilterError, match="needs the result of a task"):
        failure_message("no")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"failed": True, "refused": True, "msg": "spark-1: no way."}, "no way."),
        ({"failed": True, "table": [], "msg": "no way."}, "no way."),
        (
            {"failed": True, "msg": "Task failed: sudo: a password is required."},
            "configuring the network needs sudo, and that failed (sudo: a password is required.). Run again with -K "
            "and give the sudo password, or set up the addresses by hand and set spark_network_mode to adopt.",
        ),
    ],
)
def test_why_the_network_was_not_changed(result: dict[str, t.Any], said: str) -> None:
    assert failure_message(result, "spark-1", "network") == said
