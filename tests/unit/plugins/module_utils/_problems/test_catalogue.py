# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.problem import INFORMATION, KnownProblem
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.cluster_view import (
    OPEN,
    REFUSED,
    SILENT,
    ClusterView,
    Link,
    Rail,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.nccl import Network
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.diagnosis import diagnose
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.evidence import Evidence, KernelLine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.facts import FACTS
from ansible_collections.dgx_spark.speculative.plugins.module_utils._problems.catalogue import CATALOGUE
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.deployment_facts import Disk
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.log import reason, remarks
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.server_facts import ServerFacts

from tests.unit import vllm_lines

HEAD = ClusterView(
    0,
    (
        Rail("enp1s0f1np1", "10.0.0.1", "10.0.0.2", "10.0.0.0/24", 9000, 200_000),
        Rail("enP2p1s0f1np1", "10.0.1.1", "10.0.1.2", "10.0.1.0/24", 9000, 200_000),
    ),
    nodes=("spark-1", "spark-2"),
)
WORKER = dataclasses.replace(HEAD, rank=1)
LINK = Link(True, True, 9000, 200_000)
GB = 10**9
NOW = 1_800_000_000.0
STARTED = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOW - 3600)) + ".5Z"
SLOT = "dgx-spark-speculative"


CARD_LATE = 'error gathering device information while adding custom device "/dev/infiniband": not a device node'


def slot(status: str = "running", **state: t.Any) -> dict[str, t.Any]:
    return {
        "Id": "1",
        "State": {"Status": status, "StartedAt": STARTED, **state},
        "Config": {"Labels": {"dgx_spark.speculative.deployment": "mine"}, "Env": ["PATH=/usr/bin"]},
        "HostConfig": {"IpcMode": "host"},
        "Mounts": [{"Destination": "/cache/huggingface/hub"}],
    }


def said(state: str, **values: t.Any) -> dict[str, t.Any]:
    return {"state": state, "since": NOW - 3000, "restarts": 0, "last_exit": None, **values}


def ended(code: int | None = 1, signal: int | None = None, reason: str = "") -> dict[str, t.Any]:
    return said("failed", restarts=3, last_exit={"code": code, "signal": signal, "at": NOW - 60, "reason": reason})


def serving(**changes: t.Any) -> Evidence:
    """A Spark on which all is well."""
    values: dict[str, t.Any] = {
        "docker": "usable",
        "gpu_by": "hook",
        "slot": slot(),
        "state": said("running"),
        "look": ServerFacts("ready"),
        "memory": {"MemTotal": 120 * GB, "MemAvailable": 40 * GB, "MemFree": 30 * GB, "Cached": 10 * GB},
        "disks": [Disk("the models", "/home", 500 * GB, 1000 * GB)],
        "name_servers": ["10.0.0.1"],
        "default_route": True,
        "now": NOW,
        "boot_time": NOW - 90_000,
        "recorded": ("mine",),
        "record": {"served_model": "m", "findings": [], "image": {"id": "sha256:1", "digests": ["x@sha256:2"]}},
        "served": ["m"],
    }
    return Evidence(**{**values, **changes})


SOCKETS = Network("Socket", False, ["enp1s0f1np1"], [], "no active RDMA device matches", "look")


def paired(**changes: t.Any) -> Evidence:
    """The head of two Sparks on which all is well."""
    container = slot()
    container["Config"]["Env"] = ["NCCL_SOCKET_IFNAME=enp1s0f1np1,enP2p1s0f1np1", "NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1"]
    container["HostConfig"]["Devices"] = [{"PathOnHost": "/dev/infiniband"}]
    container["HostConfig"]["Ulimits"] = [{"Name": "memlock", "Hard": -1, "Soft": -1}]
    pair = {"slot": container, "cluster": HEAD, "links": [LINK, LINK], "peer_answers": OPEN}
    return serving(**{**pair, **changes})


def worker(state: str, since: float = 60, reason: str = "", **changes: t.Any) -> Evidence:
    told = said(state, since=NOW - since, reason=reason)
    return paired(**{"cluster": WORKER, "state": told, "look": None, **changes})


def unpaired(name: str, value: t.Any) -> Evidence:
    """A container of a pair that lacks something."""
    evidence = paired()
    assert evidence.slot
    evidence.slot["Config" if name == "Env" else "HostConfig"][name] = value
    return evidence


def link(**changes: t.Any) -> Evidence:
    return paired(links=[LINK, dataclasses.replace(LINK, **changes)], state=said("loading"), look=None)


def broken(**changes: t.Any) -> Evidence:
    return serving(**{"state": ended(), "look": None, **changes})


def message(text: str) -> Evidence:
    return serving(failure=text, slot=None, state=None, look=None)


def job(name: str = "fetch", **values: t.Any) -> Evidence:
    entry = {"finished": True, "running": False, "error": None, "ended": NOW - 5, "progress": {}, **values}
    return serving(jobs={name: entry}, slot=None, state=None, look=None, recorded=())


def kernel(text: str) -> Evidence:
    return broken(kernel=[KernelLine(NOW - 30, text)], server_log="x")


def port(container: str | None) -> dict[str, t.Any]:
    return {"in_use": True, "port": 8000, "container": container, "holder": "process nginx (7)", "description": None}


def other(size: int) -> list[dict[str, t.Any]]:
    return [{"name": "vllm", "memory_bytes": size, "description": "vllm holds 71 GB; stop it with: docker stop vllm"}]


def finding(name: str) -> dict[str, t.Any]:
    return {"findings": [{"id": name, "message": "It is so."}]}


TRIAL = {"id": "draft-3", "title": "draft length 3"}
SERVER_ERROR = "Pulling x failed: failed open: unexpected status code https://nvcr.io/v2/x: 503 Service Unavailable."
NO_NETWORK = "Pulling x failed because nvcr.io could not be reached well enough (dial tcp: no such host); run it again."
CUDA = "CUDA out of memory\n[entrypoint] the server ended with exit code 1\n"
FULL = [Disk("images", "/var/lib/docker", 4096, 100 * GB)]
IDENTITY = "0123456789abcdef" * 4
# As log_notice() has them in src/oom/oomd-manager.c of systemd 255.
OOMD_SWAP = (
    f"Killed /system.slice/docker-{IDENTITY}.scope due to memory used (126111002624) / total (128521625600) and "
    "swap used (15461882265) / total (17179869184) being more than 90.00%"
)
OOMD_PRESSURE = (
    f"Killed /system.slice/docker-{IDENTITY}.scope due to memory pressure for /system.slice being 74.12% > 50.00% "
    "for > 20s with reclaim activity"
)


