# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the users of memory and ports: containers and other processes."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import typing as t
from dataclasses import dataclass
from pathlib import Path

from .._data.text import amount, join_words
from .._deployment.names import LABEL
from .._spark.lock import user_name
from .._spark.machine import GpuProcess
from .access import Machine

# The role whose container has more ports than its label shows.
PROXY = "api_proxy"
# Memory users below this are not reported.
NOTABLE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    uid: int
    inode: int


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address of /proc/net: 32-bit words in the machine's byte order, which is little-endian."""
    raw = bytes.fromhex(text)
    address = ipaddress.ip_address(b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4)))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def parse_listeners(table: str) -> list[Listener]:
    """Return the listening sockets of /proc/net/tcp or tcp6."""
    listeners = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == "0A":
            address, port = fields[1].split(":")
            listeners.append(Listener(parse_address(address), int(port, 16), int(fields[7]), int(fields[9])))
    return listeners


def collides(listening: str, wanted: str) -> bool:
    """Return whether a listening socket prevents another one from listening on the same port of an address."""
    own, other = ipaddress.ip_address(wanted), ipaddress.ip_address(listening)
    if own.version == other.version:
        return own == other or own.is_unspecified or other.is_unspecified
    # A socket on :: also accepts IPv4 unless it has IPV6_V6ONLY, which is not visible from outside.
    return (own if own.version == 6 else other).is_unspecified


def listeners_of(machine: Machine) -> list[Listener]:
    """Return all listening TCP sockets."""
    result = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            result += parse_listeners((machine.root / "proc/net" / table).read_text())
    return result


def listeners_on(machine: Machine, address: str, port: int) -> list[Listener]:
    return [row for row in listeners_of(machine) if row.port == port and collides(str(row.address), address)]


def is_here(address: str) -> bool:
    """Return whether a socket of this host can be bound to an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def addresses_of(machine: Machine) -> list[str]:
    """Return the addresses on which a server of this host can listen, without link-local IPv6 addresses."""
    trie = table = ""
    with contextlib.suppress(OSError):
        trie = (machine.root / "proc/net/fib_trie").read_text()
    with contextlib.suppress(OSError):
        table = (machine.root / "proc/net/if_inet6").read_text()
    result: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = [
        ipaddress.IPv4Address(text) for text in re.findall(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL", trie)
    ]
    result += [ipaddress.IPv6Address(bytes.fromhex(line.split()[0])) for line in table.splitlines()]
    kept = {address for address in result if not (address.version == 6 and address.is_link_local)}
    return [str(address) for address in sorted(kept, key=lambda address: (address.version, int(address)))]


def processes_of(machine: Machine, inodes: t.Collection[int]) -> dict[int, int]:
    """Return the processes of sockets by inode, as far as their file descriptors are readable."""
    result: dict[int, int] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for process in (machine.root / "proc").iterdir() if wanted else ():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    inode = wanted.get(str(descriptor.readlink()))
                    if inode is not None:
                        result.setdefault(inode, int(process.name))
    return result


@dataclass(frozen=True)
class ControlGroup:
    """A control group: the directory with its memory counters, and its id with those of its subgroups."""

    memory: Path | None
    ids: frozenset[int]


def control_group(machine: Machine, pid: int | None) -> ControlGroup:
    """Return the control group of a process. The root group is left out, because it counts all processes."""
    memory = None
    ids: frozenset[int] = frozenset()
    text = ""
    with contextlib.suppress(OSError):
        text = (machine.root / "proc" / str(pid) / "cgroup").read_text() if pid else ""
    for line in text.splitlines():
        _hierarchy, controllers, path = line.split(":", 2)
        if path == "/":
            continue
        if "memory" in controllers.split(","):
            memory = machine.root / "sys/fs/cgroup/memory" / path.lstrip("/")
        elif not controllers:
            folder = machine.root / "sys/fs/cgroup" / path.lstrip("/")
            memory = memory or folder
            ids = frozenset(_inodes(folder))
    return ControlGroup(memory, ids)


def _inodes(folder: Path) -> t.Iterator[int]:
    """Yield the inodes of a directory and its subdirectories; nothing if it does not exist."""
    for place, _folders, _files in os.walk(folder):
        with contextlib.suppress(OSError):
            yield Path(place).stat().st_ino


def anonymous_bytes(group: ControlGroup) -> int | None:
    """Return the memory of a control group without its page cache."""
    text = ""
    with contextlib.suppress(OSError):
        text = (group.memory / "memory.stat").read_text() if group.memory else ""
    counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    # total_rss is of cgroup version 1, where "rss" excludes the subgroups.
    count = counts.get("total_rss", counts.get("anon"))
    return int(count) if count is not None else None


def container_of(machine: Machine, pid: int, containers: list[dict[str, t.Any]]) -> str | None:
    """Return the container of a process."""
    try:
        cgroups = (machine.root / "proc" / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    ids = set(re.findall(r"[0-9a-f]{64}", cgroups))
    return next((container["name"] for container in containers if container["id"] in ids), None)


def publisher_of(containers: list[dict[str, t.Any]], address: str, port: int) -> str | None:
    """Return the container that publishes a port."""
    for container in containers:
        for published in container["ports"]:
            same = published["port"] == port and published["protocol"] == "tcp"
            if same and collides(published["address"] or "0.0.0.0", address):
                return str(container["name"])
    return None


def holder(use: dict[str, t.Any]) -> str:
    """Return the owner of a port as text, with how to find and stop it."""
    process = f"process {use['process']} of user {use['user']}" if use["process"] else ""
    if use["container"]:
        return f"container '{use['container']}'" + (f" ({process})" if process else "")
    if process:
        return process
    unnamed = f"a process of user {use['user']} that only root may name (sudo ss -ltnp)"
    if use["suspects"]:
        return f"{unnamed}, perhaps in one of the containers on the host's network: {', '.join(use['suspects'])}"
    return unnamed


def host_groups(machine: Machine, containers: list[dict[str, t.Any]]) -> dict[str, frozenset[int]]:
    """Return the containers in the host's network with the known ids of their control groups."""
    host = [container for container in containers if container["network_mode"] == "host"]
    return {str(row["name"]): control_group(machine, row.get("pid")).ids for row in host}


