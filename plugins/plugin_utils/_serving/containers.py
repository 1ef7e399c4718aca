# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Define the containers of a deployment on all its Sparks at once, because each rank needs its peers' addresses.

A single Spark is a cluster of one without rails.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ...module_utils._deployment import names
from ...module_utils._deployment.records import FORMAT, GENERATIONS
from .._engines.engine import Ends
from .._engines.registry import ENGINES
from . import container_spec

LABEL = f"{names.LABEL}configuration"
# The only writable one of the directories beside the generations.
WRITTEN = "state"
HUB = "/cache/huggingface/hub"
ENTRYPOINT = ("python3", "/deployment/entrypoint.py")
# After a quarter of an hour a server that still loads is unhealthy.
LOADING_S = 900
RDMA = ("/dev/infiniband:/dev/infiniband",)
# Of root in the container, in Docker's spelling. It reads the login user's models, writes to the state directory, and
# gives the files there to that user.
CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE")
# OpenShift's example of RDMA with these NICs has it (openshift/openshift-docs PR 35934). No Spark has shown whether
# NCCL needs it.
FABRIC_CAPABILITIES = ("CAP_NET_RAW",)
# A login through sshd: its unprivileged half, and Ubuntu's audit of logins (podman-container-tools/podman issue 10164).
SSHD_CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT")
# Ports below it are the system's.
SYSTEM_PORTS = 1024
# In the source of a mount, the place of the image's ID. The role engine_container fills it when it runs the container.
IMAGE = "{image}"

Rail = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Node:
    """The node spec of a Spark, from the role speculative_serve."""

    name: str
    deployment: str
    engine: str
    # Directories: the deployment's files, the models, the SSH keys of the cluster.
    directory: str
    cache: str
    cluster_directory: str
    # Docker: the recipe's image, the cluster image, and the volume for downloaded code. Compiled kernels of each image
    # are in a volume with this name and the image's ID.
    reference: str
    cluster_image: str
    volume: str
    # The API. On Docker's bridge the container has an address of its own.
    host: str
    port: int
    url: str
    bridged: bool
    # The two models, and the facts of each: its commit or fingerprint.
    target: str
    draft: str
    models: t.Mapping[str, t.Mapping[str, t.Any]]
    # Supervision.
    log_level: str
    stall_timeout_s: t.Any
    probe_interval_s: t.Any
    worker_timeout_s: t.Any
    # The memory guard's limits, and the memory of the engine: bytes if known, and a fraction of the rest.
    memory_guard: str
    takes: int | None
    share: float
    ready_timeout: t.Any
    environment: t.Mapping[str, t.Any]
    # The fabric.
    rails: t.Sequence[Rail]
    worker_port: int
    # The hash of the container's files, and the directories that are mounted among them.
    generation: str
    subdirectories: t.Sequence[str]
    # Hashes of the checked options and of the SSH keys; empty before the check.
    checked: str
    trust: str
    # Further settings of the user, Docker's settings, and the present serving container.
    devices: t.Sequence[str]
    capabilities: t.Sequence[str]
    settings: t.Mapping[str, t.Any]
    slot: t.Mapping[str, t.Any] | None
    # The recorded container, if its files and models match the plan.
    recorded: t.Mapping[str, t.Any] | None


@dataclasses.dataclass(frozen=True)
class Container:
    """The container to request from Docker."""

    image: str
    keep_entrypoint: bool
    command: list[str]
    devices: list[str]
    capabilities: list[str]
    environment: dict[str, str]
    mounts: list[dict[str, t.Any]]
    labels: dict[str, str]
    healthcheck: dict[str, t.Any]


def generation(texts: t.Mapping[str, str], subdirectories: t.Iterable[str]) -> str:
    """Return the hash of files: names, texts, and the directories that are mounted among them."""
    return hashlib.sha256(json.dumps([sorted(texts.items()), sorted(subdirectories)]).encode()).hexdigest()[:12]


