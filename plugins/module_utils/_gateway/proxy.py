# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Decide the proxy's addresses and names, and find their problems. Pure functions; only one reads the host."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import subprocess
import time
import typing as t

from .._data.text import duration, in_brackets

BRIDGE = "docker0"
# TLS needs clocks that agree: the authority's certificates are valid from the minute they are made.
CLOCK_S = 300

# Interfaces of this machine's own containers: their addresses are no way in from elsewhere.
_INNER = re.compile(r"lo|docker.*|br-.*|veth.*|virbr.*")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


class HostError(Exception):
    """The host's facts cannot be read. The text is one sentence for the user."""


class Host(t.NamedTuple):
    """Facts of the Spark for the proxy."""

    name: str
    addresses: dict[str, list[str]]
    clock: float

    @property
    def all(self) -> list[str]:
        """Every address."""
        return [address for addresses in self.addresses.values() for address in addresses]

    @property
    def reachable(self) -> list[str]:
        """The addresses under which others can reach it, IPv4 first."""
        result = [
            address for name, addresses in self.addresses.items() if not _INNER.fullmatch(name) for address in addresses
        ]
        return sorted(result, key=lambda one: ":" in one)

    @property
    def gateway(self) -> str | None:
        """Docker's bridge, as containers see the Spark."""
        return next((one for one in self.addresses.get(BRIDGE, []) if ":" not in one), None)


class ProxySpec(t.NamedTuple):
    """The inputs of the proxy."""

    expose: str
    port: int
    docker_port: int
    addresses: list[str]
    names: list[str]
    certificate_names: list[str] | None
    reached_as: str
    controller_clock: float
    certificate: str = ""


def read_addresses(text: str) -> dict[str, list[str]]:
    """Return the lasting addresses of each interface, out of the answer of 'ip -json address'."""
    result: dict[str, list[str]] = {}
    for interface in json.loads(text):
        for info in interface.get("addr_info") or []:
            # An address made to be thrown away would be in a certificate for a day.
            if info.get("local") and info.get("scope") != "link" and not info.get("temporary"):
                result.setdefault(interface["ifname"], []).append(info["local"])
    return result


def read_host() -> Host:
    """Ask this host."""
    try:
        text = subprocess.run(["ip", "-json", "address"], capture_output=True, check=True, text=True).stdout
        addresses = read_addresses(text)
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as e:
        raise HostError(
            f"The addresses of this host cannot be read ({e}); install iproute2 with 'sudo apt-get install iproute2'."
        ) from e
    return Host(socket.gethostname(), addresses, time.time())


