# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The status of a deployment as the table that a person reads."""

from __future__ import annotations

import dataclasses
import typing as t

from ...module_utils._data.moments import moment_text
from ...module_utils._data.text import amount, count_noun, duration, join_words
from ...module_utils._deployment import nccl
from ...module_utils._deployment.capacity import describe_capacity
from ...module_utils._deployment.cluster_view import OPEN, RANK_RUNS, REFUSED, SILENT, Link, Rail, describe_rail
from ...module_utils._deployment.lines import command, section, wrap_text
from ...module_utils._deployment.names import displayed
from ...module_utils._report.status import (
    TRIAL,
    Disk,
    Facts,
    Job,
    Model,
    Previous,
    Removable,
    Status,
    UnusedImage,
    UnusedModel,
    UsedCache,
)
from ...module_utils._server.server_facts import SERVING
from ...module_utils._spark.lease import describe_holder
from .._engines.methods import NONE
from .._engines.registry import drafting
from . import access
from .advice import Around, advice

COLUMN = 21
# No client reaches anything at the address.
DOWN = ("stopped", "dead", "failed")
ON_THE_SPARK = access.Reach(local=True)

Row = t.TypeVar("Row")


def _rows_of(kind: t.Callable[..., Row], said: t.Iterable[Facts] | None) -> list[Row] | None:
    return None if said is None else [kind(**one) for one in said]


def status_of(facts: Facts) -> Status:
    """Return the status of which a module has returned the facts."""
    disk = Disk(**facts["disk"])
    disk.unused_images = _rows_of(UnusedImage, facts["disk"]["unused_images"])
    disk.caches = _rows_of(UsedCache, facts["disk"]["caches"])
    disk.unused_models = _rows_of(UnusedModel, facts["disk"]["unused_models"])
    disk.unused_files = _rows_of(Removable, facts["disk"]["unused_files"])
    disk.incomplete_downloads = _rows_of(Removable, facts["disk"]["incomplete_downloads"])
    status = Status(**{field.name: facts[field.name] for field in dataclasses.fields(Status)})
    status.disk, status.models = disk, [Model(**model) for model in facts["models"]]
    status.jobs = [Job(**job) for job in facts["jobs"]]
    status.previous = Previous(**facts["previous"]) if facts["previous"] else None
    return status


def size(count: int | None) -> str:
    """Bytes for a person."""
    return "unknown" if count is None else amount(count)


def _is_worker(status: Status) -> bool:
    return status.cluster is not None and status.cluster["rank"] > 0


def _url(status: Status) -> str:
    """Return the URL of the API; empty for a worker, which has none, and for a server that is down."""
    return "" if _is_worker(status) or status.state in DOWN else status.url or ""


def _worker_heading(host: str, status: Status, cluster: Facts) -> str:
    runs = status.state in (RANK_RUNS, "waiting", "loading", "unhealthy")
    of = status.deployment or "a deployment of several Sparks"
    what = f"rank {cluster['rank']} of {of}; its head is {cluster['peer']['name']}"
    if status.state is None:
        return f"{host}: state unknown; last deployment: {what}"
    return f"{host} is {what}" if runs else f"{host} does not run {what}"


def heading(host: str, status: Status) -> str:
    if status.cluster and _is_worker(status):
        return _worker_heading(host, status, status.cluster)
    if status.state == "absent":
        return f"{host}: nothing is deployed"
    what = (
        status.served_model
        or status.target_model
        or status.deployment
        or "something that this collection did not deploy"
    )
    how = drafting(vars(status))
    what += f" {how}" if how else ""
    cluster, who, be, serve = status.cluster, host, "is", "serves"
    if cluster:
        who, be, serve = join_words(cluster["nodes"]) or f"{host} and {cluster['peer']['name']}", "are", "serve"
    if status.state == TRIAL:
        return f"{who} {be} running a benchmark of {what}"
    if status.state in SERVING:
        return f"{who} {serve} {what}"
    if status.state == "loading":
        return f"{who} {be} loading {what}"
    if cluster and status.state == "waiting":
        return f"{host} waits for {cluster['peer']['name']} to serve {what}"
    if status.state is None:
        return f"{who}: state unknown" + (f"; last deployment: {what}" if cluster or status.deployment else "")
    return f"{who} {be} not serving {what}"


def _state(status: Status) -> str:
    words = (status.state or "unknown").replace("_", " ")
    up = (status.container or {}).get("uptime_s") if status.serving_s is None else status.serving_s
    if up is not None:
        words += f", up {duration(up)}"
    if status.restarts:
        words += f", restarted {count_noun(status.restarts, 'time')}"
    return words


