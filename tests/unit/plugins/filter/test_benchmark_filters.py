# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.dgx_spark.speculative.plugins.filter import benchmark_choice, benchmark_chosen

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
RECIPE = {"name": "mine", "method": "eagle3", "draft_length": 5}
RECORD = {"image": {"reference": IMAGE}, "models": {"target": {"commit": "aaa"}}}
REPORT = {"date": "2026-11-22", "verdict": {"kind": "use", "draft_length": 3, "sentence": "Use draft length 3."}}


def test_what_one_filter_keeps_the_other_one_reads() -> None:
    choose = benchmark_chosen.FilterModule().filters()["benchmark_chosen"]
    read = benchmark_choice.FilterModule().filters()["benchmark_choice"]
    kept = choose(REPORT, RECORD, RECIPE, {"max_draft_len": 5})
    expected = {"draft_length": 3, "method": "eagle3", "date": "2026-11-22", "sentence": "Use draft length 3."}
    assert read(kept, RECIPE, IMAGE) == read(kept, RECIPE, IMAGE, RECORD["models"]) == expected
    assert read(kept, RECIPE, IMAGE, {"target": {"commit": "bbb"}}) == {}
    assert read(None, RECIPE, IMAGE, None) == {}