def read(brought: t.Sequence[t.Mapping[str, t.Any]]) -> list[Node]:
    """Return the Sparks in the order of their ranks. A Spark alone has no peers, even with a cable."""
    nodes = [Node(**each) for each in brought]
    if len(nodes) == 1:
        return [dataclasses.replace(nodes[0], rails=())]
    for node in nodes:
        if not node.rails:
            raise ValueError(f"{node.name} has no network to the others (spark_network_rails)")
        if len(node.rails) != len(nodes[0].rails):
            raise ValueError(
                f"{nodes[0].name} and {node.name} have not as many ways to each other (spark_network_rails)"
            )
    return nodes


def rail_list(rails: t.Sequence[Rail], key: str) -> list[str]:
    """Return a value of all rails that have it."""
    return [str(rail[key]) for rail in rails if rail.get(key)]


def ends_of(rails: t.Sequence[Rail]) -> Ends:
    """Return the ends of a Spark's rails, each network once."""
    return Ends(
        interfaces=rail_list(rails, "interface"),
        addresses=rail_list(rails, "address"),
        subnets=list(dict.fromkeys(str(rail["subnet"]) for rail in rails)),
    )


def model_path(models: t.Mapping[str, t.Any], use: str, model: str) -> str:
    """Return the path of a model in the container: the same on every Spark, and not below /root."""
    if not model:
        return ""
    if model.startswith("/"):
        return f"/models/{use}/{model.rpartition('/')[2]}"
    return f"{HUB}/models--{model.replace('/', '--')}/snapshots/{models[model]['commit']}"


