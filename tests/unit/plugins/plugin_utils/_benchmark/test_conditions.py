# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.conditions import (
    differing_conditions,
    flat,
)

from tests.unit import benchmark_reports as reports


def test_flat() -> None:
    assert flat({"a": {"b": 1, "c": None}, "d": [1, 2], "e": "", "f": 0}) == {"a b": "1", "d": "1, 2", "f": "0"}


def test_a_condition_differs_if_one_of_several_reports_has_another() -> None:
    same, other = reports.report(), reports.report(hardware={"gpu": "NVIDIA GB10", "driver": "590.1", "sparks": 1})
    assert differing_conditions([same, same]) == []
    assert differing_conditions([same, same, other]) == ["hardware"]
    # What a report does not know differs from what another one knows, but not from what another one lacks.
    unknown, lacking = ({**same, "image": image} for image in ({**same["image"], "id": None}, {}))
    assert differing_conditions([same, unknown]) == ["image.id"]
    assert differing_conditions([{**lacking, "image": None}, lacking]) == []
