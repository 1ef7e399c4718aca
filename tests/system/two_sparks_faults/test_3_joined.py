# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two Sparks that are joined, by a cable in different ports, and what still comes between them."""

from __future__ import annotations

import contextlib
import json
import re
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.lookup.job import program

from tests import playbook
from tests.joining import ROLES, Pair, reach, refused, run
from tests.twin import cables
from tests.twin.control import Spark

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
HEADS = [cables.interface(1, rail) for rail in cables.RAILS]
WORKERS = [cables.interface(0, rail) for rail in cables.RAILS]
HUB = "/home/spark/.cache/huggingface/hub"
KEYS = "/home/spark/.local/share/dgx-spark-speculative/cluster"
KEY_STEPS = ("spark_network/preflight", "spark_network/compare", "spark_network/ssh_keys")
MEASURED = "/home/spark/.local/share/dgx-spark-speculative/bandwidth.json"
PAIR = {"deployment_settings": {"image": IMAGE}, "engine_container_image": IMAGE}
SEND = "/tmp/send.pyz"


@pytest.fixture(scope="module", autouse=True)
def joined(pair: Pair) -> t.Iterator[str]:
    """What the run said that joined them; afterwards all is as it was."""
    before = pair.look()
    with cables.changed(port_b=0):
        yield run("spark_network/main")
        run("spark_network/absent")
    assert pair.look() == before


@pytest.fixture
def silent_rail(pair: Pair) -> t.Iterator[None]:
    """Nothing leaves the worker by its second interface."""
    place = f"dev {WORKERS[1]} root"
    assert pair.worker.exec(f"tc qdisc add {place} tbf rate 8bit burst 10 latency 1ms").returncode == 0
    for spark, name in ((pair.head, HEADS[1]), (pair.worker, WORKERS[1])):
        spark.exec(f"ip neighbour flush dev {name}")
    yield
    assert pair.worker.exec(f"tc qdisc del {place}").returncode == 0


@pytest.fixture
def double_address(pair: Pair) -> t.Iterator[None]:
    """The head has an address that is the worker's."""
    assert pair.head.exec("ip address add 192.168.100.11/32 dev lo").returncode == 0
    yield
    assert pair.head.exec("ip address del 192.168.100.11/32 dev lo").returncode == 0


@contextlib.contextmanager
def dropping(pair: Pair, rule: str) -> t.Iterator[None]:
    """The worker drops what comes in over the cable and matches this."""
    words = [*rule.split(), "-i", "en+", "-j", "DROP"]
    assert pair.worker.exec(["iptables", "-I", "INPUT", *words]).returncode == 0
    try:
        yield
    finally:
        pair.worker.exec(["iptables", "-D", "INPUT", *words])


@pytest.fixture
def docker(pair: Pair) -> None:
    """The login users may use Docker, which a connection that is open does not know yet."""
    for spark in pair.sparks:
        assert spark.exec("adduser --quiet spark docker").returncode == 0
        spark.exec(["pkill", "--uid", "spark", "^sshd"])


@pytest.fixture
def serving(pair: Pair) -> t.Iterator[None]:
    """The head has a container with the label of a rank, with the programs of the host."""
    name = "dgx-spark-speculative"
    image = "tar -c --files-from /dev/null | docker import - nothing"
    places = " ".join(f"-v {place}:{place}:ro" for place in ("/usr", "/lib", "/lib64"))
    command = f"docker run -d --network none --name {name} --label dgx_spark.speculative.rank=0 {places} nothing"
    made = pair.head.exec(f"{image} && {command} /usr/bin/sleep 600")
    assert made.returncode == 0, made.stderr
    yield
    assert pair.head.exec(f"docker rm -f {name} && docker rmi nothing").returncode == 0


@contextlib.contextmanager
def impostor(pair: Pair) -> t.Iterator[None]:
    """Something else answers at the worker's address, with a key of its own."""
    command = "ssh-keygen -q -t ed25519 -N '' -f /run/other_key </dev/null; mkdir -p /run/sshd;"
    command += " systemd-run --quiet --unit=impostor /usr/sbin/sshd -D -f /dev/null -h /run/other_key -p 2234;"
    command += " until ss -Hltn | grep -q :2234; do sleep 0.1; done"
    assert pair.worker.exec(command).returncode == 0
    try:
        yield
    finally:
        pair.worker.exec("systemctl stop impostor; rm -f /run/other_key*")


