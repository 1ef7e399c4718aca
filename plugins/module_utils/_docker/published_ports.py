# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Parse the ports that Docker publishes on the host, in Docker's syntax, and return their firewall rules."""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass

from .._data.text import in_brackets

_FORM = re.compile(r"(?:(?P<address>[0-9.]+|\[[^\]]+\]):)?(?P<port>\d+):(?P<container>\d+)(?:/(?P<protocol>tcp|udp))?")
HINT = "write it as in 127.0.0.1:8000:8000, which is address, port of the host and port of the container"


@dataclass(frozen=True)
class PublishedPort:
    """A published port. The default address is all addresses, as in Docker."""

    port: int
    container_port: int
    address: str = "0.0.0.0"
    protocol: str = "tcp"

    def __str__(self) -> str:
        address = in_brackets(self.address)
        return f"{address}:{self.port}:{self.container_port}/{self.protocol}"


def parse(text: str) -> PublishedPort:
    """Parse a published port. Raise ValueError if Docker rejects it or would choose the host port itself."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"The published port {text!r} is not understood; {HINT}.")
    address = (match["address"] or "0.0.0.0").strip("[]")
    try:
        ipaddress.ip_address(address)
    except ValueError as e:
        raise ValueError(f"The published port {text!r} names {address}, which is no IP address; {HINT}.") from e
    ports = int(match["port"]), int(match["container"])
    if not all(0 < port < 65536 for port in ports):
        raise ValueError(f"The published port {text!r} names a port outside 1 to 65535; {HINT}.")
    return PublishedPort(*ports, address, match["protocol"] or "tcp")


def published_by(host_config: t.Mapping[str, t.Any]) -> list[PublishedPort]:
    """Return the ports that a container publishes. In the host's network Docker keeps the list but ignores it."""
    if host_config.get("NetworkMode") == "host":
        return []
    result = []
    for inside, bindings in sorted((host_config.get("PortBindings") or {}).items()):
        container_port, _separator, protocol = inside.partition("/")
        for binding in bindings or []:
            # Without a host port, Docker chooses one at each start.
            if binding.get("HostPort"):
                address = binding.get("HostIp") or "0.0.0.0"
                result.append(PublishedPort(int(binding["HostPort"]), int(container_port), address, protocol or "tcp"))
    return result


def firewall_rules(published: t.Iterable[PublishedPort]) -> list[dict[str, t.Any]]:
    """Return the firewall rules that let containers on Docker's default bridge reach these ports."""
    ports = sorted({port.port for port in published if port.protocol == "tcp"})
    if not ports:
        return []
    return [{"chain": "INPUT", "port": port} for port in ports] + [{"chain": "DOCKER-USER", "port": None}]
