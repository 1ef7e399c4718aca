# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run asks of two Sparks that serve what it is to serve."""

from __future__ import annotations

from tests import costs

# In eleven tasks: eleven of the head, ten of its worker. It may fall.
CALLS = 21


def test_a_second_run_calls_the_sparks_no_more_often_than_it_did() -> None:
    calls = costs.remote_calls("two_sparks")
    assert len(calls) <= CALLS, calls