def ended_slot(status: str = "exited") -> dict[str, t.Any]:
    """A container that was killed a minute ago, as Docker has it: no word of memory."""
    finished = time.strftime("%Y-%m-%dT%H:%M:%S.1Z", time.gmtime(NOW - 60))
    return {**slot(status, ExitCode=137, OOMKilled=False, FinishedAt=finished), "Id": IDENTITY}


GUARDED = {"code": None, "signal": 9, "at": NOW, "by": "memory guard", "reason": "memory fell from 29.0 GiB to 8.4 GiB"}
# As the memory guard writes it: 29 GiB for 5 s, and then 2.9 a second.
FALL: dict[int, dict[str, t.Any]] = {
    -99: {"event": "loading", "available": 100 * 2**30, "takes": 88 * 2**30, "floor": 4 * 2**30},
    **{second: {"available": int((29 - max(0, second - 5) * 2.95) * 2**30)} for second in range(1, 15)},
}
FELL = "".join(json.dumps({"at": NOW - 120 + second, **values}) + "\n" for second, values in FALL.items())


# Each row of the catalogue, provoked.
DIFFERENT: dict[str, t.Any] = {
    "at": NOW,
    "ranks": [],
    "differences": [
        {"what": "gpu", "message": "they differ", "severity": "warning"},
        {"what": "NCCL_IB_HCA", "message": "rank 1 does not have it", "severity": "error"},
    ],
}
BY_TCP: dict[str, t.Any] = {
    "at": NOW,
    "ranks": [],
    "differences": [
        {
            "what": "transport",
            "message": "rank 0 on spark-1 uses TCP instead of RDMA, as NCCL_IB_DISABLE=1 says",
            "severity": "warning",
        }
    ],
}
PROVOKED: list[tuple[str, Evidence]] = [
    ("docker_denied", serving(docker="denied", docker_detail="may not open", slot=None, state=None, look=None)),
    ("docker_denied", message("permission denied while trying to connect to the Docker daemon socket")),
    ("docker_not_installed", serving(docker="not_installed", slot=None, state=None, look=None)),
    ("docker_not_running", serving(docker="not_running", slot=None, state=None, look=None)),
    ("docker_not_running", message("Cannot connect to the Docker daemon at unix:///var/run/docker.sock")),
    ("docker_unsupported", serving(docker="unsupported", docker_detail="podman", slot=None, state=None, look=None)),
    ("gpu_driver", broken(gpu_error="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver")),
    ("docker_no_gpu", broken(gpu_by=None)),
    ("docker_no_gpu", message('could not select device driver "" with capabilities: [[gpu]]')),
    ("docker_no_gpu", message("nvidia-container-cli: initialization error: nvml error")),
    ("docker_no_gpu", message("CUDA cannot be loaded: libcuda.so.1: cannot open shared object file")),
    # Docker 29.2; runc and crun, which differ in their words.
    ("cdi_stale", message("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all")),
    (
        "cdi_stale",
        message("failed to fulfil mount request: open /usr/lib/libnvidia-gtk3.so.610.43.03: no such file or"),
    ),
    ("cdi_stale", message("crun: cannot stat `/lib64/libEGL_nvidia.so.550.54.14`: No such file or directory".lower())),
    ("cuda_broken", message("cuInit(0) failed with CUDA error 999")),
    ("clock_wrong", serving(now=1000.0, look=None)),
    ("no_default_route", serving(failure=NO_NETWORK, default_route=False)),
    ("no_name_server", serving(failure=NO_NETWORK, name_servers=[])),
    ("disk_full", broken(disks=FULL)),
    ("disk_full", message("Pulling x failed because the disk is full (no space left on device)")),
    ("disk_full", job(error="The disk under /home is full: 3 GB are still to be downloaded")),
    ("memory_froze", serving(slot=slot("exited", ExitCode=255), boot_time=NOW - 60, look=None, memory_log=FELL)),
    ("memory_froze", broken(boot_time=NOW - 60, memory_before=FELL)),
    ("memory_guarded", broken(state={**ended(None, 9), "last_exit": GUARDED})),
    ("memory_guarded", worker("failed", reason="the memory guard has ended the rank: memory fell")),
    ("oom_killed", kernel("Out of memory: Killed process 4711 (trtllm-serve) total-vm:1kB")),
    ("kernel_no_memory", kernel("NVRM: nvAssertFailed: NV_ERR_NO_MEMORY (0x51)")),
    ("gpu_lost", kernel("NVRM: GPU has fallen off the bus.")),
    ("gpu_xid", kernel("NVRM: Xid (PCI:000f:01:00): 119, pid=1, Timeout waiting for RPC")),
    ("kernel_hang", kernel("INFO: task trtllm-serve:99 blocked for more than 122 seconds.")),
    ("disk_error", kernel("I/O error, dev nvme0n1, sector 5")),
    ("overheated", kernel("thermal thermal_zone0: critical temperature reached, shutting down")),
    ("port_taken", broken(port=port(None), server_log="Failed to bind socket to 127.0.0.1:8000")),
    ("port_taken", message("Bind for 127.0.0.1:8000 failed: port is already allocated")),
    ("mount_missing", message('invalid mount config for type "bind": bind source path does not exist: /x')),
    ("entrypoint_broken", broken(slot=slot("created", Error='exec: "python3": executable file not found in $PATH'))),
    (
        "container_not_created",
        broken(slot=slot("created", Error="OCI runtime create failed: read init-p: connection reset by peer: unknown")),
    ),
    ("image_architecture", job("pull", error="The image x is not offered for this machine's architecture (y).")),
    ("image_architecture", broken(docker_log="exec /opt/nvidia/entrypoint.sh: exec format error\n")),
    ("serve_script_stale", broken(state=ended(None, reason="serve.sh cannot be read (no such file)"))),
    ("certificate_refused", job("pull", error="Pulling x failed: tls: x509: certificate signed by unknown authority")),
    ("pull_denied", job("pull", error="The registry does not hand out x (unauthorized); check the name")),
    ("pull_unknown", job("pull", error="There is no image x (manifest unknown); check the name and the tag.")),
    (
        "pull_too_many",
        job("pull", error="The registry refuses x for now because of too many requests (toomanyrequests)"),
    ),
    ("pull_network", job("pull", error=NO_NETWORK)),
    ("pull_server", job("pull", error=SERVER_ERROR)),
    ("fetch_gated", job(error="The model x is gated and no token was found: accept its licence on https://y")),
    ("fetch_token", job(error="The Hub https://y refuses the token as invalid (asked for x): it is mistyped")),
    ("fetch_gone", job(error="The Hub's model x lacks y of its revision '0123': compare it with https://y")),
    ("fetch_checksum", job(error="The checksum of a of x is not the Hub's, though it was fetched again")),
    ("hub_limited", job(error="The Hub https://y limits the requests of this network, so that x does not get on for")),
    ("hub_network", job(error="Downloading x from https://y failed 5 times in a row (reset): check the network")),
    ("cache_foreign", broken(foreign_cache="/home/me/.cache/huggingface/hub belongs to root")),
    ("cache_foreign", job(error="The Hugging Face cache x cannot be written (Permission denied: y): give it back")),
    ("job_cut_off", job(finished=False, progress={"text": "3 of 60 GB"})),
    (
        "loading_stalled_at_0",
        serving(
            look=None,
            state=said("loading"),
            server_log="Loading weights concurrently:   0%|    | 0/1288 [00:00<?, ?it/s]",
        ),
    ),
    (
        "all_reduce_hangs",
        paired(look=None, state=said("loading"), server_log="[TensorRT-LLM][INFO] TP group MNNVL: finalMNNVL=0\n"),
    ),
    ("engine_hangs", serving(state=said("running", verdict="stalled", reason="no token for 300 s"), look=None)),
    ("engine_hangs", serving(look=ServerFacts("unhealthy", "The answer stopped; the engine hangs"))),
    ("memory_held_by_others", broken(containers=other(71 * GB), server_log=CUDA)),
    (
        "memory_not_given_back",
        broken(slot=slot("exited", ExitCode=1), memory={"MemTotal": 120 * GB, "MemAvailable": GB}, server_log=CUDA),
    ),
    ("page_cache", broken(memory={"MemTotal": 120 * GB, "MemFree": GB, "Cached": 90 * GB}, server_log=CUDA)),
    ("oom_container", broken(slot=slot("exited", OOMKilled=True, ExitCode=137))),
    ("oomd_killed", broken(oomd=[KernelLine(NOW - 59, OOMD_SWAP)], slot=ended_slot())),
    ("oomd_killed", broken(oomd=[KernelLine(NOW - 59, OOMD_PRESSURE)], slot=ended_slot(), state=ended(None, 9))),
    # Docker has started it again.
    ("oomd_killed", broken(oomd=[KernelLine(NOW - 59, OOMD_SWAP)], slot=ended_slot("running"), state=said("loading"))),
    ("slept", kernel("PM: suspend entry (s2idle)")),
    ("may_sleep", broken(may_sleep="GDM is its login screen, and sleep.target is not masked")),
    ("machine_restarted", serving(slot=slot("exited", ExitCode=255), boot_time=NOW - 60, look=None)),
    ("exit_killed", broken(state=ended(None, 9))),
    ("exit_native", broken(state=ended(None, 11))),
    ("exit_usage", broken(state=ended(2))),
    ("container_exited", serving(slot=slot("exited", ExitCode=255), look=None)),
    ("container_missing", serving(slot=None, state=None, look=None)),
    ("state_contradicts", serving(state=said("stopped"), look=None)),
    ("crash_loop", broken(server_log="KeyError: 'x'\n")),
    ("server_refuses", serving(look=ServerFacts("unhealthy", "The server refused the question with status 400: x"))),
    ("server_silent", serving(look=ServerFacts("dead", "nothing listens"))),
    ("forced_acceptance", serving(files={"serve.sh": "export TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=3"})),
    ("endless_text", serving(record=finding("repetition"))),
    ("gibberish", serving(look=ServerFacts("ready", findings=({"id": "garbage", "message": "It is garbled."},)))),
    ("tool_calls_missing", serving(record=finding("no_tool_call"))),
    ("drafts_useless", serving(record={"measurements": {"acceptance_length": 1.4}, "break_even": {"best": 2.6}})),
    ("served_name_differs", serving(served=["other"])),
    ("cache_not_mounted", serving(slot={**slot(), "Mounts": []})),
    ("shared_memory_large", serving(slot={**slot(), "HostConfig": {"IpcMode": "private", "ShmSize": 64 * GB}})),
    (
        "shared_memory_full",
        serving(
            slot={**slot(), "HostConfig": {"IpcMode": "host"}},
            shared_memory=Disk("shared memory", "/dev/shm", 4096, 60 * GB),
        ),
    ),
    ("kernel_version", serving(kernel_release="7.0.0-1019-nvidia")),
    ("disk_nearly_full", serving(disks=[Disk("images", "/", 2 * GB, 100 * GB)])),
    ("trial", serving(state=said("running", trial=TRIAL), look=ServerFacts("trial"))),
    ("trial", serving(state=said("trial failed", trial=TRIAL, reason="too long"), look=None, server_log=CUDA)),
    ("still_loading", serving(state=said("loading"), look=None)),
    ("busy", serving(look=ServerFacts("busy", "No token came within 20 s"))),
    ("stopped", serving(slot=slot("exited", ExitCode=0), state=said("stopped"), look=None)),
    (
        "stopped",
        serving(
            slot={
                **slot("exited", ExitCode=128, Error=CARD_LATE),
                "HostConfig": {"RestartPolicy": {"Name": "no"}},
            },
            look=None,
        ),
    ),
    ("download_under_way", job(finished=False, running=True, progress={"text": "3 of 60 GB"})),
    ("earlier_attempt", serving(failed_log="KeyError: 1", failed_log_at=NOW, failed_log_path=Path("x/failed.log"))),
    ("image_without_digest", serving(record={"image": {"id": "sha256:1", "digests": []}})),
    ("module_hot", kernel("mlx5_core 0000:01:00.1: Port module event[error]: module 1, Cable error, High Temperature")),
    ("cable_error", kernel("Port module event[error]: module 1, Cable error, Bad or shorted cable/module")),
    ("cable_out", kernel("mlx5_core 0000:01:00.1: Port module event: module 1, Cable unplugged")),
    ("card_removed", kernel("cx7-pcie-hotplug MTKP0001:00: Cable removal")),
    ("card_removed", paired(links=[Link(up=False)] * 2, hotplug={"armed": True, "powered": True})),
    ("card_late", paired(slot=slot("exited", ExitCode=128, Error=CARD_LATE), state=said("running"), look=None)),
    ("card_lost", kernel("mlx5_core 0000:01:00.0: mlx5_pci_err_detected was called")),
    (
        "card_plugged_in",
        kernel("mlx5_core 0000:01:00.0: mlx5_pcie_event:322: PCIe slot power capability was not advertised."),
    ),
    ("link_down", link(up=False)),
    ("fabric_address_gone", link(address_here=False)),
    ("fabric_mtu", link(mtu=1500)),
    ("fabric_slower", link(speed_mbps=100_000)),
    ("twins_in_one_network", paired(cluster=dataclasses.replace(HEAD, rails=(HEAD.rails[0], HEAD.rails[0])))),
    ("peer_unreachable", paired(peer_answers=SILENT, state=said("loading"), look=None)),
    ("worker_port_closed", paired(peer_answers=REFUSED, state=said("loading"), look=None)),
    ("peer_lost", paired(state=said("running", verdict="peer lost", reason="no answer from 10.0.0.2"), look=None)),
    ("waits_for_other", paired(state=said("waiting for the worker", since=NOW - 60), look=None)),
    ("waits_for_other", worker("ready")),
    ("waits_for_other", worker("waiting for the fabric")),
    ("worker_missing", paired(state=said("waiting for the worker"), look=None)),
    ("worker_missing", paired(state=said("starting", verdict="waiting for the worker"), look=None)),
    ("fabric_missing", worker("waiting for the fabric", 3000)),
    ("head_missing", worker("ready", 3000)),
    ("worker_failed", worker("failed", reason="sshd ended with exit code 255: all was quiet")),
    (
        "worker_port_taken",
        worker("failed", reason="port 2233 of 10.0.0.2 is taken by another program of this Spark; 'ss'"),
    ),
    ("image_without_sshd", worker("failed", reason="there is no sshd in this image; run the playbook again")),
    ("ranks_silent", paired(state=said("loading"), look=None, server_log="mpi_rank: 0\n")),
    ("ranks_differ", paired(state=ended(3), look=None, ranks=DIFFERENT)),
    ("ranks_unequal", paired(ranks={**DIFFERENT, "differences": [{"message": "memory", "severity": "warning"}]})),
    ("ranks_not_started", paired(state=ended(4), look=None, ranks={"ranks": [], "problem": "the keys are missing"})),
    ("ranks_on_one_host", paired(state=ended(3), look=None, ranks={"ranks": [{"host": "a"}, {"host": "a"}]})),
    ("rank_on_one_core", paired(ranks={"ranks": [{"rank": 0, "host": "a", "cores": 1}]})),
    ("infiniband_not_passed", unpaired("Devices", [])),
    ("pair_by_tcp", paired(ranks=BY_TCP)),
    ("pair_by_tcp", paired(network=SOCKETS)),
    ("pair_by_tcp", worker("rank_runs", network=SOCKETS)),
    ("rdma_partly", paired(network=Network("IB", True, ["rocep1s0f1"], ["roceP2p1s0f1"]))),
    ("link_capped", paired(measured=[{"interface": "a", "gbps": 13.2, "finding": "a carried 13.2 Gb/s. Reboot."}])),
    ("memory_lock_limited", unpaired("Ulimits", [{"Name": "memlock", "Hard": 65536}])),
    ("memory_lock_limited", unpaired("Ulimits", None)),
    ("fabric_not_pinned", unpaired("Env", ["NCCL_SOCKET_IFNAME=enp1s0f1np1", "NCCL_IB_HCA=rocep1s0f1"])),
    ("fabric_not_pinned", unpaired("Env", [])),
]