def model_paths(models: t.Mapping[str, t.Any], served: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the paths of target and draft model in the container; empty for none."""
    return {use: model_path(models, use, served[use]) for use in ("target", "draft")}


def model_mounts(cache: str, models: t.Mapping[str, t.Any], served: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the mounts of the cache and of the models in directories."""
    directories = {
        path: served[use] for use, path in model_paths(models, served).items() if served[use].startswith("/")
    }
    return [_mount(cache, HUB), *(_mount(source, target) for target, source in directories.items())]


def peer_addresses(nodes: t.Sequence[Node], rank: int) -> str:
    """Return the addresses of all other ranks: on the first rail in the order of ranks, then on the next."""
    rails = zip(*(node.rails for node in (*nodes[:rank], *nodes[rank + 1 :])))
    return ",".join(str(end["address"]) for rail in rails for end in rail)


def fabric(nodes: t.Sequence[Node], rank: int) -> dict[str, str]:
    """Return the environment by which a rank reaches its peers, over all rails. Empty for a single Spark."""
    node = nodes[rank]
    if not node.rails:
        return {}
    ends = ends_of(node.rails)
    return {
        "DGX_SPARK_RANK": str(rank),
        "DGX_SPARK_FABRIC_ADDRESSES": ",".join(ends.addresses),
        "DGX_SPARK_PEER_ADDRESSES": peer_addresses(nodes, rank),
        "DGX_SPARK_WORKER_PORT": str(node.worker_port),
        "DGX_SPARK_PEER_LOST_S": str(node.worker_timeout_s),
        "NCCL_SOCKET_IFNAME": ",".join(ends.interfaces),
        "NCCL_IB_HCA": ",".join(rail_list(node.rails, "rdma")),
        **ENGINES[node.engine].fabric(ends),
        **{name: str(value) for name, value in node.environment.items()},
    }


def environment(nodes: t.Sequence[Node], rank: int) -> dict[str, str]:
    """Return the environment of the programs in the container."""
    node = nodes[rank]
    paths = model_paths(node.models, vars(node))
    return {
        "DGX_SPARK_ENGINE": node.engine,
        "DGX_SPARK_URL": f"http://127.0.0.1:{node.port}" if node.bridged else node.url,
        "DGX_SPARK_TARGET": paths["target"],
        "DGX_SPARK_DRAFT": paths["draft"],
        "DGX_SPARK_STALL_S": str(node.stall_timeout_s),
        "DGX_SPARK_PROBE_INTERVAL_S": str(node.probe_interval_s),
        "DGX_SPARK_GUARD": node.memory_guard,
        **({} if node.takes is None else {"DGX_SPARK_TAKES_BYTES": str(node.takes)}),
        **({"DGX_SPARK_TAKES_SHARE": f"{node.share:g}"} if node.share else {}),
        **fabric(nodes, rank),
    }


def mounts(node: Node) -> list[dict[str, t.Any]]:
    """Return the mounts of the container. Models in directories have mounts of their own."""
    cache, *directories = model_mounts(node.cache, node.models, vars(node))
    return [
        cache,
        _mount(f"{node.directory}/{GENERATIONS}/{node.generation}", container_spec.PROGRAMS),
        *(
            _mount(f"{node.directory}/{name}", f"{container_spec.PROGRAMS}/{name}", read_only=name != WRITTEN)
            for name in node.subdirectories
        ),
        _mount(node.volume, "/cache/modules", kind="volume", read_only=False),
        _mount(f"{node.volume}-{IMAGE}", "/cache/kernels", kind="volume", read_only=False),
        *directories,
        *([_mount(node.cluster_directory, "/cluster")] if node.rails and ENGINES[node.engine].ranks_by_ssh else []),
    ]


def _mount(source: str, target: str, kind: str = "bind", read_only: bool = True) -> dict[str, t.Any]:
    return {"type": kind, "source": source, "target": target, "read_only": read_only}


def healthcheck(node: Node) -> dict[str, t.Any]:
    """Return Docker's health check, which asks whether the server generates."""
    return {
        "test": ["CMD", *ENTRYPOINT, "health"],
        "interval": "30s",
        # With a load of 28 on two cores of the twin, the check itself took 13 s.
        "timeout": "30s",
        "retries": 3,
        "start_period": f"{min(int(node.ready_timeout), LOADING_S)}s",
    }


def capabilities(node: Node, rank: int) -> list[str]:
    """Return the capabilities of root in the container: those that the server needs, and the user's own."""
    through_ssh = ENGINES[node.engine].ranks_by_ssh
    needed = {
        *CAPABILITIES,
        *(FABRIC_CAPABILITIES if node.rails else ()),
        *(SSHD_CAPABILITIES if node.rails and rank and through_ssh else ()),
        *(("CAP_NET_BIND_SERVICE",) if int(node.port) < SYSTEM_PORTS else ()),
    }
    return sorted({*needed, *node.capabilities})


def requested_container(nodes: t.Sequence[Node], rank: int) -> dict[str, t.Any]:
    """Return the container to request, but for labels. Only the head, which has the API, starts ranks."""
    node = nodes[rank]
    return {
        "image": node.cluster_image if node.rails else node.reference,
        "keep_entrypoint": ENGINES[node.engine].keeps_entrypoint(node.reference),
        "command": [*ENTRYPOINT, *(["worker"] if rank else [])],
        "devices": list(dict.fromkeys([*node.devices, *(RDMA if node.rails else ())])),
        "capabilities": capabilities(node, rank),
        "environment": environment(nodes, rank),
        "mounts": mounts(node),
        "healthcheck": healthcheck(node),
    }


def configuration(nodes: t.Sequence[Node], node: Node) -> str:
    """Return a hash of what a container was created for: when it changes for any Spark, all are recreated.

    A container and its replacement must not share it, or the old one would not move to standby.
    """
    # A commit never changes; the files of a directory may, and on each Spark at another time.
    models = [str(model.get("fingerprint", "")) for model in node.models.values()]
    wishes = [
        [each.deployment, requested_container(nodes, rank), each.settings, each.trust]
        for rank, each in enumerate(nodes)
    ]
    return hashlib.sha256(json.dumps([models, wishes], sort_keys=True, default=str).encode()).hexdigest()


def labels(nodes: t.Sequence[Node], rank: int) -> dict[str, str]:
    """Return the labels of a container."""
    node = nodes[rank]
    return {
        f"{names.LABEL}format": str(FORMAT),
        f"{names.LABEL}deployment": node.deployment,
        f"{names.LABEL}engine": node.engine,
        f"{names.LABEL}directory": node.directory,
        f"{names.LABEL}generation": node.generation,
        f"{names.LABEL}options": node.checked,
        f"{names.LABEL}url": node.url,
        LABEL: configuration(nodes, node),
        **({f"{names.LABEL}rank": str(rank), f"{names.LABEL}trust": node.trust} if node.rails else {}),
    }


def container(nodes: t.Sequence[Node], rank: int) -> Container:
    """Return the container of a Spark."""
    return Container(**requested_container(nodes, rank), labels=labels(nodes, rank))


def is_running(node: Node, wanted: Container) -> bool:
    """Return whether exactly this container is in the slot and runs."""
    slot = node.slot or {"state": "none", "labels": {}}
    return slot["state"] == "running" and slot["labels"].get(LABEL) == wanted.labels[LABEL]


def matches_spec(node: Node, wanted: Container) -> bool:
    """Return whether the running container of a Spark is the desired one, apart from the programs in it."""
    slot, recorded = node.slot or {"state": "none", "labels": {}}, node.recorded
    if recorded is None or slot["state"] != "running" or slot["labels"].get(LABEL) != recorded["labels"].get(LABEL):
        return False
    if not container_spec.same_settings(recorded, node.settings):
        return False
    return container_spec.same_container(recorded, dataclasses.asdict(wanted))


def keep_matching(nodes: t.Sequence[Node], wanted: t.Sequence[Container]) -> list[Container]:
    """Return the running containers if those of all Sparks match the desired ones; else the desired ones."""
    if not all(matches_spec(node, container) for node, container in zip(nodes, wanted)):
        return list(wanted)
    recorded = [node.recorded or {} for node in nodes]
    return [
        dataclasses.replace(container, mounts=one["mounts"], labels=one["labels"], environment=one["environment"])
        for container, one in zip(wanted, recorded)
    ]


def start_order(rank: int, serving: t.Sequence[bool]) -> str:
    """Return the start order of a container: the head's is last, since it accepts any worker that answers.

    No order is needed if the deployment is unchanged on all Sparks, or for one Spark alone.
    """
    if len(serving) == 1 or all(serving):
        return "at once"
    return "first" if rank else "last"


def script(nodes: t.Sequence[Node], node: Node) -> dict[str, t.Any]:
    """Return the values that serve.sh needs and a record keeps. The first rail carries what starts the ranks."""
    head, *workers = [str(node.rails[0]["address"]) if node.rails else "" for node in nodes]
    return {
        # Not the cluster image, whose name has no registry.
        "image": node.reference,
        "environment": {name: str(value) for name, value in node.environment.items()},
        **model_paths(node.models, vars(node)),
        "served": f"/tmp/models/{node.target.rpartition('/')[2]}",
        "listen": "0.0.0.0" if node.bridged else node.host,
        "api_port": str(node.port),
        "log_level": node.log_level,
        "ranks": len(nodes),
        "head": head,
        "workers": workers,
        "port": str(node.worker_port),
        "subnets": list(ends_of(node.rails).subnets),
    }


def cluster(nodes: t.Sequence[Node], rank: int, image: str) -> dict[str, t.Any]:
    """Return the cluster for the record; empty for a single Spark."""
    if not nodes[rank].rails:
        return {}
    names = [node.name for node in nodes]
    return {"rank": rank, "nodes": names, "rails": list(nodes[rank].rails), "image": image}


def plan(brought: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """By host: what runs there and when, what its script has to know, and what its record keeps.

    `unchanged` is whether the container matches the spec, and keeps the programs of its deployment.
    """
    nodes = read(brought)
    wanted = [container(nodes, rank) for rank in range(len(nodes))]
    containers = keep_matching(nodes, wanted)
    serving = [is_running(node, wanted) for node, wanted in zip(nodes, containers)]
    # A container that keeps the programs and settings of an earlier release.
    goes_on = [one.labels[LABEL] != other.labels[LABEL] for one, other in zip(containers, wanted)]
    run_as = [container_spec.settings(node.recorded or {}) if on else {} for node, on in zip(nodes, goes_on)]
    return {
        node.name: {
            "node": dict(vars(node)),
            "container": {**dataclasses.asdict(containers[rank]), **run_as[rank]},
            "is_running": serving[rank],
            "unchanged": goes_on[rank],
            "start_order": start_order(rank, serving),
            "script": script(nodes, node),
            "cluster": cluster(nodes, rank, containers[rank].image),
        }
        for rank, node in enumerate(nodes)
    }
