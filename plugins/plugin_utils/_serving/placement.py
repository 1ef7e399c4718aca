# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Check that a container can be created on a Spark: Docker, its name, its addresses and ports, its image."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...module_utils._data.text import amount
from ...module_utils._docker.cuda import cuda_of, too_new

Row = t.Mapping[str, t.Any]

# The inputs that set the server's container, for messages.
SERVER_INPUTS = {
    "name": "engine_container_name",
    "image": "engine_container_image, or the recipe's image",
    "port": "speculative_serve_port",
    "address": "speculative_serve_host",
}


class Publish(t.TypedDict):
    """The network and the published ports of a container."""

    network: str
    # As the user wrote them.
    ports: t.Sequence[str]
    # The port of the server in it, or 0.
    server: int
    # Permission to publish beyond this host.
    allow_unauthenticated: bool


@dataclasses.dataclass(frozen=True)
class Placement:
    """The facts of the Spark on which a container is to be created."""

    name: str
    # Empty if another task provides it.
    image: str
    # Docker as spark_info found it.
    look: Row
    # As registry_image_info returned it; empty or skipped if the registry was not queried.
    registry: Row
    # The disk space of a pull as a multiple of the compressed size; 0 for the factor of Docker's image store.
    unpack_factor: float
    # The inputs that set image, port, address and name.
    inputs: t.Mapping[str, str]
    # Addresses and ports whose `input` has another name than port.
    listens: t.Sequence[Row]
    # None if another task checks it.
    publish: Publish | None
    # The labels of this collection's own container of that name; empty if another task checks the owner.
    labels: t.Mapping[str, str]
    # The command to run if the registry has no such image; may be empty.
    alternative: str = ""
    # The GPUs with their driver; empty if the container needs none, or they are unknown.
    gpus: t.Sequence[Row] = ()

    def input_of(self, use: Row) -> str:
        return next(
            (str(listen["input"]) for listen in self.listens if _where(listen) == _where(use)), self.inputs["port"]
        )


def _where(row: Row) -> tuple[str, int]:
    return row["address"], row["port"]


def ports(look: Row) -> list[Row]:
    """Return the ports in a query result; empty without one."""
    return [*(look.get("published_ports") or []), *filter(None, [look.get("port")])]


def problems(place: Placement) -> list[str]:
    """Return the problems that prevent the container from being created, each with its fix."""
    if place.look["state"] != "usable":
        # A user who could not open the socket before learns only now that dockerd does not answer.
        return [f"{place.look['detail']} Start it with 'sudo systemctl start docker'."]
    refused = bridge_problem(place.publish, place.look["published_ports"]) if place.publish else ""
    if refused:
        return [refused]
    told = (
        unmanaged_container(place),
        *absent_addresses(place),
        *(port_in_use(place, use) for use in place.look["ports_in_use"]),
        wrong_architecture(place),
        newer_cuda(place),
        unknown_image(place),
        insufficient_space(place),
    )
    return [problem for problem in told if problem]


def bridge_problem(asked: Publish, published: t.Sequence[Row]) -> str:
    """Return a problem if a bridge network hides the server's port, or publishes it to other hosts without consent."""
    if asked["network"] != "bridge":
        return ""
    port = asked["server"]
    if port > 0 and port not in [one["container_port"] for one in published]:
        given = asked["ports"]
        text = f"({', '.join(given)}) has none for it" if given else "is empty"
        return (
            f"engine_container_network is bridge, and engine_container_published_ports {text}, so no client "
            f"could reach the server's port {port}. Publish it, as in {[f'127.0.0.1:{port}:{port}']}."
        )
    others = (one for one in published if not re.match(r"127[.]|::1$", one["address"]))
    to_all = None if asked["allow_unauthenticated"] else next(others, None)
    if to_all is None:
        return ""
    return (
        f"{to_all['text']} in engine_container_published_ports publishes a server without authentication to every "
        "machine that can reach this host; ufw does not stop that. Publish on 127.0.0.1, or set "
        "engine_container_allow_unauthenticated: true."
    )


def unmanaged_container(place: Placement) -> str:
    """Return a problem if another user's container has the name, because Docker would replace it."""
    slot = place.look["slot"]
    if slot is None or place.labels.items() <= slot["labels"].items():
        return ""
    return (
        f"the container {place.name} (image {slot['image']}) was not created by this collection, so it is left alone. "
        f"Rename it with 'docker rename {place.name} NAME', or set {place.inputs['name']} to another name."
    )


