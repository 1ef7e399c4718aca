# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""List the known problems, each with its cause, its fix and a public source.

CATALOGUE is in order of priority: of several causes the first one is the root. A row is recognised by a part of a text,
by the function under its id in FACTS of _diagnosis/facts.py, or by both. docs/troubleshooting.md is generated from it.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

# Places of evidence. LOG is the server's log, in which the texts around a match differ between releases.
LOG = "log"
KERNEL = "kernel"
DOCKER = "docker"
JOB = "job"
MACHINE = "machine"
RECORD = "record"
MEMORY_LOG = "memory.log"

# The reason why the server does not work.
CAUSE = "cause"
# Something failed, and the reason is elsewhere in the log.
WRAPPER = "wrapper"
# It is the cause only if no other row is.
HINT = "hint"
# It does not stop a server, but users should know about it.
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
# Several users report it, but there is no thread to cite.
USERS = "reports of DGX Spark users"
USERS_OF_TWO = "reports of users of two DGX Sparks"
THIS = "dgx_spark.speculative documentation"
LESS_MEMORY = (
    "Stop other users of the memory, lower speculative_serve_context or speculative_serve_concurrency, or raise"
    " speculative_serve_reserve_gib, so that the plan keeps more memory free."
)
KEEP_AWAKE = (
    "Disable sleep with 'sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target'."
)


@dataclasses.dataclass(frozen=True)
class KnownProblem:
    """A row of the catalogue."""

    id: str
    where: str
    cause: str
    fix: str
    source: str
    severity: str = CAUSE
    # Parts of a line, or a pattern if no part is constant.
    substrings: tuple[str, ...] = ()
    pattern: str = ""
    # Rows that are only consequences if this one is found.
    explains: tuple[str, ...] = ()
    # Something is broken, but the row does not show why.
    consequence: bool = False
    # Too common to be the cause by itself: it is the cause only if it explains another row.
    context: bool = False
    # In a server's log, pydantic names the option in the line before, and a later line with `after` has details.
    before: bool = False
    after: str = ""
    # It counts only while its counter is 0, or, without a counter, while no line follows it.
    standing: bool = False

    def knows(self, text: str) -> bool:
        """Return whether a text shows this problem."""
        # Each line of a log is tested with each row: a generator would take twice as long.
        for part in self.substrings:
            if part in text:
                return True
        return bool(self.pattern and re.search(self.pattern, text))


