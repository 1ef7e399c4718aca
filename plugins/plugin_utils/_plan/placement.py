# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Whether there is a place for a container on a Spark: Docker, its name, its addresses and ports, its image."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import amount

Row = t.Mapping[str, t.Any]


class Publish(t.TypedDict):
    """How a container is published, or not."""

    network: str
    # As they were asked for.
    ports: t.Sequence[str]
    # The port of the server in it, or 0.
    server: int
    # Whether it may be published to others.
    allow_unauthenticated: bool


@dataclasses.dataclass(frozen=True)
class Placement:
    """What was found where a container is to be."""

    name: str
    # Empty if it comes from elsewhere.
    image: str
    # Docker as spark_info found it.
    look: Row
    # As registry_image_info returned it; empty or skipped where nobody was asked.
    registry: Row
    # The room that a pull takes, as a multiple of the packed size; 0 for what Docker's image store takes.
    unpack_factor: float
    # What image, port, address and name are called where they are set.
    inputs: t.Mapping[str, str]
    # Addresses and ports whose `input` has another name than port.
    listens: t.Sequence[Row]
    # None for what was seen to elsewhere.
    publish: Publish | None
    # The labels of this collection's own container of that name; without any, whose it is was seen to elsewhere.
    labels: t.Mapping[str, str]
    # What to run instead where the registry has no such image; empty where nothing is known.
    alternative: str = ""

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
    """Everything that keeps the container from being made, each with what to do; empty if nothing does."""
    if place.look["state"] != "usable":
        # Who may open the socket only now sees only now that nobody answers there.
        return [f"{place.look['detail']} Start it with 'sudo systemctl start docker'."]
    refused = bridge_problem(place.publish, place.look["published_ports"]) if place.publish else ""
    if refused:
        return [refused]
    told = (
        unmanaged_container(place),
        *absent_addresses(place),
        *(port_in_use(place, use) for use in place.look["ports_in_use"]),
        wrong_architecture(place),
        unknown_image(place),
        insufficient_space(place),
    )
    return [problem for problem in told if problem]


def bridge_problem(asked: Publish, published: t.Sequence[Row]) -> str:
    """Return a bridge that leads nowhere, or one that leads everybody in by accident."""
    if asked["network"] != "bridge":
        return ""
    port = asked["server"]
    if port > 0 and port not in [one["container_port"] for one in published]:
        given = asked["ports"]
        text = f"({', '.join(given)}) has none for it" if given else "is empty"
        return (
            f"trtllm_container_network is bridge, and trtllm_container_published_ports {text}, so nothing would reach "
            f"the server's port {port}. Publish it, as in {[f'127.0.0.1:{port}:{port}']}."
        )
    others = (one for one in published if not re.match(r"127[.]|::1$", one["address"]))
    to_all = None if asked["allow_unauthenticated"] else next(others, None)
    if to_all is None:
        return ""
    return (
        f"{to_all['text']} in trtllm_container_published_ports opens a server without authentication to everybody who "
        "reaches this host, past ufw. Publish on 127.0.0.1, or set trtllm_container_allow_unauthenticated: true."
    )


def unmanaged_container(place: Placement) -> str:
    """Docker would replace whatever has the name."""
    slot = place.look["slot"]
    if slot is None or place.labels.items() <= slot["labels"].items():
        return ""
    return (
        f"the container {place.name} (image {slot['image']}) was not made by this collection and is left alone. Rename "
        f"it with 'docker rename {place.name} NAME', or set {place.inputs['name']} to another name."
    )


def absent_addresses(place: Placement) -> list[str]:
    """Several ports may be at one of them."""
    return [
        f"this host does not have the address {away}. It has {', '.join(place.look['addresses'])}; choose one of them "
        f"({place.inputs['address']})."
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
    """Return the image that is here already was loaded for another machine."""
    if not place.image:
        return ""
    made_for, own = (place.look["image"] or {}).get("architecture"), place.look["architecture"]
    if not made_for or made_for == own:
        return ""
    return (
        f"the image {place.image} that Docker has here is made for linux/{made_for} and not for linux/{own}, which "
        f"this machine is. Remove it with 'docker image rm {place.image}' and run again, or correct "
        f"{place.inputs['image']}."
    )


def unknown_image(place: Placement) -> str:
    """Return the registry has none of that name, or none for this machine."""
    said = place.registry
    if not said or said.get("skipped") or said["platform_digest"] is not None:
        return ""
    if not said["exists"]:
        near = f"; the nearest tags are {', '.join(said['tags'])}" if said["tags"] else ""
        why = f"the registry has no image {place.image}{near}"
    else:
        platforms = f"{', '.join(said['platforms'])} and not for {said['platform']}"
        why = f"the image {place.image} is made for {platforms}, which this machine is"
    return f"{why}. Correct {place.inputs['image']}. {place.alternative}".rstrip()


def insufficient_space(place: Placement) -> str:
    store, packed = place.look.get("image_store") or {}, place.registry.get("compressed_bytes") or 0
    needed, free = packed * (place.unpack_factor or store.get("unpack_factor") or 0), store.get("free_bytes")
    if free is None or needed <= free:
        return ""
    return (
        f"the image {place.image} needs {amount(needed)} ({amount(packed)} packed, kept while it is unpacked), but the "
        f"file system of {store['path']}, where Docker stores images, has only {amount(free)} free. Make room there or "
        f"move {store['way_out']}."
    )
