# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""What can be wrong, as data: each known problem with its cause, its fix and a public source.

CATALOGUE is in order of priority: of several causes the first one is the root. A row is recognised by a part of a text,
by the function that FACTS of _diagnosis/facts.py has under its id, or by both. docs/troubleshooting.md is made of it.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

# Where the evidence of a row is. LOG is what the server itself writes; texts around a match differ between releases.
LOG = "log"
KERNEL = "kernel"
DOCKER = "docker"
JOB = "job"
MACHINE = "machine"
RECORD = "record"
MEMORY_LOG = "memory.log"

# The row says why the server does not serve.
CAUSE = "cause"
# Something failed, and the reason stands elsewhere in the log.
WRAPPER = "wrapper"
# It is the cause only if there is nothing better.
HINT = "hint"
# It does not stop a server, but a user may want to know it.
WARNING = "warning"
# It is harmless and often taken for an error.
INFORMATION = "information"

TENSORRT_LLM = "NVIDIA/TensorRT-LLM, source code"
ARGUMENTS = "NVIDIA/TensorRT-LLM tensorrt_llm/llmapi/llm_args.py"
SERVE = "NVIDIA/TensorRT-LLM tensorrt_llm/commands/serve.py"
SERVER = "NVIDIA/TensorRT-LLM tensorrt_llm/serve/openai_server.py"
EXECUTOR = "NVIDIA/TensorRT-LLM tensorrt_llm/_torch/pyexecutor/py_executor_creator.py"
OPEN_MPI = "Open MPI documentation"
PRRTE = "openpmix/prrte, source code"
OPEN_SSH = "OpenSSH manual pages ssh(1) and sshd(8)"
NCCL = "NVIDIA/nccl, source code"
NCCL_DOCS = "NVIDIA NCCL documentation, troubleshooting"
ALL_REDUCE = "NVIDIA/TensorRT-LLM issue 12715, pull request 15559"
SPARKS = "NVIDIA DGX Spark playbook 'Connect Two Sparks', troubleshooting"
SPECULATIVE = "NVIDIA DGX Spark playbook 'Speculative Decoding', troubleshooting"
TRT_LLM = "NVIDIA DGX Spark playbook 'TRT LLM for Inference', troubleshooting"
NIM = "NVIDIA DGX Spark playbook 'NIM on Spark', troubleshooting"
VLLM = "NVIDIA DGX Spark playbook 'vLLM for Inference', troubleshooting"
NEMOTRON = "NVIDIA DGX Spark playbook 'Nemotron', troubleshooting"
DOCKER_DOCS = "Docker documentation"
KERNEL_DOCS = "Linux kernel documentation"
XID_DOCS = "NVIDIA documentation 'XID Errors'"
HUB_DOCS = "Hugging Face Hub documentation"
# Told by several without a thread that could be named.
USERS = "reports of DGX Spark users"
USERS_OF_TWO = "reports of users of two DGX Sparks"
THIS = "dgx_spark.speculative documentation"
LESS_MEMORY = (
    "Stop other users of the memory, or serve less: a smaller speculative_serve_context or"
    " speculative_serve_concurrency, or a larger speculative_serve_reserve_gib, by which the plan keeps more free."
)
KEEP_AWAKE = (
    "Switch that off with 'sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target'."
)


@dataclasses.dataclass(frozen=True)
class KnownProblem:
    """One row."""

    id: str
    where: str
    cause: str
    fix: str
    source: str
    severity: str = CAUSE
    # Parts of a line, and a pattern where no part is the same in each case.
    substrings: tuple[str, ...] = ()
    pattern: str = ""
    # Rows that are only consequences when this one is found.
    explains: tuple[str, ...] = ()
    # Says that something is broken, and not why.
    consequence: bool = False
    # Usual enough to mean nothing by itself; it is never the cause unless it explains another row.
    context: bool = False
    # In a server's log: pydantic names the option in the line before; part of a line after it that says more.
    before: bool = False
    after: str = ""
    # It means something only as long as its count stands at 0, or, without a count, nothing follows it.
    standing: bool = False

    def knows(self, text: str) -> bool:
        """Return whether the row is recognised by a text."""
        # Each line of a log is shown to each row: a generator would take twice as long.
        for part in self.substrings:
            if part in text:
                return True
        return bool(self.pattern and re.search(self.pattern, text))


_NETWORK = ("pull_network", "hub_network", "certificate_refused")
# What follows when one of two Sparks does not get through to the other one.
_FABRIC = (
    "peer_lost",
    "peer_unreachable",
    "worker_missing",
    "fabric_missing",
    "head_missing",
    "ranks_silent",
    "ranks_not_started",
    "ssh_unreachable",
    "sshd_no_address",
    "mpi_callback",
    "mpi_lost",
    "mpi_daemons",
    "ibv_no_answer",
    "nccl",
    "nccl_interface",
    "rank_hung_up",
    "worker_failed",
)
MEMORY = ("memory_executor", "memory_cuda", "oom_killed", "oom_container", "oomd_killed", "exit_killed")