def container_of_sockets(
    machine: Machine, containers: list[dict[str, t.Any]], listeners: t.Sequence[Listener]
) -> dict[int, str]:
    """Return the containers in the host's network that own listening sockets, by the sockets' inodes."""
    groups = {number: name for name, ids in host_groups(machine, containers).items() for number in ids}
    cgroups = machine.sockets() if groups else {}
    known = {
        listener.inode: groups[cgroups[listener.inode]]
        for listener in listeners
        if cgroups.get(listener.inode) in groups
    }
    for inode, pid in processes_of(machine, {listener.inode for listener in listeners} - set(known)).items():
        container = container_of(machine, pid, containers)
        if container is not None:
            known[inode] = container
    return known


def suspects_of(machine: Machine, containers: list[dict[str, t.Any]], listeners: t.Sequence[Listener]) -> list[str]:
    """Return the containers that may own sockets whose process only root can see.

    A container is left out if its control group and those of all the sockets are known.
    """
    if not listeners:
        return []
    cgroups = machine.sockets()
    told = all(listener.inode in cgroups for listener in listeners)
    return [name for name, ids in host_groups(machine, containers).items() if not (told and ids)]


def ports_listening(machine: Machine, containers: list[dict[str, t.Any]]) -> dict[str, list[int]]:
    """Return the TCP ports on which the containers in the host's network listen, as far as known."""
    listeners = listeners_of(machine)
    owners = container_of_sockets(machine, containers, listeners)
    return {
        str(container["name"]): sorted(
            {listener.port for listener in listeners if owners.get(listener.inode) == container["name"]}
        )
        for container in containers
        if container["name"] in owners.values()
    }


def port_use(machine: Machine, containers: list[dict[str, t.Any]], address: str, port: int) -> dict[str, t.Any]:
    """Return whether a port is in use, its owner, and how to stop the owner."""
    listeners = listeners_on(machine, address, port)
    container = publisher_of(containers, address, port)
    pid = next(iter(processes_of(machine, {listener.inode for listener in listeners}).values()), None)
    process = None
    if pid is not None:
        container = container or container_of(machine, pid, containers)
        with contextlib.suppress(OSError):
            process = f"{(machine.root / 'proc' / str(pid) / 'comm').read_text().strip()} ({pid})"
    container = container or next(iter(container_of_sockets(machine, containers, listeners).values()), None)
    suspects = suspects_of(machine, containers, listeners) if container is None and pid is None else []
    use = {
        "in_use": bool(listeners) or container is not None,
        "address": address,
        "port": port,
        "container": container,
        "process": process,
        "user": user_name(listeners[0].uid) if listeners else None,
        "suspects": suspects,
    }
    listens = {container: [port]}
    described = [
        {**row, "ports_listening": (row.get("ports_listening") or []) + listens.get(row["name"], [])}
        for row in containers
        if row["name"] in (container, *suspects)
    ]
    return {
        **use,
        "holder": holder(use) if use["in_use"] else None,
        "description": ". ".join(map(describe_container, described)) or None,
    }


