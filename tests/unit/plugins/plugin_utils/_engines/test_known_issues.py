# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Known issues of any engine: which shipped recipes have them, and that every row can be read and followed."""

from __future__ import annotations

import re

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Engine, of_recipe
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES, build, engine_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPES, load

# Read a changed row, or the row of a changed recipe, before its line here is changed. A variant follows a slash.
RECIPES_WITH: dict[str, list[str]] = {
    # TensorRT-LLM.
    "eagle3-garbles-before-8944": ["single_eagle3_cutlass"],
    "eagle3-gibberish-11125": [],
    "gpt-oss-illegal-instruction-11313": [],
    "eagle3-one-model-hang-12795": [],
    "eagle3-sinks-15739": ["single_eagle3/page", "single_eagle3_page"],
    "eagle3-sinks-18141": [],
    "eagle3-drops-tool-calls-16377": ["single_eagle3/page", "single_eagle3_page", "single_eagle3_two_models"],
    "nccl-symmetric-12715": ["qwen3_235b_a22b_eagle3_1_3"],
    "nccl-hang-2167": ["qwen3_235b_a22b_eagle3_rc29"],
    "nvfp4-experts-stall-14500": [],
    "nvfp4-untuned-11368": [],
    "nvfp4-experts-slow-12897": ["qwen3_235b_a22b_eagle3_1_3"],
    "nvfp4-mtp-14575": [],
    # Known from the ranks.
    "nccl-2213": [],
    # Only with the options that the memory plan adds.
    "kv-cache-manager-v2-16942": [],
    "host-cache-15793": [],
    "fp4-experts-11932": [],
    "logprobs-12547": [
        "qwen3_235b_a22b_eagle3",
        "qwen3_235b_a22b_eagle3/fp8_kv",
        "single_eagle3_cutlass",
        "single_nemotron_3_super_mtp_trtllm",
    ],
    "logprobs-18401": [
        "qwen3_235b_a22b_eagle3_1_3",
        "single_draft_target_page",
        "single_eagle3/page",
        "single_eagle3_page",
    ],
    # vLLM.
    "nccl-hang-42354": [],
    "qwen3-8-mtp-reboot-262": ["single_qwen3_8_27b_dflash2/mtp"],
    "hybrid-mtp-prefixes-53912": [
        "qwen3_6_27b_mtp",
        "single_nemotron_3_5_lightning_dspark/mtp",
        "single_nemotron_3_super_mtp",
        "single_qwen3_6_27b_mtp",
        "single_qwen3_6_35b_mtp",
        "single_qwen3_8_27b_dflash2/mtp",
    ],
    "flash-next-mtp-lengths-53": [],
    "gemma-4-31b-graphs-414": [],
    "trtllm-experts-2045": [],
}


def with_issues() -> dict[str, list[str]]:
    """Return the shipped recipes and variants with each issue. The memory plan may add issues of its own options."""
    found: dict[str, list[str]] = {issue.id: [] for engine in ENGINES.values() for issue in engine.known_issues}
    for path in sorted(RECIPES.glob("*.yml")):
        for variant in ("", *load(path)["variants"]):
            recipe = load(path, variant)
            for issue in build(engine_of(recipe), of_recipe(recipe)).known_issues:
                found[issue.id].append("/".join(filter(None, (path.stem, variant))))
    return found


def test_the_shipped_recipes_that_each_issue_applies_to() -> None:
    assert with_issues() == RECIPES_WITH


def test_an_id_is_of_one_row() -> None:
    ids = [issue.id for engine in ENGINES.values() for issue in engine.known_issues]
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
def test_each_row_leads_to_its_thread_and_is_half_a_sentence(engine: Engine) -> None:
    for issue in engine.known_issues:
        assert re.fullmatch(r"https://github[.]com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", issue.url), issue.id
        assert not issue.message.endswith("."), issue.id
