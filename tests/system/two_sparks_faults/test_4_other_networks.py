# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other networks than that of DGX OS: somebody else has set the addresses, or a change cuts the way to the hosts."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.joining import ROLES, STATUS, Pair, differences, reach, refused, run
from tests.twin import cables, lifecycle
from tests.twin.names import spark_address

OWN_FILE = "/etc/netplan/40-dgx-spark-speculative.yaml"


@pytest.fixture
def network(request: pytest.FixtureRequest) -> None:
    """New Sparks whose network is managed in this way."""
    lifecycle.up(2, fresh=True, network=request.param)


@pytest.mark.parametrize("network", ["foreign"], indirect=True)
def test_addresses_of_somebody_else_are_used_and_nothing_is_written(network: None, pair: Pair) -> None:
    before = pair.look()
    outcome = playbook.succeed(ROLES, variables={"steps": ["spark_network/main"]})
    assert outcome.changed == []
    text = " ".join(outcome.output.split())
    assert "MTU 1500, not 9000" in text
    assert pair.look() == before
    assert pair.stages() == ["", ""]
    assert "10.77.1.2/24" in before[pair.worker.container]
    reach()


@pytest.mark.parametrize("network", ["link-local"], indirect=True)
def test_a_file_of_nvidias_that_only_asks_for_link_local_addresses_is_overridden(network: None, pair: Pair) -> None:
    before = pair.look()
    run("spark_network/main")
    assert pair.stages() == ["confirmed", "confirmed"]
    assert all("192.168.100.1" in shown and "192.168.101.1" in shown for shown in pair.look().values())
    run("spark_network/absent")
    # Which addresses a host gives itself is a matter of chance.
    assert [line for line in differences(before, pair.look()) if "169.254." not in line] == []
    reach()


@pytest.mark.parametrize("network", ["saved"], indirect=True)
def test_a_profile_that_networkmanager_keeps_is_refused_with_its_way_out(network: None, pair: Pair) -> None:
    before = pair.look()
    text = refused("spark_network/main")
    uuid = "0f3c2b1a-5d4e-4c3b-9a8f-7e6d5c4b3a21"
    assert f"/etc/netplan/90-NM-{uuid}.yaml configures enp1s0f1np1" in text
    assert f"'sudo nmcli connection delete {uuid}'" in text
    assert pair.look() == before


@pytest.fixture
def at_home(network: None, pair: Pair) -> None:
    """Wi-Fi has come up, and somebody has logged in at the desktop and brought up the other port."""
    # Nothing tells the twin's NetworkManager of a port that was there before it.
    up = "udevadm trigger --action=add --settle /sys/class/net/enP7s7 && nmcli connection up netplan-enP7s7"
    for spark in pair.sparks:
        done = spark.exec(f"nmcli --wait 30 connection up netplan-eth0 && until {up}; do sleep 0.5; done")
        assert done.returncode == 0, done.stderr
    reach()


@contextlib.contextmanager
def reached_all_the_time(pair: Pair) -> t.Iterator[None]:
    """No second passes without an answer of each Spark, and the profile that would not return stays up."""
    ended, gaps = threading.Event(), {}

    def ask(number: int) -> None:
        last = time.monotonic()
        gaps[number] = 0.0
        while not ended.wait(0.1):
            with contextlib.suppress(TimeoutError, OSError):
                # That nobody listens there is an answer, too.
                with contextlib.suppress(ConnectionRefusedError):
                    socket.create_connection((spark_address(number), 9), 0.5).close()
                gaps[number] = max(gaps[number], time.monotonic() - last)
                last = time.monotonic()
        gaps[number] = max(gaps[number], time.monotonic() - last)

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert max(gaps.values()) < 1, gaps
    for spark in pair.sparks:
        assert "10.78.0." in spark.exec("ip -4 -oneline address show dev enP7s7").stdout


@pytest.mark.parametrize("network", ["wifi"], indirect=True)
def test_wifi_and_the_other_port_keep_their_connections(at_home: None, pair: Pair) -> None:
    before = pair.look()
    with reached_all_the_time(pair):
        with cables.changed(mtu=1500):
            text = refused("spark_network/main")
        assert text.count("The addresses were taken back.") >= 2
        assert pair.stages() == ["undone", "undone"]
    assert differences(before, pair.look()) == []
    with reached_all_the_time(pair):
        run("spark_network/main")
        assert pair.stages() == ["confirmed", "confirmed"]
    configured = pair.look()
    # Another MTU, on connections that are up.
    with reached_all_the_time(pair):
        run("spark_network/main", spark_network_mode="configure", spark_network_mtu=4000)
        assert all("enp1s0f1np1 mtu 4000" in shown for shown in pair.look().values())
        run("spark_network/main", spark_network_mode="configure")
    assert differences(configured, pair.look()) == []
    with reached_all_the_time(pair):
        playbook.succeed("cleanup", variables={"yes": True, "network": True})
    assert differences(before, pair.look()) == []


@pytest.mark.parametrize("network", ["wifi"], indirect=True)
def test_a_way_to_the_hosts_that_is_cut_meanwhile(at_home: None, pair: Pair, tmp_path: Path) -> None:
    before = pair.look()
    cut = "nmcli --wait 0 connection up netplan-eth0"

    def begun(seconds: int) -> playbook.Background:
        """A run that is trying the addresses when the worker's Wi-Fi goes away for ten seconds."""
        wishes = {"steps": ["spark_network/main"], "spark_network_undo_timeout": seconds}
        running = playbook.Background(tmp_path / f"log-{seconds}", ROLES, "-e", json.dumps(wishes))
        running.wait_for(lambda: pair.stage(pair.worker) in ("applying", "waiting"))
        assert pair.worker.exec(cut).returncode == 0
        return running

    # The controller is gone as well.
    begun(5).kill()
    deadline = time.monotonic() + 60
    while pair.stages() != ["undone", "undone"]:
        assert time.monotonic() < deadline, pair.worker.read_file(STATUS)
        time.sleep(0.5)
    while differences(before, pair.look()) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert differences(before, pair.look()) == []
    reach()

    # It is only cut, and comes back.
    running = begun(60)
    assert running.process.wait(120) == 0, running.log.read_text(encoding="utf-8")
    assert pair.stages() == ["confirmed", "confirmed"]
    for shown in pair.look().values():
        assert OWN_FILE in shown
    reach()
