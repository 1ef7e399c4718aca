# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The status of a deployment: its facts as data."""

from __future__ import annotations

import dataclasses
import typing as t

from .._deployment import records
from .._deployment.cluster_view import last_seen, rdma_ready
from .._engines.registry import log_of
from .._server.deployment_facts import DeploymentFacts

# A benchmark tries other engine options than the deployment's own.
TRIAL = "trial"

Facts = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of the deployment."""

    id: str
    role: str
    commit: str | None = None
    bytes_on_disk: int | None = None


@dataclasses.dataclass(frozen=True)
class Removable:
    """Something in the cache that nothing serves."""

    model: str
    path: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class UnusedImage:
    """An image of this collection's that is here and that no deployment uses."""

    reference: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class UsedCache:
    """A volume with compiled kernels of an image, or with downloaded code if `image` is None."""

    volume: str
    image: str | None
    bytes: int | None
    in_use: bool


@dataclasses.dataclass(frozen=True)
class UnusedModel:
    """A model that was fetched by this collection and that no deployment uses."""

    id: str
    bytes: int


@dataclasses.dataclass
class Disk:
    """Disk use by kind; None is 'not known'. The kinds are disjoint."""

    image_bytes: int | None = None
    previous_image_bytes: int | None = None
    unused_images: list[UnusedImage] | None = None
    # Whether the sizes of images are compressed ones, as Docker has them with containerd's store.
    compressed_images: bool = False
    caches: list[UsedCache] | None = None
    models_used_bytes: int | None = None
    unused_models: list[UnusedModel] | None = None
    unused_files: list[Removable] | None = None
    incomplete_downloads: list[Removable] | None = None
    logs_bytes: int | None = None
    cache_free_bytes: int | None = None
    docker_free_bytes: int | None = None
    reclaimable_bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """A pull, a download or a benchmark that is under way."""

    name: str
    percent: float | None
    text: str


def own_speculation(record: t.Mapping[str, t.Any]) -> Facts | None:
    """Return what the engine options of a record say of speculation; None if a method says it."""
    section = (record.get("options") or {}).get(log_of(record).speculation)
    return section if isinstance(section, dict) and record.get("method") == "" else None


@dataclasses.dataclass(frozen=True)
class Previous:
    """The deployment that a rollback restores."""

    deployment: str
    method: str | None
    draft_length: int | None
    deployed_at: str | None
    # All its Sparks; none for one alone.
    nodes: list[str] = dataclasses.field(default_factory=list)
    engine: str | None = None
    # What engine options of its own say of it, without a method.
    speculation: Facts | None = None
    # Its differences from the current deployment, in words.
    differs: list[str] = dataclasses.field(default_factory=list)
    # Of its recipe; empty if it is the recipe itself.
    variant: str | None = None

    @classmethod
    def of(cls, record: t.Mapping[str, t.Any] | None, now: t.Mapping[str, t.Any] | None = None) -> Previous | None:
        """Return what a rollback to this record would start."""
        if record is None:
            return None
        return cls(
            deployment=record["deployment"],
            method=record.get("method"),
            draft_length=record.get("draft_length"),
            deployed_at=record.get("deployed_at"),
            nodes=records.nodes_of(record.get("cluster") or {}),
            engine=record.get("engine"),
            speculation=own_speculation(record),
            differs=records.differences(record, now or {}),
            variant=record.get("variant"),
        )


# Values with the same names in a record.
OF_THE_RECORD = (
    *("variant", "title", "source", "deployed_at", "listens_on", "target_model", "served_model"),
    *("engine", "method", "draft_length", "context", "concurrency"),
)


@dataclasses.dataclass
class Status:
    """All that is known; None is 'not known'."""

    state: str | None = None
    reason: str | None = None
    container: dict[str, t.Any] | None = None
    deployment: str | None = None
    variant: str | None = None
    title: str | None = None
    source: str | None = None
    deployed_at: str | None = None
    url: str | None = None
    listens_on: str | None = None
    # The containers beside it that are there, by what they are, each with Docker's word for its state.
    companions: dict[str, str] = dataclasses.field(default_factory=dict)
    # The address of Open WebUI on the Spark while it runs.
    chat_url: str | None = None
    # The endpoints of the proxy, as stored by the role api_proxy.
    endpoint: dict[str, t.Any] | None = None
    target_model: str | None = None
    # As the API names it.
    served_model: str | None = None
    method: str | None = None
    draft_length: int | None = None
    # Tokens of a conversation, conversations at once, and tokens of a prompt where those are fewer.
    context: int | None = None
    concurrency: int | None = None
    longest_prompt: int | None = None
    engine: str | None = None
    # What engine options of its own say of speculation, without a method.
    speculation: Facts | None = None
    origins: list[str] = dataclasses.field(default_factory=list)
    version: str | None = None
    models: list[Model] = dataclasses.field(default_factory=list)
    image: dict[str, t.Any] | None = None
    acceptance_length: float | None = None
    tokens_per_second: float | None = None
    measured: str | None = None
    # When a cleanup began that has not ended.
    cleanup_began: str | None = None
    findings: list[dict[str, str]] = dataclasses.field(default_factory=list)
    restarts: int | None = None
    # Since when the server serves, or the rank runs.
    serving_s: int | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    # The memory guard in the container, and other programs that end processes when memory is short.
    memory_guard: dict[str, t.Any] | None = None
    oom_daemons: list[str] = dataclasses.field(default_factory=list)
    disk: Disk = dataclasses.field(default_factory=Disk)
    previous: Previous | None = None
    # The role in the cluster, and the state of the other Spark.
    cluster: dict[str, t.Any] | None = None
    jobs: list[Job] = dataclasses.field(default_factory=list)
    # The run that has the lease.
    lease: dict[str, t.Any] | None = None
    not_checked: list[str] = dataclasses.field(default_factory=list)

    def take(self, record: t.Mapping[str, t.Any]) -> None:
        """Add the values of the record."""
        for name in OF_THE_RECORD:
            setattr(self, name, record.get(name))
        self.longest_prompt = log_of(record).longest_prompt(record.get("options") or {}, self.context)
        self.speculation = own_speculation(record)

    def facts(self) -> dict[str, t.Any]:
        """As a module returns it."""
        return dataclasses.asdict(self)


def cluster_facts(facts: DeploymentFacts, options: str | None) -> Facts | None:
    """Return a pair, and what one half of it sees now, as a module returns them."""
    cluster = facts.cluster
    if cluster is None:
        return None
    rails = [
        {
            **dataclasses.asdict(rail),
            "up": link.up,
            "address_here": link.address_here,
            "mtu_now": link.mtu,
            "speed_mbps_now": link.speed_mbps,
        }
        for rail, link in zip(cluster.rails, facts.links)
    ]
    peer = {
        "name": cluster.peer,
        "address": cluster.peer_address,
        "port": cluster.worker_port,
        "answers": facts.peer_answers,
    }
    network = facts.network_now
    return {
        "rank": cluster.rank,
        "role": cluster.role,
        "nodes": list(cluster.nodes),
        "rails": rails,
        "peer": {**peer, "noticed": last_seen(facts.state)},
        "options": options,
        "rdma": rdma_ready(facts.ranks_now),
        "nccl": network.facts() if network else None,
    }
