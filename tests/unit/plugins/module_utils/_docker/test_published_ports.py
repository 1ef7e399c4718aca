# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import published_ports as pp


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8000:8001", "127.0.0.1:8000:8001/tcp"),
        ("8000:8001", "0.0.0.0:8000:8001/tcp"),
        (" 8000:8001/udp ", "0.0.0.0:8000:8001/udp"),
        ("[::1]:8000:8001/tcp", "[::1]:8000:8001/tcp"),
    ],
)
def test_dockers_spelling(text: str, expected: str) -> None:
    assert str(pp.parse(text)) == expected
    assert str(pp.parse(expected)) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("8000", "is not understood"),
        ("", "is not understood"),
        ("8000-8010:8000-8010", "is not understood"),
        ("localhost:8000:8000", "is not understood"),
        ("::1:8000:8000", "is not understood"),
        ("8000:8000/sctp", "is not understood"),
        ("300.0.0.1:8000:8000", "names 300.0.0.1, which is no IP address"),
        ("[nonsense]:8000:8000", "names nonsense, which is no IP address"),
        ("0:8000", "names a port outside 1 to 65535"),
        ("8000:65536", "names a port outside 1 to 65535"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^The published port") as raised:
        pp.parse(text)
    assert str(raised.value) == f"The published port {text!r} {problem}; {pp.HINT}."


@pytest.mark.parametrize(
    ("host_config", "expected"),
    [
        ({}, []),
        ({"NetworkMode": "bridge", "PortBindings": None}, []),
        ({"NetworkMode": "host", "PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "8000"}]}}, []),
        (
            {
                "NetworkMode": "bridge",
                "PortBindings": {
                    "8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8001"}, {"HostIp": "::1", "HostPort": "8001"}],
                    "53/udp": [{"HostIp": "", "HostPort": "53"}],
                    "80/tcp": [{"HostIp": "", "HostPort": ""}],
                    "81/tcp": None,
                },
            },
            ["0.0.0.0:53:53/udp", "127.0.0.1:8001:8000/tcp", "[::1]:8001:8000/tcp"],
        ),
    ],
)
def test_what_a_container_publishes(host_config: dict[str, t.Any], expected: list[str]) -> None:
    assert [str(port) for port in pp.published_by(host_config)] == expected


def test_one_rule_a_port_and_one_for_forwarding() -> None:
    ports = [pp.parse(text) for text in ("127.0.0.1:8001:8000", "[::1]:8001:8000", "8000:8000", "53:53/udp")]
    assert pp.firewall_rules(ports) == [
        {"chain": "INPUT", "port": 8000},
        {"chain": "INPUT", "port": 8001},
        {"chain": "DOCKER-USER", "port": None},
    ]
    assert pp.firewall_rules(ports[3:]) == []