def _image(image: t.Mapping[str, t.Any]) -> str:
    digests = image.get("digests") or []
    digest = str(digests[0]).rpartition("@")[2] if digests else image.get("id")
    return f"{image.get('reference') or 'unknown'} ({str(digest)[:19]})" if digest else str(image.get("reference"))


def _model(model: Model) -> str:
    commit = f" at {model.commit[:12]}" if model.commit else ""
    return f"{model.id}{commit}, {size(model.bytes_on_disk)}"


def _speed(status: Status) -> str | None:
    parts = []
    if status.tokens_per_second is not None:
        parts.append(f"{status.tokens_per_second:.1f} tokens/s")
    if status.acceptance_length is not None and status.method != NONE:
        parts.append(f"acceptance length {status.acceptance_length:.2f}")
    if not parts:
        return None
    return ", ".join(parts) + (" (measured now)" if status.measured == "now" else " (at deployment)")


def _total(things: t.Sequence[Removable] | t.Sequence[UnusedModel] | None) -> str:
    return "unknown" if things is None else size(sum(thing.bytes for thing in things))


def _cache(cache: UsedCache) -> str:
    return f"{size(cache.bytes)} of {f'image {cache.image}' if cache.image else 'downloaded code'}"


def _disk(disk: Disk) -> list[tuple[str, str]]:
    compressed = " compressed" if disk.compressed_images else ""
    none = disk.image_bytes is None and disk.unused_images is not None
    image = "none in use" if none else size(disk.image_bytes) + (compressed if disk.image_bytes else "")
    if disk.previous_image_bytes:
        image += f", the previous one's {size(disk.previous_image_bytes)}{compressed}"
    rows = [("disk: image", image)]
    if disk.unused_images:
        names = ", ".join(f"{image.reference} {size(image.bytes)}{compressed}" for image in disk.unused_images)
        rows.append(("  unused images", names))
    if disk.caches:
        used, unused = ([_cache(one) for one in disk.caches if one.in_use is wanted] for wanted in (True, False))
        rows.append(("disk: kernels", ", ".join(used) or "none in use"))
        rows += [("  unused kernels", ", ".join(unused))] if unused else []
    rows.append(("disk: models", f"{size(disk.models_used_bytes)} in use"))
    if disk.unused_models:
        names = ", ".join(f"{model.id} {size(model.bytes)}" for model in disk.unused_models)
        rows.append(("  unused models", names))
    if disk.unused_files:
        names = ", ".join(f"{piece.path} of {piece.model} {size(piece.bytes)}" for piece in disk.unused_files)
        rows.append(("  unused files", names))
    if disk.incomplete_downloads:
        rows.append(
            (
                "  incomplete",
                f"{_total(disk.incomplete_downloads)} in {count_noun(len(disk.incomplete_downloads), 'file')}",
            )
        )
    rows.append(("disk: logs", size(disk.logs_bytes)))
    rows.append(("disk: free", f"{size(disk.cache_free_bytes)} for models, {size(disk.docker_free_bytes)} for images"))
    return rows


def _previous(previous: Previous) -> str:
    how = drafting(vars(previous))
    when = f", deployed {previous.deployed_at}" if previous.deployed_at else ""
    differs = f"; there {', '.join(previous.differs)}" if previous.differs else ""
    return displayed(previous.deployment, previous.variant) + (f" {how}" if how else "") + when + differs


def _peer(cluster: Facts) -> str | None:
    """Return what this Spark sees of its peer over the link."""
    peer, seen = cluster["peer"], cluster["peer"]["noticed"] or {}
    words = {OPEN: "answers", REFUSED: "answers", SILENT: "does not answer"}.get(peer["answers"])
    if words is None:
        return None
    who = "one of " if len(cluster["nodes"]) > 2 and cluster["rank"] == 0 and peer["answers"] != OPEN else ""
    text = f"{who}{peer['name']} {words} at {peer['address']}"
    if peer["answers"] == REFUSED and cluster["rank"] == 0:
        text += f", but nothing listens there on port {peer['port']}: its container does not run, or just starts"
    since = seen.get("since")
    if seen.get("reachable") is False and isinstance(since, (int, float)):
        text += f"; the container has not reached it since {moment_text(since)}"
    return text


def _fabric(cluster: Facts) -> t.Iterator[tuple[str, str]]:
    names = [field.name for field in dataclasses.fields(Rail)]
    for number, row in enumerate(cluster["rails"]):
        link = Link(row["up"], row["address_here"], row["mtu_now"], row["speed_mbps_now"])
        yield (
            "" if number else "fabric",
            describe_rail(Rail(**{name: row[name] for name in names}), link, len(cluster["nodes"])),
        )


