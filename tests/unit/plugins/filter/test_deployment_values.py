# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import chosen
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.values import merge

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
RECIPE = {"name": "mine", "method": "eagle3", "draft_length": 5}
RECORD = {"image": {"reference": IMAGE}, "models": {"target": {"commit": "aaa"}}}
REPORT = {"date": "2026-11-22", "verdict": {"kind": "use", "draft_length": 3, "sentence": "Use draft length 3."}}


def test_what_is_kept_of_a_benchmark_is_read() -> None:

    def read(choice: t.Any, models: t.Any = None) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", merge(RECIPE, {"image": IMAGE}, choice, models)["benchmark"])

    kept = chosen(REPORT, RECORD, RECIPE, {"max_draft_len": 5})
    expected = {"draft_length": 3, "method": "eagle3", "date": "2026-11-22", "sentence": "Use draft length 3."}
    assert read(kept) == read(kept, RECORD["models"]) == expected
    assert read(kept, {"target": {"commit": "bbb"}}) == {}
    assert read(None) == {}
