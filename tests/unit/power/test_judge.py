# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import typing as t

import pytest

from tests.power import machine, places, run
from tests.power.judge import judge, table


def looked(**seen: t.Any) -> dict[str, t.Any]:
    return {"looked": {"record": {"open": [], **seen}}}


WRITTEN = [{"place": "record", "begun": 3}, {"place": "record", "done": 3}, {"place": "record", "begun": 4}]
CUT = {"cut": "writing", "place": "record", "seconds": 1}


@pytest.mark.parametrize("version", [3, 4])
def test_the_last_version_or_the_one_that_was_begun_is_right(version: int) -> None:
    assert judge([*WRITTEN, CUT, looked(version=version)]) == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (looked(version=2), "version 2"),
        (looked(version=5), "version 5"),
        (looked(version=None), "version 0"),
        (looked(half="40 bytes"), "40 bytes"),
        (looked(version=3, open=["/etc/key"]), "/etc/key"),
        ({"repaired": "record", "version": 4, "refused": "no"}, "does not finish"),
        ({"dead": "no boot"}, "no boot"),
        ({"failed": "KeyError"}, "KeyError"),
        ({"disk": "read-only", "refused": "", "looked_then": {}}, "read-only"),
        ({"disk": "full", "refused": "no", "looked_then": {"half": "10 bytes"}}, "10 bytes"),
    ],
)
def test_what_is_wrong_is_a_finding(line: dict[str, t.Any], word: str) -> None:
    found = judge([*WRITTEN, CUT, line])
    assert (len(found), word in found[0], "after cut 1" in found[0]) == (1, True, True)


def test_what_was_seen_must_stay() -> None:
    assert len(judge([*WRITTEN, CUT, looked(version=4), CUT, looked(version=3)])) == 1


def test_a_repair_is_a_version() -> None:
    repaired = {"repaired": "record", "version": 4, "refused": ""}
    assert judge([*WRITTEN, CUT, looked(version=3), {"place": "record", "begun": 4}, repaired, looked(version=4)]) == []


def test_cuts_are_counted_by_place() -> None:
    assert table([CUT, *WRITTEN, CUT, {**CUT, "place": "keys"}]) == {("keys", "writing"): 1, ("record", "writing"): 2}


def test_a_seed_selects_the_same_cuts_and_all_places() -> None:
    first, again = (list(itertools.islice(run.starts(3), 40)) for _time in range(2))
    assert first == again != list(itertools.islice(run.starts(4), 40))
    assert {start.place for start in first[: len(run.NAMES)]} == set(run.NAMES) == {kind.name for kind in places.PLACES}
    assert {start.disk for start in first} == {"writable", "full", "read-only"}
    assert {start.early is None for start in first} == {True, False}


def test_the_places_that_were_cut_last_are_finished() -> None:
    cuts = [{"cut": "writing", "place": place} for place in ("unit", "job", "record", "keys", "job", "job")]
    assert run.cut_last([*cuts, {"begun": 1}]) == ["job", "keys", "record"]


def test_half_a_line_was_not_said() -> None:
    console = b'SeaBIOS\r\nPOWER {"begun": 1}\r\nPOWER {"done": 1}\r\nPOWER {"beg'
    assert machine.messages(console) == [{"begun": 1}, {"done": 1}]