def gpu_process(
    machine: Machine, containers: list[dict[str, t.Any]], process: GpuProcess, own_user: str
) -> dict[str, t.Any]:
    """Return the facts of a GPU process, with its name, user and container from procfs."""
    folder = machine.root / "proc" / str(process.pid)
    name, user = process.name, None
    with contextlib.suppress(OSError):
        user = user_name(folder.stat().st_uid)
        name = name or (folder / "comm").read_text().strip()
    facts = {
        "pid": process.pid,
        "name": name,
        "user": user,
        "bytes": process.bytes,
        "container": container_of(machine, process.pid, containers),
    }
    return {**facts, "description": describe_process(facts, own_user)}


def held_bytes(
    machine: Machine, container: dict[str, t.Any], processes: t.Sequence[dict[str, t.Any]] | None
) -> int | None:
    """Return the memory that a container uses; None if unknown.

    It is the sum of its GPU memory, which no control group counts, and the memory of its control group.
    """
    on_gpu = [process["bytes"] for process in processes or () if process["container"] == container["name"]]
    sizes = [size for size in on_gpu if size is not None]
    anonymous = anonymous_bytes(control_group(machine, container.get("pid")))
    if anonymous is None and not sizes:
        return None
    return sum(sizes) + (anonymous or 0)


def holdings(
    machine: Machine, containers: list[dict[str, t.Any]], gpu: t.Sequence[GpuProcess] | None
) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return the containers with their memory and ports, and the GPU processes."""
    own_user = user_name(machine.uid)
    processes = [gpu_process(machine, containers, process, own_user) for process in gpu or ()]
    listening = ports_listening(machine, containers)
    described = []
    for container in containers:
        held = {
            **container,
            "memory_bytes": held_bytes(machine, container, processes),
            "ports_listening": listening.get(
                str(container["name"]), None if container["network_mode"] == "host" else []
            ),
        }
        described.append({**held, "description": describe_container(held)})
    return described, processes


def memory_holders(
    containers: t.Sequence[dict[str, t.Any]], processes: t.Sequence[dict[str, t.Any]], slot: str | None
) -> list[str]:
    """Return descriptions of the other memory users, the largest first."""
    result = [
        (container["memory_bytes"] or 0, container["description"])
        for container in containers
        if container["name"] != slot
    ]
    result += [(process["bytes"] or 0, process["description"]) for process in processes if process["container"] is None]
    return [text for size, text in sorted(result, reverse=True) if size >= NOTABLE_BYTES]


def describe_container(container: t.Mapping[str, t.Any]) -> str:
    """Describe a running container in one sentence, for a user who needs its port or memory."""
    ours = any(label.startswith(LABEL) for label in container.get("labels") or {})
    up = container.get("up")
    about = [
        container.get("image"),
        f"up {up}" if up else None,
        "this collection's" if ours else "not this collection's",
    ]
    published = {port["port"] for port in container.get("ports") or [] if port["protocol"] == "tcp" and port["port"]}
    ports = [str(port) for port in sorted(published | set(container.get("ports_listening") or []))]
    memory = container.get("memory_bytes") or 0
    holds = [amount(memory)] if memory >= NOTABLE_BYTES else []
    holds += [f"port{'s' if len(ports) > 1 else ''} {join_words(ports)}"] if ports else []
    name = container["name"]
    does = f"holds {' and '.join(holds)}" if holds else "runs"
    return f"{name} ({', '.join(filter(None, about))}) {does}; stop it with: docker stop {name}"


def describe_process(process: t.Mapping[str, t.Any], own_user: str) -> str:
    """Describe a GPU process in one sentence."""
    whose = f" of user {process['user']}" if process["user"] else ""
    holds = f"holds {amount(process['bytes'])}" if process["bytes"] else "uses the GPU"
    kill = "kill" if process["user"] == own_user else "sudo kill"
    pid = process["pid"]
    return f"process {process['name'] or 'unknown'} ({pid}){whose} {holds}; stop it with: {kill} {pid}"


def is_slots(use: t.Mapping[str, t.Any], slot: t.Mapping[str, t.Any] | None) -> bool:
    """Return whether the serving container owns a port. If only root can see the owner, its labels decide."""
    if slot is None:
        return False
    url, role = (str(slot["labels"].get(f"{LABEL}{name}", "")) for name in ("url", "role"))
    is_labelled = url.endswith(f":{use['port']}") or role == PROXY
    return bool(use["container"] == slot["name"] or (slot["name"] in use["suspects"] and is_labelled))
