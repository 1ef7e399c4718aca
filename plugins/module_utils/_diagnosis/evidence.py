# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Gather the evidence that status facts lack: logs, kernel, network and other users of the machine."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import struct
import subprocess
import typing as t
from pathlib import Path
from urllib.parse import quote, urlsplit

from .._data.files import read_tail
from .._data.text import one_line
from .._deployment import bandwidth, cluster_view, records
from .._docker import access as docker
from .._docker import usage
from .._docker.engine import Engine, EngineError
from .._server import completions
from .._server.deployment_facts import DeploymentFacts, Disk, Gatherer, disk_of
from .._server.server_facts import QUESTION, ServerFacts, ServerInspector
from .._spark import hotplug as _hotplug
from .._spark.lock import user_name
from .._spark.machine import GpuError, ask_gpu_processes, read_gpus
from .._spark.watched_job import Job

Facts = dict[str, t.Any]

JOBS = ("pull", "fetch")
DOCKER_LOG_LINES = 500
MEMORY_LOG_BYTES = 512 * 1024
KERNEL_LOG_BYTES = 1024 * 1024
COMMAND_TIMEOUT_S = 15.0
ENGINE_TIMEOUT_S = 15.0
ASK_DEADLINE_S = 20.0
_DMESG = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)$")
_JOURNAL = re.compile(r"^(\d{9,}\.\d+) \S+ (?:kernel|systemd-oomd\[\d+\]): (.*)$")
# The setting of GDM's greeter that prevents the suspend of an idle machine.
_STAYS_AWAKE = re.compile(r"^\s*sleep-inactive-ac-type\s*=\s*'nothing'", re.MULTILINE)


class KernelLine(t.NamedTuple):
    """A line of the kernel's log, with its Unix time if known."""

    at: float | None
    text: str


@dataclasses.dataclass
class Evidence(DeploymentFacts):
    """All evidence of a diagnosis. Empty or None: it does not exist, or could not be read."""

    failure: str = ""
    # The generation that the container mounts.
    mounted: Path | None = None
    containers: list[Facts] = dataclasses.field(default_factory=list)
    gpu_processes: list[Facts] = dataclasses.field(default_factory=list)
    docker_log: str = ""
    failed_log: str = ""
    failed_log_path: Path | None = None
    failed_log_at: float | None = None
    # Log of the memory guard, and that of an earlier container that did not end properly.
    memory_log: str = ""
    memory_before: str = ""
    recorded: tuple[str, ...] = ()
    job_logs: dict[str, str] = dataclasses.field(default_factory=dict)
    kernel: list[KernelLine] = dataclasses.field(default_factory=list)
    # Log of systemd-oomd. If it kills a container, Docker does not know the reason.
    oomd: list[KernelLine] = dataclasses.field(default_factory=list)
    may_sleep: str = ""
    kernel_release: str = ""
    gpu_error: str = ""
    gpu_driver: str = ""
    # The state of the NIC's hotplug handling.
    hotplug: Facts = dataclasses.field(default_factory=dict)
    # Bandwidth measured on the cable since the Spark was started.
    measured: list[Facts] = dataclasses.field(default_factory=list)
    name_servers: list[str] | None = None
    default_route: bool | None = None
    foreign_cache: str = ""
    shared_memory: Disk | None = None
    port: Facts | None = None
    boot_time: float | None = None
    look: ServerFacts | None = None
    served: list[str] = dataclasses.field(default_factory=list)

    @property
    def said(self) -> str:
        """Return the state that the supervisor has written; empty if it is from an earlier start of the container."""
        since, started = (self.state or {}).get("since"), self.started
        if self.running and started and isinstance(since, (int, float)) and since < int(started):
            return ""
        return str((self.state or {}).get("state") or "")

    @property
    def serves(self) -> bool:
        """Return whether the probe got generated text. For a worker, return whether its rank runs."""
        if self.rank:
            return self.running and self.said == cluster_view.RANK_RUNS
        return (
            self.running
            and self.said == "running"
            and self.look is not None
            and self.look.state in completions.GENERATES
        )


