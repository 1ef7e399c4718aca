# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import access as da
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import usage as dh
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.lock import user_name

ID = "0123456789abcdef" * 4


def program(root: Path, path: str, content: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(0o755)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: Path) -> da.Machine:
    return da.Machine(root=tmp_path, uid=1000, home=tmp_path / "home", docker_host="", sockets=dict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("00000000000000000000000000000000", "::"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "127.0.0.1"),
    ],
)
def test_parse_address(text: str, expected: str) -> None:
    assert str(dh.parse_address(text)) == expected


@pytest.mark.parametrize(
    ("listening", "wanted", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("::", "127.0.0.1", True),
        ("::", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("::1", "127.0.0.1", False),
        ("::1", "0.0.0.0", False),
        ("0.0.0.0", "::1", False),
    ],
)
def test_collides(listening: str, wanted: str, expected: bool) -> None:
    assert dh.collides(listening, wanted) is expected


def test_a_real_listener_is_found() -> None:
    machine = da.Machine()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        use = dh.port_use(machine, [], "0.0.0.0", port)
        name = Path("/proc/self/comm").read_text().strip()
        assert use == {
            "in_use": True,
            "address": "0.0.0.0",
            "port": port,
            "container": None,
            "process": f"{name} ({os.getpid()})",
            "user": user_name(os.getuid()),
            "suspects": [],
            "holder": f"process {name} ({os.getpid()}) of user {user_name(os.getuid())}",
            "description": None,
        }
        assert dh.port_use(machine, [], "127.0.0.2", port)["in_use"] is False
    assert dh.port_use(machine, [], "0.0.0.0", port)["in_use"] is False


def container(**values: t.Any) -> dict[str, t.Any]:
    return {"name": "other", "id": ID, "ports": [], "network_mode": "bridge", **values}


def listen_table(machine: da.Machine, uid: int = 12345678) -> None:
    table = "head\n   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 "
    program(machine.root, "proc/net/tcp", f"{table}{uid}        0 4242 1 0000 100 0 0 10 0\n")


def test_a_published_port_is_its_containers(machine: da.Machine) -> None:
    (machine.root / "proc").mkdir()
    published = {"address": "0.0.0.0", "port": 8000, "container_port": 80, "protocol": "tcp"}
    use = dh.port_use(machine, [container(ports=[published])], "127.0.0.1", 8000)
    assert (use["in_use"], use["container"], use["process"], use["user"]) == (True, "other", None, None)
    use = dh.port_use(machine, [container(ports=[{**published, "protocol": "udp"}])], "127.0.0.1", 8000)
    assert use["in_use"] is False


@pytest.mark.parametrize("cgroup", [f"0::/system.slice/docker-{ID}.scope", f"12:pids:/docker/{ID}\n0::/"])
def test_a_process_in_the_hosts_network_is_its_containers(machine: da.Machine, cgroup: str) -> None:
    listen_table(machine)
    program(machine.root, "proc/77/cgroup", cgroup)
    program(machine.root, "proc/77/comm", "trtllm-serve\n")
    (machine.root / "proc/77/fd").mkdir()
    (machine.root / "proc/77/fd/5").symlink_to("socket:[4242]")
    use = dh.port_use(machine, [container(name="trtllm", network_mode="host")], "127.0.0.1", 8000)
    assert (use["container"], use["process"], use["user"]) == ("trtllm", "trtllm-serve (77)", "12345678")
    assert use["suspects"] == []


def test_suspects_where_only_root_may_look(machine: da.Machine) -> None:
    listen_table(machine, uid=0)
    running = [container(name="a", network_mode="host"), container(name="b")]
    use = dh.port_use(machine, running, "127.0.0.1", 8000)
    assert (use["in_use"], use["container"], use["process"]) == (True, None, None)
    assert (use["user"], use["suspects"]) == ("root", ["a"])


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ({"container": "a", "process": "python3 (7)"}, "container 'a' (process python3 (7) of user root)"),
        ({"container": "a"}, "container 'a'"),
        ({"process": "python3 (7)"}, "process python3 (7) of user root"),
        ({}, "a process of user root that only root may name (sudo ss -ltnp)"),
        (
            {"suspects": ["a", "b"]},
            "a process of user root that only root may name (sudo ss -ltnp), "
            "perhaps in one of the containers on the host's network: a, b",
        ),
    ],
)
def test_holder(use: dict[str, t.Any], expected: str) -> None:
    assert dh.holder({"container": None, "process": None, "user": "root", "suspects": [], **use}) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"memory_bytes": 71_000_000_000, "ports_listening": [8000]},
            "vllm (img, up 3 days, not this collection's) holds 71.0 GB and port 8000; stop it with: docker stop vllm",
        ),
        (
            {
                "ports": [
                    {"address": "::", "port": 8000, "container_port": 80, "protocol": "tcp"},
                    {"address": "0.0.0.0", "port": 8000, "container_port": 80, "protocol": "tcp"},
                    {"address": None, "port": None, "container_port": 81, "protocol": "tcp"},
                    {"address": "::", "port": 53, "container_port": 53, "protocol": "udp"},
                ],
                "ports_listening": [22, 8001],
                "up": None,
            },
            "vllm (img, not this collection's) holds ports 22, 8000 and 8001; stop it with: docker stop vllm",
        ),
        (
            {"memory_bytes": 1000, "labels": {"dgx_spark.speculative.deployment": "x"}},
            "vllm (img, up 3 days, this collection's) runs; stop it with: docker stop vllm",
        ),
    ],
)
def test_describe_container(values: dict[str, t.Any], expected: str) -> None:
    assert dh.describe_container(container(**{"name": "vllm", "image": "img", "up": "3 days", **values})) == expected