def test_a_cable_in_different_ports_works_with_a_finding(pair: Pair, joined: str) -> None:
    ports = f"joins port 1 ({' and '.join(HEADS)}) with port 0 ({' and '.join(WORKERS)})"
    assert f"spark-1 and spark-2: the cable {ports}" in joined
    assert pair.stages() == ["confirmed", "confirmed"]
    for spark, names, last in ((pair.head, HEADS, 10), (pair.worker, WORKERS, 11)):
        shown = pair.look()[spark.container]
        for number, name in enumerate(names):
            assert f"{name}    inet 192.168.{100 + number}.{last}/24" in shown
            assert f"{name} mtu 9000" in shown
        assert "/etc/netplan/40-dgx-spark-speculative.yaml 600" in shown
        assert "/run/netplan/" not in shown
    reach()


def test_half_a_pcie_link_is_told() -> None:
    with cables.rdma(2, current_link_width="2"):
        text = run("spark_network/preflight")
    assert f"spark-2: {WORKERS[0]} has a PCIe link of x2" in text


def test_what_the_cable_carries_is_measured_once_after_a_start(pair: Pair, joined: str) -> None:
    assert f"spark-1: {HEADS[0]} " in joined
    assert "Gb/s by TCP" in joined
    # As after a start of both.
    for spark in pair.sparks:
        assert spark.exec(["rm", MEASURED]).returncode == 0
    with cables.changed(mbit=200):
        text = run("spark_network/main", spark_network_bandwidth_minimum_gbps=1)
        assert f"spark-1: {HEADS[1]} carried 0." in text
        assert "carried" not in run("spark_network/main", spark_network_bandwidth_minimum_gbps=1)


@pytest.mark.usefixtures("unchanged", "silent_rail", "double_address")
def test_addresses_that_clash_and_a_peer_that_does_not_answer() -> None:
    text = refused("spark_network/main")
    assert "192.168.100.11 should be spark-2's, but is on this host's lo." in text
    assert f"192.168.101.11 does not answer on {HEADS[1]}" in text


@pytest.mark.usefixtures("unchanged")
def test_a_firewall_between_the_nodes() -> None:
    with cables.firewall(2):
        text = refused("spark_network/main")
    assert "192.168.100.11 does not answer to ping from 192.168.100.10" in text
    assert f"sudo ufw allow in on {WORKERS[0]} from 192.168.100.0/24" in text


@pytest.mark.usefixtures("unchanged")
def test_a_firewall_that_lets_only_ping_in() -> None:
    with cables.firewall(2, 2233):
        text = refused("spark_network/main")
    assert "192.168.100.11 answers to ping, but not on TCP port 2233 from 192.168.100.10 (no answer within 2 s)" in text
    assert f"sudo ufw allow in on {WORKERS[0]} from 192.168.100.0/24" in text
    # The other way it is open.
    assert "from 192.168.100.11" not in text


@pytest.mark.usefixtures("unchanged")
def test_a_firewall_that_lets_only_the_known_port_in(pair: Pair) -> None:
    with dropping(pair, "-p tcp --dport 32768:60999 -m conntrack --ctstate NEW"):
        text = refused("spark_network/main")
    assert "spark-1: 192.168.100.11 answers to ping, but not on TCP port " in text
    assert "TCP port 2233" not in text


@pytest.mark.usefixtures("unchanged")
def test_a_cable_that_loses_every_tenth_packet(pair: Pair) -> None:
    with dropping(pair, "-p icmp -m statistic --mode nth --every 10 --packet 0"):
        text = refused("spark_network/main")
    assert re.search(rf"192\.168\.100\.11 answers, but of 100 small packets by {HEADS[0]} \d+ were lost", text)