def _network(cluster: Facts, runs: bool) -> str | None:
    """Return whether this Spark's rank uses RDMA, by NCCL's own word."""
    network = nccl.parse_facts(cluster["nccl"])
    # Its log is that of the last rank, which may have ended.
    if network is not None and runs:
        return nccl.describe_network(network)
    ready = f"{cluster['rdma']} ready; " if cluster["rdma"] else ""
    return f"{ready}not known whether NCCL uses it" if runs or ready else None


def _half(cluster: Facts, runs: bool) -> t.Iterator[tuple[str, str | None]]:
    name = cluster["peer"]["name"]
    workers = "workers" if len(cluster["nodes"]) > 2 else "worker"
    yield "role", f"the head, with {name} as its {workers}" if cluster["rank"] == 0 else f"the worker of {name}"
    yield from _fabric(cluster)
    yield "RDMA", _network(cluster, runs)
    yield "other Spark", _peer(cluster)


# Actions of other programs when memory is short, by their defaults.
OOM_DAEMONS = {
    "earlyoom": "earlyoom runs, too: it ends the largest program once less than 10 % of memory and of swap are free",
    "systemd-oomd": "systemd-oomd runs, too: it may kill the container once 90 % of the swap are used, or if a control "
    "group waits for memory for 20 s",
}


def _guard(guard: Facts) -> str:
    """Return the memory guard's own state; a file that a user changed may say anything."""
    if not guard.get("on"):
        return str(guard.get("why") or "off")
    lowest, floor = (guard.get(name) for name in ("lowest", "floor"))
    words = "on"
    if isinstance(lowest, int) and isinstance(floor, int):
        words += f", limit {size(floor)}, least available since start {size(lowest)}"
    return words if guard.get("locked") else f"{words}; it could not lock its memory, so swapping may delay it"


def _rows(status: Status) -> t.Iterator[tuple[str, str | None]]:
    yield "state", _state(status)
    yield "", status.reason
    if status.cleanup_began:
        yield "cleanup", f"began {status.cleanup_began} and has not ended"
    yield "lease", describe_holder(status.lease) if status.lease else None
    for job in status.jobs:
        percent = "" if job.percent is None else f" ({job.percent:.0f} %)"
        yield f"{job.name} runs", f"{job.text or 'starting'}{percent}"
    if status.deployment:
        when = f", deployed {status.deployed_at}" if status.deployed_at else ""
        yield "deployment", f"{displayed(status.deployment, status.variant)}{when}"
    if status.cluster:
        yield from _half(status.cluster, status.state in (*SERVING, RANK_RUNS))
    if url := _url(status):
        yield from access.rows(url, status.listens_on, access.endpoint_of(status.endpoint))
    if status.context and status.concurrency and not _is_worker(status):
        yield "capacity", describe_capacity(status.context, status.concurrency, status.longest_prompt)
    for name, state in status.companions.items():
        yield name, f"{state}, {status.chat_url}" if status.chat_url and name == "Open WebUI" else state
    if status.image:
        yield "image", _image(status.image)
    for model in status.models:
        yield f"{model.role} model", _model(model)
    for number, origin in enumerate(status.origins):
        yield "" if number else "overrides", origin
    yield "speed", _speed(status)
    yield "memory", f"{size(status.memory_available)} of {size(status.memory_total)} available"
    if status.memory_guard:
        yield "memory guard", _guard(status.memory_guard)
        for name in status.oom_daemons:
            yield "", OOM_DAEMONS.get(name, name)
    yield from _disk(status.disk)
    if status.previous:
        yield "previous", _previous(status.previous)


def render(host: str, status: Status, around: Around | None = None, reach: access.Reach = ON_THE_SPARK) -> list[str]:
    """Return the whole table."""
    seen = around or Around()
    lines = [*wrap_text(heading(host, status), "", "  "), ""]
    for name, value in _rows(status):
        if value:
            lines += wrap_text(value, f"  {name:<{COLUMN - 2}}", " " * COLUMN)
    if url := _url(status):
        first = access.opening(url, reach, access.endpoint_of(status.endpoint))
        lines += ["", *first] if first else []
    if status.chat_url and not reach.local:
        lines += ["", "  Open an SSH tunnel to Open WebUI:", *command(reach.tunnel(status.chat_url))]
    lines += section("Findings", (finding["message"] for finding in status.findings))
    lines += section("Not checked", status.not_checked)
    lines += section("Next", [one.line(seen.inventory) for one in advice(host, status, seen)])
    return lines