@pytest.mark.parametrize(
    ("user", "size", "expected"),
    [
        ("me", 5_000_000_000, "process x (7) of user me holds 5.0 GB; stop it with: kill 7"),
        ("root", None, "process x (7) of user root uses the GPU; stop it with: sudo kill 7"),
        (None, 50_000_000, "process x (7) holds 50.0 MB; stop it with: sudo kill 7"),
    ],
)
def test_describe_process(user: str | None, size: int | None, expected: str) -> None:
    assert dh.describe_process({"pid": 7, "name": "x", "user": user, "bytes": size}, "me") == expected


@pytest.mark.parametrize(
    ("cgroup", "folder", "stat", "expected"),
    [
        (f"0::/system.slice/docker-{ID}.scope", f"system.slice/docker-{ID}.scope", "anon 5\nfile 9\n", 5),
        (f"4:memory:/docker/{ID}\n0::/", f"memory/docker/{ID}", "rss 1\ntotal_rss 6\n", 6),
        ("0::/", "", "anon 5\n", None),
        (f"0::/docker/{ID}", "elsewhere", "anon 5\n", None),
    ],
)
def test_memory_of_a_control_group(
    machine: da.Machine, cgroup: str, folder: str, stat: str, expected: int | None
) -> None:
    program(machine.root, "proc/7/cgroup", cgroup)
    program(machine.root, f"sys/fs/cgroup/{folder}/memory.stat", stat)
    assert dh.anonymous_bytes(dh.control_group(machine, 7)) == expected
    assert dh.anonymous_bytes(dh.control_group(machine, None)) is None


def test_a_socket_is_known_by_its_control_group(machine: da.Machine) -> None:
    """Whose file descriptor it is, only root sees."""
    listen_table(machine, uid=0)
    program(machine.root, "proc/7/cgroup", f"0::/docker/{ID}")
    group = machine.root / f"sys/fs/cgroup/docker/{ID}"
    group.mkdir(parents=True)
    seeing = da.Machine(machine.root, 1000, machine.home, "", sockets=lambda: {4242: group.stat().st_ino})
    running = [container(name="a", network_mode="host", pid=7), container(name="b", network_mode="host", pid=None)]
    use = dh.port_use(seeing, running, "127.0.0.1", 8000)
    assert (use["container"], use["suspects"]) == ("a", [])
    assert use["description"] == "a (not this collection's) holds port 8000; stop it with: docker stop a"
    held, _processes = dh.holdings(seeing, running, None)
    assert [one["ports_listening"] for one in held] == [[8000], None]


