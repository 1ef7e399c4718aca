# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Gather the facts of a deployment from Docker, files and the fabric, for status and diagnosis."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
import typing as t
from pathlib import Path

from .._data.files import nearest_existing, read_tail
from .._data.moments import unix_time
from .._data.text import one_line
from .._deployment import cluster_view, nccl, records
from .._docker import access as docker
from .._docker.engine import Engine, EngineError
from .._docker.image_store import store_of
from .._docker.inspector import Inspector
from .._spark.lock import user_name
from .._spark.watched_job import Job
from .client import ProbeError

# The name of Docker as a source.
DOCKER = "Docker"
# Less than this of a log may be what was written since it was rotated.
SHORT_LOG = 20_000


class Source(t.NamedTuple):
    """Something that was looked at."""

    name: str
    read: bool
    # Why it could not be read, or a note about it.
    detail: str = ""


class Disk(t.NamedTuple):
    """A file system that something of ours lies on."""

    use: str
    path: str
    free: int
    total: int


@dataclasses.dataclass
class DeploymentFacts:
    """Everything that was found. Empty or None: there is none, or it could not be read."""

    container: str = "dgx-spark-speculative"
    state_directory: Path = Path()
    # Of the deployment, and the user to whom it belongs, if this one may not read it.
    directory: Path | None = None
    closed_by: str | None = None
    # usable, denied, not_installed, not_running, unsupported or unknown
    docker: str = "unknown"
    docker_detail: str = ""
    docker_info: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    gpu_by: str | None = None
    slot: dict[str, t.Any] | None = None
    record: records.Record | None = None
    state: dict[str, t.Any] | None = None
    server_log: str = ""
    # Rank, current links, and whether the needed nodes answer.
    cluster: cluster_view.ClusterView | None = None
    links: list[cluster_view.Link] = dataclasses.field(default_factory=list)
    peer_answers: str | None = None
    # Facts of the ranks from before the start of the server.
    ranks: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    # The network of this rank's NCCL since its last start.
    network: nccl.Network | None = None
    jobs: dict[str, dict[str, t.Any]] = dataclasses.field(default_factory=dict)
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    disks: list[Disk] = dataclasses.field(default_factory=list)
    # The texts of files by their names, for an archive.
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    now: float = 0.0
    user: str = ""
    sources: list[Source] = dataclasses.field(default_factory=list)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the container."""
        return ((self.slot or {}).get("Config") or {}).get("Labels") or {}

    @property
    def running(self) -> bool:
        """Return whether the container runs."""
        return ((self.slot or {}).get("State") or {}).get("Status") == "running"

    @property
    def started(self) -> float | None:
        """Return when the container was started."""
        return started_at(((self.slot or {}).get("State") or {}).get("StartedAt"), self.now)

    @property
    def rank(self) -> int | None:
        """Return which of several Sparks this is; None for one alone."""
        return None if self.cluster is None else self.cluster.rank

    @property
    def ranks_now(self) -> dict[str, t.Any]:
        """Return what the ranks of the server that runs said of themselves."""
        return self.ranks if (self.state or {}).get("state") == "running" else {}

    @property
    def network_now(self) -> nccl.Network | None:
        """Return which network NCCL uses while ranks run."""
        return self.network if (self.state or {}).get("state") in nccl.RANKS_RUN else None

    def unread(self, name: str) -> str | None:
        """Return why something could not be read; None if it was."""
        return next((source.detail for source in self.sources if source.name == name and not source.read), None)


def disk_of(use: str, path: Path) -> Disk:
    """Return the room of the file system of a path."""
    usage = shutil.disk_usage(path)
    return Disk(use, str(path), usage.free, usage.total)


def closed_by(directory: Path) -> str | None:
    """Return the owner of a deployment's directory, or of the one above it, that this user may not enter."""
    closed = False
    for path in (directory / "state" / "state.json", directory / "state", directory, *directory.parents):
        try:
            owner = path.stat().st_uid
        except PermissionError:
            closed = True
        except OSError:
            pass
        else:
            return user_name(owner) if closed else None
    return None


def seconds_of(moment: t.Any) -> float | None:
    """Unix time of a moment as Docker gives it, in UTC with nanoseconds; None for the year 1, its word for never."""
    try:
        return unix_time(str(moment)) if str(moment) > "1971" else None
    except ValueError:
        return None


def started_at(moment: t.Any, now: float) -> float | None:
    """Return when a container was started; None if the start is in the future.

    Then the clock was set back, and log lines from before and after the start look the same.
    """
    started = seconds_of(moment)
    return None if started is None or started > now + 1 else started