CATALOGUE: tuple[KnownProblem, ...] = (
    # Docker.
    KnownProblem(
        "docker_denied",
        DOCKER,
        "This user may not use Docker",
        "Add the user with 'sudo usermod -aG docker <user>' and log in again; serve.yml does it with -K.",
        SPECULATIVE,
        substrings=("permission denied while trying to connect to the Docker", "Got permission denied while trying"),
    ),
    KnownProblem(
        "docker_not_installed",
        DOCKER,
        "Docker is not installed",
        "Install Docker Engine and the NVIDIA container toolkit.",
        DOCKER_DOCS,
        substrings=("Docker is not installed",),
    ),
    KnownProblem(
        "docker_not_running",
        DOCKER,
        "Docker is installed and does not run",
        "Start it with 'sudo systemctl start docker'; 'journalctl -u docker' says why it ended.",
        DOCKER_DOCS,
        substrings=("Cannot connect to the Docker daemon", "Docker is installed and does not answer"),
    ),
    KnownProblem(
        "docker_unsupported",
        DOCKER,
        "Something else than the Docker Engine that root runs answers here",
        "Install Docker Engine from the distribution or from Docker; Podman, rootless Docker and the snap do not do.",
        THIS,
    ),
    KnownProblem(
        "gpu_driver",
        MACHINE,
        "The GPU's driver does not work",
        "Reboot; if that does not help, install the driver of DGX OS again.",
        "NVIDIA DGX Spark user guide",
        substrings=("NVIDIA-SMI has failed because", "couldn't communicate with the NVIDIA driver", "nvml error"),
        explains=("docker_no_gpu", "gpu_absent"),
    ),
    KnownProblem(
        "cdi_stale",
        DOCKER,
        "The specification by which Docker hands out the GPU (CDI) does not fit the driver, as after an update",
        "Run 'sudo systemctl restart nvidia-cdi-refresh'; if that does not help, delete /etc/cdi/nvidia.yaml, which it"
        " does not write, and run it again.",
        "NVIDIA/nvidia-container-toolkit issues 450 and 856",
        substrings=("unresolvable CDI devices", "CDI device injection failed"),
        pattern=r"nvidia\S*\.so[.\d]*\W+no such file",
        explains=("docker_no_gpu", "gpu_absent"),
    ),
    KnownProblem(
        "cuda_broken",
        DOCKER,
        "A container gets the GPU, and CUDA does not start in it",
        "Run 'sudo systemctl restart nvidia-cdi-refresh'; if that does not help, reboot, and then install another"
        " release of nvidia-container-toolkit than 1.19.1 and 1.20.0.",
        "NVIDIA/nvidia-container-toolkit issues 1967, 1743 and 1940; NVIDIA/NemoClaw pull request 4733",
        substrings=("cuInit(0) failed", "cuInit(0) gave no answer"),
        explains=("docker_no_gpu", "gpu_absent"),
    ),
    KnownProblem(
        "docker_no_gpu",
        DOCKER,
        "Docker cannot give the GPU to a container",
        "Run 'sudo apt-get install nvidia-container-toolkit', which upgrades it, too, 'sudo nvidia-ctk runtime"
        " configure --runtime=docker' and 'sudo systemctl restart docker'.",
        SPECULATIVE,
        substrings=(
            "could not select device driver",
            "unknown or invalid runtime name",
            "nvidia-container-cli:",
            "CUDA cannot be loaded",
            "Docker cannot give the GPU to a container",
        ),
        explains=("gpu_absent",),
    ),
    # What explains other failures, where one is found.
    KnownProblem(
        "clock_wrong",
        MACHINE,
        "The clock of this machine is wrong, so no certificate is valid for it",
        "Set it with 'sudo timedatectl set-ntp true'.",
        TRT_LLM,
        explains=_NETWORK,
    ),
    KnownProblem(
        "no_default_route",
        MACHINE,
        "This machine has no route to the internet",
        "Connect it ('nmcli device status' shows how it stands); a deployment that has served before starts without.",
        SPARKS,
        severity=HINT,
        explains=_NETWORK,
        context=True,
    ),
    KnownProblem(
        "no_name_server",
        MACHINE,
        "This machine knows no name server",
        "Correct /etc/resolv.conf ('resolvectl status' shows how it stands).",
        "Ubuntu Server documentation",
        severity=HINT,
        explains=_NETWORK,
        context=True,
    ),
    KnownProblem(
        "disk_full",
        MACHINE,
        "A disk is full",
        "Make room there: 'cleanup.yml -e unused=true' removes models that nothing uses, 'docker image prune' images.",
        NIM,
        substrings=("no space left on device", "No space left on device", "Disk quota exceeded", "The disk under "),
    ),
    # The memory guard.
    KnownProblem(
        "memory_froze",
        MEMORY_LOG,
        "The memory ran out so fast that the Spark froze",
        LESS_MEMORY,
        "vllm-project/vllm issue 56824",
        explains=("memory_guarded", "machine_restarted", *MEMORY, "container_exited"),
    ),
    KnownProblem(
        "memory_guarded",
        RECORD,
        "The memory guard ended the server before it froze the Spark",
        f"{LESS_MEMORY} If it was mistaken, speculative_serve_memory_guard sets its limits.",
        "vllm-project/vllm issue 56824",
        explains=(*MEMORY, "crash_loop", "exit_native", "worker_failed"),
    ),
    # Kernel.
    KnownProblem(
        "oom_killed",
        KERNEL,
        "The memory ran out, and the kernel killed a process",
        "Stop other users of the memory, lower free_gpu_memory_fraction, or set"
        " TRT_LLM_DISABLE_LOAD_WEIGHTS_IN_PARALLEL=1 if it happens while loading.",
        TRT_LLM,
        substrings=("Out of memory: Killed process", "oom-kill:", "Memory cgroup out of memory"),
        explains=("exit_killed", "oom_container"),
    ),
    KnownProblem(
        "kernel_no_memory",
        KERNEL,
        "The GPU's driver was refused memory, which healthy starts log, too",
        "It means something only beside another cause; if 'uname -r' says 7.0.0-1019-nvidia, boot the 6.17 kernel of"
        " DGX OS.",
        "vllm-project/vllm issue 56824; NVIDIA/open-gpu-kernel-modules issue 1358",
        severity=INFORMATION,
        substrings=("NV_ERR_NO_MEMORY",),
        context=True,
    ),
    KnownProblem(
        "gpu_lost",
        KERNEL,
        "The GPU has fallen off the bus",
        "Shut the Spark down, take it off the power for a minute, and start it again.",
        XID_DOCS,
        substrings=("GPU has fallen off the bus",),
    ),
    KnownProblem(
        "gpu_xid",
        KERNEL,
        "The GPU's driver reported an error (Xid)",
        "Look the number up in NVIDIA's list of Xid errors; restart the server, and reboot if it comes again.",
        XID_DOCS,
        severity=HINT,
        substrings=("NVRM: Xid",),
    ),
    KnownProblem(
        "kernel_hang",
        KERNEL,
        "The machine hung, as it does when weights are read under memory pressure",
        "Stop other users of the memory and drop the page cache before loading ('sync', then"
        " 'echo 3 | sudo tee /proc/sys/vm/drop_caches').",
        "NVIDIA/dgx-spark-playbooks issue 78",
        severity=HINT,
        substrings=("blocked for more than", "soft lockup"),
    ),
    KnownProblem(
        "slept",
        KERNEL,
        "The machine went to sleep while the server ran",
        KEEP_AWAKE,
        "Linux kernel source, kernel/power/suspend.c",
        substrings=("PM: suspend entry (",),
    ),
    KnownProblem(
        "disk_error",
        KERNEL,
        "The disk reports errors",
        "Save your data and look at the disk with 'sudo nvme smart-log /dev/nvme0'.",
        KERNEL_DOCS,
        substrings=("I/O error, dev ", "Remounting filesystem read-only", "EXT4-fs error", "critical medium error"),
    ),
    KnownProblem(
        "overheated",
        KERNEL,
        "The machine got too hot and slowed down or shut off",
        "Give it air; cap the GPU's clocks with 'sudo nvidia-smi -lgc'.",
        USERS,
        substrings=("critical temperature reached", "temperature above threshold"),
    ),
    KnownProblem(
        "module_hot",
        KERNEL,
        "The module at the QSFP cable's end got too hot and was switched off",
        "Let it cool and give the Spark air at its back; a passive copper cable stays cool.",
        KERNEL_DOCS,
        substrings=("Cable error, High Temperature",),
        explains=(*_FABRIC, "link_down"),
    ),
    KnownProblem(
        "cable_error",
        KERNEL,
        "The network card reports an error of the QSFP cable",
        "Take the cable out and put it in again at both ends; if it comes again, use another one.",
        KERNEL_DOCS,
        substrings=(
            "Cable error, Bad or shorted",
            "Cable error, Bus stuck",
            "Cable error, No EEPROM",
            "Cable error, Power budget exceeded",
            "Cable error, Unknown",
            "Cable error, Unsupported",
        ),
        explains=(*_FABRIC, "link_down"),
    ),
    KnownProblem(
        "cable_out",
        KERNEL,
        "The QSFP cable was taken out, or the Spark at its other end was switched off",
        "Put it in and switch both on; the pair comes back by itself.",
        SPARKS,
        severity=HINT,
        substrings=(", Cable unplugged",),
        explains=(*_FABRIC, "link_down"),
        context=True,
    ),
    KnownProblem(
        "card_removed",
        KERNEL,
        "DGX OS took the network card off the bus, since it saw no cable: the cable is out, or the other Spark is off",
        "Put the cable into both, switch both on and wait 30 s; if it stays away, reboot this Spark with the cable in."
        " To keep the card, for 18 to 20 W, run the playbook that deployed it again with -K and -e"
        " spark_network_keep_nic_on=true.",
        "NVIDIA/NV-Kernels pull request 271",
        severity=INFORMATION,
        substrings=("MTKP0001:00: Cable removal",),
        explains=(*_FABRIC, "link_down", "cable_out", "fabric_address_gone", "card_late", "machine_restarted"),
        context=True,
    ),
    KnownProblem(
        "card_lost",
        KERNEL,
        "The network card failed on its PCIe bus, which may hang the Spark",
        "Reboot both Sparks with the cable in; update DGX OS and firmware if it comes again.",
        "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue 146",
        substrings=("mlx5_pci_err_detected", "mlx5_pci_slot_reset"),
        explains=(*_FABRIC, "link_down", "kernel_hang"),
    ),
    KnownProblem(
        "card_plugged_in",
        KERNEL,
        "The network card came back while the Spark ran; such a card may carry 13 Gb/s only",
        "If the pair is slow, reboot both with the cable in. Other Sparks print this line, too, so it alone proves"
        " nothing.",
        "NVIDIA/dgx-spark-playbooks pull request 108",
        severity=INFORMATION,
        substrings=("PCIe slot power capability was not advertised",),
        context=True,
    ),
    # Two Sparks as one.
    KnownProblem(
        "link_down",
        MACHINE,
        "A way through the cable to the other Spark is down",
        "Switch the other Spark on and see that the cable is in at both ends; if it stays down, reboot both.",
        SPARKS,
        explains=_FABRIC,
    ),
    KnownProblem(
        "fabric_address_gone",
        MACHINE,
        "This Spark no longer has its address for the other one",
        "Run 'sudo netplan apply', or two_sparks.yml again, which gives it and writes it down for the next boot.",
        SPARKS,
        explains=_FABRIC,
    ),
    KnownProblem(
        "peer_unreachable",
        MACHINE,
        "The other Spark does not answer through the cable",
        "Switch it on. If it is on, see with 'ip -br addr' that it has its address, and that no firewall keeps this"
        " Spark out.",
        SPARKS,
        explains=tuple(name for name in _FABRIC if name != "peer_unreachable"),
    ),
    KnownProblem(
        "worker_ssh_absent",
        MACHINE,
        "The other Spark is there, and no SSH server listens in its container",
        "Start both with start.yml; 'diagnose.yml' tells for the worker why its container does not run.",
        SPECULATIVE,
        explains=(
            "ssh_refused",
            "peer_lost",
            "worker_missing",
            "ranks_silent",
            "ranks_not_started",
            "mpi_daemons",
            "mpi_lost",
        ),
    ),
    KnownProblem(
        "worker_port_taken",
        RECORD,
        "Something else on this Spark listens at the port at which the head is to log in",
        "Find it with 'sudo ss -ltnp sport = :2233' and stop it, such as a container made by hand; the worker then"
        " comes up by itself.",
        TRT_LLM,
        substrings=("is taken by another program of this Spark",),
        explains=("worker_failed",),
    ),
    KnownProblem(
        "image_without_sshd",
        RECORD,
        "The container's image has no SSH server, so it is not one that was made for two Sparks",
        "Run two_sparks.yml again, which makes it and brings it to both.",
        TRT_LLM,
        substrings=("there is no sshd in this image",),
        explains=("worker_failed",),
    ),
    KnownProblem(
        "ranks_differ",
        RECORD,
        "The two ranks are not set up alike",
        "Run two_sparks.yml again, which writes both; settings of your own belong into speculative_serve_environment.",
        USERS_OF_TWO,
        explains=("exit_usage", "mpi_rank_died"),
    ),
    KnownProblem(
        "ranks_not_started",
        RECORD,
        "The two ranks could not be started",
        "Do what it says; two_sparks.yml looks at link, keys, image and files of both again.",
        THIS,
    ),
    KnownProblem(
        "ranks_on_one_host",
        RECORD,
        "Both ranks were started on one machine",
        "Run two_sparks.yml again; the two addresses in the hostfile have to be of different Sparks.",
        TRT_LLM,
        explains=("gpus_too_few",),
    ),
    # Containers.
    KnownProblem(
        "port_taken",
        MACHINE,
        "Something else listens on the server's port",
        "Choose another port with speculative_serve_port, or stop what listens there.",
        SPECULATIVE,
        substrings=("port is already allocated",),
        explains=("port_in_use",),
    ),
    KnownProblem(
        "card_late",
        DOCKER,
        "The network card was not there when Docker was to start the container, which Docker does not try again",
        "Put the cable into both and switch both on. The container starts when the card is there, if two_sparks.yml has"
        " set that up (spark_network_start_on_nic); start.yml does it by hand.",
        "moby `daemon/pkg/oci/devices_linux.go`",
        substrings=('adding custom device "/dev/infiniband',),
        explains=(*_FABRIC, "machine_restarted", "link_down", "fabric_address_gone"),
    ),
    KnownProblem(
        "mount_missing",
        DOCKER,
        "A file or directory that the container needs is not there",
        "Run the playbook again, which writes it.",
        TRT_LLM,
        substrings=("invalid mount config for type", "bind source path does not exist"),
    ),
    KnownProblem(
        "entrypoint_broken",
        DOCKER,
        "The container's first program could not be run",
        "Run the playbook again, which writes it; another image may lack python3.",
        TRT_LLM,
        substrings=("OCI runtime create failed", 'exec: "python3"', "can't open file '/deployment/entrypoint.py'"),
    ),
    KnownProblem(
        "image_architecture",
        DOCKER,
        "The image is made for another processor than the Spark's (arm64)",
        "Correct trtllm_container_image, or the recipe's image.",
        VLLM,
        substrings=(
            "exec format error",
            "no matching manifest for",
            "is not offered for this machine's architecture",
            "is made for linux/amd64",
        ),
    ),
    KnownProblem(
        "serve_script_stale",
        RECORD,
        "The files of the deployment do not belong to the container",
        "Run the playbook again.",
        THIS,
        substrings=("serve.sh cannot be read",),
    ),
    # Pulling the image, fetching the models.
    KnownProblem(
        "certificate_refused",
        JOB,
        "A certificate was refused: the clock is wrong, or something on the way reads along",
        "Set the clock with 'sudo timedatectl set-ntp true', or have the proxy's certificate installed.",
        TRT_LLM,
        substrings=("x509: certificate", "error validating root CA", "CERTIFICATE_VERIFY_FAILED"),
    ),
    KnownProblem(
        "pull_denied",
        JOB,
        "The registry does not hand out the image to this user",
        "Run 'docker login nvcr.io' with user $oauthtoken and an NGC key, or check the image's name.",
        NIM,
        substrings=("The registry does not hand out", "unauthorized: authentication required", "Invalid credentials"),
    ),
    KnownProblem(
        "pull_unknown",
        JOB,
        "The registry has no such image",
        "Correct its name: trtllm_container_image or the recipe's image, api_proxy_image, open_webui_image.",
        DOCKER_DOCS,
        substrings=("There is no image ", "the registry has no image ", "manifest unknown"),
    ),
    KnownProblem(
        "pull_too_many",
        JOB,
        "The registry answers no more for now",
        "Wait some minutes and run the same again.",
        DOCKER_DOCS,
        substrings=("toomanyrequests", "because of too many requests"),
    ),
    KnownProblem(
        "pull_network",
        JOB,
        "The registry could not be reached",
        "Check this machine's network and run the same again, which continues where it ended.",
        TRT_LLM,
        substrings=(
            "could not be reached well enough",
            "net/http: TLS handshake timeout",
            "no such host",
            "i/o timeout",
            "network is unreachable",
        ),
    ),
    KnownProblem(
        "fetch_gated",
        JOB,
        "The model's licence is not accepted for the account of the Hugging Face token",
        "Accept it on the model's page on the Hub, and give a read token of that account.",
        SPECULATIVE,
        substrings=(
            "accept the licence on",
            "does not let the token's owner download",
            "does not let anybody without a token download",
        ),
    ),
    KnownProblem(
        "fetch_token",
        JOB,
        "The Hub refuses the Hugging Face token",
        "Make a new read token on the Hub's page settings/tokens and give that one.",
        TRT_LLM,
        substrings=("refuses the token as invalid", "Invalid user token"),
    ),
    KnownProblem(
        "fetch_gone",
        JOB,
        "The Hub does not have this model, revision or file",
        "Check the name and the revision in the recipe.",
        HUB_DOCS,
        substrings=("The Hub no longer has", "RevisionNotFoundError", "EntryNotFoundError"),
    ),
    KnownProblem(
        "fetch_checksum",
        JOB,
        "What was downloaded is not what the Hub has",
        "Run the same again, which fetches only the wrong files once more.",
        HUB_DOCS,
        substrings=("is not the Hub's, though it was fetched again",),
    ),
    KnownProblem(
        "hub_limited",
        JOB,
        "The Hugging Face Hub limits the requests of this network",
        "Run the same again later, which continues where it ended, or give a token, which has a limit of its own.",
        HUB_DOCS,
        substrings=("limits the requests of this network",),
    ),
    KnownProblem(
        "hub_network",
        JOB,
        "The Hugging Face Hub could not be reached",
        "Check this machine's network and run the same again, which continues where it ended.",
        NIM,
        substrings=(
            "times in a row (",
            "Max retries exceeded with url",
            "Temporary failure in name resolution",
            "Name or service not known",
            "Network is unreachable",
        ),
    ),
    KnownProblem(
        "cache_foreign",
        MACHINE,
        "The Hugging Face cache cannot be written, because parts of it belong to another user",
        "Give it back with 'sudo chown -R', or run serve.yml with -K, which does it for what it needs.",
        TRT_LLM,
        substrings=("cannot be written (Permission denied", "give it back to the login user"),
    ),
    KnownProblem(
        "job_cut_off",
        JOB,
        "A download was cut off",
        "Run the same again, which continues where it ended.",
        NIM,
    ),
    # What the server's log says.
    KnownProblem(
        "cli_option_unknown",
        LOG,
        "The command line has an option that this release of trtllm-serve does not know",
        "Put the setting into the engine options, or use the image that the recipe names.",
        SERVE,
        substrings=("No such option:",),
    ),
    KnownProblem(
        "engine_option_unknown",
        LOG,
        "The engine options have a key that this release does not know",
        "Remove or rename the key.",
        ARGUMENTS,
        substrings=("Extra inputs are not permitted",),
        before=True,
    ),
    KnownProblem(
        "eagle_option_unknown",
        LOG,
        "The section speculative_config has a key that this release does not know under Eagle",
        "Remove or rename the key; releases up to 1.2 know speculative_model_dir, not speculative_model.",
        ARGUMENTS,
        substrings=("object has no field",),
    ),
    KnownProblem(
        "decoding_type_wrong_1_2",
        LOG,
        "This release (1.2 or older) does not know the decoding_type",
        "Write Eagle or DraftTarget, or use a 1.3 image.",
        ARGUMENTS,
        substrings=("Invalid decoding type:",),
    ),
    KnownProblem(
        "decoding_type_wrong_1_3",
        LOG,
        "This release (1.3 or newer) does not know the decoding_type, or it is missing",
        "Write Eagle3 or Draft_Target.",
        ARGUMENTS,
        substrings=("does not match any of the expected tags", "Unable to extract tag using discriminator"),
        before=True,
    ),
    KnownProblem(
        "draft_model_missing",
        LOG,
        "The engine options name no draft model",
        "Set speculative_model (releases up to 1.2: speculative_model_dir) in speculative_config.",
        ARGUMENTS,
        substrings=(
            "Path to EAGLE3 weights must be specified",
            "Draft model must be provided for EAGLE",
            "speculative_model must be specified for DraftTarget",
            "Path to draft model must be specified",
        ),
    ),
    KnownProblem(
        "backend_unsupported",
        LOG,
        "This kind of speculation does not work on the pytorch backend",
        "Use EAGLE-3 or draft target.",
        ARGUMENTS,
        substrings=("does not support backend",),
    ),
    KnownProblem(
        "concurrency_and_schedule",
        LOG,
        "max_concurrency meets draft_len_schedule, or decoding_type Eagle on 1.3",
        "Keep one of them, and write Eagle3.",
        ARGUMENTS,
        substrings=("max_concurrency and draft_len_schedule are mutually exclusive",),
    ),
    KnownProblem(
        "cuda_graph_batch_sizes",
        LOG,
        "cuda_graph_config has both batch_sizes and max_batch_size",
        "Keep one of them.",
        ARGUMENTS,
        substrings=("Please don't set both cuda_graph_config.batch_sizes",),
    ),
    KnownProblem(
        "engine_option_value",
        LOG,
        "An engine option has a value of the wrong type or outside its range",
        "Correct the value.",
        ARGUMENTS,
        substrings=("[type=",),
        before=True,
    ),
    KnownProblem(
        "port_in_use",
        LOG,
        "Something else listens on the server's port",
        "Stop it (an older container perhaps), or choose another port.",
        SERVE,
        substrings=("Failed to bind socket to", "address already in use"),
    ),
    KnownProblem(
        "memory_executor",
        LOG,
        "The GPU's memory does not suffice",
        "KV cache: lower free_gpu_memory_fraction; model or draft: lower max_num_tokens or use two Sparks;"
        " drafter: lower max_seq_len or the draft length.",
        EXECUTOR,
        substrings=("Executor creation failed due to insufficient GPU memory.",),
        after="The following component could not be created:",
    ),
    KnownProblem(
        "memory_cuda",
        LOG,
        "The GPU's memory does not suffice",
        "Drop the page cache (speculative_serve_drop_caches), stop other users of the memory, or lower"
        " free_gpu_memory_fraction.",
        SPECULATIVE,
        substrings=("CUDA out of memory", "torch.OutOfMemoryError"),
    ),
    KnownProblem(
        "gpus_too_few",
        LOG,
        "tp_size asks for more GPUs than there are, or the server was not started by mpirun",
        "Check tp_size, the launcher and the hostfile.",
        TENSORRT_LLM,
        substrings=("GPUs are available, but",),
    ),
    KnownProblem(
        "gpu_absent",
        LOG,
        "The container has no GPU",
        "Check the container's GPU flag and the NVIDIA container toolkit.",
        TENSORRT_LLM,
        substrings=("No GPU devices found on the node",),
    ),
    KnownProblem(
        "all_reduce_crashed",
        LOG,
        "The all-reduce of this release crashes between two Sparks",
        "Use the image 1.2.0rc6, which was seen to work on two, or 1.3.0rc22 or newer, which have pull request 15559.",
        ALL_REDUCE,
        substrings=("ncclGinGdakiQueryLastError", "ncclCommGroupRegisterSymmetric", "ncclCommWindowRegister"),
    ),
    KnownProblem(
        "nccl_collectives",
        LOG,
        "NCCL crashed, as 2.28.9 does on two Sparks after about a million collective operations",
        "The server is started again by itself; an image with another NCCL may not do it.",
        "NVIDIA/nccl issue 2213",
        substrings=("ncclLocalOpAppend",),
    ),
    # Two Sparks: what the network card says is nearer to the root than what NCCL makes of it.
    KnownProblem(
        "ibv_memory_lock",
        LOG,
        "The network card may not lock the memory that it is to send from",
        "Leave trtllm_container_ulimits at memlock -1; kernels whose CMA total is 0 cannot do it either.",
        "NVIDIA developer forum, DGX Spark, and NCCL documentation, troubleshooting",
        substrings=(
            "ibv_reg_mr failed",
            "ibv_reg_mr_iova2 failed",
            "ibv_create_cq failed with error Cannot allocate memory",
            "ibv_create_qp failed with error Cannot allocate memory",
        ),
    ),
    KnownProblem(
        "ibv_no_answer",
        LOG,
        "What a network card sent through the cable was not acknowledged by the other Spark",
        "Ping both addresses of the other Spark once and start again; if it comes again, the other rank died, the link"
        " went down, or MTU or GID index differ: two_sparks.yml proves the link.",
        NCCL_DOCS,
        substrings=("IBV_WC_RETRY_EXC_ERR", "with status=12 ", "with error 12,"),
    ),
    KnownProblem(
        "ibv_request_refused",
        LOG,
        "The other rank did not understand what this one sent, as with two builds of NCCL",
        "Run the same image on both Sparks (two_sparks.yml compares them), and set no other NCCL by LD_PRELOAD.",
        "eugr/spark-vllm-docker issue 150",
        substrings=("IBV_WC_REM_INV_REQ_ERR", "with status=9 ", "with error 9,"),
    ),
    KnownProblem(
        "ibv_gid",
        LOG,
        "The two network cards cannot agree on a way: a wrong GID index, or twins in one network",
        "Take NCCL_IB_GID_INDEX out of speculative_serve_environment and run two_sparks.yml, which gives each twin a"
        " network of its own.",
        NCCL_DOCS,
        substrings=("ibv_modify_qp failed", "invalid GID", "Invalid GID"),
    ),
    KnownProblem(
        "nccl_interface",
        LOG,
        "NCCL finds no interface of the name that NCCL_SOCKET_IFNAME says",
        "Run two_sparks.yml again, which looks up the names; take your own out of speculative_serve_environment.",
        NCCL_DOCS,
        substrings=("no socket interface found", "NET/Socket : no interface found"),
    ),
    KnownProblem(
        "nccl_library",
        LOG,
        "NCCL is missing in the container of one of the two Sparks",
        "Run two_sparks.yml again, which brings the same image to both.",
        "NVIDIA DGX Spark playbook 'NCCL for Two Sparks', troubleshooting",
        substrings=("libnccl.so.2: cannot open shared object file",),
    ),
    KnownProblem(
        "ucx_refused",
        LOG,
        "The two ranks chose different UCX transports, so that one of them listens where the other one does not ask",
        "Leave OMPI_MCA_pml and UCX_TLS out of speculative_serve_environment: MPI starts over TCP.",
        USERS_OF_TWO,
        substrings=("connect(fd=",),
    ),
    KnownProblem(
        "nccl",
        LOG,
        "The GPUs or the two Sparks cannot communicate",
        "Check the interface names, the link and that both Sparks run the same image; NCCL_DEBUG=INFO shows more.",
        EXECUTOR,
        substrings=(
            "Executor creation failed with NCCL error:",
            "Failed, NCCL error",
            "unhandled cuda error (run with NCCL_DEBUG=INFO",
        ),
    ),
    KnownProblem(
        "xqa_kernels",
        LOG,
        "The image has no attention kernel for speculative decoding on this GPU",
        "Use a newer image, or no speculation.",
        "NVIDIA/TensorRT-LLM pull request 12795",
        substrings=("No available XQA kernels are found for speculative decoding mode",),
    ),
    KnownProblem(
        "illegal_instruction",
        LOG,
        "A GPU kernel of the image is broken on this GPU",
        "Use another image and the MoE backend CUTLASS, and report it to NVIDIA.",
        "NVIDIA/TensorRT-LLM issue 11313",
        substrings=("an illegal instruction was encountered",),
    ),
    KnownProblem(
        "illegal_memory_access",
        LOG,
        "A GPU kernel of the image is broken on this GPU",
        "Switch off the autotuner and the CUDA graphs, one at a time, to isolate it.",
        "NVIDIA/TensorRT-LLM issue 10679",
        substrings=("illegal memory access",),
    ),
    KnownProblem(
        "hub_gated",
        LOG,
        "The model's licence is not accepted for the account of the Hugging Face token",
        "Accept it on the model's page on the Hub, and set the token.",
        SPECULATIVE,
        substrings=("Cannot access gated repo for url", "GatedRepoError", "403 Client Error"),
    ),
    KnownProblem(
        "hub_token",
        LOG,
        "The Hugging Face token is missing or wrong, or the model's name is wrong",
        "Set a valid token and check the name.",
        SPECULATIVE,
        substrings=("Invalid username or password", "Repository Not Found", "401 Client Error"),
    ),
    KnownProblem(
        "tiktoken_encodings_absent",
        LOG,
        "The vocabulary files of gpt-oss are absent",
        "Put both tiktoken files where TIKTOKEN_ENCODINGS_BASE points, on every Spark.",
        "NVIDIA/dgx-spark-playbooks issue 17",
        substrings=(
            "error downloading or loading vocab file",
            "failed to download or load vocab file",
            "Error in harmony chat completion:",
        ),
    ),
    KnownProblem(
        "ptxas",
        LOG,
        "Triton compiles kernels while the server runs, and its assembler does not know this GPU",
        "Set TRITON_PTXAS_PATH to the ptxas of the image's CUDA, and pass it on with mpirun -x.",
        TRT_LLM,
        substrings=("ptxas fatal",),
    ),
    KnownProblem(
        "jit_cache",
        LOG,
        "A kernel could not be compiled at the start",
        "Remove the volume with the compiled kernels and start again; with several ranks, give each its own cache.",
        "NVIDIA/TensorRT-LLM release notes of 1.3.0rc24",
        substrings=("Ninja build failed", "Error building extension"),
    ),
    KnownProblem(
        "backend_tensorrt",
        LOG,
        "The backend tensorrt is not supported by this image",
        "Use --backend pytorch.",
        "NVIDIA/TensorRT-LLM issue 15941",
        substrings=(
            "tensorrt backend is not supported",
            "backend tensorrt is not supported",
            "Unsupported backend: tensorrt",
        ),
    ),
    KnownProblem(
        "package_broken",
        LOG,
        "Python in the container cannot import tensorrt_llm",
        "Restart Docker with 'sudo systemctl restart docker'; if that does not help, pull the image again.",
        TRT_LLM,
        substrings=("No module named 'tensorrt_llm", "cannot import name 'LLM' from 'tensorrt_llm"),
    ),
    KnownProblem(
        "checkpoint_truncated",
        LOG,
        "A file of a model's weights is cut off or damaged",
        "Run the playbook again, which checks every file and fetches the wrong ones once more.",
        "huggingface/safetensors, source code",
        substrings=(
            "Error while deserializing header",
            "MetadataIncompleteBuffer",
            "incomplete metadata, file not fully covered",
        ),
    ),
    KnownProblem(
        "checkpoint_layout",
        LOG,
        "The image cannot read the model's weights: the two do not fit together",
        "Use the image and the models of one recipe.",
        NEMOTRON,
        substrings=(
            "size mismatch for ",
            "Missing key(s) in state_dict",
            "Unexpected key(s) in state_dict",
            "must match the size of tensor",
        ),
    ),
    KnownProblem(
        "cache_incomplete",
        LOG,
        "The server runs offline and does not find a model in the Hugging Face cache",
        "Run the playbook again, which completes the cache; a cache copied by hand lacks refs/ or snapshots/.",
        "Hugging Face Hub documentation, environment variable HF_HUB_OFFLINE",
        substrings=(
            "LocalEntryNotFoundError",
            "OfflineModeIsEnabled",
            "outgoing traffic has been disabled",
            "couldn't find them in the cached files",
            "is not a local folder and is not a valid model identifier",
        ),
    ),
    KnownProblem(
        "interface_wrong",
        LOG,
        "A network interface of the fabric has a wrong name in the container's environment",
        "Compare the names with those that 'ip link' shows on each Spark.",
        SPECULATIVE,
        substrings=("Socket operation on non-socket",),
    ),
    # mpirun reaches the worker through ssh; what ssh says is the root of what mpirun says after it.
    KnownProblem(
        "ssh_host_key",
        LOG,
        "The worker shows another host key than the one that was agreed on",
        "Run two_sparks.yml again, which makes and exchanges the keys. If the other Spark was not set up anew, make"
        " sure which machine is at the other end of the cable.",
        OPEN_SSH,
        substrings=("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed", "host key is known for"),
    ),
    KnownProblem(
        "ssh_key_unreadable",
        LOG,
        "A key of the deployment belongs to somebody else, may be read by others, or is damaged, so ssh refuses it",
        "Run two_sparks.yml again, which puts owner and mode right.",
        OPEN_SSH,
        substrings=("UNPROTECTED PRIVATE KEY FILE", 'Load key "/cluster/', "bad ownership or modes for"),
    ),
    KnownProblem(
        "ssh_publickey",
        LOG,
        "The head's container may not log in to the worker's container",
        "Run two_sparks.yml again, which gives both the same deployment's keys; a worker of another deployment refuses"
        " them.",
        SPECULATIVE,
        substrings=("Permission denied (publickey",),
    ),
    KnownProblem(
        "ssh_refused",
        LOG,
        "No SSH server listens in the worker's container",
        "Start both with start.yml; on the worker status.yml and logs.yml say why its container does not run.",
        SPECULATIVE,
        substrings=("port 2233: Connection refused",),
    ),
    KnownProblem(
        "ssh_banner",
        LOG,
        "The other Spark takes connections and does not get on, as one does whose memory has run out",
        "Look at its memory with status.yml; if it does not recover, switch it off and on.",
        USERS_OF_TWO,
        substrings=("timed out during banner exchange",),
    ),
    KnownProblem(
        "ssh_unreachable",
        LOG,
        "The other Spark does not answer at its fabric address",
        "See that it is on and the cable is in, then run two_sparks.yml, which proves the link; a firewall has to let"
        " the other Spark in on its fabric addresses.",
        SPARKS,
        substrings=(
            "port 2233: No route to host",
            "port 2233: Connection timed out",
            "port 2233: Network is unreachable",
            "port 2233: Operation timed out",
        ),
    ),
    KnownProblem(
        "sshd_port_taken",
        LOG,
        "Something else listens on port 2233 of the worker's fabric address",
        "Find it there with 'sudo ss -tlnp sport = :2233' and stop it; a container made by hand is a likely one.",
        TRT_LLM,
        substrings=("failed: Address already in use.",),
    ),
    KnownProblem(
        "sshd_no_address",
        LOG,
        "The worker's fabric address has gone, or has not come yet",
        "Put the cable in; 'ip -br addr' shows it, and two_sparks.yml gives it again.",
        SPARKS,
        substrings=("failed: Cannot assign requested address.",),
    ),
    KnownProblem(
        "mpi_interface",
        LOG,
        "Open MPI finds no interface in the networks that it is told to use",
        "Run two_sparks.yml again, which looks up the addresses; take your own OMPI_MCA_ settings out.",
        OPEN_MPI,
        substrings=(
            "An invalid value was given for btl_tcp_if_include",
            "An invalid value was given for oob_tcp_if_include",
            "networks specified to be included",
        ),
    ),
    KnownProblem(
        "mpi_absent",
        LOG,
        "The worker's container has no Open MPI in the same place, or lacks one of its libraries",
        "Run two_sparks.yml again, which brings the same image to both.",
        USERS_OF_TWO,
        substrings=(
            "orted: command not found",
            "prted: command not found",
            "orted: No such file or directory",
            "prted: No such file or directory",
            "orted: error while loading shared libraries",
            "prted: error while loading shared libraries",
            # What the worker's login says by itself.
            "cannot be run on the worker",
        ),
    ),
    KnownProblem(
        "rank_undying",
        LOG,
        "What is left of an earlier rank on the worker cannot be ended, and holds its memory",
        "Reboot the worker; the pair comes back by itself.",
        USERS_OF_TWO,
        substrings=("an earlier rank on the worker cannot be ended",),
    ),
    KnownProblem(
        "launch_refused",
        LOG,
        "The worker's login starts Open MPI's daemon and nothing else, and was asked for something else",
        "Run the image that the recipe names; take OMPI_MCA_plm_ and PRTE_MCA_plm_ settings of your own out.",
        OPEN_MPI,
        substrings=("only mpirun may log in here",),
    ),
    KnownProblem(
        "mpi_program_absent",
        LOG,
        "A program of the deployment is missing on one of the two Sparks",
        "Run two_sparks.yml again, which brings the same image and files to both.",
        OPEN_MPI,
        substrings=(
            "the specified application as it could not access",
            "unable to find the specified executable file",
            "could not find an executable",
        ),
    ),
    KnownProblem(
        "mpi_callback",
        LOG,
        "mpirun's daemon on the other Spark cannot call back: an address is missing, or a firewall is in the way",
        "Let each Spark in on the other one's fabric addresses, on all ports ('sudo ufw allow from ADDRESS'), and see"
        " with status.yml that both have theirs.",
        PRRTE,
        substrings=(
            "unable to complete a TCP connection",
            "after launch and before",
            "failed to report back",
            "No OOB path",
        ),
    ),
    KnownProblem(
        "mpi_slots",
        LOG,
        "The hostfile has fewer slots than ranks are asked for",
        "Correct the hostfile or the number of ranks.",
        OPEN_MPI,
        substrings=("There are not enough slots available",),
    ),
    KnownProblem(
        "mpi_daemons",
        LOG,
        "mpirun could not start its daemon on the other Spark",
        "Check ssh between the containers and that both Sparks run the same image.",
        OPEN_MPI,
        substrings=("was unable to reliably start one or more daemons",),
    ),
    KnownProblem(
        "rank_killed",
        LOG,
        "A rank was killed from outside, usually because the memory of its Spark ran out",
        "Run diagnose.yml for both: the kernel's log of the one that the line names tells. Stop other users of the"
        " memory there, or lower free_gpu_memory_fraction.",
        TRT_LLM,
        substrings=("exited on signal 9", "signal 9 (Killed)"),
    ),
    KnownProblem(
        "rank_crashed",
        LOG,
        "A rank crashed in native code",
        "Run the same image and driver on both Sparks; use another image if it comes again.",
        OPEN_MPI,
        substrings=("exited on signal 11", "exited on signal 6", "signal 11 (Segmentation fault", "signal 6 (Aborted"),
    ),
    KnownProblem(
        "mpi_lost",
        LOG,
        "mpirun lost its daemon on the other Spark",
        "Look there, with status.yml and diagnose.yml: its container ended, the link went down, or image and files are"
        " not the same.",
        USERS_OF_TWO,
        substrings=("lost communication with a remote daemon",),
    ),
    KnownProblem(
        "rank_hung_up",
        LOG,
        "The other rank has hung up",
        "Read why in the other Spark's log, with logs.yml or diagnose.yml.",
        NCCL,
        severity=HINT,
        substrings=("Connection closed by remote peer", "socketProgress: Connection closed"),
    ),
    KnownProblem(
        "fp4_gemm",
        LOG,
        "The image's kernels for matrices in NVFP4 need more shared memory than a GB10 has",
        "Leave enable_autotuner on, which passes them over, or use a release with pull request 12141.",
        "NVIDIA/TensorRT-LLM issue 11368",
        severity=HINT,
        # In the autotuner's own lines it is a tactic that is left out.
        substrings=("Failed to run cutlass FP4 gemm", "nvfp4_gemm"),
    ),
    KnownProblem(
        "file_missing",
        LOG,
        "A file is missing in the container; with two Sparks perhaps on one of them only",
        "Copy it to every Spark.",
        TENSORRT_LLM,
        severity=HINT,
        substrings=("No such file or directory",),
    ),
    KnownProblem(
        "arguments_refused",
        LOG,
        "The engine options or the command line were refused",
        "Read the lines that follow.",
        SERVE,
        severity=WRAPPER,
        substrings=("Failed to parse the arguments for the LLM constructor",),
    ),
    KnownProblem(
        "executor_worker_died",
        LOG,
        "The process that drives the GPU crashed",
        "Read the traceback above.",
        TENSORRT_LLM,
        severity=WRAPPER,
        substrings=(
            "Executor worker died during initialization",
            "Executor worker initialization error:",
            "Executor worker returned error",
        ),
    ),
    KnownProblem(
        "engine_dead",
        LOG,
        "The engine died behind a live port",
        "Restart the server and read the lines above.",
        SERVER,
        severity=WRAPPER,
        substrings=(
            # The longer one first: what follows a match is taken for the reason.
            "Health check detected fatal engine error, initiating server shutdown",
            "Health check detected fatal engine error",
            "LLM is unavailable. Please check the server logs for more details.",
            "LLM is unavailable.",
        ),
    ),
    KnownProblem(
        "mpi_rank_died",
        LOG,
        "One of the ranks died",
        "Read the lines above.",
        OPEN_MPI,
        severity=WRAPPER,
        substrings=(
            # Open MPI 5 says prterun.
            "detected that one or more processes exited with non-zero status",
            # The two spaces are Open MPI's.
            "Primary job  terminated normally, but 1 process returned",
        ),
    ),
    KnownProblem(
        "loading_stalled",
        LOG,
        "Some images never get past the first weight on this GPU when the count stands at 0",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
        severity=WARNING,
        substrings=("Loading weights concurrently:",),
        standing=True,
    ),
    KnownProblem(
        "all_reduce_stalled",
        LOG,
        "The all-reduce of some releases never ends between two Sparks when the log stands here",
        "Use the image 1.2.0rc6, which was seen to work on two, or 1.3.0rc22 or newer, which have pull request 15559.",
        ALL_REDUCE,
        severity=WARNING,
        substrings=("finalMNNVL=0",),
        standing=True,
    ),
    KnownProblem(
        "eagle_renamed",
        LOG,
        "The decoding_type is in the old spelling",
        "Write Eagle3.",
        ARGUMENTS,
        severity=WARNING,
        substrings=("'Eagle' is treated as 'Eagle3'",),
    ),
    KnownProblem(
        "ucx_device",
        LOG,
        "UCX_NET_DEVICES names a device that is not there",
        "Harmless as long as the server answers; else correct the name.",
        "NVIDIA/TensorRT-LLM issue 2594",
        severity=WARNING,
        substrings=("UCX  WARN  network device", "UCX WARN network device"),
    ),
    KnownProblem(
        "nccl_over_socket",
        LOG,
        "NCCL goes through the cable by TCP and not by RDMA, which costs most of its speed",
        "Run two_sparks.yml again, which gives the container /dev/infiniband and sets NCCL_IB_HCA to both devices.",
        NCCL_DOCS,
        severity=WARNING,
        substrings=("NET/IB : No device found", "Using network Socket", "via NET/Socket/"),
    ),
    KnownProblem(
        "gpu_direct_rdma",
        LOG,
        "A Spark has no GPU Direct RDMA, since CPU and GPU share one memory",
        "Nothing to do.",
        "NVIDIA developer forum, thread 348787",
        severity=INFORMATION,
        substrings=("GPU Direct RDMA Disabled",),
    ),
    KnownProblem(
        "nvml_memory",
        LOG,
        "NVML cannot tell the GPU's memory on a Spark, where CPU and GPU share one pool",
        "Nothing to do; MemAvailable in /proc/meminfo tells.",
        "NVIDIA/gpu-operator issue 1794",
        severity=INFORMATION,
        substrings=("NVMLError_NotSupported", "NVML_ERROR_NOT_SUPPORTED"),
    ),
    KnownProblem(
        "fp4_experts",
        LOG,
        "The autotuner meets kernels for experts in NVFP4 that do not fit a GB10, and passes them over",
        "Nothing to do. If the server ends so, or is slow, use another image, such as 1.3.0rc17.",
        "NVIDIA/TensorRT-LLM pull request 12899 and issue 14575",
        severity=INFORMATION,
        substrings=("Failed to initialize cutlass TMA WS grouped gemm",),
    ),
    KnownProblem(
        "adjusted",
        LOG,
        "The server adjusted an option to the kind of speculation",
        "Nothing to do.",
        EXECUTOR,
        severity=INFORMATION,
        substrings=(
            "Disable overlap scheduler for speculation mode",
            "Falling back to greedy decoding for",
            "disable enable_block_reuse for SM",
        ),
    ),
    # What happened to the server.
    KnownProblem(
        "loading_stalled_at_0",
        LOG,
        "The server does not get past the first weight, as some images do on this GPU",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
    ),
    KnownProblem(
        "all_reduce_hangs",
        LOG,
        "The two Sparks do not get past their first all-reduce, as with some images",
        "Use the image 1.2.0rc6, which was seen to work on two, or 1.3.0rc22 or newer, which have pull request 15559.",
        ALL_REDUCE,
    ),
    KnownProblem(
        "engine_hangs",
        RECORD,
        "The server listens and generates nothing",
        "Restart it with stop.yml and start.yml; the container does so by itself after some minutes.",
        "NVIDIA/TensorRT-LLM pull request 16338",
    ),
    KnownProblem(
        "peer_lost",
        RECORD,
        "The server has lost its other half, and generates nothing",
        "It comes back by itself when the other Spark does; status.yml says for both how they stand.",
        THIS,
        explains=("server_refuses", "engine_hangs", "mpi_lost", "rank_hung_up"),
    ),
    KnownProblem(
        "worker_missing",
        RECORD,
        "The head waits for its worker, which does not come",
        "See with status.yml what the other Spark does; start.yml starts both.",
        THIS,
    ),
    KnownProblem(
        "fabric_missing",
        RECORD,
        "The worker waits for its address on the fabric, which does not come",
        "Put the cable in; two_sparks.yml gives the address again.",
        SPARKS,
    ),
    KnownProblem(
        "head_missing",
        RECORD,
        "This worker runs for a head that does not start its rank",
        "If the head serves something else or is gone, give the memory back with stop.yml and --limit for this Spark;"
        " else start both with start.yml.",
        USERS_OF_TWO,
    ),
    KnownProblem(
        "ranks_silent",
        RECORD,
        "mpirun was started, and neither rank has said a word",
        "It waits for the other Spark: see that both have their fabric addresses (status.yml), that no firewall is"
        " between them, and that no older rank runs there; then stop.yml and start.yml.",
        SPECULATIVE,
        severity=HINT,
    ),
    KnownProblem(
        "worker_failed",
        RECORD,
        "The worker's container cannot run a rank",
        "Remove the cause that it names, then run two_sparks.yml again, or start.yml.",
        THIS,
        severity=HINT,
        consequence=True,
    ),
    KnownProblem(
        "memory_held_by_others",
        MACHINE,
        "Others hold the memory that the server needs",
        "Stop them, for example with 'docker stop <name>'.",
        SPECULATIVE,
        severity=HINT,
        explains=MEMORY,
        context=True,
    ),
    KnownProblem(
        "memory_not_given_back",
        MACHINE,
        "Most of the memory is in use though nothing seems to use it, as after a hard stop of a GPU program",
        "Reboot the Spark; stop servers with stop.yml, which lets them give the memory back.",
        USERS,
        severity=HINT,
        explains=MEMORY,
        context=True,
    ),
    KnownProblem(
        "page_cache",
        MACHINE,
        "The page cache fills the memory that the GPU shares",
        "Drop it with 'sync' and 'echo 3 | sudo tee /proc/sys/vm/drop_caches', and start again.",
        SPECULATIVE,
        severity=HINT,
        context=True,
    ),
    KnownProblem(
        "oom_container",
        DOCKER,
        "The container's memory ran out",
        "Stop other users of the memory or lower free_gpu_memory_fraction.",
        TRT_LLM,
        explains=("exit_killed",),
    ),
    KnownProblem(
        "oomd_killed",
        DOCKER,
        "The memory or swap ran short, and systemd-oomd killed the container",
        "Stop other users of the memory or lower free_gpu_memory_fraction; 'oomctl' shows what systemd-oomd watches.",
        "systemd source, src/oom/oomd-manager.c",
        explains=("exit_killed", "oom_container"),
    ),
    KnownProblem(
        "may_sleep",
        MACHINE,
        "The machine may go to sleep when nobody sits at it",
        KEEP_AWAKE,
        USERS,
        severity=HINT,
        context=True,
    ),
    KnownProblem(
        "machine_restarted",
        MACHINE,
        "The machine went down while the server ran",
        "Start the server with start.yml; if it happens under load, cap the GPU's clocks with 'sudo nvidia-smi -lgc'.",
        USERS,
        severity=HINT,
    ),
    KnownProblem(
        "exit_killed",
        RECORD,
        "The server was killed from outside, usually because the memory ran out",
        "Stop other users of the memory, or lower free_gpu_memory_fraction.",
        TRT_LLM,
        severity=HINT,
    ),
    KnownProblem(
        "exit_native",
        RECORD,
        "The server crashed in native code",
        "Use another image, and report the crash to NVIDIA.",
        "Linux manual page signal(7)",
        severity=HINT,
    ),
    KnownProblem(
        "exit_usage",
        RECORD,
        "The server refused its command line",
        "Use the image that the recipe names.",
        SERVE,
        severity=HINT,
    ),
    KnownProblem(
        "container_exited",
        DOCKER,
        "The container has ended by itself",
        "Run the playbook again; 'docker logs' shows what it said last.",
        TRT_LLM,
        severity=HINT,
        consequence=True,
    ),
    KnownProblem(
        "container_missing",
        DOCKER,
        "A deployment is recorded here, and its container is gone",
        "Run the playbook that made it again; nothing is downloaded twice.",
        THIS,
        severity=HINT,
    ),
    KnownProblem(
        "state_contradicts",
        RECORD,
        "The container runs, and its first program does not say what the server does",
        "Stop and start it with stop.yml and start.yml.",
        USERS,
        severity=HINT,
    ),
    KnownProblem(
        "crash_loop",
        RECORD,
        "The server died several times within an hour and is not started again",
        "Remove the cause (server.log tells it), then run the playbook again, or start.yml.",
        THIS,
        severity=HINT,
        consequence=True,
    ),
    KnownProblem(
        "server_refuses",
        RECORD,
        "The server answers requests with an error",
        "Read its log with logs.yml, and restart it with stop.yml and start.yml.",
        "NVIDIA/TensorRT-LLM issue 18663",
        severity=HINT,
        consequence=True,
    ),
    KnownProblem(
        "server_silent",
        MACHINE,
        "The server is said to run, and nothing answers at its address",
        "Look whether a firewall is in the way; else restart it with stop.yml and start.yml.",
        SPECULATIVE,
        severity=HINT,
    ),
    # Serves, but.
    KnownProblem(
        "forced_acceptance",
        DOCKER,
        "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS is set: wrong drafts are accepted, so answers are nonsense",
        "Remove the variable; it is meant for measurements only.",
        TENSORRT_LLM,
        severity=WARNING,
    ),
    KnownProblem(
        "endless_text",
        RECORD,
        "The answer repeated itself, which EAGLE-3 with gpt-oss is known for on some images",
        "Use the image that the recipe names, or another draft head.",
        "NVIDIA/TensorRT-LLM issue 8615",
        severity=WARNING,
    ),
    KnownProblem(
        "gibberish",
        RECORD,
        "The answer was garbled, which EAGLE-3 is known for on 1.2.0rc8",
        "Use another image.",
        "NVIDIA/TensorRT-LLM issue 11125",
        severity=WARNING,
    ),
    KnownProblem(
        "tool_calls_missing",
        RECORD,
        "Tool calls or the answer's text went missing, which EAGLE-3 is known for on 1.3.0rc13",
        "If you use tools, serve without drafts (method none), or use another image.",
        "NVIDIA/TensorRT-LLM issue 16377",
        severity=WARNING,
    ),
    KnownProblem(
        "drafts_useless",
        RECORD,
        "Drafts cost more than they bring",
        "Try a shorter draft length, or method none.",
        "arXiv 2211.17192 'Fast Inference from Transformers via Speculative Decoding'",
        severity=WARNING,
    ),
    KnownProblem(
        "served_name_differs",
        RECORD,
        "The model is served under another name than the record says",
        "Ask for the name that /v1/models lists.",
        NEMOTRON,
        severity=WARNING,
    ),
    KnownProblem(
        "cache_not_mounted",
        DOCKER,
        "The container has no Hugging Face cache from outside, so it fetches its models at each start",
        "Run the playbook again, which mounts it.",
        NEMOTRON,
        severity=WARNING,
    ),
    KnownProblem(
        "shared_memory_large",
        DOCKER,
        "The container has a large shared memory of its own, which counts twice on unified memory",
        "Leave out shm_size and use the host's IPC.",
        USERS,
        severity=WARNING,
    ),
    KnownProblem(
        "kernel_version",
        MACHINE,
        "The running kernel is one in which the GPU's driver is known to get no memory",
        "Boot the 6.17 kernel of DGX OS.",
        "NVIDIA/open-gpu-kernel-modules issue 1358",
        severity=WARNING,
    ),
    KnownProblem(
        "disk_nearly_full",
        MACHINE,
        "A disk is nearly full",
        "Make room there: 'cleanup.yml -e unused=true' removes models that nothing uses, 'docker image prune' images.",
        NIM,
        severity=WARNING,
    ),
    KnownProblem(
        "fabric_slower",
        MACHINE,
        "The link to the other Spark runs slower than it did",
        "Take both Sparks off the power for a minute, cable out, and start them again; else use another cable.",
        "NVIDIA/dgx-spark-playbooks pull request 108",
        severity=WARNING,
    ),
    KnownProblem(
        "fabric_mtu",
        MACHINE,
        "Packets to the other Spark may no longer be as large as they were",
        "Run two_sparks.yml again, which sets the MTU and proves it in both directions.",
        USERS_OF_TWO,
        severity=WARNING,
        explains=("ibv_no_answer",),
    ),
    KnownProblem(
        "twins_in_one_network",
        MACHINE,
        "Both ways through the cable are in one network, so that one may answer for the other",
        "Give each a network of its own: take the addresses away and let two_sparks.yml choose "
        "(spark_network_addresses).",
        "eugr/spark-vllm-docker issue 270",
        severity=WARNING,
        explains=("ibv_gid",),
    ),
    KnownProblem(
        "ranks_unequal",
        RECORD,
        "The two Sparks differ, and the slower one sets the pace",
        "Bring both to the same release of DGX OS; a Spark with less memory needs a smaller free_gpu_memory_fraction.",
        USERS_OF_TWO,
        severity=WARNING,
    ),
    KnownProblem(
        "rank_on_one_core",
        RECORD,
        "A rank may use one core only, on which NCCL's threads starve",
        "Run two_sparks.yml again, which starts ranks without binding; take OMPI_MCA_ settings of your own out.",
        USERS_OF_TWO,
        severity=WARNING,
    ),
    KnownProblem(
        "infiniband_not_passed",
        DOCKER,
        "The container cannot use RDMA",
        "Leave trtllm_container_devices alone and run two_sparks.yml again.",
        USERS_OF_TWO,
        severity=WARNING,
        explains=("nccl_over_socket",),
    ),
    KnownProblem(
        "link_capped",
        MACHINE,
        "The cable carries far less than it can, as the test of its bandwidth has measured since the start",
        "Run the playbook that deployed it again with -K and -e spark_network_keep_nic_on=true and reboot both with the"
        " cable in; if that does not help, switch both off and take the power plugs out for a minute.",
        "NVIDIA/dgx-spark-playbooks pull request 108",
        severity=WARNING,
    ),
    KnownProblem(
        "pair_by_tcp",
        RECORD,
        "The two Sparks go through the cable by TCP and not by RDMA, which costs most of its speed",
        "Take NCCL_ variables of your own, such as NCCL_IB_DISABLE, NCCL_NET or NCCL_IB_HCA, out of"
        " speculative_serve_environment and run two_sparks.yml again. status.yml says what else can be done.",
        NCCL_DOCS,
        severity=WARNING,
        explains=("nccl_over_socket",),
    ),
    KnownProblem(
        "rdma_partly",
        RECORD,
        "NCCL does not use all RDMA devices of the link, which makes it slower",
        "Check the cable and 'rdma link' on this Spark, then run two_sparks.yml again.",
        NCCL,
        severity=WARNING,
    ),
    KnownProblem(
        "memory_lock_limited",
        DOCKER,
        "The container may not lock all the memory that the network card is to read",
        "Leave trtllm_container_ulimits at memlock -1 and run two_sparks.yml again.",
        NCCL_DOCS,
        severity=WARNING,
        explains=("ibv_memory_lock",),
    ),
    KnownProblem(
        "fabric_not_pinned",
        DOCKER,
        "NCCL is not told to use both ways through the cable, and may take a slower one",
        "Take NCCL_ settings of your own out of speculative_serve_environment and run two_sparks.yml again.",
        USERS_OF_TWO,
        severity=WARNING,
        explains=("nccl_over_socket",),
    ),
    # Serves not yet, or not now, and nothing is wrong.
    KnownProblem(
        "waits_for_other",
        RECORD,
        "One of the two Sparks waits for the other one",
        "Wait some minutes; status.yml says how both stand.",
        THIS,
        severity=WARNING,
    ),
    KnownProblem(
        "trial",
        RECORD,
        "A benchmark tries other engine options than the deployment's own",
        "Wait; the deployment's own options are served again when it ends. status.yml shows how far it is.",
        THIS,
        severity=WARNING,
    ),
    KnownProblem(
        "still_loading",
        RECORD,
        "The server still loads",
        "Wait; status.yml shows how far it is.",
        SPECULATIVE,
        severity=WARNING,
    ),
    KnownProblem(
        "busy",
        RECORD,
        "The server is up and was busy with others while it was asked",
        "Nothing to do; ask again later to be sure.",
        THIS,
        severity=WARNING,
    ),
    KnownProblem(
        "stopped",
        DOCKER,
        "The server was stopped",
        "Start it with start.yml.",
        THIS,
        severity=WARNING,
    ),
    KnownProblem(
        "download_under_way",
        JOB,
        "A download is under way",
        "Wait, or run the playbook again to watch it.",
        NIM,
        severity=WARNING,
    ),
    KnownProblem(
        "earlier_attempt",
        LOG,
        "A later deployment did not get ready and was undone",
        "Read why in failed.log.",
        THIS,
        severity=INFORMATION,
    ),
    KnownProblem(
        "image_without_digest",
        RECORD,
        "The image was loaded from a file, so there is no digest to compare it by",
        "Nothing to do; its id identifies it on this machine.",
        DOCKER_DOCS,
        severity=INFORMATION,
    ),
)

# Why a container may not reach the GPU that its host sees; the last one where nothing tells.
GPU_CAUSES = ("gpu_driver", "cdi_stale", "image_architecture", "cuda_broken", "docker_no_gpu")


def known(text: str, places: t.Container[str]) -> t.Iterator[KnownProblem]:
    """Return the rows of these places that know a text, by their priority."""
    return (row for row in CATALOGUE if row.where in places and row.knows(text))


def cause_of(text: str, ids: tuple[str, ...]) -> KnownProblem:
    """Return the first of these rows that knows a text, or the last of them."""
    rows = {row.id: row for row in CATALOGUE}
    return next((rows[one] for one in ids if rows[one].knows(text)), rows[ids[-1]])