class LoggingEngine(Engine):
    """Client of the Docker Engine that can also read a container's output."""

    def logs(self, name: str, lines: int) -> str:
        """Return the end of a container's output (stdout and stderr)."""
        path = f"/containers/{quote(name, safe='')}/logs?stdout=1&stderr=1&tail={lines}"
        with self.request("GET", path, self._timeout) as response:
            body = response.read()
        if response.status != 200:
            raise EngineError(f"the Engine answered {response.status} when asked for the container's output")
        return demultiplex(body).decode("utf-8", "replace")


def demultiplex(stream: bytes) -> bytes:
    """Join the output. Each piece has a header of eight bytes: stream number, three zeros, length."""
    pieces = []
    at = 0
    while at + 8 <= len(stream):
        number, zeros, length = struct.unpack(">B3sI", stream[at : at + 8])
        if number > 2 or zeros != b"\0\0\0":
            # A container with a terminal has no such headers.
            return stream
        pieces.append(stream[at + 8 : at + 8 + length])
        at += 8 + length
    return b"".join(pieces)


def run(*command: str) -> str:
    """Return the output of a command. Raise OSError with the reason if it fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=COMMAND_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise OSError(f"there is no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise OSError(f"{command[0]} did not end within {COMMAND_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip() or done.stdout.decode("utf-8", "replace").strip()
        raise OSError(one_line(text) or f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def parse_kernel(text: str, boot_time: float | None) -> list[KernelLine]:
    """Parse the kernel log of dmesg, in seconds since boot, or of journalctl -o short-unix."""
    lines = []
    for line in text[-KERNEL_LOG_BYTES:].splitlines():
        journal, dmesg = _JOURNAL.match(line), _DMESG.match(line)
        if journal:
            lines.append(KernelLine(float(journal.group(1)), journal.group(2)))
        elif dmesg:
            at = boot_time + float(dmesg.group(1)) if boot_time is not None else None
            lines.append(KernelLine(at, dmesg.group(2)))
        elif line.strip():
            lines.append(KernelLine(None, line.strip()))
    return lines


def may_sleep(root: Path) -> str:
    """Return why this machine may suspend; empty if its login screen does not do it, or if sleep is masked."""
    try:
        greeter = (root / "etc/systemd/system/display-manager.service").readlink().name
    except OSError:
        return ""
    targets = [root / place / "systemd/system/sleep.target" for place in ("etc", "run")]
    masked = any(target.is_symlink() and str(target.readlink()) == "/dev/null" for target in targets)
    if not greeter.startswith("gdm") or masked:
        return ""
    try:
        settings = (root / "etc/gdm3/greeter.dconf-defaults").read_text(encoding="utf-8", errors="replace")
    except OSError:
        settings = ""
    return "" if _STAYS_AWAKE.search(settings) else "GDM is its login screen, and sleep.target is not masked"


def has_default_route(ipv4: str, ipv6: str) -> bool:
    """Return whether /proc/net/route or ipv6_route has a usable default route."""
    for line in ipv4.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000" and int(fields[3], 16) & 1:
            return True
    for line in ipv6.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
            return True
    return False


def parse_name_servers(text: str) -> list[str]:
    rows = (line.split() for line in text.splitlines())
    return [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver"]


def address_of(evidence: Evidence) -> str:
    """Return the URL of the server, from its container or its record. A worker has none."""
    if evidence.rank:
        return ""
    return str(evidence.labels.get(f"{records.LABEL}url") or (evidence.record or {}).get("url") or "")


class EvidenceGatherer(Gatherer):
    """Gatherer of the evidence."""

    facts: Evidence
    _engine: LoggingEngine

    def __init__(self, params: t.Mapping[str, t.Any], machine: docker.Machine) -> None:
        evidence = Evidence(failure=params["failure_message"] or "")
        super().__init__(evidence, params, machine, LoggingEngine(params["socket"], ENGINE_TIMEOUT_S))

    def gather(self) -> Evidence:
        evidence = self.facts
        self._look("clock", self._clock)
        self._look("Docker", self._docker)
        self._look("container output", self._docker_log)
        self._look("record", self._record)
        self._look("state.json", self._state)
        self._look("memory.log", self._memory_log)
        self._look("cluster", self._cluster)
        self._look("server.log", self._server_log)
        self._look("failed.log", self._failed_log)
        self._look("files of the deployment", self._files)
        for name in JOBS:
            self._look(f"job {name}", functools.partial(self._job, name))
        self._look("kernel log", self._kernel)
        self._look("systemd-oomd", self._oomd)
        self._look("idle suspend", self._sleep)
        self._look("GPU driver", self._gpu)
        self._look("memory", self._memory)
        self._look("disks", self._disks)
        self._look("shared memory", self._shared_memory)
        self._look("network", self._network)
        self._look("cache's owner", self._owner)
        self._look("port", self._port)
        if self._params["probe"] and evidence.running and not evidence.rank:
            self._look("server", self._ask)
        return evidence

    def _clock(self) -> None:
        self.facts.kernel_release = os.uname().release
        self.facts.boot_time = self.facts.now - float(self.read_text("/proc/uptime").split()[0])

    def _docker(self) -> str | None:
        evidence, detail = self.facts, super()._docker()
        if evidence.docker == "usable":
            running, processes = self.list_running(), ask_gpu_processes()
            evidence.containers, evidence.gpu_processes = usage.holdings(self._machine, running, processes)
        return detail

    def _docker_log(self) -> str | None:
        if self.facts.slot is None:
            return "there is no container"
        self.facts.docker_log = self._engine.logs(self.facts.slot["Id"], DOCKER_LOG_LINES)
        return None

    def _record(self) -> str | None:
        evidence = self.facts
        evidence.recorded = tuple(records.deployments(evidence.state_directory))
        detail = super()._record()
        if evidence.slot is not None and evidence.directory is not None:
            evidence.mounted = records.files_directory(evidence.directory, evidence.labels)
        return detail

    def _without_container(self) -> tuple[Path | None, records.Record | None]:
        self.facts.mounted = newest_files(self.facts.state_directory)
        if self.facts.mounted is None:
            return None, None
        directory = self.facts.mounted.parent.parent
        return directory, records.read_record(directory / "record.json")

    def _memory_log(self) -> str | None:
        directory = self.facts.directory
        if directory is None:
            return "there is no deployment"
        names = ("memory.log.1", "memory.log", "memory-before.log")
        older, newer, before = (read_tail(directory / "state" / name, MEMORY_LOG_BYTES) for name in names)
        self.facts.memory_log, self.facts.memory_before = older + newer, before
        texts = {"memory.log": older + newer, "memory-before.log": before}
        self.facts.files.update({name: text for name, text in texts.items() if text})
        return None

    def _cluster(self) -> str | None:
        detail = super()._cluster()
        if self.facts.cluster is not None:
            self.facts.hotplug = _hotplug.look(self._machine.root)
            self.facts.measured = bandwidth.read_bandwidth(self.facts.state_directory)
        return detail

    def _failed_log(self) -> str | None:
        result = [(path.stat().st_mtime, path) for path in self.facts.state_directory.glob("*/failed.log")]
        if not result:
            return "there is none"
        self.facts.failed_log_at, path = max(result)
        self.facts.failed_log_path = path
        self.facts.failed_log = path.read_text(encoding="utf-8", errors="replace")[-512 * 1024 :]
        return None

    def _files(self) -> str | None:
        if self.facts.directory is None or self.facts.mounted is None:
            return "there is no deployment"
        # A worker need not have serve.sh, and what it serves is the head's to say.
        for name in ("options.yml",) if self.facts.rank else ("options.yml", "serve.sh"):
            self.facts.files[name] = (self.facts.mounted / name).read_text(encoding="utf-8", errors="replace")
        # State of a server that the watchdog or the supervisor has ended.
        for name in ("stalled.log", "peer-lost.log"):
            kept = read_tail(self.facts.directory / "state" / name)
            if kept:
                self.facts.files[name] = kept
        return None

    def _job(self, name: str) -> str | None:
        detail = super()._job(name)
        if name in self.facts.jobs:
            log = Job(self.facts.state_directory / "jobs", name).log
            self.facts.job_logs[name] = read_tail(log, 64 * 1024)
        return detail

    def _kernel(self) -> str | None:
        try:
            text = run("dmesg")
        except OSError as e:
            try:
                text = run("journalctl", "-k", "-b", "-o", "short-unix", "--no-pager", "-q", "-n", "5000")
            except OSError as other:
                raise OSError(f"{e}; {other}") from e
            if not text.strip():
                # Without the group adm or systemd-journal, journalctl shows an empty log and no error.
                raise OSError(f"{e}; 'sudo dmesg' shows it") from e
        self.facts.kernel = parse_kernel(text, self.facts.boot_time)
        return None

    def _oomd(self) -> None:
        text = run("journalctl", "-u", "systemd-oomd", "-b", "-o", "short-unix", "--no-pager", "-q", "-n", "500")
        self.facts.oomd = parse_kernel(text, None)

    def _sleep(self) -> None:
        self.facts.may_sleep = may_sleep(self._machine.root)

    def _gpu(self) -> None:
        try:
            gpus = read_gpus()
            self.facts.gpu_driver = gpus[0].driver if gpus else ""
        except GpuError as e:
            self.facts.gpu_error = str(e)
            raise

    def _shared_memory(self) -> None:
        self.facts.shared_memory = disk_of("shared memory", self._machine.root / "dev/shm")

    def _network(self) -> None:
        routes = [self.read_text("/proc/net/route"), ""]
        if (self._machine.root / "proc/net/ipv6_route").exists():
            routes[1] = self.read_text("/proc/net/ipv6_route")
        self.facts.default_route = has_default_route(*routes)
        self.facts.name_servers = parse_name_servers(self.read_text("/etc/resolv.conf"))

    def _owner(self) -> str | None:
        if not self._cache.exists():
            return "there is no cache yet"
        owner = self._cache.stat().st_uid
        if owner != self._machine.uid and not os.access(self._cache, os.W_OK):
            self.facts.foreign_cache = f"{self._cache} belongs to {user_name(owner)}"
        return None

    def _port(self) -> str | None:
        url = urlsplit(address_of(self.facts))
        if not url.hostname or not url.port:
            return "no deployment says which"
        self.facts.port = usage.port_use(self._machine, self.facts.containers, url.hostname, url.port)
        return None

    def _ask(self) -> str | None:
        url = address_of(self.facts)
        if not url:
            raise ValueError("the container does not say where it listens")
        server = ServerInspector(url, self.facts)
        self.facts.look = server.look(QUESTION, False, ASK_DEADLINE_S)
        if self.facts.look.state in ("ready", "busy"):
            self.facts.served = server.models
        return self.facts.look.why


def newest_files(state_directory: Path) -> Path | None:
    """Return the generation that was written or recorded last. Without a container, this is the best guess."""
    result = state_directory.glob(f"*/{records.GENERATIONS}/*/options.yml")
    times = {path.parent: path.stat().st_mtime for path in result}
    for path in state_directory.glob("*/record.json"):
        labels = ((records.read_record(path) or {}).get("container") or {}).get("labels") or {}
        files = records.files_directory(path.parent, labels)
        # An existing generation is reused, not written again.
        if files in times:
            times[files] = max(times[files], path.stat().st_mtime)
    return max(times, key=lambda files: times[files], default=None)
