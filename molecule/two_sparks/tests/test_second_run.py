# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run asks of two Sparks that serve what it is to serve, and how long it takes. These tests run playbooks."""

from __future__ import annotations

import collections

from tests import costs

# Of the head; its worker is called once less. The lease is one of them. It may fall.
CALLS = 7


def test_a_second_run_calls_neither_spark_more_often_than_it_did() -> None:
    calls = costs.remote_calls("two_sparks")
    assert max(collections.Counter(spark for spark, _task in calls).values()) <= CALLS, calls


def test_it_takes_no_longer_than_some_tasks_that_do_nothing() -> None:
    assert not costs.slow("two_sparks")
