# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of the network that does not work, or whose author is gone, takes itself back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests import playbook
from tests.joining import IMPATIENT, ROLES, STATUS, Pair, refused
from tests.twin import cables

pytestmark = pytest.mark.usefixtures("unchanged")


def test_a_link_that_does_not_carry_the_mtu(pair: Pair) -> None:
    with cables.changed(mtu=1500):
        text = refused("spark_network/main")
    assert "192.168.100.11 answers packets of 1500 bytes, but none of 9000" in text
    assert "or set spark_network_mtu to 1500." in text
    assert text.count("The addresses were taken back.") >= 2
    assert pair.stages() == ["undone", "undone"]


def test_a_controller_that_is_killed_in_the_middle_of_the_change(pair: Pair, tmp_path: Path) -> None:
    wishes = {
        **IMPATIENT,
        "steps": ["spark_network/main"],
        "spark_network_check_timeout": 60,
        # On a slow machine the second begins to wait long after the first.
        "spark_network_undo_timeout": 40,
    }
    # The proof does not succeed, so the change is not confirmed.
    with cables.firewall(2):
        running = playbook.Background(tmp_path / "log", ROLES, "-e", json.dumps(wishes))
        try:
            running.wait_for(lambda: pair.stages() == ["waiting", "waiting"])
        finally:
            running.kill()
        assert "192.168.100.10" in pair.look()[pair.head.container]
        deadline = time.monotonic() + 40 + 30
        while pair.stages() != ["undone", "undone"]:
            assert time.monotonic() < deadline, pair.worker.read_file(STATUS)
            time.sleep(0.5)
    assert "no confirmation arrived within 40 s" in pair.worker.read_file(STATUS)
