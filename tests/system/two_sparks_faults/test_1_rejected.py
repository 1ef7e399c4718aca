# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused before anything is changed, with one clear message each."""

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.joining import Pair, refused, words
from tests.twin import cables
from tests.twin.control import Internet
from tests.twin.names import HOSTS, SUBNET

pytest_plugins = ["tests.scenario"]

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
# An interpreter for which it is three hours later. With libfaketime Python 3.11 does not wake up from its sleep.
AHEAD = "/usr/local/lib/ahead"
AHEAD_PYTHON = f"""#!/bin/sh
PYTHONPATH={AHEAD} exec /usr/bin/python3 "$@"
"""
AHEAD_CLOCK = """import time

now = time.time
time.time = lambda: now() + 3 * 3600
"""
FIRST, SECOND = (cables.interface(1, rail) for rail in cables.RAILS)


@pytest.fixture(autouse=True)
def nothing_is_touched(unchanged: None) -> None:
    """Before the other fixtures, so that it looks again after them."""


@pytest.fixture
def default_route(pair: Pair) -> t.Iterator[None]:
    """The worker has a way to the world by the port with the cable, too."""
    # NetworkManager would clear it away in passing, as it does with everything on a port that waits for DHCP.
    manage, route = f"nmcli device set {FIRST} managed", f"default dev {FIRST} metric 4000"
    made = pair.worker.exec(f"{manage} no && ip link set {FIRST} up && ip route add {route}")
    assert made.returncode == 0, made.stderr
    yield
    removed = pair.worker.exec(f"ip route del {route} && {manage} yes")
    assert removed.returncode == 0, removed.stderr


@pytest.fixture
def silent(pair: Pair) -> t.Iterator[None]:
    """Nobody can log in to the worker, and nobody stays logged in."""
    pair.worker.exec("systemctl stop ssh; pkill sshd")
    yield
    pair.worker.exec("systemctl start ssh; until ss -Hltn | grep -q :22; do sleep 0.1; done")


@pytest.fixture
def port_taken(pair: Pair) -> t.Iterator[None]:
    """Somebody else's server on the worker."""
    command = "systemd-run --quiet --unit=somebody /usr/bin/python3 -m http.server 2233"
    assert pair.worker.exec(f"{command} && until ss -Hltn | grep -q :2233; do sleep 0.1; done").returncode == 0
    yield
    pair.worker.exec("systemctl stop somebody")


@pytest.fixture
def small_disk(pair: Pair) -> t.Iterator[None]:
    """The worker has two megabytes for its models."""
    pair.worker.exec("mkdir -p .cache/huggingface", user="spark")
    options = "size=2m,uid=1000,gid=1000,mode=755"
    assert pair.worker.exec(f"mount -t tmpfs -o {options} tmpfs /home/spark/.cache/huggingface").returncode == 0
    yield
    pair.worker.exec("umount /home/spark/.cache/huggingface")


@pytest.fixture
def ahead(pair: Pair) -> t.Iterator[str]:
    """For the worker's modules it is later; the kernel's clock is everybody's. An interpreter for each Spark."""
    python = f"{AHEAD}/python3"
    pair.worker.write_file(python, AHEAD_PYTHON)
    pair.worker.write_file(f"{AHEAD}/sitecustomize.py", AHEAD_CLOCK)
    made = pair.worker.exec(f"chmod 755 {python} && {python} -c 'import time; print(time.time())' && date +%s")
    later, now = map(float, made.stdout.split())
    assert 10790 < later - now < 10810
    yield f"{{{{ '{python}' if inventory_hostname == 'spark-2' else '/usr/bin/python3' }}}}"
    pair.worker.exec(["rm", "-r", AHEAD])


def test_no_cable() -> None:
    with cables.changed(rails=()):
        text = refused("spark_network/preflight")
    assert "spark-1 and spark-2: no QSFP port has a link at both ends" in text
    assert f"spark-2: port 0: {cables.interface(0, 0)} " in text
    # Once is enough.
    assert "the message of spark-1" in text