class Gatherer(Inspector):
    """Gather facts one after the other; each step leaves a Source. A subclass defines the steps."""

    def __init__(
        self, facts: DeploymentFacts, params: t.Mapping[str, t.Any], machine: docker.Machine, engine: Engine
    ) -> None:
        super().__init__(params, machine, engine)
        self.facts = facts
        facts.container, facts.state_directory = params["container"], Path(params["state_directory"])
        facts.now = time.time()
        facts.user = user_name(machine.uid)

    def _look(self, name: str, look: t.Callable[[], str | None]) -> None:
        try:
            self.facts.sources.append(Source(name, True, look() or ""))
        except (OSError, ValueError, EngineError, ProbeError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            self.facts.sources.append(Source(name, False, one_line(reason) or type(e).__name__))
        except (AttributeError, KeyError, TypeError, RecursionError) as e:
            # An incomplete or foreign file must not hide the other sources.
            self.facts.sources.append(Source(name, False, f"it is not as expected ({type(e).__name__}: {e})"))

    @property
    def _cache(self) -> Path:
        return Path(self._params["cache_directory"])

    def _docker(self) -> str | None:
        facts, socket = self.facts, self._engine.path
        try:
            info = self._engine.get("/info")
            kind = docker.answering_engine(self._engine.get("/version"), info)
        except PermissionError as e:
            facts.docker, facts.docker_detail = "denied", f"The user {facts.user} may not open {socket}"
            raise OSError(facts.docker_detail) from e
        except OSError as e:
            kind = docker.silent_engine(self._machine, Path(socket))
            facts.docker = {"docker": "not_running", "unknown": "not_installed"}.get(kind, "unsupported")
            facts.docker_detail = f"{socket}: {e.strerror or e}" + (
                f"; {kind} is here" if facts.docker == "unsupported" else ""
            )
            raise
        if kind != "docker":
            facts.docker, facts.docker_detail = "unsupported", f"{kind} answers on {socket}"
            return facts.docker_detail
        facts.docker, facts.docker_info = "usable", info
        facts.gpu_by = docker.gpu_support(self._machine, info)
        facts.slot = self.find_slot()
        if facts.slot is None:
            return f"there is no container {facts.container}"
        facts.container = str(facts.slot["Name"]).lstrip("/")
        return None

    def _record(self) -> str | None:
        facts = self.facts
        if facts.slot is None:
            facts.directory, facts.record = self._without_container()
        else:
            facts.directory = records.deployment_directory(facts.state_directory, facts.labels)
            facts.record = records.current(facts.state_directory, facts.labels)
        return None if facts.record else "nothing was seen to serve in this configuration"

    def _without_container(self) -> tuple[Path | None, records.Record | None]:
        """Return the directory and the record that apply without a container."""
        return None, None

    def _state(self) -> str | None:
        directory = self.facts.directory
        if directory is None:
            return "there is no deployment"
        self.facts.closed_by = closed_by(directory)
        data = json.loads((directory / "state/state.json").read_text(encoding="utf-8"))
        self.facts.state = data if isinstance(data, dict) else None
        return None

    def _server_log(self) -> str | None:
        if self.facts.directory is None:
            return "there is no deployment"
        log = self.facts.directory / "state/server.log"
        text = read_tail(log)
        if not log.exists():
            raise OSError("there is none")
        # Just rotated: what counts is at the end of the older file.
        self.facts.server_log = text if len(text) > SHORT_LOG else read_tail(log.with_suffix(".log.1")) + text
        return None

    def _cluster(self) -> str | None:
        facts = self.facts
        facts.cluster = cluster_view.cluster_of(facts.labels, cluster_view.environment_of(facts.slot), facts.record)
        if facts.cluster is None:
            return "this Spark serves alone"
        facts.links = [cluster_view.read_rail(rail, self._machine.root) for rail in facts.cluster.rails]
        facts.peer_answers = cluster_view.probe_peer(facts.cluster, next(iter(facts.links), None))
        if facts.directory:
            state = facts.directory / "state"
            if facts.cluster.rank == 0:
                self._look("ranks.json", lambda: self._ranks(state))
            self._look("NCCL's log", lambda: self._nccl(state))
        return f"{facts.cluster.role}, the other one is {facts.cluster.peer}"

    def _ranks(self, state: Path) -> None:
        text = (state / "ranks.json").read_text(encoding="utf-8")
        self.facts.files["ranks.json"] = text
        data = json.loads(text)
        self.facts.ranks = data if isinstance(data, dict) else {}

    def _nccl(self, state: Path) -> str | None:
        text = nccl.read_files(state)
        if not text:
            return "there is none"
        self.facts.files["nccl.log"] = text
        self.facts.network = nccl.parse(text, cluster_view.environment_of(self.facts.slot).get("NCCL_IB_HCA", ""))
        return None

    def _job(self, name: str) -> str | None:
        state, running = Job(self.facts.state_directory / "jobs", name).settled()
        if state is None:
            return "there was none"
        self.facts.jobs[name] = {**state, "running": running}
        return None

    def _memory(self) -> None:
        self.facts.memory = self.read_memory()

    def _disks(self) -> None:
        places = [("the models", self._cache), ("the deployments", self.facts.state_directory)]
        info = self.facts.docker_info
        store = store_of(info, self._machine.root)
        # Docker's own directory has to have room for logs where images lie elsewhere.
        folders = [store.path, Path(info.get("DockerRootDir") or store.path)] if store else []
        places += [("images", folder) for folder in dict.fromkeys(folders)]
        for use, path in places:
            self.facts.disks.append(disk_of(use, nearest_existing(path)))
