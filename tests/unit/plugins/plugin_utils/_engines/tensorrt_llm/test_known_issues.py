# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Built, Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import (
    build,
)

GPT = "openai/gpt-oss-120b"
LLAMA = "nvidia/Llama-3.3-70B-Instruct-FP4"
QWEN = "nvidia/Qwen3-235B-A22B-FP4"
DEV = "nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev"
MEMORY = {"free_gpu_memory_fraction": 0.9}


def built(release: str, method: str | None = None, target: str | None = None, **options: t.Any) -> Built:
    # A family matters only where the release names none.
    gap = release in ("1.2.0rc0", "1.2.0rc8", "1.3.0rc2")
    draft: dict[str, t.Any] = {"draft_model": "/m", "drafted": 3} if method else {}
    request = Request(release, method, target_model=target, options=options, family="1.2" if gap else "auto", **draft)
    answer = build(request)
    assert answer.errors == []
    return answer


def ids(*arguments: t.Any, **options: t.Any) -> list[str]:
    """Return the issues but for that of requests, which most drafts have."""
    return [issue.id for issue in built(*arguments, **options).known_issues if not issue.refuse]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("1.2.0rc1", "eagle3", GPT), ["eagle3-garbles-before-8944"]),
        ((DEV, "eagle3", GPT), ["eagle3-garbles-before-8944"]),
        ((DEV, "draft_target", LLAMA), []),
        (("1.2.0rc6", "eagle3", GPT), ["eagle3-sinks-15739"]),
        (("1.2.0rc8", "eagle3", LLAMA), ["eagle3-gibberish-11125"]),
        (
            ("1.2.0rc8", "eagle3", GPT),
            ["eagle3-gibberish-11125", "gpt-oss-illegal-instruction-11313", "eagle3-sinks-15739"],
        ),
        (("1.3.0rc2", None, GPT), ["gpt-oss-illegal-instruction-11313"]),
        (("1.3.0rc5", "eagle3"), ["eagle3-one-model-hang-12795"]),
        (("1.3.0rc5", "eagle3", "deepseek-ai/DeepSeek-V3"), []),
        (("1.3.0rc5", "eagle3", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"), ["eagle3-one-model-hang-12795"]),
        (("1.3.0rc11", "eagle3", GPT), ["eagle3-one-model-hang-12795", "eagle3-sinks-15739"]),
        (("1.3.0rc12", "eagle3", GPT), ["eagle3-sinks-15739", "eagle3-drops-tool-calls-16377"]),
        (("1.3.0rc12", "eagle3", QWEN), ["nvfp4-experts-slow-12897"]),
        (("1.3.0rc20", "eagle3", GPT), ["eagle3-sinks-15739"]),
        (("1.3.0rc21", "eagle3", GPT), ["eagle3-sinks-18141"]),
        (("1.3.0rc25", "eagle3", GPT), ["eagle3-sinks-18141"]),
        (("1.3.0rc26", "eagle3", GPT), []),
        (("1.3.0rc15", None, QWEN), ["nvfp4-experts-stall-14500"]),
        (("1.3.0rc15", None, "nvidia/Nemotron-3-Super-120B-A12B-NVFP4"), ["nvfp4-experts-stall-14500"]),
        (("1.3.0rc15", None, GPT), []),
    ],
)
def test_issues_of_a_release(arguments: tuple[t.Any, ...], expected: list[str]) -> None:
    assert ids(*arguments) == expected


def test_issues_of_options() -> None:
    assert ids("1.3.0rc12", kv_cache_config={**MEMORY, "host_cache_size": 1}) == ["host-cache-15793"]
    assert ids("1.3.0rc12", kv_cache_config={**MEMORY, "host_cache_size": 0}) == []
    assert ids("1.2.0rc6", moe_config={"backend": "TRTLLM"}) == ["fp4-experts-11932"]
    assert ids("1.2.0rc6", moe_config={"backend": "CUTLASS"}) == []


