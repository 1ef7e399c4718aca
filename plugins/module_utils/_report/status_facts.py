# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""One look at what a Spark serves, whether it works, and what it takes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import typing as t
from pathlib import Path

from .._data.moments import moment_text
from .._data.text import in_brackets
from .._deployment import records
from .._deployment.cluster_view import OPTIONS_LABEL, RANK_RUNS, SILENT, Link, Rail
from .._deployment.names import STANDBY
from .._docker.access import Machine, brief_slot
from .._docker.caches import caches_of
from .._docker.engine import Engine, EngineError
from .._docker.image_store import CONTAINERD, store_of
from .._gateway.exposed import exposed_endpoint
from .._models.cache import CachedModel, cached_models, removals
from .._problems.catalogue import cause_of
from .._server import server_facts
from .._server.deployment_facts import DOCKER, DeploymentFacts, Gatherer, seconds_of
from .._spark import lease
from .._spark.machine import oom_daemons
from .status import Disk, Job, Model, Previous, Removable, Status, UnusedImage, UnusedModel, UsedCache, cluster_facts

JOBS = ("pull", "fetch", "benchmark")
LOGS = ("*/state/*.log", "*/state/*.log.1", "*/state/nccl.*", "*/failed.log", "jobs/*/log")
# The labels of other containers of this collection. Users can choose their names.
BESIDE = {"proxy": "api_proxy", "Open WebUI": "open_webui"}
# Where what is published on every address is reached on the Spark itself.
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class StatusInspector(Gatherer):
    """Gathers a status; each part of it copes with what is not there."""

    def __init__(self, params: dict[str, t.Any], machine: Machine) -> None:
        super().__init__(DeploymentFacts(), params, machine, Engine(params["socket"]))
        self._state_directory = self.facts.state_directory
        self._receipts = Path(params["receipts_directory"] or self._state_directory / "models")
        self._status = Status()
        # Why the Engine cannot be asked; empty as long as it can.
        self._problem = ""
        self._measured: dict[str, t.Any] | None = None

    def gather(self) -> Status:
        status, facts = self._status, self.facts
        self._look(DOCKER, self._docker)
        self._problem = self._docker_problem()
        self._look("record", self._record)
        records.require_format(facts.labels, facts.record)
        self._look("state.json", self._state)
        self._look("server.log", self._server_log)
        self._look("cluster", self._cluster)
        self._look("memory", self._memory)
        self._look("disks", self._disks)
        slot = brief_slot(facts.slot) if facts.slot else None
        status.container = self._container(slot)
        status.companions, status.chat_url = self._beside()
        status.endpoint = (
            exposed_endpoint(self._state_directory / "proxy") if status.companions.get("proxy") == "running" else None
        )
        self._describe(slot, facts.record)
        self._deployed(slot, facts.record)
        self._figures(facts.record)
        previous = records.previous(self._state_directory)
        if previous and previous.get("format") == records.FORMAT:
            status.previous = Previous.of(previous, facts.record)
        status.cleanup_began = self._cleanup_began(status.deployed_at or "")
        status.jobs = self._jobs()
        status.lease = self._run()
        self._memory_now()
        self._images(slot, facts.record, previous)
        self._models(facts.record)
        self._sizes()
        if self._problem:
            remedy = f" {cause_of(self._problem, ('docker_denied',)).fix}" if facts.docker == "denied" else ""
            status.not_checked.insert(0, f"Docker cannot be asked: {self._problem}.{remedy}")
        return status

    def _docker_problem(self) -> str:
        """Return why Docker cannot be asked; empty if it can."""
        facts, reason = self.facts, self.facts.unread(DOCKER)
        if facts.docker == "denied":
            return f"the user {facts.user} may not open {self._engine.path}"
        if facts.docker == "not_installed":
            return "it is not installed"
        if reason is not None and facts.docker in ("not_running", "unsupported"):
            return f"it does not answer on {self._engine.path} ({reason})"
        return (reason or facts.docker_detail).rstrip(".")

    def _ask_docker(self, question: t.Callable[[], t.Any]) -> t.Any:
        """Return the Engine's answer; None from the first one on that it does not give."""
        if self._problem:
            return None
        try:
            return question()
        except OSError as e:
            self._problem = f"it does not answer on {self._engine.path} ({e.strerror or e})"
        except EngineError as e:
            self._problem = str(e).rstrip(".")
        return None

    def _beside(self) -> tuple[dict[str, str], str | None]:
        """Return the states of the other containers of this collection, and the URL of Open WebUI."""
        containers = self._ask_docker(lambda: self._engine.find("/containers/json?all=1")) or []
        by_role = {(container["Labels"] or {}).get(f"{records.LABEL}role"): container for container in containers}
        ports = (port for port in by_role.get("open_webui", {}).get("Ports") or [] if port.get("IP"))
        urls = (f"http://{in_brackets(LOOPBACK.get(port['IP'], port['IP']))}:{port['PublicPort']}" for port in ports)
        return {what: by_role[role]["State"] for what, role in BESIDE.items() if role in by_role}, next(urls, None)

    def _cleanup_began(self, deployed_at: str) -> str | None:
        """Return when a cleanup began that has not ended; None if there is none, or a later deployment."""
        with contextlib.suppress(OSError):
            when = (self._state_directory / records.CLEANUP).stat().st_mtime
            began = moment_text(when)
            return began if began > deployed_at else None
        return None

    def _image(self, reference: str | None) -> dict[str, t.Any]:
        return (self._ask_docker(functools.partial(self._engine.image, reference)) if reference else None) or {}

    @staticmethod
    def _container(slot: dict[str, t.Any] | None) -> dict[str, t.Any] | None:
        if slot is None:
            return None
        started = seconds_of(slot["started_at"]) if slot["state"] == "running" else None
        return {**slot, "uptime_s": None if started is None else max(0, int(time.time() - started))}

    def _without_container(self) -> tuple[Path | None, records.Record | None]:
        """Return what was deployed last, where Docker cannot be asked."""
        if not self._problem:
            return None, None
        result = records.deployments(self._state_directory).values()
        record = max(result, key=lambda record: str(record.get("deployed_at")), default=None)
        return self._state_directory / record["deployment"] if record else None, record

    def _describe(self, slot: dict[str, t.Any] | None, record: records.Record | None) -> None:
        status, labels = self._status, (slot or {}).get("labels") or {}
        known = record or {}
        status.deployment = labels.get(f"{records.LABEL}deployment") or known.get("deployment")
        status.url = labels.get(f"{records.LABEL}url") or known.get("url")
        status.take(known)
        status.origins = records.origins(known)
        # Findings of the answers belong to the head.
        status.findings = [] if self.facts.rank else server_facts.carried_findings(known)
        if slot is not None and status.deployment and record is None:
            message = (
                f"{status.deployment} is not verified in its present configuration: its run was interrupted or still "
                "continues, or its record.json is missing or damaged. Run its playbook again."
            )
            status.findings = [{"id": "not_recorded", "message": message}]
        if slot is not None and slot["name"] == f"{self._params['container']}{STANDBY}":
            message = (
                "This container is on standby for a new one: the run that replaces it was interrupted or still "
                "continues. If it was interrupted, run the deployment's playbook or start.yml to finish the switchover."
            )
            status.findings = [*status.findings, {"id": "put_aside", "message": message}]

    def _labels(self) -> dict[str, str]:
        """Return the labels of the container; without Docker, those in the record."""
        labels = self.facts.labels
        if not labels and self._status.deployment:
            return {f"{records.LABEL}deployment": self._status.deployment}
        return labels

    def _deployed(self, slot: dict[str, t.Any] | None, record: records.Record | None) -> None:
        status, facts = self._status, self.facts
        if facts.closed_by is not None:
            message = (
                f"{status.deployment} was deployed by {facts.closed_by}, whose files in {facts.directory} this user "
                f"cannot read. Run status.yml as {facts.closed_by} to see all."
            )
            status.findings = [{"id": "of_another_user", "message": message}]
        if facts.cluster:
            status.cluster = cluster_facts(facts, self._labels().get(OPTIONS_LABEL))
            status.findings += server_facts.by_tcp(facts, "this Spark") + other_mtus(facts.cluster.rails, facts.links)
        # Without the others there is no token to wait for.
        lost = self._lost()
        result = self._state_of(slot, server_facts.question_of(record) if self._params["probe"] and not lost else None)
        if lost and result.state == "ready":
            result = dataclasses.replace(result, state="unhealthy", why=lost)
        status.state, status.reason, status.version = result.state, result.why, result.version
        status.findings += [finding for finding in result.findings if finding not in status.findings]
        if slot is not None and slot["state"] == "running" and facts.state:
            restarts = facts.state.get("restarts")
            status.restarts = restarts if isinstance(restarts, int) else None
            since = facts.state.get("since")
            if status.state in (*server_facts.SERVING, RANK_RUNS) and isinstance(since, (int, float)):
                status.serving_s = max(0, int(time.time() - since))
            guard = facts.state.get("guard")
            status.memory_guard = guard if isinstance(guard, dict) else None
        self._measured = result.measurements

    def _lost(self) -> str:
        """Return a sentence on the Spark that the head cannot reach; empty if there is none."""
        cluster = self.facts.cluster
        if cluster is None or cluster.rank or self.facts.peer_answers != SILENT:
            return ""
        return f"The server listens, but cannot generate: {cluster.worst_peer} does not answer on the cable."

    def _state_of(self, slot: dict[str, t.Any] | None, question: server_facts.Asked) -> server_facts.ServerFacts:
        status = self._status
        if slot is None and not self._problem:
            return server_facts.ServerFacts("absent", f"There is no container {self._params['container']}.")
        stands_still = server_facts.facts_from_container(slot, self.facts) if slot else None
        if stands_still:
            return stands_still
        if self.facts.rank:
            if slot is None:
                return server_facts.ServerFacts(None, "Docker cannot be asked whether its container runs.")
            return server_facts.worker_facts(self.facts, slot["health"])
        if not status.url:
            if slot is None:
                return server_facts.ServerFacts(None, "Docker cannot be asked, and no deployment is on record.")
            return server_facts.ServerFacts(
                None, f"The container {slot['name']} runs, but has no label that says where it serves."
            )
        try:
            asked = server_facts.ServerInspector(status.url, self.facts)
        except ValueError as e:
            return server_facts.ServerFacts(None, str(e))
        result = asked.look(question, status.method not in (None, "none"), self._params["answer_timeout"])
        if slot is None and result.state not in (*server_facts.SERVING, "unhealthy"):
            # Nothing listens, and whether the container runs is not known: the files may be old.
            return server_facts.ServerFacts(None, f"Nothing listens at {status.url}, and Docker cannot be asked why.")
        return result

    def _figures(self, record: records.Record | None) -> None:
        """Of this look if it has generated enough, else as noted when it was deployed."""
        measured, when = self._measured or {}, "now"
        enough = (measured.get("completion_tokens") or 0) >= server_facts.TOKENS_TO_MEASURE
        if not enough or measured.get("tokens_per_second") is None:
            measured, when = (record or {}).get("measurements") or {}, "deployed"
        status = self._status
        if self.facts.rank:
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
            self._status.not_checked.append(f"{error}.")
            return None

    def _jobs(self) -> list[Job]:
        for name in JOBS:
            self._look(f"job {name}", functools.partial(self._job, name))
        under_way = {name: job["progress"] or {} for name, job in self.facts.jobs.items() if job["running"]}
        return [Job(name, one.get("percent"), str(one.get("text") or "")) for name, one in under_way.items()]

    def _memory_now(self) -> None:
        reason = self.facts.unread("memory")
        if reason is not None:
            self._status.not_checked.append(f"The memory cannot be looked at: {reason}.")
            return
        self._status.memory_total = self.facts.memory.get("MemTotal")
        self._status.memory_available = self.facts.memory.get("MemAvailable")
        self._status.oom_daemons = oom_daemons(self._machine.root)

    def _images(
        self, slot: dict[str, t.Any] | None, record: records.Record | None, previous: records.Record | None
    ) -> None:
        status = self._status
        recorded, labels = (record or {}).get("image") or {}, self._labels()
        identity = (slot or {}).get("image_id") or recorded.get("id")
        inspected = self._image(identity)
        reference = recorded.get("reference") or (slot or {}).get("image")
        if identity or reference:
            digests = inspected.get("RepoDigests") or recorded.get("digests") or []
            status.image = {"reference": reference, "id": identity, "digests": digests}
        store = store_of(self.facts.docker_info, self._machine.root)
        status.disk.compressed_images = store is not None and store.kind == CONTAINERD
        status.disk.image_bytes = inspected.get("Size")
        before = ((previous or {}).get("image") or {}).get("id")
        if before and before != identity:
            status.disk.previous_image_bytes = self._image(before).get("Size")
        if self._problem:
            return
        known = records.images(self._state_directory, labels)
        named = ((name, self._image(name)) for name in known["unused"])
        status.disk.unused_images = [
            UnusedImage(name, found.get("Size") or 0)
            for name, found in named
            if found and found.get("Id") not in (identity, before)
        ]
        caches = self._ask_docker(lambda: caches_of(self._engine, self._params["container"]))
        status.disk.caches = caches and [
            UsedCache(cache.volume, cache.image, cache.bytes, cache.is_used(known["ids"])) for cache in caches
        ]

    def _models(self, record: records.Record | None) -> None:
        in_use = records.models_in_use(self._state_directory, self._labels())
        cached: list[CachedModel] | None = None
        try:
            cached = cached_models(self._cache, self._receipts, in_use)
        except OSError as e:
            self._status.not_checked.append(f"The models in {self._cache} cannot be looked at: {e.strerror or e}.")
        sizes = {model.id: model.bytes_on_disk for model in cached or []}
        self._status.models = [
            Model(name, role_of(name, record or {}), commit, sizes.get(name))
            for name, commit in records.models_of(record).items()
        ]
        if cached is not None:
            count_models(self._status.disk, cached)

    def _sizes(self) -> None:
        disk = self._status.disk
        free = {disk.use: disk.free for disk in reversed(self.facts.disks)}
        disk.cache_free_bytes, disk.docker_free_bytes = free.get("the models"), free.get("images")
        with contextlib.suppress(OSError):
            logs = (path for pattern in LOGS for path in self._state_directory.glob(pattern))
            disk.logs_bytes = sum(path.stat().st_size for path in logs)


def other_mtus(rails: t.Sequence[Rail], links: t.Sequence[Link]) -> list[dict[str, t.Any]]:
    """Return the finding for each interface whose MTU is not the one that the deployment was proven with.

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
    """Sort the cache into disjoint kinds. A model of the user counts only if it is in use."""
    kept = [model for model in cached if model.in_use]
    disk.unused_models = [
        UnusedModel(model.id, model.bytes_on_disk) for model in cached if model.fetched_here and not model.in_use
    ]
    disk.unused_files = [Removable(model.id, piece.path, piece.bytes) for model in kept for piece in model.unused_files]
    disk.incomplete_downloads = [
        Removable(model.id, piece.path, piece.bytes) for model in kept for piece in model.incomplete_downloads
    ]
    aside = sum(piece.bytes for piece in (*disk.unused_files, *disk.incomplete_downloads))
    disk.models_used_bytes = sum(model.bytes_on_disk for model in kept) - aside
    images = sum(image.bytes for image in disk.unused_images or [])
    caches = sum(cache.bytes or 0 for cache in disk.caches or [] if not cache.in_use)
    disk.reclaimable_bytes = images + caches + sum(removal.bytes for removal in removals(cached))
