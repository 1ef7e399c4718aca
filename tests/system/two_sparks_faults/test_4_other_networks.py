# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other networks than that of DGX OS: somebody else has set the addresses, or a change cuts the way to the hosts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests import playbook
from tests.joining import ROLES, STATUS, Pair, differences, reach, refused, run
from tests.twin import lifecycle

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
    assert (
        "the cable is used with MTU 1500, not 9000. That is left as it is, since it was set up by somebody else" in text
    )
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
    assert f"/etc/netplan/90-NM-{uuid}.yaml sets up enp1s0f1np1 and is not this collection's" in text
    assert f"or delete NetworkManager's profile with 'sudo nmcli connection delete {uuid}', then run again" in text
    assert pair.look() == before


@pytest.mark.parametrize("network", ["wifi"], indirect=True)
def test_a_change_that_cuts_the_way_to_the_hosts(network: None, pair: Pair, tmp_path: Path) -> None:
    before = pair.look()
    # The controller is killed while the way is cut.
    wishes = {"steps": ["spark_network/main"], "spark_network_undo_timeout": 5}
    running = playbook.Background(tmp_path / "log", ROLES, "-e", json.dumps(wishes))
    try:
        running.wait_for(lambda: "applying" in pair.stages(), 60)
    finally:
        running.kill()
    deadline = time.monotonic() + 60
    while pair.stages() != ["undone", "undone"]:
        assert time.monotonic() < deadline, pair.worker.read_file(STATUS)
        time.sleep(0.5)
    # NetworkManager takes a moment longer to bring back the interface that it has just been told about again.
    deadline = time.monotonic() + 60
    while pair.look() != before and time.monotonic() < deadline:
        time.sleep(0.5)
    assert differences(before, pair.look()) == []
    reach()

    # It is only cut, and comes back.
    run("spark_network/main")
    assert pair.stages() == ["confirmed", "confirmed"]
    for shown in pair.look().values():
        assert OWN_FILE in shown
    reach()
