# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin's ports and cable, as far as no kernel is needed for them."""

from __future__ import annotations

import pathlib

import pytest

from tests.twin import cables
from tests.twin.names import TwinError
from tests.twin.spark import fabric

ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:4ebb:47ff:fe01:0211"
FIRST, SECOND = (f"0000:0000:0000:0000:0000:ffff:c0a8:{end}" for end in ("640a", "650a"))


@pytest.fixture
def laid(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[cables.Cable | None]:
    """What was on record each time the cables were laid."""
    found: list[cables.Cable | None] = []
    monkeypatch.setattr(cables, "RECORD", tmp_path / "state" / "cables.json")
    monkeypatch.setattr(cables, "connect", lambda by_hand=False: found.append(cables.recorded()))
    return found


def test_a_gid_stays_where_it_is_while_others_come_and_go() -> None:
    before = fabric.table([], [LINK_LOCAL, FIRST, SECOND])
    assert before[:6] == [LINK_LOCAL, LINK_LOCAL, FIRST, FIRST, SECOND, SECOND]
    without = fabric.table(before, [LINK_LOCAL, SECOND])
    assert without[:6] == [LINK_LOCAL, LINK_LOCAL, ZERO, ZERO, SECOND, SECOND]
    assert fabric.table(without, [LINK_LOCAL, SECOND, FIRST]) == before
    assert len(before) == fabric.GIDS


def test_a_card_goes_late_and_comes_at_once() -> None:
    card = fabric.Card(True)
    assert not card.follow(armed=True, cabled=True, now=100)
    assert not card.follow(armed=True, cabled=False, now=100)
    assert card.due == 120
    assert not card.follow(armed=True, cabled=False, now=119.9)
    # A cable that is back in time counts as one that was never away.
    assert not card.follow(armed=True, cabled=True, now=119.9)
    assert not card.follow(armed=True, cabled=False, now=121)
    assert card.due == 141
    assert card.follow(armed=True, cabled=False, now=141)
    assert (card.powered, card.due) == (False, None)
    # The other Spark is back, and nobody has looked for the card.
    assert not card.follow(armed=True, cabled=True, now=142)
    card.left = False
    assert card.follow(armed=True, cabled=True, now=143)
    assert card.powered


@pytest.mark.parametrize("powered", [True, False])
def test_a_card_stays_as_it_is_without_the_marker(powered: bool) -> None:
    card = fabric.Card(powered)
    assert not any(card.follow(armed=False, cabled=cabled, now=now) for now in (0, 99) for cabled in (True, False))
    assert (card.powered, card.due) == (powered, None)


@pytest.mark.parametrize(
    ("flags", "expected"), [(["UP", "LOWER_UP"], {"enp1s0f1np1"}), (["UP"], set())], ids=["alive", "dead"]
)
def test_a_port_is_cabled_by_its_wire_and_not_by_its_interface(flags: list[str], expected: set[str]) -> None:
    there = {
        "wire1-1": {"ifname": "wire1-1", "master": "bridge1", "flags": flags},
        "enp1s0f0np0": {"ifname": "enp1s0f0np0", "master": "bridge0", "flags": ["UP", "LOWER_UP"]},
        "bridge1": {"ifname": "bridge1", "flags": ["UP", "LOWER_UP"]},
    }
    assert {port.interface for port in fabric.alive(there)} == expected


def test_a_changed_cable_is_put_back_whatever_happens(laid: list[cables.Cable | None]) -> None:
    cables.plug()
    with pytest.raises(RuntimeError), cables.changed(mtu=1500, mbit=200):
        raise RuntimeError
    assert laid == [cables.Cable(), cables.Cable(mtu=1500, mbit=200), cables.Cable()]


def test_one_spark_has_no_cable_and_three_have_more_than_one() -> None:
    assert cables.delivered(1) is None
    with pytest.raises(TwinError, match="3 are joined by a switch or a ring"):
        cables.delivered(3, "cable")