_NETWORK = ("pull_network", "hub_network", "certificate_refused")
# Consequences of a Spark that cannot reach the other one.
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
        "This user is not allowed to use Docker",
        "Add the user with 'sudo usermod -aG docker <user>' and log in again. With -K, serve.yml does this.",
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
        "Docker is installed but not running",
        "Start it with 'sudo systemctl start docker'. 'journalctl -u docker' shows why it stopped.",
        DOCKER_DOCS,
        substrings=("Cannot connect to the Docker daemon", "Docker is installed and does not answer"),
    ),
    KnownProblem(
        "docker_unsupported",
        DOCKER,
        "Docker is not the Docker Engine of root, but Podman, rootless Docker or the snap",
        "Install Docker Engine from the distribution or from Docker. Podman, rootless Docker and the snap are not"
        " supported.",
        THIS,
    ),
    KnownProblem(
        "gpu_driver",
        MACHINE,
        "The GPU driver does not work",
        "Reboot. If that does not help, reinstall the driver of DGX OS.",
        "NVIDIA DGX Spark user guide",
        substrings=("NVIDIA-SMI has failed because", "couldn't communicate with the NVIDIA driver", "nvml error"),
        explains=("docker_no_gpu", "gpu_absent"),
    ),
    KnownProblem(
        "cdi_stale",
        DOCKER,
        "Docker's description of the GPU (CDI) does not match the driver, for example after an update",
        "Run 'sudo systemctl restart nvidia-cdi-refresh'. If that does not help, delete /etc/cdi/nvidia.yaml, which"
        " this service does not write, and run the command again.",
        "NVIDIA/nvidia-container-toolkit issues 450 and 856",
        substrings=("unresolvable CDI devices", "CDI device injection failed"),
        pattern=r"nvidia\S*\.so[.\d]*\W+no such file",
        explains=("docker_no_gpu", "gpu_absent"),
    ),
    KnownProblem(
        "cuda_broken",
        DOCKER,
        "Containers get the GPU, but CUDA cannot be initialized in them",
        "Run 'sudo systemctl restart nvidia-cdi-refresh'. If that does not help, reboot. If that does not help"
        " either, install a release of nvidia-container-toolkit other than 1.19.1 and 1.20.0.",
        "NVIDIA/nvidia-container-toolkit issues 1967, 1743 and 1940; NVIDIA/NemoClaw pull request 4733",
        substrings=("cuInit(0) failed", "cuInit(0) gave no answer"),
        explains=("docker_no_gpu", "gpu_absent"),
    ),
    KnownProblem(
        "docker_no_gpu",
        DOCKER,
        "Docker cannot give the GPU to a container",
        "Install or upgrade the toolkit with 'sudo apt-get install nvidia-container-toolkit'. Then run 'sudo"
        " nvidia-ctk runtime configure --runtime=docker' and 'sudo systemctl restart docker'.",
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
    # Root causes of other failures.
    KnownProblem(
        "clock_wrong",
        MACHINE,
        "The clock of this machine is wrong, so every certificate looks invalid",
        "Set it with 'sudo timedatectl set-ntp true'.",
        TRT_LLM,
        explains=_NETWORK,
    ),
    KnownProblem(
        "no_default_route",
        MACHINE,
        "This machine has no route to the internet",
        "Connect it; 'nmcli device status' shows the state of its interfaces. A deployment that has already run"
        " starts without internet.",
        SPARKS,
        severity=HINT,
        explains=_NETWORK,
        context=True,
    ),
    KnownProblem(
        "no_name_server",
        MACHINE,
        "This machine has no name server",
        "Correct /etc/resolv.conf; 'resolvectl status' shows the current name servers.",
        "Ubuntu Server documentation",
        severity=HINT,
        explains=_NETWORK,
        context=True,
    ),
    KnownProblem(
        "disk_full",
        MACHINE,
        "A disk is full",
        "Free disk space: 'cleanup.yml -e unused=true' removes models and images that no deployment uses, and"
        " 'docker image prune' removes images without a tag.",
        NIM,
        substrings=("no space left on device", "No space left on device", "Disk quota exceeded", "The disk under "),
    ),
    # The memory guard.
    KnownProblem(
        "memory_froze",
        MEMORY_LOG,
        "Memory ran out so fast that the Spark froze",
        LESS_MEMORY,
        "vllm-project/vllm issue 56824",
        explains=("memory_guarded", "machine_restarted", *MEMORY, "container_exited"),
    ),
    KnownProblem(
        "memory_guarded",
        RECORD,
        "The memory guard stopped the server before memory ran out",
        f"{LESS_MEMORY} If memory was not short, change its limits with speculative_serve_memory_guard.",
        "vllm-project/vllm issue 56824",
        explains=(*MEMORY, "crash_loop", "exit_native", "worker_failed"),
    ),
    # Kernel.
    KnownProblem(
        "oom_killed",
        KERNEL,
        "Memory ran out, and the kernel killed a process",
        "Stop other users of the memory, or lower free_gpu_memory_fraction. If it happens while loading, set"
        " TRT_LLM_DISABLE_LOAD_WEIGHTS_IN_PARALLEL=1.",
        TRT_LLM,
        substrings=("Out of memory: Killed process", "oom-kill:", "Memory cgroup out of memory"),
        explains=("exit_killed", "oom_container"),
    ),
    KnownProblem(
        "kernel_no_memory",
        KERNEL,
        "The GPU driver could not allocate memory; healthy starts log this as well",
        "It matters only together with another cause. If 'uname -r' prints 7.0.0-1019-nvidia, boot the 6.17 kernel of"
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
        "Shut the Spark down, disconnect its power for a minute, and start it again.",
        XID_DOCS,
        substrings=("GPU has fallen off the bus",),
    ),
    KnownProblem(
        "gpu_xid",
        KERNEL,
        "The GPU driver reported an error (Xid)",
        "Look up the number in NVIDIA's list of Xid errors. Restart the server; if the error happens again, reboot.",
        XID_DOCS,
        severity=HINT,
        substrings=("NVRM: Xid",),
    ),
    KnownProblem(
        "kernel_hang",
        KERNEL,
        "The machine hung, which happens when weights are read while memory is short",
        "Stop other users of the memory. Drop the page cache before loading: 'sync', then 'echo 3 | sudo tee"
        " /proc/sys/vm/drop_caches'.",
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
        "Save your data and check the disk with 'sudo nvme smart-log /dev/nvme0'.",
        KERNEL_DOCS,
        substrings=("I/O error, dev ", "Remounting filesystem read-only", "EXT4-fs error", "critical medium error"),
    ),
    KnownProblem(
        "overheated",
        KERNEL,
        "The machine got too hot and slowed down or shut down",
        "Improve the airflow. Limit the GPU clocks with 'sudo nvidia-smi -lgc <minimum>,<maximum>' in MHz; -rgc removes"
        " the limit.",
        USERS,
        substrings=("critical temperature reached", "temperature above threshold"),
    ),
    KnownProblem(
        "module_hot",
        KERNEL,
        "The module at the end of the QSFP cable got too hot and was switched off",
        "Let it cool down and improve the airflow behind the Spark. A passive copper cable stays cool.",
        KERNEL_DOCS,
        substrings=("Cable error, High Temperature",),
        explains=(*_FABRIC, "link_down"),
    ),
    KnownProblem(
        "cable_error",
        KERNEL,
        "The NIC reports an error of the QSFP cable",
        "Unplug the cable at both ends and plug it in again. If the error happens again, use another cable.",
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
        "The QSFP cable was unplugged, or the Spark at its other end was switched off",
        "Plug it in and switch both Sparks on. The server recovers by itself.",
        SPARKS,
        severity=HINT,
        substrings=(", Cable unplugged",),
        explains=(*_FABRIC, "link_down"),
        context=True,
    ),
    KnownProblem(
        "card_removed",
        KERNEL,
        "DGX OS removed the NIC from the bus because no cable was detected: the cable is out, or the other Spark is"
        " off",
        "Plug the cable into both Sparks, switch both on and wait 30 s. If the NIC stays away, reboot this Spark with"
        " the cable plugged in. To keep the NIC on, which costs 18 to 20 W, run the deployment's playbook again with"
        " -K and -e spark_network_keep_nic_on=true.",
        "NVIDIA/NV-Kernels pull request 271",
        severity=INFORMATION,
        substrings=("MTKP0001:00: Cable removal",),
        explains=(*_FABRIC, "link_down", "cable_out", "fabric_address_gone", "card_late", "machine_restarted"),
        context=True,
    ),
    KnownProblem(
        "card_lost",
        KERNEL,
        "The NIC failed on its PCIe bus, which can hang the Spark",
        "Reboot both Sparks with the cable plugged in. If it happens again, update DGX OS and the firmware.",
        "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue 146",
        substrings=("mlx5_pci_err_detected", "mlx5_pci_slot_reset"),
        explains=(*_FABRIC, "link_down", "kernel_hang"),
    ),
    KnownProblem(
        "card_plugged_in",
        KERNEL,
        "The NIC reappeared while the Spark was running; such a NIC may be limited to 13 Gb/s",
        "If the cluster is slow, reboot both Sparks with the cable plugged in. Healthy Sparks log this line as well,"
        " so it proves nothing by itself.",
        "NVIDIA/dgx-spark-playbooks pull request 108",
        severity=INFORMATION,
        substrings=("PCIe slot power capability was not advertised",),
        context=True,
    ),
    # Two Sparks.
    KnownProblem(
        "link_down",
        MACHINE,
        "A link to the other Spark is down",
        "Switch the other Spark on and check that the cable is plugged in at both ends. If the link stays down,"
        " reboot both Sparks.",
        SPARKS,
        explains=_FABRIC,
    ),
    KnownProblem(
        "fabric_address_gone",
        MACHINE,
        "This Spark no longer has its fabric address",
        "Run two_sparks.yml again, which sets the address and makes it persistent. Or run 'sudo netplan apply'; it"
        " interrupts other connections for some seconds.",
        SPARKS,
        explains=_FABRIC,
    ),
    KnownProblem(
        "peer_unreachable",
        MACHINE,
        "The other Spark does not answer on the fabric",
        "Switch it on. If it is on, check its address with 'ip -br addr', and check that no firewall blocks this"
        " Spark.",
        SPARKS,
        explains=tuple(name for name in _FABRIC if name != "peer_unreachable"),
    ),
    KnownProblem(
        "worker_ssh_absent",
        MACHINE,
        "The other Spark answers, but no SSH server listens in its container",
        "Start both Sparks with start.yml. diagnose.yml shows why the container of the worker does not run.",
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
        "Another program on this Spark uses the port of the worker's SSH server",
        "Find it with 'sudo ss -ltnp sport = :2233' and stop it; it may be a container started by hand. The worker"
        " then starts by itself.",
        TRT_LLM,
        substrings=("is taken by another program of this Spark",),
        explains=("worker_failed",),
    ),
    KnownProblem(
        "image_without_sshd",
        RECORD,
        "The container's image has no SSH server, so it is not the cluster image",
        "Run two_sparks.yml again, which builds the cluster image and copies it to both Sparks.",
        TRT_LLM,
        substrings=("there is no sshd in this image",),
        explains=("worker_failed",),
    ),
    KnownProblem(
        "ranks_differ",
        RECORD,
        "The settings of the two ranks differ",
        "Run two_sparks.yml again, which writes the settings of both. Your own settings belong into"
        " speculative_serve_environment.",
        USERS_OF_TWO,
        explains=("exit_usage", "mpi_rank_died"),
    ),
    KnownProblem(
        "ranks_not_started",
        RECORD,
        "The two ranks could not be started",
        "Follow the instructions in the message. two_sparks.yml checks link, keys, image and files of both Sparks"
        " again.",
        THIS,
    ),
    KnownProblem(
        "ranks_on_one_host",
        RECORD,
        "Both ranks were started on one machine",
        "Run two_sparks.yml again. The two addresses in the hostfile must belong to different Sparks.",
        TRT_LLM,
        explains=("gpus_too_few",),
    ),
    # Containers.
    KnownProblem(
        "port_taken",
        MACHINE,
        "Another program listens on the server's port",
        "Set another speculative_serve_port, or stop the other program.",
        SPECULATIVE,
        substrings=("port is already allocated",),
        explains=("port_in_use",),
    ),
    KnownProblem(
        "card_late",
        DOCKER,
        "The NIC was missing when Docker tried to start the container, and Docker does not retry",
        "Plug the cable into both Sparks and switch both on. If two_sparks.yml has set up the NIC watcher"
        " (spark_network_start_on_nic), the container then starts by itself. Otherwise run start.yml.",
        "moby `daemon/pkg/oci/devices_linux.go`",
        substrings=('adding custom device "/dev/infiniband',),
        explains=(*_FABRIC, "machine_restarted", "link_down", "fabric_address_gone"),
    ),
    KnownProblem(
        "mount_missing",
        DOCKER,
        "A file or directory that the container needs is missing",
        "Run the deployment's playbook again, which writes it.",
        TRT_LLM,
        substrings=("invalid mount config for type", "bind source path does not exist"),
    ),
    KnownProblem(
        "entrypoint_broken",
        DOCKER,
        "The entrypoint of the container could not be run",
        "Run the deployment's playbook again, which writes it. If you chose another image, check that it contains"
        " python3.",
        TRT_LLM,
        substrings=('exec: "python3"', "can't open file '/deployment/entrypoint.py'"),
    ),
    KnownProblem(
        "container_not_created",
        DOCKER,
        "Docker's runtime (runc) lost the connection to the container while it created it",
        "Run the command again: this happens at random. If it fails again, run 'sudo systemctl restart docker'.",
        "concourse/concourse issue 6180; moby/moby issue 14203",
        substrings=("read init-p: connection reset by peer",),
    ),
    KnownProblem(
        "image_architecture",
        DOCKER,
        "The image is built for another processor architecture than the Spark's (arm64)",
        "Correct trtllm_container_image, or the image of the recipe.",
        VLLM,
        substrings=(
            "exec format error",
            "no matching manifest for",
            "is not offered for this machine's architecture",
            "was built for linux/amd64",
            "exists for linux/amd64",
        ),
    ),
    KnownProblem(
        "serve_script_stale",
        RECORD,
        "The files of the deployment do not match the container",
        "Run the playbook again.",
        THIS,
        substrings=("serve.sh cannot be read",),
    ),
    # Pulling the image, downloading the models.
    KnownProblem(
        "certificate_refused",
        JOB,
        "A certificate was rejected: the clock is wrong, or a proxy intercepts TLS",
        "Set the clock with 'sudo timedatectl set-ntp true', or install the certificate of the proxy.",
        TRT_LLM,
        substrings=("x509: certificate", "error validating root CA", "CERTIFICATE_VERIFY_FAILED"),
    ),
    KnownProblem(
        "pull_denied",
        JOB,
        "The registry denies this user access to the image",
        "Run 'docker login nvcr.io' with user $oauthtoken and an NGC key, or check the name of the image.",
        NIM,
        substrings=("The registry does not hand out", "unauthorized: authentication required", "Invalid credentials"),
    ),
    KnownProblem(
        "pull_unknown",
        JOB,
        "The registry has no such image",
        "Correct the name of the image: trtllm_container_image or the recipe's image, api_proxy_image, or"
        " open_webui_image.",
        DOCKER_DOCS,
        substrings=("There is no image ", "the registry has no image ", "manifest unknown"),
    ),
    KnownProblem(
        "pull_too_many",
        JOB,
        "The registry limits the number of requests",
        "Wait some minutes and run again.",
        DOCKER_DOCS,
        substrings=("toomanyrequests", "because of too many requests"),
    ),
    KnownProblem(
        "pull_network",
        JOB,
        "The registry could not be reached",
        "Check the network of this machine and run again. The download continues where it stopped.",
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
        "The account of the Hugging Face token has not accepted the model's licence",
        "Accept it on the model's page on the Hub, and use a read token of that account.",
        SPECULATIVE,
        substrings=(
            "accept the licence on",
            "does not let the token's owner download",
            "requires a token to download",
        ),
    ),
    KnownProblem(
        "fetch_token",
        JOB,
        "The Hub rejects the Hugging Face token",
        "Create a new read token on the Hub's page settings/tokens and use it.",
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
        "A downloaded file does not have the checksum that the Hub reports",
        "Run again; only the wrong files are downloaded again.",
        HUB_DOCS,
        substrings=("is not the Hub's, though it was fetched again",),
    ),
    KnownProblem(
        "hub_limited",
        JOB,
        "The Hugging Face Hub limits the requests of this network",
        "Run again later; the download continues where it stopped. Or set a token, which has its own limit.",
        HUB_DOCS,
        substrings=("limits the requests of this network",),
    ),
    KnownProblem(
        "hub_network",
        JOB,
        "The Hugging Face Hub could not be reached",
        "Check the network of this machine and run again. The download continues where it stopped.",
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
        "The Hugging Face cache is not writable, because parts of it belong to another user",
        "Change the owner with 'sudo chown -R'. Or run serve.yml with -K, which does this for the files it needs.",
        TRT_LLM,
        substrings=("cannot be written (Permission denied", "give it back to the login user"),
    ),
    KnownProblem(
        "job_cut_off",
        JOB,
        "A download was interrupted",
        "Run again; the download continues where it stopped.",
        NIM,
    ),
    # The server's log.
    KnownProblem(
        "cli_option_unknown",
        LOG,
        "The command line has an option that this release of trtllm-serve does not know",
        "Move the setting to the engine options, or use the image that the recipe names.",
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
        "speculative_config has a key that this release does not accept for Eagle",
        "Remove or rename the key. Releases up to 1.2 call it speculative_model_dir, not speculative_model.",
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
        "The decoding_type is missing, or this release (1.3 or newer) does not know it",
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
        "The pytorch backend does not support this speculation method",
        "Use EAGLE-3 or draft target.",
        ARGUMENTS,
        substrings=("does not support backend",),
    ),
    KnownProblem(
        "concurrency_and_schedule",
        LOG,
        "max_concurrency and draft_len_schedule are both set, or decoding_type is Eagle on 1.3",
        "Keep one of the two keys, and write Eagle3.",
        ARGUMENTS,
        substrings=("max_concurrency and draft_len_schedule are mutually exclusive",),
    ),
    KnownProblem(
        "cuda_graph_batch_sizes",
        LOG,
        "cuda_graph_config has both batch_sizes and max_batch_size",
        "Keep one of the two.",
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
        "Another program listens on the server's port",
        "Stop it, or choose another port. It may be an older container.",
        SERVE,
        substrings=("Failed to bind socket to", "address already in use"),
    ),
    KnownProblem(
        "memory_executor",
        LOG,
        "GPU memory is not sufficient",
        "KV cache: lower free_gpu_memory_fraction. Model or draft model: lower max_num_tokens or use two Sparks."
        " Drafter: lower max_seq_len or the draft length.",
        EXECUTOR,
        substrings=("Executor creation failed due to insufficient GPU memory.",),
        after="The following component could not be created:",
    ),
    KnownProblem(
        "memory_cuda",
        LOG,
        "GPU memory is not sufficient",
        "Drop the page cache (speculative_serve_drop_caches), stop other users of the memory, or lower"
        " free_gpu_memory_fraction.",
        SPECULATIVE,
        substrings=("CUDA out of memory", "torch.OutOfMemoryError"),
    ),
    KnownProblem(
        "gpus_too_few",
        LOG,
        "tp_size is higher than the number of GPUs, or mpirun did not start the server",
        "Check tp_size, the launcher and the hostfile.",
        TENSORRT_LLM,
        substrings=("GPUs are available, but",),
    ),
    KnownProblem(
        "gpu_absent",
        LOG,
        "The container has no GPU",
        "Check the GPU option of the container and the NVIDIA container toolkit.",
        TENSORRT_LLM,
        substrings=("No GPU devices found on the node",),
    ),
    KnownProblem(
        "all_reduce_crashed",
        LOG,
        "The all-reduce of this release crashes on two Sparks",
        "Use the image 1.2.0rc6, which is known to work on two Sparks, or 1.3.0rc22 or newer, which has pull request"
        " 15559.",
        ALL_REDUCE,
        substrings=("ncclGinGdakiQueryLastError", "ncclCommGroupRegisterSymmetric", "ncclCommWindowRegister"),
    ),
    KnownProblem(
        "nccl_collectives",
        LOG,
        "NCCL crashed: 2.28.9 does so on two Sparks after about a million collective operations",
        "The server restarts by itself. An image with another NCCL may not crash.",
        "NVIDIA/nccl issue 2213",
        substrings=("ncclLocalOpAppend",),
    ),
    # Two Sparks: an error of the NIC is nearer to the root cause than NCCL's error that follows from it.
    KnownProblem(
        "ibv_memory_lock",
        LOG,
        "The NIC is not allowed to lock the memory that it sends from",
        "Leave trtllm_container_ulimits at its default (memlock:-1:-1). Kernels with a CMA total of 0 cannot lock this"
        " memory either.",
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
        "The other Spark did not acknowledge data that this NIC sent",
        "Ping both addresses of the other Spark once and start again. If it happens again, the other rank ended, the"
        " link went down, or MTU or GID index differ. two_sparks.yml verifies the link.",
        NCCL_DOCS,
        substrings=("IBV_WC_RETRY_EXC_ERR", "with status=12 ", "with error 12,"),
    ),
    KnownProblem(
        "ibv_request_refused",
        LOG,
        "The other rank did not understand a request, for example because the NCCL builds differ",
        "Run the same image on both Sparks; two_sparks.yml compares them. Do not load another NCCL with LD_PRELOAD.",
        "eugr/spark-vllm-docker issue 150",
        substrings=("IBV_WC_REM_INV_REQ_ERR", "with status=9 ", "with error 9,"),
    ),
    KnownProblem(
        "ibv_gid",
        LOG,
        "The two NICs cannot connect: the GID index is wrong, or both port interfaces are in one network",
        "Remove NCCL_IB_GID_INDEX from speculative_serve_environment. Then run two_sparks.yml, which gives each port"
        " interface its own network.",
        NCCL_DOCS,
        substrings=("ibv_modify_qp failed", "invalid GID", "Invalid GID"),
    ),
    KnownProblem(
        "nccl_interface",
        LOG,
        "NCCL found no interface with the name in NCCL_SOCKET_IFNAME",
        "Remove this variable from speculative_serve_environment if you set it. Then run two_sparks.yml again, which"
        " determines the names.",
        NCCL_DOCS,
        substrings=("no socket interface found", "NET/Socket : no interface found"),
    ),
    KnownProblem(
        "nccl_library",
        LOG,
        "NCCL is missing in the container of one of the two Sparks",
        "Run two_sparks.yml again, which copies the same image to both.",
        "NVIDIA DGX Spark playbook 'NCCL for Two Sparks', troubleshooting",
        substrings=("libnccl.so.2: cannot open shared object file",),
    ),
    KnownProblem(
        "ucx_refused",
        LOG,
        "The two ranks use different UCX transports, so one cannot connect to the other",
        "Remove OMPI_MCA_pml and UCX_TLS from speculative_serve_environment; MPI then starts over TCP.",
        USERS_OF_TWO,
        substrings=("connect(fd=",),
    ),
    KnownProblem(
        "nccl",
        LOG,
        "The GPUs or the two Sparks cannot communicate",
        "Check the interface names and the link, and that both Sparks run the same image. NCCL_DEBUG=INFO shows more.",
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
        "Use a newer image, or serve without speculation.",
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
        "To isolate it, switch off the autotuner, then the CUDA graphs.",
        "NVIDIA/TensorRT-LLM issue 10679",
        substrings=("illegal memory access",),
    ),
    KnownProblem(
        "hub_gated",
        LOG,
        "The account of the Hugging Face token has not accepted the model's licence",
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
        "The tiktoken encodings of gpt-oss are missing",
        "Put both encoding files into the directory in TIKTOKEN_ENCODINGS_BASE, on every Spark.",
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
        "Triton compiles kernels while the server runs, but its assembler does not know this GPU",
        "Set TRITON_PTXAS_PATH to the ptxas of the image's CUDA, and pass it to the ranks with mpirun -x.",
        TRT_LLM,
        substrings=("ptxas fatal",),
    ),
    KnownProblem(
        "jit_cache",
        LOG,
        "A kernel could not be compiled at startup",
        "Remove the volume with the compiled kernels and start again. With several ranks, give each its own cache.",
        "NVIDIA/TensorRT-LLM release notes of 1.3.0rc24",
        substrings=("Ninja build failed", "Error building extension"),
    ),
    KnownProblem(
        "backend_tensorrt",
        LOG,
        "This image does not support the backend tensorrt",
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
        "Restart Docker with 'sudo systemctl restart docker'. If that does not help, pull the image again.",
        TRT_LLM,
        substrings=("No module named 'tensorrt_llm", "cannot import name 'LLM' from 'tensorrt_llm"),
    ),
    KnownProblem(
        "checkpoint_truncated",
        LOG,
        "A weight file of a model is incomplete or damaged",
        "Run the playbook again, which verifies every file and downloads damaged files again.",
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
        "The image cannot read the model's weights, because image and model do not match",
        "Use the image and the models of the same recipe.",
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
        "The server runs offline, but a model is missing in the Hugging Face cache",
        "Run the playbook again, which completes the cache. A cache that was copied by hand may lack refs/ or"
        " snapshots/.",
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
        "The container's environment has a wrong name for a network interface of the fabric",
        "Compare the names with the output of 'ip link' on each Spark.",
        SPECULATIVE,
        substrings=("Socket operation on non-socket",),
    ),
    # mpirun reaches the worker through ssh: an error of ssh is the root cause of mpirun's error after it.
    KnownProblem(
        "ssh_host_key",
        LOG,
        "The host key of the worker has changed",
        "Run two_sparks.yml again, which creates and exchanges the keys. If you did not reinstall the other Spark,"
        " first check which machine is at the other end of the cable.",
        OPEN_SSH,
        substrings=("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed", "host key is known for"),
    ),
    KnownProblem(
        "ssh_key_unreadable",
        LOG,
        "ssh rejects a key of the deployment: another user owns it or can read it, or it is damaged",
        "Run two_sparks.yml again, which corrects owner and mode.",
        OPEN_SSH,
        substrings=("UNPROTECTED PRIVATE KEY FILE", 'Load key "/cluster/', "bad ownership or modes for"),
    ),
    KnownProblem(
        "ssh_publickey",
        LOG,
        "The worker's container rejects the SSH key of the head's container",
        "Run two_sparks.yml again, which gives both the keys of the same deployment.",
        SPECULATIVE,
        substrings=("Permission denied (publickey",),
    ),
    KnownProblem(
        "ssh_refused",
        LOG,
        "No SSH server listens in the worker's container",
        "Start both Sparks with start.yml. On the worker, status.yml and logs.yml show why its container does not run.",
        SPECULATIVE,
        substrings=("port 2233: Connection refused",),
    ),
    KnownProblem(
        "ssh_banner",
        LOG,
        "The other Spark accepts connections but does not answer; it may be out of memory",
        "Check its memory with status.yml. If it does not recover, switch it off and on.",
        USERS_OF_TWO,
        substrings=("timed out during banner exchange",),
    ),
    KnownProblem(
        "ssh_unreachable",
        LOG,
        "The other Spark does not answer at its fabric address",
        "Check that it is on and the cable is plugged in, then run two_sparks.yml, which verifies the link. A"
        " firewall must allow the fabric addresses of the other Spark.",
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
        "Another program listens on port 2233 of the worker's fabric address",
        "Find it on the worker with 'sudo ss -tlnp sport = :2233' and stop it. It may be a container started by hand.",
        TRT_LLM,
        substrings=("failed: Address already in use.",),
    ),
    KnownProblem(
        "sshd_no_address",
        LOG,
        "The worker does not have its fabric address (yet)",
        "Plug the cable in. 'ip -br addr' shows the address; two_sparks.yml sets it again.",
        SPARKS,
        substrings=("failed: Cannot assign requested address.",),
    ),
    KnownProblem(
        "mpi_interface",
        LOG,
        "Open MPI found no interface in the networks that it must use",
        "Remove your own OMPI_MCA_ settings and run two_sparks.yml again, which determines the addresses.",
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
        "The worker's container has no Open MPI at the same path, or a library of it is missing",
        "Run two_sparks.yml again, which copies the same image to both.",
        USERS_OF_TWO,
        substrings=(
            "orted: command not found",
            "prted: command not found",
            "orted: No such file or directory",
            "prted: No such file or directory",
            "orted: error while loading shared libraries",
            "prted: error while loading shared libraries",
            # This text is from our own worker.py.
            "cannot be run on the worker",
        ),
    ),
    KnownProblem(
        "rank_undying",
        LOG,
        "A process of an earlier rank on the worker cannot be killed and keeps its memory",
        "Reboot the worker. The server recovers by itself.",
        USERS_OF_TWO,
        substrings=("an earlier rank on the worker cannot be ended",),
    ),
    KnownProblem(
        "launch_refused",
        LOG,
        "The worker's SSH server starts only the Open MPI daemon, but received another command",
        "Run the image that the recipe names. Remove your own OMPI_MCA_plm_ and PRTE_MCA_plm_ settings.",
        OPEN_MPI,
        substrings=("only mpirun may log in here",),
    ),
    KnownProblem(
        "mpi_program_absent",
        LOG,
        "A program of the deployment is missing on one of the two Sparks",
        "Run two_sparks.yml again, which copies the same image and files to both.",
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
        "The mpirun daemon on the other Spark cannot connect back: an address is missing, or a firewall blocks it",
        "On each Spark, allow the fabric addresses of the other one on all ports ('sudo ufw allow from ADDRESS')."
        " Check with status.yml that both have their addresses.",
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
        "The hostfile has fewer slots than there are ranks",
        "Correct the hostfile or the number of ranks.",
        OPEN_MPI,
        substrings=("There are not enough slots available",),
    ),
    KnownProblem(
        "mpi_daemons",
        LOG,
        "mpirun could not start its daemon on the other Spark",
        "Check SSH between the containers, and that both Sparks run the same image.",
        OPEN_MPI,
        substrings=("was unable to reliably start one or more daemons",),
    ),
    KnownProblem(
        "rank_killed",
        LOG,
        "A rank was killed, usually because its Spark ran out of memory",
        "Run diagnose.yml for both Sparks: the kernel log of the Spark in the line shows the reason. Stop other users"
        " of the memory there, or lower free_gpu_memory_fraction.",
        TRT_LLM,
        substrings=("exited on signal 9", "signal 9 (Killed)"),
    ),
    KnownProblem(
        "rank_crashed",
        LOG,
        "A rank crashed in native code",
        "Run the same image and driver on both Sparks. If it happens again, use another image.",
        OPEN_MPI,
        substrings=("exited on signal 11", "exited on signal 6", "signal 11 (Segmentation fault", "signal 6 (Aborted"),
    ),
    KnownProblem(
        "mpi_lost",
        LOG,
        "mpirun lost its daemon on the other Spark",
        "Check the other Spark with status.yml and diagnose.yml: its container ended, the link went down, or image or"
        " files differ.",
        USERS_OF_TWO,
        substrings=("lost communication with a remote daemon",),
    ),
    KnownProblem(
        "rank_hung_up",
        LOG,
        "The other rank closed the connection",
        "The log of the other Spark shows why; read it with logs.yml or diagnose.yml.",
        NCCL,
        severity=HINT,
        substrings=("Connection closed by remote peer", "socketProgress: Connection closed"),
    ),
    KnownProblem(
        "fp4_gemm",
        LOG,
        "The NVFP4 matrix kernels of the image need more shared memory than a GB10 has",
        "Keep enable_autotuner on, which skips these kernels, or use a release with pull request 12141.",
        "NVIDIA/TensorRT-LLM issue 11368",
        severity=HINT,
        # In the autotuner's own lines it is a tactic that is skipped.
        substrings=("Failed to run cutlass FP4 gemm", "nvfp4_gemm"),
    ),
    KnownProblem(
        "file_missing",
        LOG,
        "A file is missing in the container; on two Sparks perhaps only on one",
        "Copy it to every Spark.",
        TENSORRT_LLM,
        severity=HINT,
        substrings=("No such file or directory",),
    ),
    KnownProblem(
        "arguments_refused",
        LOG,
        "The engine options or the command line were rejected",
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
        "The engine has died, but its port is still open",
        "Restart the server and read the lines above.",
        SERVER,
        severity=WRAPPER,
        substrings=(
            # The longer one comes first, because the text after a match is taken for the reason.
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
            # Open MPI 5 prints prterun.
            "detected that one or more processes exited with non-zero status",
            # The two spaces are Open MPI's.
            "Primary job  terminated normally, but 1 process returned",
        ),
    ),
    KnownProblem(
        "loading_stalled",
        LOG,
        "Some images stall at the first weight on this GPU, with the count at 0",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
        severity=WARNING,
        substrings=("Loading weights concurrently:",),
        standing=True,
    ),
    KnownProblem(
        "all_reduce_stalled",
        LOG,
        "If this is the last line of the log, the all-reduce may hang, as it does in some releases on two Sparks",
        "Use the image 1.2.0rc6, which is known to work on two Sparks, or 1.3.0rc22 or newer, which has pull request"
        " 15559.",
        ALL_REDUCE,
        severity=WARNING,
        substrings=("finalMNNVL=0",),
        standing=True,
    ),
    KnownProblem(
        "eagle_renamed",
        LOG,
        "The decoding_type has its old spelling",
        "Write Eagle3.",
        ARGUMENTS,
        severity=WARNING,
        substrings=("'Eagle' is treated as 'Eagle3'",),
    ),
    KnownProblem(
        "ucx_device",
        LOG,
        "UCX_NET_DEVICES names a device that does not exist",
        "This is harmless as long as the server answers. If it does not, correct the name.",
        "NVIDIA/TensorRT-LLM issue 2594",
        severity=WARNING,
        substrings=("UCX  WARN  network device", "UCX WARN network device"),
    ),
    KnownProblem(
        "nccl_over_socket",
        LOG,
        "NCCL uses TCP instead of RDMA, which is much slower",
        "Run two_sparks.yml again, which gives the container /dev/infiniband and sets NCCL_IB_HCA to both devices.",
        NCCL_DOCS,
        severity=WARNING,
        substrings=("NET/IB : No device found", "Using network Socket", "via NET/Socket/"),
    ),
    KnownProblem(
        "gpu_direct_rdma",
        LOG,
        "A Spark has no GPU Direct RDMA, because CPU and GPU share one memory",
        "Nothing to do.",
        "NVIDIA developer forum, thread 348787",
        severity=INFORMATION,
        substrings=("GPU Direct RDMA Disabled",),
    ),
    KnownProblem(
        "nvml_memory",
        LOG,
        "NVML cannot measure GPU memory on a Spark, because CPU and GPU share one memory",
        "Nothing to do. MemAvailable in /proc/meminfo shows the available memory.",
        "NVIDIA/gpu-operator issue 1794",
        severity=INFORMATION,
        substrings=("NVMLError_NotSupported", "NVML_ERROR_NOT_SUPPORTED"),
    ),
    KnownProblem(
        "fp4_experts",
        LOG,
        "The autotuner skips NVFP4 expert kernels that do not fit a GB10",
        "Nothing to do. If the server ends here or is slow, use another image, such as 1.3.0rc17.",
        "NVIDIA/TensorRT-LLM pull request 12899 and issue 14575",
        severity=INFORMATION,
        substrings=("Failed to initialize cutlass TMA WS grouped gemm",),
    ),
    KnownProblem(
        "adjusted",
        LOG,
        "The server adjusted an option to the speculation method",
        "Nothing to do.",
        EXECUTOR,
        severity=INFORMATION,
        substrings=(
            "Disable overlap scheduler for speculation mode",
            "Falling back to greedy decoding for",
            "disable enable_block_reuse for SM",
        ),
    ),
    # The state of the server.
    KnownProblem(
        "loading_stalled_at_0",
        LOG,
        "The server stalls at the first weight, as some images do on this GPU",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
    ),
    KnownProblem(
        "all_reduce_hangs",
        LOG,
        "The two Sparks hang in their first all-reduce, as they do with some images",
        "Use the image 1.2.0rc6, which is known to work on two Sparks, or 1.3.0rc22 or newer, which has pull request"
        " 15559.",
        ALL_REDUCE,
    ),
    KnownProblem(
        "engine_hangs",
        RECORD,
        "The server listens, but generates no text",
        "Restart it with stop.yml and start.yml. If you wait some minutes, the container restarts it by itself.",
        "NVIDIA/TensorRT-LLM pull request 16338",
    ),
    KnownProblem(
        "peer_lost",
        RECORD,
        "The server lost the connection to the other Spark and generates no text",
        "It recovers by itself when the other Spark does. status.yml shows the state of both.",
        THIS,
        explains=("server_refuses", "engine_hangs", "mpi_lost", "rank_hung_up"),
    ),
    KnownProblem(
        "worker_missing",
        RECORD,
        "The head waits for its worker, which does not start",
        "Check the other Spark with status.yml. start.yml starts both.",
        THIS,
    ),
    KnownProblem(
        "fabric_missing",
        RECORD,
        "The worker waits for its fabric address, which is not set",
        "Plug the cable in; two_sparks.yml sets the address again.",
        SPARKS,
    ),
    KnownProblem(
        "head_missing",
        RECORD,
        "This worker runs, but the head does not start its rank",
        "If the head runs another deployment or is gone, free the memory with stop.yml and --limit for this Spark."
        " Otherwise start both with start.yml.",
        USERS_OF_TWO,
    ),
    KnownProblem(
        "ranks_silent",
        RECORD,
        "mpirun was started, but neither rank has logged anything",
        "mpirun waits for the other Spark. Check with status.yml that both have their fabric addresses. Check that no"
        " firewall is between them and that no older rank runs there. Then run stop.yml and start.yml.",
        SPECULATIVE,
        severity=HINT,
    ),
    KnownProblem(
        "worker_failed",
        RECORD,
        "The worker's container cannot run a rank",
        "Remove the cause in the message. Then run two_sparks.yml again, or start.yml.",
        THIS,
        severity=HINT,
        consequence=True,
    ),
    KnownProblem(
        "memory_held_by_others",
        MACHINE,
        "Other programs use the memory that the server needs",
        "Stop them, for example with 'docker stop <name>'.",
        SPECULATIVE,
        severity=HINT,
        explains=MEMORY,
        context=True,
    ),
    KnownProblem(
        "memory_not_given_back",
        MACHINE,
        "Most of the memory is in use, but no program uses it; this happens when a GPU program is killed",
        "Reboot the Spark. Stop servers with stop.yml, which lets them release their memory.",
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
        "The container ran out of memory",
        "Stop other users of the memory or lower free_gpu_memory_fraction.",
        TRT_LLM,
        explains=("exit_killed",),
    ),
    KnownProblem(
        "oomd_killed",
        DOCKER,
        "Memory or swap ran short, and systemd-oomd killed the container",
        "Stop other users of the memory or lower free_gpu_memory_fraction. 'oomctl' shows what systemd-oomd monitors.",
        "systemd source, src/oom/oomd-manager.c",
        explains=("exit_killed", "oom_container"),
    ),
    KnownProblem(
        "may_sleep",
        MACHINE,
        "The machine may go to sleep when no one uses it",
        KEEP_AWAKE,
        USERS,
        severity=HINT,
        context=True,
    ),
    KnownProblem(
        "machine_restarted",
        MACHINE,
        "The machine went down while the server was running",
        "Start the server with start.yml. If it happens under load, limit the GPU clocks with"
        " 'sudo nvidia-smi -lgc <minimum>,<maximum>' in MHz; -rgc removes the limit.",
        USERS,
        severity=HINT,
    ),
    KnownProblem(
        "exit_killed",
        RECORD,
        "The server was killed, usually because memory ran out",
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
        "The server rejected its command line",
        "Use the image that the recipe names.",
        SERVE,
        severity=HINT,
    ),
    KnownProblem(
        "container_exited",
        DOCKER,
        "The container ended by itself",
        "Run the playbook again. 'docker logs' shows its last output.",
        TRT_LLM,
        severity=HINT,
        consequence=True,
    ),
    KnownProblem(
        "container_missing",
        DOCKER,
        "A deployment is recorded here, but its container is gone",
        "Run the deployment's playbook again; nothing is downloaded twice.",
        THIS,
        severity=HINT,
    ),
    KnownProblem(
        "state_contradicts",
        RECORD,
        "The container runs, but its supervisor does not report the state of the server",
        "Restart it with stop.yml and start.yml.",
        USERS,
        severity=HINT,
    ),
    KnownProblem(
        "crash_loop",
        RECORD,
        "The server died several times within an hour and is not restarted",
        "Find the cause in server.log and remove it. Then run the playbook again, or start.yml.",
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
        "The server is recorded as running, but nothing answers at its address",
        "Check whether a firewall blocks it. Otherwise restart it with stop.yml and start.yml.",
        SPECULATIVE,
        severity=HINT,
    ),
    # The server works, but not as it should.
    KnownProblem(
        "forced_acceptance",
        DOCKER,
        "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS is set: wrong drafts are accepted, so answers are nonsense",
        "Remove the variable from speculative_serve_environment, and run the deployment's playbook again. It is meant"
        " for measurements only.",
        TENSORRT_LLM,
        severity=WARNING,
    ),
    KnownProblem(
        "endless_text",
        RECORD,
        "The answer repeated itself, a known problem of EAGLE-3 with gpt-oss on some images",
        "Use the image that the recipe names, or another draft head.",
        "NVIDIA/TensorRT-LLM issue 8615",
        severity=WARNING,
    ),
    KnownProblem(
        "gibberish",
        RECORD,
        "The answer was garbled, a known problem of EAGLE-3 on 1.2.0rc8",
        "Use another image.",
        "NVIDIA/TensorRT-LLM issue 11125",
        severity=WARNING,
    ),
    KnownProblem(
        "tool_calls_missing",
        RECORD,
        "Tool calls or text were missing in the answer, a known problem of EAGLE-3 on 1.3.0rc13",
        "If you use tools, serve without speculation (method none), or use another image.",
        "NVIDIA/TensorRT-LLM issue 16377",
        severity=WARNING,
    ),
    KnownProblem(
        "drafts_useless",
        RECORD,
        "Speculation costs more time than it saves",
        "Try a shorter draft length, or method none.",
        "arXiv 2211.17192 'Fast Inference from Transformers via Speculative Decoding'",
        severity=WARNING,
    ),
    KnownProblem(
        "served_name_differs",
        RECORD,
        "The server uses another model name than the record",
        "Use the name that /v1/models lists.",
        NEMOTRON,
        severity=WARNING,
    ),
    KnownProblem(
        "cache_not_mounted",
        DOCKER,
        "The Hugging Face cache is not mounted, so the container downloads its models at each start",
        "Run the deployment's playbook again, which mounts it.",
        NEMOTRON,
        severity=WARNING,
    ),
    KnownProblem(
        "shared_memory_large",
        DOCKER,
        "The container has a large shared memory of its own, which counts twice on unified memory",
        "Remove shm_size and use the IPC of the host (trtllm_container_ipc_mode: host).",
        USERS,
        severity=WARNING,
    ),
    KnownProblem(
        "kernel_version",
        MACHINE,
        "The GPU driver is known to fail to allocate memory on the running kernel",
        "Boot the 6.17 kernel of DGX OS.",
        "NVIDIA/open-gpu-kernel-modules issue 1358",
        severity=WARNING,
    ),
    KnownProblem(
        "disk_nearly_full",
        MACHINE,
        "A disk is nearly full",
        "Free disk space: 'cleanup.yml -e unused=true' removes models and images that no deployment uses, and"
        " 'docker image prune' removes images without a tag.",
        NIM,
        severity=WARNING,
    ),
    KnownProblem(
        "fabric_slower",
        MACHINE,
        "The link to the other Spark is slower than before",
        "Unplug the cable, disconnect both Sparks from power for a minute, and start them again. If that does not"
        " help, use another cable.",
        "NVIDIA/dgx-spark-playbooks pull request 108",
        severity=WARNING,
    ),
    KnownProblem(
        "fabric_mtu",
        MACHINE,
        "The MTU of the link to the other Spark is smaller than before",
        "Run two_sparks.yml again, which sets the MTU and verifies it in both directions.",
        USERS_OF_TWO,
        severity=WARNING,
        explains=("ibv_no_answer",),
    ),
    KnownProblem(
        "twins_in_one_network",
        MACHINE,
        "Both port interfaces are in one network, so one may answer for the other",
        "Give each its own network: remove the addresses and let two_sparks.yml choose new ones"
        " (spark_network_addresses).",
        "eugr/spark-vllm-docker issue 270",
        severity=WARNING,
        explains=("ibv_gid",),
    ),
    KnownProblem(
        "ranks_unequal",
        RECORD,
        "The two Sparks differ, and the slower one limits the speed",
        "Update both to the same release of DGX OS. A Spark with less memory needs a smaller free_gpu_memory_fraction.",
        USERS_OF_TWO,
        severity=WARNING,
    ),
    KnownProblem(
        "rank_on_one_core",
        RECORD,
        "A rank is bound to one core, so NCCL's threads starve",
        "Remove your own OMPI_MCA_ settings and run two_sparks.yml again, which starts ranks without binding.",
        USERS_OF_TWO,
        severity=WARNING,
    ),
    KnownProblem(
        "infiniband_not_passed",
        DOCKER,
        "The container cannot use RDMA",
        "Leave trtllm_container_devices at its default and run two_sparks.yml again.",
        USERS_OF_TWO,
        severity=WARNING,
        explains=("nccl_over_socket",),
    ),
    KnownProblem(
        "link_capped",
        MACHINE,
        "The link is far slower than it can be, according to the bandwidth test since the start",
        "Run the deployment's playbook again with -K and -e spark_network_keep_nic_on=true. Then reboot both with the"
        " cable plugged in. If that does not help, switch both off and unplug their power for a minute.",
        "NVIDIA/dgx-spark-playbooks pull request 108",
        severity=WARNING,
    ),
    KnownProblem(
        "pair_by_tcp",
        RECORD,
        "The two Sparks use TCP instead of RDMA, which is much slower",
        "Remove your own NCCL_ variables, such as NCCL_IB_DISABLE, NCCL_NET or NCCL_IB_HCA, from"
        " speculative_serve_environment. Then run two_sparks.yml again. status.yml shows what else can be done.",
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
        "The container is not allowed to lock all the memory that the NIC reads",
        "Leave trtllm_container_ulimits at its default (memlock:-1:-1) and run two_sparks.yml again.",
        NCCL_DOCS,
        severity=WARNING,
        explains=("ibv_memory_lock",),
    ),
    KnownProblem(
        "fabric_not_pinned",
        DOCKER,
        "NCCL is not configured to use both port interfaces, and may choose a slower one",
        "Remove your own NCCL_ settings from speculative_serve_environment and run two_sparks.yml again.",
        USERS_OF_TWO,
        severity=WARNING,
        explains=("nccl_over_socket",),
    ),
    # The server does not work yet or at the moment, but nothing is wrong.
    KnownProblem(
        "waits_for_other",
        RECORD,
        "One of the two Sparks waits for the other",
        "Wait some minutes. status.yml shows the state of both.",
        THIS,
        severity=WARNING,
    ),
    KnownProblem(
        "trial",
        RECORD,
        "A benchmark runs a trial with other engine options than the deployment's",
        "Wait: when the benchmark ends, the server restarts with the deployment's options. status.yml shows the"
        " progress.",
        THIS,
        severity=WARNING,
    ),
    KnownProblem(
        "still_loading",
        RECORD,
        "The server is still loading",
        "Wait; status.yml shows the progress.",
        SPECULATIVE,
        severity=WARNING,
    ),
    KnownProblem(
        "busy",
        RECORD,
        "The server is running, but was busy with other requests during the probe",
        "Nothing to do. To be sure, run diagnose.yml again later.",
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
        "A download is running",
        "Wait, or run the playbook again to watch it.",
        NIM,
        severity=WARNING,
    ),
    KnownProblem(
        "earlier_attempt",
        LOG,
        "A later deployment did not become ready and was rolled back",
        "failed.log shows the reason.",
        THIS,
        severity=INFORMATION,
    ),
    KnownProblem(
        "image_without_digest",
        RECORD,
        "The image was loaded from a file, so it has no digest to compare",
        "Nothing to do. Its ID identifies it on this machine.",
        DOCKER_DOCS,
        severity=INFORMATION,
    ),
)

# Causes of a container without access to the GPU. The last one applies if no text shows the cause.
GPU_CAUSES = ("gpu_driver", "cdi_stale", "image_architecture", "cuda_broken", "docker_no_gpu")


def known(text: str, places: t.Container[str]) -> t.Iterator[KnownProblem]:
    """Return the rows of these places that recognise a text, by priority."""
    return (row for row in CATALOGUE if row.where in places and row.knows(text))


def cause_of(text: str, ids: tuple[str, ...]) -> KnownProblem:
    """Return the first of these rows that recognises a text, or else the last one."""
    rows = {row.id: row for row in CATALOGUE}
    return next((rows[id_] for id_ in ids if rows[id_].knows(text)), rows[ids[-1]])