def absent_addresses(place: Placement) -> list[str]:
    """Return a problem for each address that this host does not have."""
    return [
        f"this host does not have the address {away}. Set {place.inputs['address']} to one of its addresses: "
        f"{', '.join(place.look['addresses'])}."
        for away in dict.fromkeys(use["address"] for use in ports(place.look) if not use["address_here"])
    ]


def visible_ports(use: Row, seen: Row) -> Row:
    """Return a port that is in use, with its owner as far as the login user can see it.

    Docker's containers are seen through its socket, the user's own processes without the group that opens it."""
    mine = next((row for row in ports(seen) if _where(row) == _where(use)), None)
    if mine is None or not mine["process"] or use["container"]:
        return use
    return {**use, **{key: mine[key] for key in ("process", "user", "holder", "description")}}


def port_in_use(place: Placement, use: Row) -> str:
    start = f"port {use['port']} on {use['address']} is in use by {use['holder']}."
    if use["description"]:
        return f"{start} {use['description']}. Or choose another port with {place.input_of(use)}."
    return f"{start} Choose another port with {place.input_of(use)}, or stop it."


def wrong_architecture(place: Placement) -> str:
    """Return a problem if the local image was built for another architecture."""
    if not place.image:
        return ""
    made_for, own = (place.look["image"] or {}).get("architecture"), place.look["architecture"]
    if not made_for or made_for == own:
        return ""
    return (
        f"the local image {place.image} was built for linux/{made_for}, but this machine is linux/{own}. "
        f"Remove it with 'docker image rm {place.image}' and run again, or correct "
        f"{place.inputs['image']}."
    )


def newer_cuda(place: Placement) -> str:
    """Return a problem if the image needs a newer CUDA than the driver has, which its first kernel would tell."""
    here, slot = place.look["image"], place.look["slot"] or {}
    if slot.get("image") == place.image:
        # It has served here.
        return ""
    cuda = cuda_of(here.get("env")) if here else place.registry.get("cuda")
    driver = next((str(gpu["driver"]) for gpu in place.gpus), "")
    own = too_new(cuda, driver) if place.image else ""
    if not own:
        return ""
    return (
        f"the image {place.image} is made for CUDA {cuda}, but the GPU driver {driver} has CUDA {own}, where its "
        f"kernels may fail (cudaErrorUnsupportedPtxVersion). Use an image for CUDA {own} ({place.inputs['image']}), or "
        "update DGX OS."
    )


def unknown_image(place: Placement) -> str:
    """Return a problem if the registry has no such image, or none for this architecture."""
    said = place.registry
    if not said or said.get("skipped") or said["platform_digest"] is not None:
        return ""
    if not said["exists"]:
        near = f"; the nearest tags are {', '.join(said['tags'])}" if said["tags"] else ""
        why = f"the registry has no image {place.image}{near}"
    else:
        platforms = ", ".join(said["platforms"])
        why = f"the image {place.image} exists for {platforms}, but this machine is {said['platform']}"
    return f"{why}. Correct {place.inputs['image']}. {place.alternative}".rstrip()


def _pull_bytes(place: Placement) -> float:
    """Return the disk space that a pull needs; 0 for an image that is here."""
    factor = place.unpack_factor or (place.look.get("image_store") or {}).get("unpack_factor") or 0
    return (place.registry.get("compressed_bytes") or 0) * factor


def image_bytes(place: Placement) -> int:
    """Return the disk space that a pull takes from the models, which may be on another file system."""
    return 0 if place.look.get("same_filesystem") is False else int(_pull_bytes(place))


def insufficient_space(place: Placement) -> str:
    store, packed = place.look.get("image_store") or {}, place.registry.get("compressed_bytes") or 0
    needed, free = _pull_bytes(place), store.get("free_bytes")
    if free is None or needed <= free:
        return ""
    return (
        f"the image {place.image} needs {amount(needed)} ({amount(packed)} of it compressed, until it is unpacked), "
        f"but the file system of {store['path']}, where Docker stores images, has only {amount(free)} free. "
        f"Free space there, for instance with 'cleanup.yml -e unused=true', or move {store['way_out']}."
    )
