# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action.deployment_info import told

LINES = ["one", "two"]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ({"path": "/a.log", "truncated": True, "detail": None}, ["spark-1: /a.log, the last 2 lines", *LINES]),
        ({"path": "/a.log", "truncated": False, "detail": None}, ["spark-1: /a.log", *LINES]),
        ({"path": None, "truncated": False, "detail": "There is none."}, ["spark-1: no log", "There is none.", *LINES]),
    ],
)
def test_a_log_is_told_below_where_it_is(log: dict[str, t.Any], expected: list[str]) -> None:
    assert told("spark-1", {**log, "lines": LINES}) == expected