@pytest.mark.parametrize(
    ("release", "target", "options", "expected"),
    [
        ("1.2.0rc6", QWEN, {"enable_autotuner": False}, ["nvfp4-untuned-11368"]),
        ("1.2.0rc6", QWEN, {}, []),
        ("1.3.0rc8", LLAMA, {"enable_autotuner": False}, ["nvfp4-untuned-11368"]),
        ("1.2.0rc6", GPT, {"enable_autotuner": False}, []),
        ("1.3.0rc12", QWEN, {"moe_config": {"backend": "CUTLASS"}}, ["nvfp4-experts-slow-12897"]),
        ("1.3.0rc23", GPT, {"kv_cache_config": {**MEMORY, "max_tokens": 64}}, []),
        ("1.3.0rc24", GPT, {"kv_cache_config": {**MEMORY, "max_tokens": 64}}, ["kv-cache-manager-v2-16942"]),
        ("1.3.0rc24", GPT, {"kv_cache_config": {**MEMORY, "max_tokens": 64, "max_gpu_total_bytes": 1}}, []),
        ("1.3.0rc24", GPT, {"kv_cache_config": {**MEMORY, "max_tokens": 64, "use_kv_cache_manager_v2": False}}, []),
        ("1.3.0rc24", QWEN, {"kv_cache_config": {**MEMORY, "max_tokens": 64}}, []),
        (
            "1.3.0rc15",
            QWEN,
            {"speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": 3}},
            ["nvfp4-experts-stall-14500", "nvfp4-mtp-14575"],
        ),
    ],
)
def test_issues_of_a_release_with_options(
    release: str, target: str, options: dict[str, t.Any], expected: list[str]
) -> None:
    assert ids(release, None, target, **options) == expected


def test_a_section_of_ones_own_counts_as_the_method_it_spells() -> None:
    section = {"decoding_type": "Eagle", "max_draft_len": 3, "speculative_model_dir": "/m"}
    assert ids("1.2.0rc1", speculative_config=section) == ["eagle3-garbles-before-8944"]
    assert ids("1.3.0rc13", None, GPT, speculative_config=section) == [
        "eagle3-sinks-15739",
        "eagle3-drops-tool-calls-16377",
    ]
    two = {"decoding_type": "Eagle3", "max_draft_len": 3, "speculative_model": "/m", "eagle3_one_model": False}
    assert ids("1.3.0rc13", None, GPT, speculative_config=two) == ["eagle3-drops-tool-calls-16377"]
    assert ids("1.3.0rc21", None, GPT, speculative_config=two) == []
    assert ids("1.3.0rc5", speculative_config={**section, "decoding_type": "Eagle3", "eagle3_one_model": False}) == []


@pytest.mark.parametrize(
    ("release", "sparks", "expected"),
    [
        ("1.3.0rc5", 2, []),
        ("1.3.0rc6", 2, ["nccl-symmetric-12715"]),
        ("1.3.0rc12", 1, []),
        ("1.3.0rc21", 2, ["nccl-symmetric-12715"]),
        ("1.3.0rc29", 2, ["nccl-hang-2167"]),
        ("1.3.0rc29", 1, []),
    ],
)
def test_issues_of_two_sparks(release: str, sparks: int, expected: list[str]) -> None:
    answer = build(Request(release, target_model=LLAMA, world_size=sparks))
    assert [issue.id for issue in answer.known_issues] == expected


EAGLE3 = {"decoding_type": "Eagle3", "max_draft_len": 3, "speculative_model": "/m"}


@pytest.mark.parametrize(
    ("release", "method", "options", "expected"),
    [
        ("1.2.0rc6", "eagle3", {}, "logprobs-12547"),
        ("1.3.0rc9", "mtp", {}, "logprobs-12547"),
        ("1.3.0rc10", "mtp", {}, "logprobs-18401"),
        ("1.3.0rc12", "draft_target", {}, "logprobs-18401"),
        ("1.3.0rc26", "eagle3", {}, "logprobs-18401"),
        # From then on the request is refused, and without drafts it is answered.
        ("1.3.0rc27", "eagle3", {}, None),
        ("1.3.0rc12", "none", {}, None),
        # These draft beside the target model.
        ("1.2.0rc6", "draft_target", {}, None),
        ("1.3.0rc12", "ngram", {}, None),
        ("1.3.0rc12", None, {"speculative_config": EAGLE3}, "logprobs-18401"),
        ("1.3.0rc12", None, {"speculative_config": {**EAGLE3, "eagle3_one_model": False}}, None),
    ],
)
def test_requests_that_drafts_in_one_model_do_not_bear(
    release: str, method: str | None, options: dict[str, t.Any], expected: str | None
) -> None:
    found = [issue for issue in built(release, method, **options).known_issues if issue.refuse]
    assert [issue.id for issue in found] == ([expected] if expected else [])
    assert all("logprobs" in issue.refuse for issue in found)


def test_the_model_may_be_named_in_the_options() -> None:
    assert ids("1.3.0rc13", "eagle3", model=GPT) == ["eagle3-sinks-15739", "eagle3-drops-tool-calls-16377"]


def test_an_issue_is_a_warning_that_names_the_thread() -> None:
    warnings = [str(warning) for warning in built("1.3.0rc12", moe_config={"backend": "TRTLLM"}).warnings]
    assert warnings == [
        "moe_config.backend: TRTLLM does not run FP4 experts on a GB10; use CUTLASS;"
        " see https://github.com/NVIDIA/TensorRT-LLM/issues/11932"
    ]
