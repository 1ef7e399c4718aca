# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A field check that reboots the Spark, and one that had better not."""

from __future__ import annotations

from tests import playbook
from tests.deployed import Deployed
from tests.field import rows
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

BOOT = "/proc/sys/kernel/random/boot_id"


def test_nobody_is_cut_off_and_nothing_goes_down_without_sudo(spark: Spark, deployed: Deployed) -> None:
    boot = spark.read_file(BOOT)
    with spark.stranger(deployed.record()["image"]["reference"], 1_000_000_000):
        text = playbook.fail("field_check", "-e", "reboot=true").message
    assert "stop them with 'docker stop vllm'. Nothing was rebooted." in text
    wrong = playbook.fail("field_check", "-e", "reboot=true", variables={"ansible_become_password": "wrong"}).message
    assert "a reboot needs sudo" in wrong
    assert "-K" in wrong
    looked = playbook.succeed("field_check", "-e", "reboot=true", "--check")
    assert "SSH again after: the Spark was not rebooted" in " ".join(looked.output.split())
    assert spark.read_file(BOOT) == boot
    assert deployed.answers()


def test_a_reboot_is_timed_until_the_first_answer(spark: Spark, deployed: Deployed) -> None:
    boot = spark.read_file(BOOT)
    with spark.powered():
        (found,) = rows(playbook.succeed("field_check", "-e", "reboot=true"))
    assert spark.read_file(BOOT) != boot
    assert 0 < found["reboot_ssh"]["value"] < found["reboot_answer"]["value"]
    assert (
        found["reboot_hotplug_state"]["value"][0].replace("before", "now") == found["reboot_hotplug_state"]["value"][1]
    )
    assert "serves on one Spark" in found["reboot_link_tcp"]["not_measured"]
    assert deployed.answers()


def test_where_nothing_serves_no_answer_is_waited_for(spark: Spark, deployed: Deployed) -> None:
    playbook.succeed("stop")
    with spark.powered():
        (found,) = rows(playbook.succeed("field_check", "-e", "reboot=true"))
    assert found["reboot_ssh"]["value"] > 0
    assert found["reboot_answer"]["not_measured"] == "nothing was serving before"
    # What was stopped stays down.
    assert not deployed.answers()
    playbook.succeed("start")
