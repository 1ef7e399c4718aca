# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""With docker_permissions_add_to_group: false the user stays out of the group, and still owns everything."""

from __future__ import annotations

from tests import playbook
from tests.twin.control import Spark

SUDO_ONLY = {"docker_permissions_add_to_group": False}


def test_everything_goes_through_sudo() -> None:
    spark = Spark()
    playbook.succeed("single_eagle3", variables=SUDO_ONLY)
    assert "docker" not in spark.exec(["id", "--name", "--groups", "spark"]).stdout.split()
    assert spark.exec("find /home/spark/.cache /home/spark/.local -not -user spark").stdout == ""
    assert playbook.succeed("single_eagle3", variables=SUDO_ONLY).changed == []


def test_a_password_that_is_missing_is_named() -> None:
    outcome = playbook.fail("single_eagle3", "-e", "ansible_become_password=", variables=SUDO_ONLY)
    assert "sudo" in outcome.message
    assert "-K" in outcome.message