def test_a_dead_twin() -> None:
    with cables.changed(rails=(0,)):
        text = refused("spark_network/preflight")
    for name in (FIRST, SECOND, "spark_network_interfaces"):
        assert name in text


def test_interfaces_that_do_not_exist() -> None:
    text = refused("spark_network/preflight", spark_network_interfaces=[FIRST, "enP2p1s0f1np2"])
    for name in ("spark-1: ", "spark-2: ", "enP2p1s0f1np2", "spark_network_interfaces", f"'{SECOND}'"):
        assert name in text


def test_a_plan_that_overlaps_a_network_in_use() -> None:
    plan = [
        {"subnet": f"{HOSTS}.128/25", "addresses": [f"{HOSTS}.200", f"{HOSTS}.201"]},
        {"subnet": "192.168.7.0/24", "addresses": ["192.168.7.1", "192.168.7.2"]},
    ]
    text = refused("spark_network/preflight", spark_network_addresses=plan)
    for name in ("spark-1: ", "spark-2: ", f"{HOSTS}.128/25", SUBNET, "eth0", "spark_network_addresses"):
        assert name in text


def test_a_plan_with_the_same_address_twice() -> None:
    plan = {name: ["192.168.7.1/24", "192.168.8.1/24"] for name in ("spark-1", "spark-2")}
    text = refused("spark_network/preflight", spark_network_addresses=plan)
    for name in ("spark_network_addresses", "192.168.7.1", "192.168.8.1"):
        assert name in text


@pytest.mark.usefixtures("default_route")
def test_a_port_that_carries_the_management_route() -> None:
    text = refused("spark_network/preflight")
    assert f"spark-2: {FIRST} carries the default route" in text


@pytest.mark.usefixtures("silent")
def test_a_spark_that_cannot_be_reached() -> None:
    text = refused("spark_network/main")
    assert "spark-2]: UNREACHABLE!" in text
    assert "Connection refused" in text
    assert "TASK [Run a step]" not in text


@pytest.mark.usefixtures("port_taken")
def test_two_sparks_that_differ_and_a_port_that_is_taken(pair: Pair) -> None:
    steps = ("docker_permissions/gather", "spark_network/preflight", "spark_network/compare")
    with pair.worker.gpu(driver_version="570.00.01", memory_bytes=64 * 2**30):
        text = refused(*steps, deployment_settings={"image": IMAGE})
    # Everything at once.
    for name in ("570.00.01 on spark-2", "spark_network_allow_differences: [driver]", "spark-2 has 68.7 GB"):
        assert name in text
    for name in ("port 2233 on 192.168.100.11 of spark-2", "spark_network_worker_port"):
        assert name in text


def test_two_sparks_whose_clocks_differ(pair: Pair, ahead: str) -> None:
    # Nothing else is in the way, since Docker is asked by sudo.
    wishes = {"deployment_settings": {"image": IMAGE, "become": True}, "ansible_python_interpreter": ahead}
    text = refused("spark_network/preflight", "spark_network/compare", **wishes)
    assert "the clock of spark-2 is 3 h ahead of that of spark-1" in text
    assert "spark_network_allow_differences: [clock]" in text
    for spark in pair.sparks:
        assert spark.exec("ls ~spark/.local/share/dgx-spark-speculative/cluster").returncode != 0


@pytest.mark.usefixtures("small_disk")
def test_a_worker_without_room_for_the_models(pair: Pair, internet: Internet) -> None:
    """The whole playbook: it comes to this before anything is downloaded."""
    text = words(playbook.fail("two_sparks"))
    assert "spark-2: " in text
    assert "of /home/spark/.cache/huggingface" in text
    assert "has only 2.1 MB free" in text
    assert internet.bytes_to(pair.head.address, "cdn-lfs.huggingface.co") == 0
    # No layer: only what the image is made for was read.
    assert internet.bytes_to(pair.head.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") < 100_000
    # The worker asks nobody.
    assert internet.counters()["bytes"].get(pair.worker.address, {}) == {}