@pytest.mark.usefixtures("unchanged", "serving")
def test_the_cable_is_not_taken_from_a_pair_that_serves() -> None:
    text = refused("spark_network/main", spark_network_mode="configure", spark_network_mtu=1500)
    for name in ("spark-1: ", "dgx-spark-speculative", "spark-2", "stop.yml"):
        assert name in text
    # Left as it is, that is no error.
    assert "MTU 9000, not 1500" in run("spark_network/main", spark_network_mtu=1500)


@pytest.mark.usefixtures("unchanged", "docker")
def test_another_host_key_is_refused_and_that_of_a_new_installation_pinned(pair: Pair) -> None:
    wishes = {"steps": KEY_STEPS, **PAIR}
    first = playbook.succeed(ROLES, variables=wishes)
    assert "Create an SSH key" in first.changed
    pinned = pair.head.read_file(f"{KEYS}/known_hosts")
    host_key = pair.worker.read_file(f"{KEYS}/ssh_host_ed25519_key.pub").split()[1]
    assert pinned.count(host_key) == len(pinned.splitlines()) == 4

    pair.head.write_file("/home/spark/vocabulary", "0\n", user="spark")
    task = {
        "worker": "spark-2",
        "user": "spark",
        "addresses": ["192.168.100.11", "192.168.101.11"],
        "port": 2234,
        "key": f"{KEYS}/id_ed25519",
        "known_hosts": f"{KEYS}/known_hosts",
        "streams": 2,
        "patience": 5,
        "cache": HUB,
        "receipts": "/home/spark/models",
        "repositories": [],
        "tiktoken_encodings": [{"path": "/home/spark/vocabulary", "sha256": "0" * 64}],
    }
    pair.head.write_file(SEND, program("send"))
    with impostor(pair):
        sent = pair.head.exec(["python3", SEND, json.dumps(task)], user="spark")
    assert sent.returncode != 0
    assert "Copying to spark-2 stopped" in sent.stdout
    assert "it shows another host key than the one that this run has put there" in sent.stdout
    assert "so it is not the Spark of the inventory: look at the cable and the addresses, and run again" in sent.stdout

    # The worker is installed anew.
    pair.worker.exec(["rm", "-r", KEYS])
    second = playbook.succeed(ROLES, variables=wishes)
    assert "Write the known host keys" in second.changed
    host_key = pair.worker.read_file(f"{KEYS}/ssh_host_ed25519_key.pub").split()[1]
    assert pair.head.read_file(f"{KEYS}/known_hosts").count(host_key) == 4


@pytest.mark.usefixtures("unchanged", "docker")
def test_an_image_goes_from_one_kind_of_store_to_the_other(pair: Pair) -> None:
    def asked(spark: Spark, *question: str) -> str:
        result = spark.exec(["docker", *question])
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    drivers = [asked(spark, "info", "--format", "{{.Driver}}") for spark in pair.sparks]
    assert drivers == ["overlayfs", "overlay2"], "containerd's, and Docker's own"
    asked(pair.head, "pull", "--quiet", IMAGE)
    wishes = {"steps": [*KEY_STEPS, "trtllm_container/cluster_image", "engine_container/copy"], **PAIR}
    try:
        first = playbook.succeed(ROLES, variables=wishes)
        assert {"Send the image", "Load the image"} <= set(first.changed)
        name = asked(
            pair.head, "images", "--filter", "label=dgx_spark.speculative.base", "--format", "{{.Repository}}:{{.Tag}}"
        )
        layers, settings = (
            [asked(spark, "image", "inspect", "--format", what, name) for spark in pair.sparks]
            for what in ("{{json .RootFS.Layers}}", "{{json .Config.Env}} {{json .Config.Labels}}")
        )
        assert layers[0] == layers[1] != "[]"
        assert settings[0] == settings[1]
        # Whose own entrypoint greets first.
        command = ("run", "--rm", "--entrypoint", "sh", name, "-c", "command -v sshd")
        assert asked(pair.worker, *command) == "/usr/sbin/sshd"
        second = playbook.succeed(ROLES, variables=wishes)
        assert not {"Send the image", "Load the image"} & set(second.changed)
    finally:
        for spark in pair.sparks:
            spark.exec("docker images --quiet | sort -u | xargs --no-run-if-empty docker rmi --force")