# A server's log, from its start to its end.
STAMP = "[11/20/2025-16:31:05] [TRT-LLM] [E] "
START = "[TensorRT-LLM] TensorRT LLM version: 1.3.0rc12\n"
END = "\n[entrypoint] the server ended with exit code 1\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "llm.py", line 9, in __init__\n'

# What mpirun and NCCL say after the cause.
LOST = (
    "\n--------------------------------------------------------------------------\n"
    "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[17757,0],0] on node a\n"
    "  Remote daemon: [[17757,0],1] on node 10.0.0.2\n"
)
NCCL_FAILED = "\nRuntimeError: Failed, NCCL error /src/ncclUtils.h:42 'unhandled system error'"

# A realistic log for every row: what it says, and the row that has to know it.
CAUSES = [
    ("Usage: trtllm-serve serve [OPTIONS] MODEL\nError: No such option: --config", "cli_option_unknown"),
    (
        f"{STAMP}Failed to parse the arguments for the LLM constructor: 1 validation error for TorchLlmArgs\n"
        "speculative_config.Eagle3.max_draft_length\n"
        "  Extra inputs are not permitted [type=extra_forbidden, input_value=5, input_type=int]",
        "engine_option_unknown",
    ),
    (
        TRACEBACK + 'ValueError: "EagleDecodingConfig" object has no field "speculative_model"',
        "eagle_option_unknown",
    ),
    (TRACEBACK + "ValueError: Invalid decoding type: Eagle3", "decoding_type_wrong_1_2"),
    (
        "speculative_config\n  Input tag 'Eagle4' found using 'decoding_type' does not match any of the expected tags: "
        "'Eagle3', 'Draft_Target' [type=union_tag_invalid, input_value={'decoding_type': 'Eagle4'}, input_type=dict]",
        "decoding_type_wrong_1_3",
    ),
    (TRACEBACK + "ValueError: Path to EAGLE3 weights must be specified.", "draft_model_missing"),
    (TRACEBACK + "ValueError: Draft model must be provided for EAGLE", "draft_model_missing"),
    (TRACEBACK + "ValueError: speculative_model must be specified for DraftTarget", "draft_model_missing"),
    (TRACEBACK + "ValueError: Path to draft model must be specified.", "draft_model_missing"),
    (TRACEBACK + "ValueError: Speculation type Medusa does not support backend pytorch", "backend_unsupported"),
    (
        TRACEBACK + "ValueError: max_concurrency and draft_len_schedule are mutually exclusive",
        "concurrency_and_schedule",
    ),
    (
        TRACEBACK
        + "ValueError: Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size.",
        "cuda_graph_batch_sizes",
    ),
    (
        "max_batch_size\n  Input should be a valid integer [type=int_type, input_value='x', input_type=str]",
        "engine_option_value",
    ),
    (TRACEBACK + "RuntimeError: Failed to bind socket to 127.0.0.1:8000", "port_in_use"),
    (
        "Executor creation failed due to insufficient GPU memory.\n\n"
        "The following component could not be created: KV cache\nOriginal error: CUDA out of memory.",
        "memory_executor",
    ),
    (TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB.", "memory_cuda"),
    (f"{STAMP}Executor creation failed with NCCL error: unhandled system error", "nccl"),
    ("RuntimeError: Failed, NCCL error /src/ncclUtils.h:42 'unhandled cuda error'", "nccl"),
    ("ncclUnhandledCudaError: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "nccl"),
    (TRACEBACK + "RuntimeError: Only 1 GPUs are available, but 2 are required.", "gpus_too_few"),
    (TRACEBACK + "RuntimeError: No GPU devices found on the node", "gpu_absent"),
    (
        "[TensorRT-LLM][ERROR] No available XQA kernels are found for speculative decoding mode",
        "xqa_kernels",
    ),
    (TRACEBACK + "AssertionError: return_log_probs not implemented for MTPSampler", "logprobs_asked"),
    (TRACEBACK + "AssertionError: return_context_logits not implemented for speculative sampler", "logprobs_asked"),
    (TRACEBACK + "RuntimeError: CUDA error: an illegal instruction was encountered", "illegal_instruction"),
    (TRACEBACK + "RuntimeError: CUDA error: an illegal memory access was encountered", "illegal_memory_access"),
    (
        "huggingface_hub.errors.GatedRepoError: 403 Client Error.\n\nCannot access gated repo for url https://x",
        "hub_gated",
    ),
    ("Repository Not Found for url: https://x.\nInvalid username or password.", "hub_token"),
    ("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://x", "hub_token"),
    (f"{STAMP}Error in harmony chat completion: HarmonyError", "tiktoken_encodings_absent"),
    (
        "openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download or load vocab file",
        "tiktoken_encodings_absent",
    ),
    (
        TRACEBACK + "FileNotFoundError: [Errno 2] No such file or directory: '/deployment/options.yml'",
        "file_missing",
    ),
    ("NCCL WARN Call to connect failed: Socket operation on non-socket", "interface_wrong"),
    ("root@10.0.0.2: Permission denied (publickey,password).", "ssh_publickey"),
    (f"ssh: connect to host 10.0.0.2 port 2233: Connection refused{LOST}", "ssh_refused"),
    (f"ssh: connect to host 10.0.0.2 port 2233: No route to host{LOST}", "ssh_unreachable"),
    (f"ssh: connect to host 10.0.0.2 port 2233: Connection timed out{LOST}", "ssh_unreachable"),
    (f"Connection timed out during banner exchange{LOST}", "ssh_banner"),
    (
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed." + LOST,
        "ssh_host_key",
    ),
    (f"No ED25519 host key is known for [10.0.0.2]:2233 and you have requested strict checking.{LOST}", "ssh_host_key"),
    (
        'Load key "/cluster/id_ed25519": bad permissions\nroot@10.0.0.2: Permission denied (publickey).' + LOST,
        "ssh_key_unreadable",
    ),
    ("Authentication refused: bad ownership or modes for directory /run/cluster", "ssh_key_unreadable"),
    ("error: Bind to port 2233 on 10.0.0.2 failed: Address already in use.", "sshd_port_taken"),
    ("error: Bind to port 2233 on 10.0.0.2 failed: Cannot assign requested address.", "sshd_no_address"),
    ("There are not enough slots available in the system to satisfy the 2 slots", "mpi_slots"),
    ("ORTE was unable to reliably start one or more daemons.", "mpi_daemons"),
    ("PRTE was unable to reliably start one or more daemons.", "mpi_daemons"),
    (
        "WARNING: An invalid value was given for btl_tcp_if_include. This\nvalue will be ignored.\n\n  Local host: a\n"
        "  Value:      192.168.9.0/24\n  Message:    Did not find interface matching this subnet",
        "mpi_interface",
    ),
    (
        "None of the TCP networks specified to be included for out-of-band communications\ncould be found:",
        "mpi_interface",
    ),
    (f"bash: line 1: orted: command not found{LOST}", "mpi_absent"),
    (
        f"[launch] orted cannot be run on the worker (No such file or directory): is it another image?{LOST}",
        "mpi_absent",
    ),
    (
        f"[launch] an earlier rank on the worker cannot be ended (processes 71 90); reboot it{LOST}",
        "rank_undying",
    ),
    (f"[launch] only mpirun may log in here: 'id' is not mpirun's daemon{LOST}", "launch_refused"),
    ("prted: error while loading shared libraries: libprrte.so.3: cannot open shared object file", "mpi_absent"),
    (
        "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
        "Executable: trtllm-llmapi-launch\nNode: b",
        "mpi_program_absent",
    ),
    (
        "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    b",
        "mpi_callback",
    ),
    (
        "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun. This could be",
        "mpi_callback",
    ),
    ("ORTE: a daemon on node 10.0.0.2 failed to report back", "mpi_callback"),
    ("prterun could not find an executable:\n\nExecutable: trtllm-llmapi-launch\nNode: b", "mpi_program_absent"),
    ("[[1234,0],1] to [[1234,0],0]: No OOB path to target", "mpi_callback"),
    (f"all was well{LOST}", "mpi_lost"),
    (LOST.replace("ORTE", "PRTE"), "mpi_lost"),
    ("mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).", "rank_killed"),
    ("prterun noticed that process rank 1 with PID 71 on node b exited on\nsignal 9 (Killed).", "rank_killed"),
    (
        "mpirun noticed that process rank 0 with PID 7 on node a exited on signal 11 (Segmentation fault).",
        "rank_crashed",
    ),
    (
        "b:71:90 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory" + NCCL_FAILED,
        "ibv_memory_lock",
    ),
    (
        "b:71:90 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<40554> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_SEND(0) vendor_err=129" + NCCL_FAILED,
        "ibv_no_answer",
    ),
    (
        "b:71:90 [0] net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<33092> with error 12, "
        "opcode 0, len 0, vendor err 129 (Recv)" + NCCL_FAILED,
        "ibv_no_answer",
    ),
    (
        "a:71:90 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=9 opcode=1 len=0 vendor err "
        "136 (Send)" + NCCL_FAILED,
        "ibv_request_refused",
    ),
    ("a:7:9 [0] NCCL WARN Call to ibv_modify_qp failed with error No such device" + NCCL_FAILED, "ibv_gid"),
    ("a:7:9 [0] NCCL WARN Bootstrap : no socket interface found" + NCCL_FAILED, "nccl_interface"),
    ("ImportError: libnccl.so.2: cannot open shared object file: No such file or directory", "nccl_library"),
    (
        "[1763657465.1] [a:71   :0]  sock.c:323  UCX  ERROR   connect(fd=46, dest_addr=10.0.0.2:34567) failed: "
        "Connection refused",
        "ucx_refused",
    ),
    ("b:71:90 [0] NCCL WARN socketProgress: Connection closed by remote peer a<40554>", "rank_hung_up"),
    ("triton: ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "ptxas"),
    (TRACEBACK + "RuntimeError: Ninja build failed. Ninja output:", "jit_cache"),
    ("ValueError: Unsupported backend: tensorrt", "backend_tensorrt"),
    (TRACEBACK + "ModuleNotFoundError: No module named 'tensorrt_llm'", "package_broken"),
    (
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
        "checkpoint_truncated",
    ),
    ("PC: @     0xe1e2567f5014  (unknown)  ncclLocalOpAppend()", "nccl_collectives"),
    (
        TRACEBACK + "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120. Error: Error Internal",
        "fp4_gemm",
    ),
    (
        '  File "<unknown>", line 0, in ncclGinGdakiQueryLastError\n'
        "mpirun noticed that process rank 1 with PID 0 on node 10.0.0.2 exited on signal 11 (Segmentation fault).",
        "all_reduce_crashed",
    ),
    (TRACEBACK + "RuntimeError: size mismatch for fc.weight: copying a param with shape", "checkpoint_layout"),
    (
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder and "
        "outgoing traffic has been disabled.",
        "cache_incomplete",
    ),
    *vllm_lines.CAUSES,
]
WRAPPERS = [
    (f"{STAMP}Failed to parse the arguments for the LLM constructor", "arguments_refused"),
    ("Executor worker died during initialization", "executor_worker_died"),
    ("RuntimeError: Executor worker returned error", "executor_worker_died"),
    (f"{STAMP}Executor worker initialization error:", "executor_worker_died"),
    (f"{STAMP}Health check detected fatal engine error", "engine_dead"),
    ("LLM is unavailable. Please check the server logs for more details.", "engine_dead"),
    ("mpirun detected that one or more processes exited with non-zero status", "mpi_rank_died"),
    ("Primary job  terminated normally, but 1 process returned", "mpi_rank_died"),
    ("prterun detected that one or more processes exited with non-zero status", "mpi_rank_died"),
    *vllm_lines.WRAPPERS,
]
REMARKS = [
    ("[W] 'Eagle' is treated as 'Eagle3'", "eagle_renamed"),
    ("Loading weights concurrently:   0%|          | 0/1288 [00:00<?, ?it/s]", "loading_stalled"),
    ("[1763657465.1] UCX  WARN  network device 'enp1s0f1np1' is not available", "ucx_device"),
    ("[TensorRT-LLM][INFO] TP group MNNVL: finalMNNVL=0", "all_reduce_stalled"),
    (
        "[W] return_log_probs not supported with speculative decoding, skipping for request 7",
        "logprobs_left_out",
    ),
    (
        "[Autotuner]: Skipping tactic <MoERunner> 14, due to failure:\n"
        "[TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. "
        "Error: Error Internal (cutlass_kernel_file_gemm_grouped_sm120_M128_BS_group2.generated.cu:60)",
        "fp4_experts",
    ),
    ("Disable overlap scheduler for speculation mode EAGLE3", "adjusted"),
    ("Falling back to greedy decoding for draft tokens", "adjusted"),
    ("disable enable_block_reuse for SM 121", "adjusted"),
    ("pynvml.NVMLError_NotSupported: Not Supported", "nvml_memory"),
    ("a:71:90 [0] NCCL INFO NET/IB : No device found.", "nccl_over_socket"),
    ("a:71:90 [0] NCCL INFO Using network Socket", "nccl_over_socket"),
    ("a:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0", "nccl_over_socket"),
    ("a:71:90 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'", "gpu_direct_rdma"),
    *vllm_lines.REMARKS,
]
# What people meet, as the troubleshooting pages and threads tell it, and the row that knows it.
SYMPTOMS = {
    "socket permission denied": "docker_denied",
    "no GPU in a container": "docker_no_gpu",
    "a container does not start after a driver update": "cdi_stale",
    "nvidia-smi works in the container and CUDA does not": "cuda_broken",
    "tensorrt_llm cannot be imported": "package_broken",
    "pull timeout": "pull_network",
    "invalid credentials at the registry": "pull_denied",
    "error validating root CA": "certificate_refused",
    "container exits at once": "container_exited",
    "invalid mount config": "mount_missing",
    "exit 255": "container_exited",
    "wrong architecture": "image_architecture",
    "digest lost": "image_without_digest",
    "big shm_size": "shared_memory_large",
    "gated repository": "fetch_gated",
    "token missing or invalid": "fetch_token",
    "download hangs or out of disk": "disk_full",
    "weights downloaded at each start": "cache_not_mounted",
    "cache owned by root": "cache_foreign",
    "offline load fails": "cache_incomplete",
    "truncated checkpoint": "checkpoint_truncated",
    "CUDA out of memory": "memory_cuda",
    "killed while loading": "oom_killed",
    "hung while loading": "kernel_hang",
    "frozen while loading": "memory_froze",
    "ended while loading": "memory_guarded",
    "memory gone after a hard stop": "memory_not_given_back",
    "ptxas fatal": "ptxas",
    "server silent": "server_silent",
    "404 or wrong name": "served_name_differs",
    "checkpoint layout": "checkpoint_layout",
    "tool calls missing": "tool_calls_missing",
    "endless !!!!": "endless_text",
    "gibberish": "gibberish",
    "backend tensorrt": "backend_tensorrt",
    "slower with drafts": "drafts_useless",
    "health 200 while wedged": "engine_hangs",
    "NV_ERR_NO_MEMORY": "kernel_no_memory",
    "NVML memory N/A": "nvml_memory",
    "sudden shutdown": "machine_restarted",
    "compiling fails": "jit_cache",
    "stopped but runs": "state_contradicts",
    "page cache": "page_cache",
    # With two Sparks.
    "network unreachable": "fabric_address_gone",
    "node not visible": "peer_unreachable",
    "no interface up": "link_down",
    "publickey denied in mpirun": "ssh_publickey",
    "mpirun: connection refused": "ssh_refused",
    "mpirun hangs": "ranks_silent",
    "one host name only": "ranks_on_one_host",
    "socket operation on non-socket": "interface_wrong",
    "interface not found": "nccl_interface",
    "libnccl.so.2 missing": "nccl_library",
    "NET/Socket instead of NET/IB": "nccl_over_socket",
    "about 1 or 3 GB/s": "fabric_not_pinned",
    "degraded link": "fabric_slower",
    "one node slower, drivers differ": "ranks_unequal",
    "twins in one /24": "twins_in_one_network",
    "retry exceeded": "ibv_no_answer",
    "invalid GID": "ibv_gid",
    "ibv_reg_mr ENOMEM": "ibv_memory_lock",
    "remote invalid request": "ibv_request_refused",
    "jumbo ping fails": "fabric_mtu",
    "cable error": "cable_error",
    "overheated module": "module_hot",
    "SSH hangs at the banner": "ssh_banner",
    "a daemon failed to report back": "mpi_callback",
    "lost communication with a remote daemon": "mpi_lost",
    "variables never reached rank 1": "ranks_differ",
    "UCX connection refused": "ucx_refused",
    "bound to one core": "rank_on_one_core",
    "host key changed": "ssh_host_key",
    "2233 in use": "worker_port_taken",
    "old worker still alive": "head_missing",
    "too few GPUs": "gpus_too_few",
    "a rank died": "mpi_rank_died",
    "rank lost": "peer_lost",
    "no GPU direct RDMA, which is normal": "gpu_direct_rdma",
}


@pytest.mark.parametrize(
    "line",
    [
        KernelLine(NOW - 3000, OOMD_SWAP),
        KernelLine(NOW - 59, OOMD_SWAP.replace(IDENTITY, "f" * 64)),
        KernelLine(NOW - 59, OOMD_SWAP.replace("Killed", "Considered killing")),
    ],
    ids=["an earlier end", "another container", "nothing killed"],
)
def test_what_systemd_oomd_did_elsewhere_is_no_cause(line: KernelLine) -> None:
    found = diagnose(broken(oomd=[line], slot=ended_slot(), state=ended(None, 9))).findings
    assert "oomd_killed" not in [finding.id for finding in found]


def test_a_kill_by_systemd_oomd_is_the_cause_and_says_why() -> None:
    memory = {"MemTotal": 120 * GB, "MemAvailable": 110 * GB, "MemFree": 100 * GB, "Cached": 10 * GB}
    oomd = [KernelLine(NOW - 59, OOMD_PRESSURE)]
    diagnosis = diagnose(broken(oomd=oomd, slot=ended_slot(), state=ended(None, 9), memory=memory))
    [cause] = [finding for finding in diagnosis.findings if finding.severity == "cause"]
    assert cause.id == "oomd_killed"
    assert cause.evidence.startswith("systemd-oomd killed the container due to memory pressure for /system.slice being")


def test_all_is_well() -> None:
    diagnosis = diagnose(serving())
    assert (diagnosis.verdict, diagnosis.findings) == ("healthy", ())


def test_a_spark_alone_without_a_cable_is_healthy() -> None:
    evidence = serving(kernel=[KernelLine(NOW - 30, "cx7-pcie-hotplug MTKP0001:00: Cable removal")])
    assert diagnose(evidence).verdict == "healthy"


def test_all_is_well_with_two_sparks() -> None:
    log = "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'\n"
    one = {"host": "a", "cores": 20}
    # An earlier start of the container may have failed.
    ranks = {"at": NOW, "ranks": [one, {**one, "host": "b"}], "differences": [], "problem": None}
    diagnosis = diagnose(paired(server_log=log, ranks=ranks), "spark-1")
    assert (diagnosis.verdict, diagnosis.lines) == ("healthy", ("spark-1: healthy: the server generates text",))
    assert [finding.severity for finding in diagnosis.findings] == ["information"]
    diagnosis = diagnose(worker("rank_runs"), "spark-2")
    assert (diagnosis.verdict, diagnosis.findings) == ("healthy", ())
    assert diagnosis.lines == ("spark-2: healthy: rank 1 runs; the head shows whether the server generates text",)


@pytest.mark.parametrize(
    ("evidence", "roots"),
    [
        # The other Spark is off: the link is the root, and what follows from it is not told as a cause.
        (
            paired(
                links=[dataclasses.replace(LINK, up=False)] * 2,
                peer_answers=SILENT,
                state=said("waiting for the worker"),
                look=None,
            ),
            ["link_down"],
        ),
        (
            paired(
                links=[dataclasses.replace(LINK, up=False)] * 2,
                kernel=[KernelLine(NOW - 30, "mlx5_core 0000:01:00.1: Port module event: module 1, Cable unplugged")],
                peer_answers=SILENT,
                state=said("waiting for the worker"),
                look=None,
            ),
            ["cable_out"],
        ),
        (
            worker(
                "waiting for the fabric",
                3000,
                links=[dataclasses.replace(LINK, up=False, address_here=False)] * 2,
                hotplug={"armed": True, "powered": False},
            ),
            ["card_removed"],
        ),
        (
            # The card is there by now, and nobody has started the container.
            paired(
                slot=slot("exited", ExitCode=128, Error=CARD_LATE),
                state=said("running", since=NOW - 9000),
                boot_time=NOW - 600,
                peer_answers=SILENT,
                look=None,
            ),
            ["card_late"],
        ),
        (
            paired(
                slot=slot("exited", ExitCode=128, Error=CARD_LATE),
                state=said("running", since=NOW - 9000),
                boot_time=NOW - 600,
                links=[Link(up=False, address_here=False)] * 2,
                hotplug={"armed": True, "powered": True},
                peer_answers=SILENT,
                look=None,
            ),
            ["card_removed"],
        ),
        (paired(peer_answers=SILENT, state=said("waiting for the worker"), look=None), ["peer_unreachable"]),
        (paired(peer_answers=REFUSED, state=said("waiting for the worker"), look=None), ["worker_port_closed"]),
        (
            paired(
                peer_answers=SILENT,
                state=ended(1),
                look=None,
                server_log="ssh: connect to host 10.0.0.2 port 2233: No route to host\nORTE has lost communication "
                "with a remote daemon.\n[entrypoint] the server ended with exit code 1\n",
            ),
            ["peer_unreachable"],
        ),
        (
            paired(state=said("running", verdict="peer lost", reason="x"), look=ServerFacts("unhealthy", "no")),
            ["peer_lost"],
        ),
        (
            worker(
                "failed",
                reason="sshd ended",
                server_log="error: Bind to port 2233 on 10.0.0.2 failed: Address already in use.\n",
            ),
            ["sshd_port_taken"],
        ),
        (
            worker("failed", reason="port 2233 of 10.0.0.2 is taken by another program of this Spark; 'ss' shows it"),
            ["worker_port_taken"],
        ),
        (
            worker("waiting for the fabric", 3000, links=[dataclasses.replace(LINK, address_here=False)] * 2),
            ["fabric_address_gone"],
        ),
    ],
)
def test_the_root_of_what_two_sparks_suffer(evidence: Evidence, roots: list[str]) -> None:
    diagnosis = diagnose(evidence)
    assert diagnosis.verdict == "problem"
    assert [one.id for one in diagnosis.findings if one.severity == "cause"] == roots


def test_a_pair_that_serves_by_tcp_is_not_healthy() -> None:
    diagnosis = diagnose(paired(ranks=BY_TCP))
    assert diagnosis.verdict == "warning"
    assert [one.id for one in diagnosis.findings if one.severity == "warning"] == ["pair_by_tcp"]


def test_nccls_own_word_counts_more_than_its_settings() -> None:
    rdma = Network("IBext_v10", True, ["rocep1s0f1"])
    assert diagnose(paired(ranks=BY_TCP, network=rdma)).verdict == "healthy"
    (finding,) = diagnose(paired(network=SOCKETS)).findings
    assert finding.evidence == "NCCL uses Socket over enp1s0f1np1 and not RDMA: no active RDMA device matches"
    # What an earlier start has written says nothing of a server that loads.
    loading = paired(network=SOCKETS, state=said("loading"), look=None)
    assert "pair_by_tcp" not in [one.id for one in diagnose(loading).findings]


def test_what_ranks_said_at_an_earlier_start_does_not_count() -> None:
    evidence = paired(ranks={**DIFFERENT, "at": NOW - 4000, "problem": "x"})
    assert diagnose(evidence).verdict == "healthy"
    (finding,) = [
        one for one in diagnose(paired(state=ended(3), look=None, ranks=DIFFERENT)).findings if one.severity == "cause"
    ]
    assert (finding.id, finding.evidence) == ("ranks_differ", "rank 1 does not have it")


@pytest.mark.parametrize(
    "evidence",
    [worker("ready"), worker("waiting for the fabric"), paired(state=said("waiting for the worker", since=NOW - 60))],
)
def test_waiting_is_no_fault_for_some_minutes(evidence: Evidence) -> None:
    assert diagnose(dataclasses.replace(evidence, look=None)).verdict == "warning"


@pytest.mark.parametrize(("row", "evidence"), PROVOKED)
def test_each_row_is_found(row: str, evidence: Evidence) -> None:
    diagnosis = diagnose(evidence)
    assert row in [one.id for one in diagnosis.findings]
    assert diagnosis.verdict != "healthy" or row in ("earlier_attempt", "image_without_digest")


def test_every_row_is_provoked() -> None:
    shown = {row for _text, row in CAUSES + WRAPPERS + REMARKS} | {row for row, _evidence in PROVOKED}
    known = {row.id for row in CATALOGUE}
    assert sorted(known - shown) == [], "each needs a line of the log in CAUSES, or facts in PROVOKED"
    assert sorted(shown - known) == [], "the catalogue has no such row"


def test_ids_are_unique() -> None:
    ids = [row.id for row in CATALOGUE]
    assert len(ids) == len(set(ids))


def test_every_symptom_has_a_row() -> None:
    assert set(SYMPTOMS.values()) <= {row.id for row in CATALOGUE}


@pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row.id)
def test_rows_are_complete(row: KnownProblem) -> None:
    assert row.substrings or row.id in FACTS
    assert row.fix.endswith(".")
    assert row.cause
    assert not row.cause.endswith(".")
    assert row.source
    assert ".md" not in row.source
    assert set(row.explains) <= {one.id for one in CATALOGUE}


def test_no_fact_is_left_over() -> None:
    assert set(FACTS) <= {row.id for row in CATALOGUE}


def test_two_sparks_that_were_both_stopped_lack_nothing_else() -> None:
    was = {"slot": slot("exited", ExitCode=0), "state": said("stopped"), "look": None}
    found = {finding.id for finding in diagnose(paired(peer_answers=REFUSED, **was)).findings}
    assert "stopped" in found
    assert "worker_port_closed" not in found
    assert "worker_port_closed" in {
        finding.id for finding in diagnose(paired(peer_answers=REFUSED, look=None)).findings
    }


@pytest.mark.parametrize(("text", "row"), CAUSES + WRAPPERS)
def test_each_row_of_a_log_is_found(text: str, row: str) -> None:
    found = reason(START + text + END)
    assert found is not None
    assert found.problem is not None
    assert found.problem.id == row


@pytest.mark.parametrize(("text", "row"), CAUSES)
def test_a_wrapper_does_not_hide_the_cause(text: str, row: str) -> None:
    wrapped = (
        f"{START}{text}\n{TRACEBACK}RuntimeError: Executor worker returned error\nmpirun detected that one or more{END}"
    )
    found = reason(wrapped)
    assert found is not None
    assert found.problem is not None
    assert found.problem.id == row


@pytest.mark.parametrize(("text", "row"), REMARKS)
def test_each_remark_is_found(text: str, row: str) -> None:
    assert [found.problem.id for found in remarks(START + text) if found.problem] == [row]
    assert reason(START + text) is None or row == "nvml_memory"


def test_loading_that_goes_on_does_not_stall() -> None:
    bars = [
        "Loading weights concurrently:   0%|  | 0/10 [00:00<?]",
        "Loading weights concurrently:  10%|  | 1/10 [00:01<]",
    ]
    assert remarks(START + "\r".join(bars)) == []


def test_an_all_reduce_after_which_the_log_goes_on_does_not_stall() -> None:
    assert remarks(f"{START}finalMNNVL=0\nLoading weights:  10%|  | 1/10 [00:01<]\n") == []
    assert len(remarks(f"{START}finalMNNVL=0\n\n")) == 1


def test_an_unknown_error_has_no_row() -> None:
    found = reason(f"{START}{TRACEBACK}KeyError: 'midlayer.weight'{END}")
    assert found == ("KeyError: 'midlayer.weight'", None)


def test_no_gpu_direct_rdma_is_no_fault() -> None:
    line = "a:71:90 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'"
    (remark,) = remarks(START + line)
    assert remark.problem
    assert remark.problem.severity == INFORMATION
    assert reason(START + line + END) is None


def test_traffic_over_rdma_is_not_remarked() -> None:
    lines = ["NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE", "Using network IB", "[send] via NET/IB/0"]
    assert remarks(START + "\n".join(f"a:71:90 [0] NCCL INFO {line}" for line in lines)) == []
