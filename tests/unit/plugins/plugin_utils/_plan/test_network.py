# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.network import outcome, ports


@pytest.mark.parametrize(
    ("why", "stage", "stuck", "said"),
    [
        ("No way.", "", "", "No way."),
        ("No way.", "undone", "", "No way. The addresses were taken back."),
        ("No way.", "confirmed", "", "No way. The addresses are configured and stay."),
        ("No way.", "", "No way back.", "No way. Taking the addresses back failed, too: No way back."),
        # It went wrong on the other Spark; this one may have had nothing to do.
        ("", "", "", "the network was not configured, because that failed on spark-2."),
        (
            "",
            "undone",
            "",
            "the network was not configured, because that failed on spark-2. The addresses were taken back.",
        ),
        ("", "confirmed", "", "the addresses are configured and stay, but configuring spark-2 failed. Run again."),
        (
            "",
            "",
            "No way back.",
            "the network was not configured, because that failed on spark-2. Taking the addresses back failed, too: No "
            "way back.",
        ),
    ],
)
def test_how_a_change_ended_that_was_not_kept(why: str, stage: str, stuck: str, said: str) -> None:
    assert outcome(why, "spark-2", stage, stuck) == said


def test_others_connect_to_the_first_address() -> None:
    rails = [{"address": "10.0.0.1"}, {"address": "10.0.1.1"}]
    assert ports([], 2233, 2234) == []
    assert ports(rails, 2233, 2234) == [
        {"address": "10.0.0.1", "port": 2233, "input": "spark_network_ssh_port", "use": "container"},
        {"address": "10.0.0.1", "port": 2234, "input": "spark_network_copy_port", "use": "copies"},
    ]