@pytest.mark.parametrize(
    ("told", "container_name", "suspects"),
    [("its own", "a", []), ("below it", "a", []), ("another", None, ["b"]), ("nothing", None, ["a", "b"])],
)
def test_who_is_known_to_be_elsewhere_is_no_suspect(
    machine: da.Machine, told: str, container_name: str | None, suspects: list[str]
) -> None:
    """The user's own processes are hidden, too, from who looks with another group (sg docker)."""
    listen_table(machine)
    program(machine.root, "proc/7/cgroup", f"0::/docker/{ID}")
    group = machine.root / f"sys/fs/cgroup/docker/{ID}"
    below, other = group / "init.scope", machine.root / "sys/fs/cgroup/user.slice"
    for folder in (below, other):
        folder.mkdir(parents=True)
    made_in = {"its own": group, "below it": below, "another": other}
    sockets = {4242: made_in[told].stat().st_ino} if told in made_in else {}
    seeing = da.Machine(machine.root, 1000, machine.home, "", sockets=lambda: sockets)
    running = [container(name="a", network_mode="host", pid=7), container(name="b", network_mode="host", pid=None)]
    use = dh.port_use(seeing, running, "127.0.0.1", 8000)
    assert (use["container"], use["suspects"]) == (container_name, suspects)


TRIE = """Main:
  +-- 0.0.0.0/0 3 0 4
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 192.168.1.20
        /32 host LOCAL
     |-- 192.168.1.255
        /32 link BROADCAST
     |-- 172.17.0.1
        /32 host LOCAL
Local:
     |-- 127.0.0.1
        /32 host LOCAL
"""
IPV6 = """fd000000000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


def test_the_addresses_of_a_host(machine: da.Machine) -> None:
    assert dh.addresses_of(machine) == []
    program(machine.root, "proc/net/fib_trie", TRIE)
    program(machine.root, "proc/net/if_inet6", IPV6)
    assert dh.addresses_of(machine) == ["127.0.0.1", "172.17.0.1", "192.168.1.20", "::1", "fd00::2"]


def test_every_address_of_this_host_can_be_used() -> None:
    addresses = dh.addresses_of(da.Machine())
    assert "127.0.0.1" in addresses
    assert all(dh.is_here(address) for address in addresses if ":" not in address)


@pytest.mark.parametrize(("address", "expected"), [("127.0.0.1", True), ("0.0.0.0", True), ("192.0.2.77", False)])
def test_an_address_is_here(address: str, expected: bool) -> None:
    assert dh.is_here(address) is expected


@pytest.mark.parametrize(
    ("use", "url", "expected"),
    [
        ({"container": "slot"}, "", True),
        ({"container": "other"}, "http://127.0.0.1:8000", False),
        ({"suspects": ["slot", "a"]}, "http://127.0.0.1:8000", True),
        ({"suspects": ["slot", "a"]}, "http://127.0.0.1:18000", False),
        ({"suspects": ["a"]}, "http://127.0.0.1:8000", False),
    ],
)
def test_a_port_is_the_slots(use: dict[str, t.Any], url: str, expected: bool) -> None:
    found = {"port": 8000, "container": None, "suspects": [], **use}
    assert dh.is_slots(found, {"name": "slot", "labels": {"dgx_spark.speculative.url": url}}) is expected
    assert dh.is_slots(found, None) is False


def test_any_port_may_be_the_proxys() -> None:
    proxy = {"name": "proxy", "labels": {"dgx_spark.speculative.role": "api_proxy"}}
    assert dh.is_slots({"port": 8443, "container": None, "suspects": ["proxy", "a"]}, proxy)
    assert not dh.is_slots({"port": 8443, "container": None, "suspects": ["a"]}, proxy)
    assert not dh.is_slots({"port": 8443, "container": "a", "suspects": []}, proxy)