def is_address(text: str) -> bool:
    """Return whether this is an IP address and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_for(certificate_name: str, name: str) -> bool:
    """Return whether a certificate's name ('DNS:*.example.org', 'IP:10.0.0.2') matches a host's name or address."""
    kind, _separator, value = certificate_name.partition(":")
    if kind.lower().startswith("ip"):
        return is_address(name) and is_address(value) and ipaddress.ip_address(value) == ipaddress.ip_address(name)
    value, name = value.lower().rstrip("."), name.lower().rstrip(".")
    if value.startswith("*."):
        return not is_address(name) and name.partition(".")[2] == value[2:]
    return value == name


def host_names(wish: ProxySpec, host: Host) -> list[str]:
    """Every name and address under which clients may ask, the best known first."""
    own = [host.name] if "." in host.name else [f"{host.name}.local", host.name]
    from_elsewhere = [] if wish.reached_as in ("", "localhost", "127.0.0.1", "::1") else [wish.reached_as]
    names = [*wish.names, *own, *(wish.addresses or host.reachable), *from_elsewhere]
    return list(dict.fromkeys(name for name in names if is_address(name) or _NAME.fullmatch(name)))


def good_names(wish: ProxySpec, host: Host) -> list[str]:
    """Return the names that the certificate covers."""
    names = host_names(wish, host)
    if wish.certificate_names is None:
        return names
    return [name for name in names if any(is_for(one, name) for one in wish.certificate_names)]


def problems(wish: ProxySpec, host: Host) -> list[str]:
    """Return the problems of the proxy, each a sentence."""
    result = []
    if host.gateway is None:
        result.append(
            f'There is no bridge {BRIDGE} with an address, on which containers could reach the proxy; take "bridge" '
            "out of /etc/docker/daemon.json and run 'sudo systemctl restart docker'."
        )
    for name, port in (("api_proxy_port", wish.port), ("api_proxy_docker_port", wish.docker_port)):
        if not 1024 <= port <= 65535:
            result.append(f"{name} is {port}; the proxy does not run as root, so choose a port from 1024 to 65535.")
    if wish.expose == "lan":
        result += _lan_problems(wish, host)
    return result


def _lan_problems(wish: ProxySpec, host: Host) -> list[str]:
    found = []
    for address in wish.addresses:
        if not is_address(address):
            found.append(
                f"api_proxy_addresses has '{address}', which is no IP address; names go to api_proxy_hostnames."
            )
        elif ipaddress.ip_address(address) not in {ipaddress.ip_address(one) for one in host.all}:
            found.append(
                f"api_proxy_addresses has {address}, which is no address of this host; it has "
                f"{', '.join(host.reachable)}."
            )
    found += [
        f"api_proxy_hostnames has '{name}', which is no host name."
        for name in wish.names
        if not (is_address(name) or _NAME.fullmatch(name))
    ]
    if not wish.addresses and not host.reachable:
        found.append("This host has no address under which others could reach it; connect it to a network.")
    if wish.port == wish.docker_port and (not wish.addresses or host.gateway in wish.addresses):
        found.append(f"api_proxy_port and api_proxy_docker_port are both {wish.port}; choose two ports.")
    seconds = host.clock - wish.controller_clock
    if abs(seconds) > CLOCK_S:
        way = "ahead of" if seconds > 0 else "behind"
        found.append(
            f"The clock of this host is {duration(abs(seconds))} {way} the controller's, so clients "
            "would refuse its certificate; set it with 'sudo timedatectl set-ntp true'."
        )
    if wish.certificate_names is not None and not found and not good_names(wish, host):
        found.append(
            f"The certificate in api_proxy_certificate is for {', '.join(wish.certificate_names) or 'no name'}, and "
            f"not for any of {', '.join(host_names(wish, host))}; give one that is, or add its name to "
            "api_proxy_hostnames."
        )
    return found


def listen(address: str, port: int, name: str) -> dict[str, t.Any]:
    """One of the addresses and ports, by which input it is that, and how Docker would spell it."""
    return {"address": address, "port": port, "input": name, "text": f"{in_brackets(address)}:{port}:{port}"}


def plan(wish: ProxySpec, host: Host) -> dict[str, t.Any]:
    """Return everything that the proxy's configuration and its users need. With problems, the rest is empty.

    `gateway` is the host's address on Docker's bridge, `check` how the controller reaches the proxy, and `certificate`
    the name of the user's own certificate and its key in the proxy's directory, without suffix.
    """
    found = problems(wish, host)
    result: dict[str, t.Any] = {
        "problems": found,
        "gateway": host.gateway,
        # Another certificate is another name, so that the proxy notices.
        "certificate": wish.certificate and f"certificate-{wish.certificate[:16]}",
        "names": [],
        "urls": [],
        "listens": [],
        "check": None,
    }
    if found:
        return result
    result["listens"] = [listen(str(host.gateway), wish.docker_port, "api_proxy_docker_port")]
    result["urls"] = [{"scope": "docker", "url": f"http://{host.gateway}:{wish.docker_port}"}]
    if wish.expose != "lan":
        return result
    names = good_names(wish, host)
    result["names"] = names
    result["listens"] += [listen(address, wish.port, "api_proxy_port") for address in wish.addresses or ["0.0.0.0"]]
    result["urls"] += [{"scope": "lan", "url": f"https://{in_brackets(name)}:{wish.port}"} for name in names]
    known = host_names(wish, host)
    way_in = [*wish.addresses, *host.reachable][0]
    if wish.reached_as in known and (not wish.addresses or wish.reached_as in wish.addresses):
        way_in = wish.reached_as
    asked_as = way_in if way_in in names else names[0]
    result["check"] = {"url": f"https://{in_brackets(asked_as)}:{wish.port}", "connect_to": way_in}
    return result
