# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import time
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.proxy import (
    Host,
    ProxySpec,
    is_for,
    plan,
    read_addresses,
    read_host,
)
from ansible_collections.dgx_spark.speculative.plugins.modules import api_proxy

from tests.unit import modules

IP = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "scope": "host"}, {"local": "::1", "scope": "host"}]},
    {
        "ifname": "enP7s7",
        "addr_info": [
            {"local": "fe80::1", "scope": "link"},
            {"local": "2001:db8::5", "scope": "global"},
            {"local": "2001:db8::aaaa", "scope": "global", "temporary": True},
            {"local": "192.168.1.20", "scope": "global"},
        ],
    },
    {"ifname": "wlan0"},
    {"ifname": "docker0", "addr_info": [{"local": "172.17.0.1", "scope": "global"}]},
    {"ifname": "br-0123", "addr_info": [{"local": "172.18.0.1", "scope": "global"}]},
]
HOST = Host("spark-1", read_addresses(json.dumps(IP)), 1000.0)

FOR_CONTAINERS = {
    **{"address": "172.17.0.1", "port": 8000, "input": "api_proxy_docker_port"},
    "text": "172.17.0.1:8000:8000",
}
FOR_OTHERS = {"address": "0.0.0.0", "port": 8443, "input": "api_proxy_port", "text": "0.0.0.0:8443:8443"}


def wish(**values: t.Any) -> ProxySpec:
    given: dict[str, t.Any] = {
        "expose": "lan",
        "port": 8443,
        "docker_port": 8000,
        "addresses": [],
        "names": [],
        "certificate_names": None,
        "reached_as": "",
        "controller_clock": 1000.0,
    }
    return ProxySpec(**{**given, **values})


def test_what_a_host_has() -> None:
    assert HOST.reachable == ["192.168.1.20", "2001:db8::5"]
    assert HOST.gateway == "172.17.0.1"


def test_for_containers() -> None:
    found = plan(wish(expose="docker"), HOST)
    assert found["problems"] == []
    assert found["listens"] == [FOR_CONTAINERS]
    assert found["urls"] == [{"scope": "docker", "url": "http://172.17.0.1:8000"}]
    assert found["check"] is None
    # Neither clock nor names matter without TLS.
    assert plan(wish(expose="docker", controller_clock=9e9, names=["a b"]), HOST)["problems"] == []


def test_for_other_machines() -> None:
    found = plan(wish(names=["ai.example.org"], reached_as="spark.lan"), HOST)
    names = ["ai.example.org", "spark-1.local", "spark-1", "192.168.1.20", "2001:db8::5", "spark.lan"]
    assert found["problems"] == []
    assert found["names"] == names
    assert found["listens"] == [FOR_CONTAINERS, FOR_OTHERS]
    assert [one["url"] for one in found["urls"] if one["scope"] == "lan"] == [
        "https://ai.example.org:8443",
        "https://spark-1.local:8443",
        "https://spark-1:8443",
        "https://192.168.1.20:8443",
        "https://[2001:db8::5]:8443",
        "https://spark.lan:8443",
    ]
    assert found["check"] == {"url": "https://spark.lan:8443", "connect_to": "spark.lan"}


def test_on_one_address_only() -> None:
    found = plan(wish(addresses=["192.168.1.20"], reached_as="10.9.9.9"), HOST)
    assert found["listens"][1:] == [{**FOR_OTHERS, "address": "192.168.1.20", "text": "192.168.1.20:8443:8443"}]
    assert found["check"] == {"url": "https://192.168.1.20:8443", "connect_to": "192.168.1.20"}
    assert "2001:db8::5" not in found["names"]


def test_from_the_spark_itself() -> None:
    assert plan(wish(reached_as="localhost"), HOST)["check"]["connect_to"] == "192.168.1.20"


def test_with_a_given_certificate() -> None:
    found = plan(wish(certificate_names=["DNS:*.example.org", "DNS:other.net"], names=["ai.example.org"]), HOST)
    assert found["names"] == ["ai.example.org"]
    assert found["check"] == {"url": "https://ai.example.org:8443", "connect_to": "192.168.1.20"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"addresses": ["10.0.0.9"]}, "10.0.0.9, which is no address of this host; it has 192.168.1.20, 2001:db8::5."),
        ({"addresses": ["spark"]}, "'spark', which is no IP address"),
        ({"names": ["a_b"]}, "api_proxy_hostnames has 'a_b', which is no host name."),
        ({"names": ["x\n{"]}, "which is no host name."),
        ({"port": 443}, "api_proxy_port is 443; the proxy does not run as root"),
        ({"docker_port": 70000}, "api_proxy_docker_port is 70000"),
        ({"port": 8000}, "are both 8000; choose two ports."),
        ({"controller_clock": 1301.0}, "5 min behind the controller's"),
        ({"controller_clock": 1000.0 - 7200}, "2 h ahead of the controller's"),
        ({"certificate_names": ["DNS:other.net"]}, "is for DNS:other.net, and not for any of spark-1.local, spark-1"),
        ({"certificate_names": []}, "is for no name, and not for any"),
    ],
)
def test_what_stands_in_the_way(values: dict[str, t.Any], words: str) -> None:
    found = plan(wish(**values), HOST)
    assert len(found["problems"]) == 1
    assert words in found["problems"][0]
    assert found["urls"] == []


def test_five_minutes_are_forgiven() -> None:
    assert plan(wish(controller_clock=1299.0), HOST)["problems"] == []


def test_no_bridge_and_no_network() -> None:
    found = plan(wish(), Host("s", {"lo": ["127.0.0.1"]}, 1000.0))["problems"]
    assert "There is no bridge docker0" in found[0]
    assert "no address under which others could reach it" in found[1]


@pytest.mark.parametrize(
    ("certificate", "name", "good"),
    [
        ("DNS:spark.local", "Spark.local", True),
        ("DNS:*.example.org", "a.example.org", True),
        ("DNS:*.example.org", "a.b.example.org", False),
        ("DNS:*.example.org", "example.org", False),
        ("IP:192.168.1.20", "192.168.1.20", True),
        ("IP Address:2001:db8::5", "2001:db8:0::5", True),
        ("DNS:192.168.1.20", "spark", False),
        ("email:a@example.org", "example.org", False),
    ],
)
def test_names_of_certificates(certificate: str, name: str, good: bool) -> None:
    assert is_for(certificate, name) is good


def test_this_host() -> None:
    assert "127.0.0.1" in read_host().all
    result = modules.run(api_proxy, {"plan": {"expose": "docker", "controller_clock": time.time()}})
    assert result["changed"] is False
    assert (result["gateway"] is None) == bool(result["problems"])


def test_a_given_certificate_is_called_by_what_it_is() -> None:
    assert plan(wish(certificate="0123456789abcdef" * 4, certificate_names=["DNS:*.local"]), HOST)["certificate"] == (
        "certificate-0123456789abcdef"
    )
    assert plan(wish(), HOST)["certificate"] == ""
