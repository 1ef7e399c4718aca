# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Gather what a diagnosis needs: logs, Docker, kernel, jobs, memory, disks, network. What cannot be read says why."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import struct
import subprocess
import time
import typing as t
from pathlib import Path
from urllib.parse import quote, urlsplit

from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import bandwidth, nccl, records
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import pair_view as pairs
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import access as docker
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import holders
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.engine import SOCKET, Engine, EngineError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.image_store import store_of
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import completions
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.look import (
    QUESTION,
    Files,
    Look,
    ServerLook,
    started_at,
    tail,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import hotplug as _hotplug
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import (
    QUERY,
    GpuError,
    ask_gpu,
    ask_gpu_processes,
    parse_gpus,
    parse_meminfo,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.watched_job import Job

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
# What GDM does with a machine at which nobody sits: a line of its greeter's settings.
_STAYS_AWAKE = re.compile(r"^\s*sleep-inactive-ac-type\s*=\s*'nothing'", re.MULTILINE)


class Source(t.NamedTuple):
    """Something that was looked at."""

    name: str
    read: bool
    # Why it could not be read, or what is worth knowing of it.
    detail: str = ""


class KernelLine(t.NamedTuple):
    """A line of the kernel's log, with its Unix time where that is known."""

    at: float | None
    text: str


class Disk(t.NamedTuple):
    """A file system that something of ours lies on."""

    use: str
    path: str
    free: int
    total: int


@dataclasses.dataclass
class Evidence:
    """Everything that was found. Empty or None: there is none, or it could not be read."""

    failure: str = ""
    container: str = "dgx-spark-speculative"
    state_directory: Path = Path()
    directory: Path | None = None
    # Where its container has its files from.
    mounted: Path | None = None
    # usable, denied, not_installed, not_running, unsupported or unknown
    docker: str = "unknown"
    docker_detail: str = ""
    docker_info: Facts = dataclasses.field(default_factory=dict)
    gpu_by: str | None = None
    slot: Facts | None = None
    containers: list[Facts] = dataclasses.field(default_factory=list)
    gpu_processes: list[Facts] = dataclasses.field(default_factory=list)
    docker_log: str = ""
    server_log: str = ""
    failed_log: str = ""
    failed_log_path: Path | None = None
    failed_log_at: float | None = None
    state: Facts | None = None
    # What the memory guard has written down, and what that of a container did which did not end in order.
    memory_log: str = ""
    memory_before: str = ""
    record: Facts | None = None
    recorded: tuple[str, ...] = ()
    jobs: dict[str, Facts] = dataclasses.field(default_factory=dict)
    job_logs: dict[str, str] = dataclasses.field(default_factory=dict)
    kernel: list[KernelLine] = dataclasses.field(default_factory=list)
    # What systemd-oomd says, which kills a container without Docker's knowing why.
    oomd: list[KernelLine] = dataclasses.field(default_factory=list)
    may_sleep: str = ""
    kernel_release: str = ""
    gpu_error: str = ""
    gpu_driver: str = ""
    # Which half of two Sparks this is; its ways through the cable as they are now; whether the other one answers.
    pair: pairs.Pair | None = None
    links: list[pairs.Link] = dataclasses.field(default_factory=list)
    peer_answers: str | None = None
    # Whether DGX OS takes the network card away without a cable, and has.
    hotplug: Facts = dataclasses.field(default_factory=dict)
    # What its cable has carried since the Spark was started.
    measured: list[Facts] = dataclasses.field(default_factory=list)
    # What the ranks said of themselves before the server was started.
    ranks: Facts = dataclasses.field(default_factory=dict)
    # Which network the NCCL of this Spark's rank tells of, since its last start.
    network: nccl.Network | None = None
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    disks: list[Disk] = dataclasses.field(default_factory=list)
    name_servers: list[str] | None = None
    default_route: bool | None = None
    foreign_cache: str = ""
    port: Facts | None = None
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    now: float = 0.0
    boot_time: float | None = None
    user: str = ""
    look: Look | None = None
    served: list[str] = dataclasses.field(default_factory=list)
    sources: list[Source] = dataclasses.field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether the container runs."""
        return ((self.slot or {}).get("State") or {}).get("Status") == "running"

    @property
    def started(self) -> float | None:
        """When the container was started."""
        return started_at(((self.slot or {}).get("State") or {}).get("StartedAt"), self.now)

    @property
    def said(self) -> str:
        """What the container's first program says the server does; what an earlier container said does not count."""
        since, started = (self.state or {}).get("since"), self.started
        if self.running and started and isinstance(since, (int, float)) and since < int(started):
            return ""
        return str((self.state or {}).get("state") or "")

    @property
    def rank(self) -> int | None:
        """Which of several Sparks this is; None for one alone."""
        return None if self.pair is None else self.pair.rank

    @property
    def serves(self) -> bool:
        """Whether it was seen to generate just now; of a worker, whether its rank runs."""
        if self.rank:
            return self.running and self.said == pairs.RANK_RUNS
        return (
            self.running
            and self.said == "running"
            and self.look is not None
            and self.look.state in ("ready", "ready_without_speculation")
        )


class LoggingEngine(Engine):
    """An Engine that can also be asked for a container's output."""

    def logs(self, name: str, lines: int) -> str:
        """The end of what a container wrote to both its outputs."""
        path = f"/containers/{quote(name, safe='')}/logs?stdout=1&stderr=1&tail={lines}"
        with self.request("GET", path, self._timeout) as response:
            body = response.read()
        if response.status != 200:
            raise EngineError(f"the Engine answered {response.status} when asked for the container's output")
        return demultiplex(body).decode("utf-8", "replace")


def demultiplex(stream: bytes) -> bytes:
    """The Engine puts eight bytes before each piece: the output's number, three zeros, and the length."""
    pieces = []
    at = 0
    while at + 8 <= len(stream):
        number, zeros, length = struct.unpack(">B3sI", stream[at : at + 8])
        if number > 2 or zeros != b"\0\0\0":
            # A container with a terminal has no such frames.
            return stream
        pieces.append(stream[at + 8 : at + 8 + length])
        at += 8 + length
    return b"".join(pieces)


def run(*command: str) -> str:
    """What a command prints. Raises OSError with the reason if it fails."""
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
        said = done.stderr.decode("utf-8", "replace").strip() or done.stdout.decode("utf-8", "replace").strip()
        raise OSError(completions.one_line(said) or f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def parse_kernel(text: str, boot_time: float | None) -> list[KernelLine]:
    """The kernel's log as dmesg prints it, in seconds since boot, or as journalctl does with -o short-unix."""
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
    """What would have this machine sleep; empty where its login screen does not, or nothing can."""
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
    """Whether /proc/net/route or ipv6_route has a way to everywhere that is up and not a refusal."""
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
    """Where the server listens, by its container or its record."""
    if evidence.rank:
        # The head has the port.
        return ""
    labels = ((evidence.slot or {}).get("Config") or {}).get("Labels") or {}
    return str(labels.get(f"{records.LABEL}url") or (evidence.record or {}).get("url") or "")


class Gatherer:
    """Looks at one thing after the other; each look leaves a Source."""

    def __init__(
        self, evidence: Evidence, machine: docker.Machine, cache: Path, engine: LoggingEngine, socket: str
    ) -> None:
        self.evidence = evidence
        self._machine = machine
        self._cache = cache
        self._engine = engine
        self._socket = socket

    def gather(self, ask: bool) -> Evidence:
        evidence = self.evidence
        evidence.now = time.time()
        evidence.user = docker.user_name(self._machine.uid)
        self._look("clock", self._clock)
        self._look("Docker", self._docker)
        self._look("container output", self._docker_log)
        self._look("record", self._record)
        self._look("state.json", self._state)
        self._look("memory.log", self._memory_log)
        self._look("pair", self._pair)
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
        self._look("network", self._network)
        self._look("cache's owner", self._owner)
        self._look("port", self._port)
        if ask and evidence.running and not evidence.rank:
            self._look("server", self._ask)
        return evidence

    def _look(self, name: str, look: t.Callable[[], str | None]) -> None:
        try:
            self.evidence.sources.append(Source(name, True, look() or ""))
        except (OSError, ValueError, EngineError, completions.ProbeError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            self.evidence.sources.append(Source(name, False, completions.one_line(reason) or type(e).__name__))
        except (AttributeError, KeyError, TypeError, RecursionError) as e:
            # Half a file, or one of somebody else's, must not cost the rest of the diagnosis.
            self.evidence.sources.append(Source(name, False, f"it is not as expected ({type(e).__name__}: {e})"))

    def _text(self, path: str) -> str:
        return (self._machine.root / path).read_text(encoding="utf-8", errors="replace")

    def _clock(self) -> None:
        self.evidence.kernel_release = os.uname().release
        self.evidence.boot_time = self.evidence.now - float(self._text("proc/uptime").split()[0])

    def _docker(self) -> str | None:
        evidence = self.evidence
        try:
            info = self._engine.get("/info")
            kind = docker.answering_engine(self._engine.get("/version"), info)
        except PermissionError as e:
            evidence.docker = "denied"
            evidence.docker_detail = f"The user {evidence.user} may not open {self._socket}"
            raise OSError(evidence.docker_detail) from e
        except OSError as e:
            kind = docker.silent_engine(self._machine, Path(self._socket))
            evidence.docker = {"docker": "not_running", "unknown": "not_installed"}.get(kind, "unsupported")
            evidence.docker_detail = f"{self._socket}: {e.strerror or e}" + (
                f"; {kind} is here" if evidence.docker == "unsupported" else ""
            )
            raise
        if kind != "docker":
            evidence.docker, evidence.docker_detail = "unsupported", f"{kind} answers on {self._socket}"
            return evidence.docker_detail
        evidence.docker, evidence.docker_info = "usable", info
        evidence.gpu_by = docker.gpu_support(self._machine, info)
        evidence.slot = self._engine.slot(evidence.container)
        if evidence.slot:
            evidence.container = str(evidence.slot["Name"]).lstrip("/")
        listed = [
            docker.brief_container(one, self._engine.container(one["Id"]))
            for one in self._engine.get("/containers/json")
        ]
        evidence.containers, evidence.gpu_processes = holders.holdings(self._machine, listed, ask_gpu_processes())
        return None if evidence.slot else f"there is no container {evidence.container}"

    def _docker_log(self) -> str | None:
        if self.evidence.slot is None:
            return "there is no container"
        self.evidence.docker_log = self._engine.logs(self.evidence.slot["Id"], DOCKER_LOG_LINES)
        return None

    def _record(self) -> str | None:
        evidence = self.evidence
        found = records.deployments(evidence.state_directory)
        evidence.recorded = tuple(found)
        labels = ((evidence.slot or {}).get("Config") or {}).get("Labels") or {}
        evidence.directory = records.deployment_directory(evidence.state_directory, labels)
        if evidence.slot is None:
            evidence.mounted = newest_files(evidence.state_directory)
            evidence.directory = evidence.mounted.parent.parent if evidence.mounted else None
            evidence.record = records.read_record(evidence.directory / "record.json") if evidence.directory else None
        else:
            evidence.mounted = records.files_directory(evidence.directory, labels) if evidence.directory else None
            evidence.record = records.current(evidence.state_directory, labels)
        return None if evidence.record else "nothing was seen to serve in this configuration"

    def _state(self) -> str | None:
        if self.evidence.directory is None:
            return "there is no deployment"
        data = json.loads((self.evidence.directory / "state/state.json").read_text(encoding="utf-8"))
        self.evidence.state = data if isinstance(data, dict) else None
        return None

    def _memory_log(self) -> str | None:
        directory = self.evidence.directory
        if directory is None:
            return "there is no deployment"
        names = ("memory.log.1", "memory.log", "memory-before.log")
        older, newer, before = (tail(directory / "state" / name, MEMORY_LOG_BYTES) for name in names)
        self.evidence.memory_log, self.evidence.memory_before = older + newer, before
        texts = {"memory.log": older + newer, "memory-before.log": before}
        self.evidence.files.update({name: text for name, text in texts.items() if text})
        return None

    def _pair(self) -> str | None:
        evidence = self.evidence
        labels = ((evidence.slot or {}).get("Config") or {}).get("Labels") or {}
        evidence.pair = pairs.pair_of(labels, pairs.environment_of(evidence.slot), evidence.record)
        if evidence.pair is None:
            return "this Spark serves alone"
        evidence.links = [pairs.look_at_rail(rail, self._machine.root) for rail in evidence.pair.rails]
        evidence.peer_answers = pairs.ask_peer(evidence.pair, next(iter(evidence.links), None))
        evidence.hotplug = _hotplug.look(self._machine.root)
        evidence.measured = bandwidth.measured(evidence.state_directory)
        directory = evidence.directory
        if evidence.pair.rank == 0 and directory:
            self._look("ranks.json", lambda: self._ranks(directory))
        if directory:
            self._look("NCCL's log", lambda: self._nccl(directory))
        return f"{evidence.pair.role}, the other one is {evidence.pair.peer}"

    def _ranks(self, directory: Path) -> str | None:
        text = (directory / "state/ranks.json").read_text(encoding="utf-8")
        self.evidence.files["ranks.json"] = text
        data = json.loads(text)
        self.evidence.ranks = data if isinstance(data, dict) else {}
        return None

    def _nccl(self, directory: Path) -> str | None:
        text = nccl.read_files(directory / "state")
        if not text:
            return "there is none"
        self.evidence.files["nccl.log"] = text
        self.evidence.network = nccl.parse(text, pairs.environment_of(self.evidence.slot).get("NCCL_IB_HCA", ""))
        return None

    def _server_log(self) -> str | None:
        if self.evidence.directory is None:
            return "there is no deployment"
        log = self.evidence.directory / "state/server.log"
        text = tail(log)
        if not log.exists():
            raise OSError("there is none")
        # Just rotated: what counts is at the end of the older file.
        self.evidence.server_log = text if len(text) > 20_000 else tail(log.with_suffix(".log.1")) + text
        return None

    def _failed_log(self) -> str | None:
        found = [(path.stat().st_mtime, path) for path in self.evidence.state_directory.glob("*/failed.log")]
        if not found:
            return "there is none"
        self.evidence.failed_log_at, path = max(found)
        self.evidence.failed_log_path = path
        self.evidence.failed_log = path.read_text(encoding="utf-8", errors="replace")[-512 * 1024 :]
        return None

    def _files(self) -> str | None:
        if self.evidence.directory is None or self.evidence.mounted is None:
            return "there is no deployment"
        # Only the head of two Sparks starts anything.
        for name in ("options.yml",) if self.evidence.rank else ("options.yml", "serve.sh"):
            self.evidence.files[name] = (self.evidence.mounted / name).read_text(encoding="utf-8", errors="replace")
        # What a server looked like that the container's main process ended.
        for name in ("stalled.log", "peer-lost.log"):
            kept = tail(self.evidence.directory / "state" / name)
            if kept:
                self.evidence.files[name] = kept
        return None

    def _job(self, name: str) -> str | None:
        job = Job(self.evidence.state_directory / "jobs", name)
        state, running = job.settled()
        if state is None:
            return "there was none"
        self.evidence.jobs[name] = {**state, "running": running}
        self.evidence.job_logs[name] = tail(job.log, 64 * 1024)
        return None

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
                raise OSError(str(e)) from e
        self.evidence.kernel = parse_kernel(text, self.evidence.boot_time)
        return None

    def _oomd(self) -> None:
        text = run("journalctl", "-u", "systemd-oomd", "-b", "-o", "short-unix", "--no-pager", "-q", "-n", "500")
        self.evidence.oomd = parse_kernel(text, None)

    def _sleep(self) -> None:
        self.evidence.may_sleep = may_sleep(self._machine.root)

    def _gpu(self) -> None:
        try:
            gpus = parse_gpus(ask_gpu(QUERY))
            self.evidence.gpu_driver = gpus[0].driver if gpus else ""
        except GpuError as e:
            self.evidence.gpu_error = str(e)
            raise

    def _memory(self) -> None:
        self.evidence.memory = parse_meminfo(self._text("proc/meminfo"))

    def _disks(self) -> None:
        places = [("the models", self._cache), ("the deployments", self.evidence.state_directory)]
        store = store_of(self.evidence.docker_info, self._machine.root)
        # Docker's own directory has to have room for logs where images lie elsewhere.
        folders = [store.path, Path(self.evidence.docker_info["DockerRootDir"])] if store else []
        places += [("images", folder) for folder in dict.fromkeys(folders)]
        for use, path in places:
            existing = docker.nearest_existing(path)
            status = os.statvfs(existing)
            size = status.f_frsize
            self.evidence.disks.append(Disk(use, str(existing), status.f_bavail * size, status.f_blocks * size))

    def _network(self) -> None:
        routes = [self._text("proc/net/route"), ""]
        if (self._machine.root / "proc/net/ipv6_route").exists():
            routes[1] = self._text("proc/net/ipv6_route")
        self.evidence.default_route = has_default_route(*routes)
        self.evidence.name_servers = parse_name_servers(self._text("etc/resolv.conf"))

    def _owner(self) -> str | None:
        if not self._cache.exists():
            return "there is no cache yet"
        owner = self._cache.stat().st_uid
        if owner != self._machine.uid and not os.access(self._cache, os.W_OK):
            self.evidence.foreign_cache = f"{self._cache} belongs to {docker.user_name(owner)}"
        return None

    def _port(self) -> str | None:
        url = urlsplit(address_of(self.evidence))
        if not url.hostname or not url.port:
            return "no deployment says which"
        self.evidence.port = holders.port_use(self._machine, self.evidence.containers, url.hostname, url.port)
        return None

    def _ask(self) -> str | None:
        url = address_of(self.evidence)
        if not url:
            raise ValueError("the container does not say where it listens")
        files = Files(self.evidence.state, self.evidence.server_log)
        self.evidence.look = ServerLook(url, files, self.evidence.started).look(QUESTION, False, ASK_DEADLINE_S)
        if self.evidence.look.state in ("ready", "busy"):
            self.evidence.served = completions.Client(url).models()
        return self.evidence.look.why


def newest_files(state_directory: Path) -> Path | None:
    """The files of a deployment that were written or recorded last, where no container says which ones count."""
    found = state_directory.glob(f"*/{records.GENERATIONS}/*/options.yml")
    times = {path.parent: path.stat().st_mtime for path in found}
    for path in state_directory.glob("*/record.json"):
        labels = ((records.read_record(path) or {}).get("container") or {}).get("labels") or {}
        files = records.files_directory(path.parent, labels)
        # A generation that is found again is not written again.
        if files in times:
            times[files] = max(times[files], path.stat().st_mtime)
    return max(times, key=lambda files: times[files], default=None)


def gather(
    container: str,
    state_directory: Path,
    cache_directory: Path,
    socket: str = SOCKET,
    ask: bool = True,
    failure: str = "",
    machine: docker.Machine | None = None,
) -> Evidence:
    """Look at everything."""
    evidence = Evidence(failure=failure, container=container, state_directory=state_directory)
    engine = LoggingEngine(socket, ENGINE_TIMEOUT_S)
    return Gatherer(evidence, machine or docker.Machine(), cache_directory, engine, socket).gather(ask)
