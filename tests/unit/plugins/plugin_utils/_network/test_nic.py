# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import hotplug
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.links import PlanError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.nic import own_files, plan_nics

Info = dict[str, t.Any]

HEAD, WORKER = "spark-1", "spark-2"
BOTH = {HEAD: True, WORKER: True}
NEITHER = {HEAD: False, WORKER: False}
THERE: Info = {"files": own_files(), "enabled": True}
DISABLED_MARKER, MARKER = str(hotplug.DISABLED_MARKER), str(hotplug.MARKER)


def cards(
    starter: Info | None = None,
    marker: Info | None = None,
    start: t.Any = "auto",
    keep: t.Any = "auto",
    configure: t.Mapping[str, bool] = NEITHER,
) -> dict[str, t.Any]:
    """What is done about two Sparks of which this was found."""
    info = {"starter": starter or {"files": {}, "enabled": False}, "hotplug": marker or {"armed": False}}
    return plan_nics({HEAD: info, WORKER: info}, start, keep, configure)


def test_each_spark_gets_the_files_of_the_watcher() -> None:
    found = cards(start="yes")
    for name in (HEAD, WORKER):
        assert [file["dest"] for file in found["hosts"][name]["install"]] == list(hotplug.STARTER)
    assert found["lines"] == [f"{name}: NIC watcher: to be installed" for name in (HEAD, WORKER)]
    assert cards(THERE, start=True)["lines"] == cards(start=False, configure=BOTH)["lines"] == []


def test_only_a_script_may_be_run() -> None:
    files = cards(start=True)["hosts"][HEAD]["install"]
    assert {one["dest"]: one["mode"] for one in files if "sbin" in one["dest"]} == {
        "/usr/local/sbin/dgx-spark-speculative-nic": "0755"
    }
    assert {one["mode"] for one in files if "systemd" in one["dest"]} == {"0644"}


@pytest.mark.parametrize(
    ("starter", "said"),
    [
        (None, "spark-1 and spark-2: Docker does not start a container whose NIC appears later"),
        ({**THERE, "enabled": False}, "is from another version, or disabled. To renew it, run again with -K"),
    ],
)
def test_its_absence_is_a_finding(starter: Info | None, said: str) -> None:
    found = cards(starter)
    assert len(found["findings"]) == 1
    assert said in found["findings"][0]
    assert cards(starter, start=False)["findings"] == []


@pytest.mark.parametrize(
    ("keep", "hotplug", "move", "said"),
    [
        ("auto", {"armed": False}, [], ""),
        ("auto", {"armed": True}, [], "may turn off the NIC of the other one"),
        (False, {"armed": True}, [], ""),
        (True, {"armed": True}, [MARKER, DISABLED_MARKER], "stays on from the next start, for 18 to 20 W a Spark"),
        (True, {"armed": False, "disabled_marker": [DISABLED_MARKER, MARKER]}, [], ""),
        # The package was installed anew.
        (
            True,
            {"armed": True, "disabled_marker": [DISABLED_MARKER, MARKER]},
            [MARKER, DISABLED_MARKER],
            "reboot both with the cable in",
        ),
        ("auto", {"armed": False, "disabled_marker": [DISABLED_MARKER, MARKER]}, [], ""),
        (
            False,
            {"armed": False, "disabled_marker": [DISABLED_MARKER, MARKER]},
            [DISABLED_MARKER, MARKER],
            "off without a cable again, from the next start",
        ),
        (False, {"armed": False, "disabled_marker": []}, [], ""),
    ],
)
def test_the_marker_is_moved_away_and_back(keep: t.Any, hotplug: Info, move: list[str], said: str) -> None:
    found = cards(THERE, hotplug, keep=keep)
    assert [found["hosts"][name]["move"] for name in (HEAD, WORKER)] == [move, move]
    assert [said in finding for finding in found["findings"]] == ([True] if said else [])
    assert found["lines"] == [f"{name}: {move[0]}: to be moved to {move[1]}" for name in (HEAD, WORKER) if move]


@pytest.mark.parametrize(("start", "keep"), [("often", "auto"), ("auto", "often")])
def test_a_misspelt_input(start: str, keep: str) -> None:
    with pytest.raises(PlanError, match=r"spark_network_\w+_nic\w* is 'often', but must be auto, true or false"):
        cards(start=start, keep=keep)


def test_facts_of_an_older_version_are_no_failure() -> None:
    assert len(plan_nics({HEAD: {}, WORKER: {}}, "auto", "auto", NEITHER)["findings"]) == 1
