# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""One look at what a Spark serves, whether it works, and what it takes."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import records
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.names import ASIDE
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.pair_view import (
    OPTIONS_LABEL,
    SILENT,
    Link,
    Pair,
    Rail,
    ask_peer,
    environment_of,
    look_at_rail,
    noticed,
    pair_of,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import (
    Machine,
    brief_slot,
    silent_engine,
    user_name,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.engine import Engine, EngineError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.image_store import store_of
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.exposed import exposed
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import (
    CachedModel,
    cached_models,
    removals,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.hub import free_space
from ansible_collections.dgx_spark.speculative.plugins.module_utils._problems.catalogue import cause_of
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status import (
    Disk,
    Job,
    Model,
    Previous,
    Removable,
    Status,
    UnusedImage,
    UnusedModel,
    pair_facts,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import look
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lease
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import oom_daemons, parse_meminfo
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.watched_job import Job as WatchedJob

JOBS = ("pull", "fetch", "benchmark")
LOGS = ("*/state/*.log", "*/state/*.log.1", "*/state/nccl.*", "*/failed.log", "jobs/*/log")
MEMINFO = Path("/proc/meminfo")
# The labels of other containers of this collection. Users can choose their names.
BESIDE = {"proxy": "api_proxy", "Open WebUI": "open_webui"}


class Docker:
    """What the Engine says; everything None, and a reason, where it cannot be asked."""

    def __init__(self, socket: str, machine: Machine) -> None:
        self._socket = socket
        self._machine = machine
        self._engine = Engine(socket)
        self.problem: str | None = None
        self.remedy = ""
        # What the containers that were looked at were made with.
        self.environments: dict[str, dict[str, str]] = {}

    def _try(self, ask: t.Callable[[], t.Any]) -> t.Any:
        if self.problem:
            return None
        try:
            return ask()
        except PermissionError:
            self.problem = f"the user {user_name(self._machine.uid)} may not open {self._socket}"
            self.remedy = f" {cause_of(self.problem, ('docker_denied',)).fix}"
        except OSError as e:
            self.problem = f"it does not answer on {self._socket} ({e.strerror or e})"
            if silent_engine(self._machine, Path(self._socket)) == "unknown":
                self.problem = "it is not installed"
        except EngineError as e:
            self.problem = str(e).rstrip(".")
        return None

    def beside(self) -> dict[str, str]:
        """Return the states of the other containers of this collection."""
        containers = self._try(lambda: self._engine.find("/containers/json?all=1")) or []
        states = {
            (container["Labels"] or {}).get(f"{records.LABEL}role"): container["State"] for container in containers
        }
        return {what: states[role] for what, role in BESIDE.items() if role in states}

    def slot(self, name: str) -> dict[str, t.Any] | None:
        inspected = self._try(lambda: self._engine.slot(name))
        self.environments[name] = environment_of(inspected)
        return brief_slot(inspected) if inspected else None

    def image(self, reference: str | None) -> dict[str, t.Any]:
        return (self._try(lambda: self._engine.image(reference)) if reference else None) or {}

    def free_bytes(self) -> int | None:
        store = store_of(self._try(lambda: self._engine.get("/info")) or {})
        return store.free_bytes() if store else None


class StatusLook:
    """Gathers a status; each part of it copes with what is not there."""

    def __init__(self, params: dict[str, t.Any], machine: Machine) -> None:
        self._params = params
        self._state_directory = Path(params["state_directory"])
        self._cache = Path(params["cache_directory"])
        self._receipts = Path(params["receipts_directory"] or self._state_directory / "models")
        self._docker = Docker(params["socket"], machine)
        self._machine = machine
        self._status = Status()
        self._pair: Pair | None = None
        self._measured: dict[str, t.Any] | None = None

    def gather(self) -> Status:
        status = self._status
        slot = self._docker.slot(self._params["container"])
        record = self._record(slot)
        records.require_format((slot or {}).get("labels") or {}, record)
        status.container = self._container(slot)
        status.beside = self._docker.beside()
        status.endpoint = exposed(self._state_directory / "proxy") if status.beside.get("proxy") == "running" else None
        environment = self._docker.environments.get(self._params["container"], {})
        self._pair = pair_of((slot or {}).get("labels") or {}, environment, record)
        self._describe(slot, record)
        self._look(slot, record)
        self._figures(record)
        previous = records.previous(self._state_directory)
        if previous and previous.get("format") == records.FORMAT:
            status.previous = Previous.of(previous, record)
        status.jobs = self._jobs()
        status.run = self._run()
        self._memory()
        self._images(slot, record, previous)
        self._models(slot, record)
        self._files()
        if self._docker.problem:
            status.unknown.insert(0, f"Docker cannot be asked: {self._docker.problem}.{self._docker.remedy}")
        return status

    @staticmethod
    def _container(slot: dict[str, t.Any] | None) -> dict[str, t.Any] | None:
        if slot is None:
            return None
        started = look.seconds_of(slot["started_at"]) if slot["state"] == "running" else None
        return {**slot, "uptime_s": None if started is None else max(0, int(time.time() - started))}

    def _record(self, slot: dict[str, t.Any] | None) -> records.Record | None:
        """The record of what is in the slot; where Docker cannot be asked, of what was deployed last."""
        if slot is not None:
            return records.current(self._state_directory, slot["labels"])
        if not self._docker.problem:
            return None
        found = records.deployments(self._state_directory).values()
        return max(found, key=lambda record: str(record.get("deployed_at")), default=None)

    def _is_worker(self) -> bool:
        return self._pair is not None and self._pair.rank > 0

    def _describe(self, slot: dict[str, t.Any] | None, record: records.Record | None) -> None:
        status, labels = self._status, (slot or {}).get("labels") or {}
        known = record or {}
        status.deployment = labels.get(f"{records.LABEL}deployment") or known.get("deployment")
        status.url = labels.get(f"{records.LABEL}url") or known.get("url")
        status.take(known)
        status.origins = records.origins(known)
        # What was found in the answers is the head's to tell.
        status.findings = [] if self._is_worker() else look.still_said(known)
        if slot is not None and status.deployment and record is None:
            message = (
                f"Nobody has seen {status.deployment} answer as it is configured now: the run that deploys it was cut "
                "off or is still under way. Run its playbook again."
            )
            status.findings = [{"id": "not_recorded", "message": message}]
        if slot is not None and slot["name"] == f"{self._params['container']}{ASIDE}":
            message = (
                "This was put aside for another one: the run that replaces it was cut off or is still under way. If it "
                "was cut off, run a playbook that deploys, or start.yml, which finishes that."
            )
            status.findings = [*status.findings, {"id": "put_aside", "message": message}]

    def _labels(self, slot: dict[str, t.Any] | None) -> dict[str, str]:
        """The labels of what is in the slot; where Docker cannot be asked, what the record says of them."""
        labels: dict[str, str] = (slot or {}).get("labels") or {}
        if not labels and self._status.deployment:
            return {f"{records.LABEL}deployment": self._status.deployment}
        return labels

    def _look(self, slot: dict[str, t.Any] | None, record: records.Record | None) -> None:
        status = self._status
        directory = records.deployment_directory(self._state_directory, self._labels(slot))
        environment = self._docker.environments.get(self._params["container"], {})
        files = look.read_files(directory, environment.get("NCCL_IB_HCA", ""))
        if files.closed_by is not None:
            message = (
                f"{status.deployment} was deployed by {files.closed_by}, whose files in {directory} this user cannot "
                f"read. Run status.yml as {files.closed_by} to see all."
            )
            status.findings = [{"id": "of_another_user", "message": message}]
        if self._pair:
            options, seen = self._labels(slot).get(OPTIONS_LABEL), noticed(files.server)
            links = [look_at_rail(rail, self._machine.root) for rail in self._pair.rails]
            answers = ask_peer(self._pair, next(iter(links), None))
            status.pair = pair_facts(self._pair, links, answers, seen, options, files.ranks, files.network)
            status.findings += look.by_tcp(files, "this Spark") + other_mtus(self._pair.rails, links)
        # Without the others there is no token to wait for.
        lost = self._lost(status.pair)
        found = self._state_of(slot, files, look.question_of(record) if self._params["ask"] and not lost else None)
        if lost and found.state == "ready":
            found = dataclasses.replace(found, state="unhealthy", why=lost)
        status.state, status.why, status.version = found.state, found.why, found.version
        status.findings += [one for one in found.findings if one not in status.findings]
        if slot is not None and slot["state"] == "running" and files.server:
            restarts = files.server.get("restarts")
            status.restarts = restarts if isinstance(restarts, int) else None
            guard = files.server.get("guard")
            status.guard = guard if isinstance(guard, dict) else None
        self._measured = found.measurements

    def _lost(self, seen: dict[str, t.Any] | None) -> str:
        """Return a sentence on the Spark that the head cannot reach; empty if there is none."""
        if self._pair is None or self._pair.rank or seen is None or seen["peer"]["answers"] != SILENT:
            return ""
        return f"The server listens, but cannot generate: {self._pair.any_peer} does not answer on the cable."

    def _state_of(self, slot: dict[str, t.Any] | None, files: look.Files, question: look.Asked) -> look.Look:
        status = self._status
        if slot is None and not self._docker.problem:
            return look.Look("absent", f"There is no container {self._params['container']}.")
        stands_still = look.of_container(slot, files) if slot else None
        if stands_still:
            return stands_still
        if self._is_worker():
            if slot is None:
                return look.Look(None, "Docker cannot be asked whether its container runs.")
            return look.of_worker(files, look.started_at(slot["started_at"]), slot["health"])
        if not status.url:
            if slot is None:
                return look.Look(None, "Docker cannot be asked, and no deployment is on record.")
            return look.Look(None, f"The container {slot['name']} runs, but has no label that says where it serves.")
        try:
            asked = look.ServerLook(status.url, files, look.started_at(slot["started_at"]) if slot else None)
        except ValueError as e:
            return look.Look(None, str(e))
        found = asked.look(question, status.method not in (None, "none"), self._params["deadline"])
        if slot is None and found.state not in (*look.SERVING, "unhealthy"):
            # Nothing listens, and whether the container runs is not known: the files may be old.
            return look.Look(None, f"Nothing listens at {status.url}, and Docker cannot be asked why.")
        return found

    def _figures(self, record: records.Record | None) -> None:
        """Of this look if it has generated enough, else as noted when it was deployed."""
        measured, when = self._measured or {}, "now"
        enough = (measured.get("completion_tokens") or 0) >= look.TOKENS_TO_MEASURE
        if not enough or measured.get("tokens_per_second") is None:
            measured, when = (record or {}).get("measurements") or {}, "deployed"
        status = self._status
        if self._is_worker():
            # The head answers for both.
            return
        status.tokens_per_second = measured.get("tokens_per_second")
        status.acceptance_length = measured.get("acceptance_length")
        if status.tokens_per_second is not None or status.acceptance_length is not None:
            status.measured = when

    def _run(self) -> dict[str, t.Any] | None:
        try:
            return lease.ask({"do": "ask"}).get("holder")
        except lease.LockError as error:
            self._status.unknown.append(f"{error}.")
            return None

    def _jobs(self) -> list[Job]:
        found = []
        for name in JOBS:
            with contextlib.suppress(OSError, KeyError, RecursionError):
                state, running = WatchedJob(self._state_directory / "jobs", name).settled()
                if running and state:
                    progress = state.get("progress") or {}
                    found.append(Job(name, progress.get("percent"), str(progress.get("text") or "")))
        return found

    def _memory(self) -> None:
        try:
            memory = parse_meminfo(MEMINFO.read_text(encoding="ascii"))
        except OSError as e:
            self._status.unknown.append(f"The memory cannot be looked at: {e}.")
            return
        self._status.memory_total = memory.get("MemTotal")
        self._status.memory_available = memory.get("MemAvailable")
        self._status.oom_daemons = oom_daemons(self._machine.root)

    def _images(
        self, slot: dict[str, t.Any] | None, record: records.Record | None, previous: records.Record | None
    ) -> None:
        status = self._status
        recorded, labels = (record or {}).get("image") or {}, self._labels(slot)
        identity = (slot or {}).get("image_id") or recorded.get("id")
        inspected = self._docker.image(identity)
        reference = recorded.get("reference") or (slot or {}).get("image")
        if identity or reference:
            digests = inspected.get("RepoDigests") or recorded.get("digests") or []
            status.image = {"reference": reference, "id": identity, "digests": digests}
        status.disk.image_bytes = inspected.get("Size")
        before = ((previous or {}).get("image") or {}).get("id")
        if before and before != identity:
            status.disk.previous_image_bytes = self._docker.image(before).get("Size")
        status.disk.docker_free_bytes = self._docker.free_bytes()
        if self._docker.problem:
            return
        named = ((name, self._docker.image(name)) for name in records.images(self._state_directory, labels)["unused"])
        status.disk.images_unused = [
            UnusedImage(name, found.get("Size") or 0)
            for name, found in named
            if found and found.get("Id") not in (identity, before)
        ]

    def _models(self, slot: dict[str, t.Any] | None, record: records.Record | None) -> None:
        in_use = records.models_in_use(self._state_directory, self._labels(slot))
        cached: list[CachedModel] | None = None
        try:
            cached = cached_models(self._cache, self._receipts, in_use)
        except OSError as e:
            self._status.unknown.append(f"The models in {self._cache} cannot be looked at: {e.strerror or e}.")
        sizes = {model.id: model.bytes_on_disk for model in cached or []}
        self._status.models = [
            Model(name, role_of(name, record or {}), commit, sizes.get(name))
            for name, commit in records.models_of(record).items()
        ]
        if cached is not None:
            count_models(self._status.disk, cached)

    def _files(self) -> None:
        disk = self._status.disk
        with contextlib.suppress(OSError):
            disk.cache_free_bytes = free_space(self._cache)[0]
        with contextlib.suppress(OSError):
            logs = (path for pattern in LOGS for path in self._state_directory.glob(pattern))
            disk.logs_bytes = sum(path.stat().st_size for path in logs)


def other_mtus(rails: t.Sequence[Rail], links: t.Sequence[Link]) -> list[dict[str, t.Any]]:
    """The finding for each interface whose MTU is not the one that the deployment was proven with.

    A port without a cable has lost that with its address.
    """
    up = [(rail, link) for rail, link in zip(rails, links) if link.up is not False]
    changed = [(rail, link) for rail, link in up if rail.mtu and link.mtu and rail.mtu != link.mtu]
    return [
        {
            "id": "other_mtu",
            "message": f"{rail.interface} has MTU {link.mtu}, but had {rail.mtu} when this was deployed. Larger "
            f"packets of the other Spark are lost. Run 'sudo ip link set {rail.interface} mtu {rail.mtu}'.",
        }
        for rail, link in changed
    ]


def role_of(model: str, record: t.Mapping[str, t.Any]) -> str:
    if model == record.get("target_model"):
        return "target"
    return "draft" if model == record.get("draft_model") else "other"


def count_models(disk: Disk, cached: t.Sequence[CachedModel]) -> None:
    """Sort what the cache holds into kinds that do not overlap; a model that is not ours counts only if it is used."""
    kept = [model for model in cached if model.in_use]
    disk.models_unused = [
        UnusedModel(model.id, model.bytes_on_disk) for model in cached if model.fetched_here and not model.in_use
    ]
    disk.unserved = [Removable(model.id, piece.path, piece.bytes) for model in kept for piece in model.unserved]
    disk.orphan_parts = [Removable(model.id, piece.path, piece.bytes) for model in kept for piece in model.orphans]
    aside = sum(piece.bytes for piece in (*disk.unserved, *disk.orphan_parts))
    disk.models_used_bytes = sum(model.bytes_on_disk for model in kept) - aside
    images = sum(image.bytes for image in disk.images_unused or [])
    disk.removable_bytes = images + sum(removal.bytes for removal in removals(cached))
