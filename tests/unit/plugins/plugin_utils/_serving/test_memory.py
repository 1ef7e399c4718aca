# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans worked by hand: bytes per token = 2 (keys, values) x layers x KV heads x head dimension x 2 (BF16).

Tokens of a conversation = context + 3 x draft length, up to whole blocks of 32, and a block; all of them, and a block.
The models' shapes and sizes are those of their published configurations.
"""

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import build
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.memory import plan, tightest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.sizes import (
    PlanError,
    block_tokens,
    bytes_per_token,
    read,
)


def model(name: str, weights: int, layers: int | None, kv_heads: int, head_dim: int, context: int) -> dict[str, t.Any]:
    shape = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim, "max_context": context}
    return {"name": name, "facts": {"weights_bytes": weights, **shape}}


GPT_OSS = model("openai/gpt-oss-120b", 65_200_000_000, 36, 8, 64, 131_072)  # 73,728 bytes a token
GPT_OSS_HEAD = model("nvidia/gpt-oss-120b-Eagle3-long-context", 431_000_000, None, 8, 64, 131_072)  # 2,048
LLAMA = model("nvidia/Llama-3.3-70B-Instruct-FP4", 42_700_000_000, 80, 8, 128, 131_072)  # 327,680
LLAMA_SMALL = model("nvidia/Llama-3.1-8B-Instruct-FP4", 6_000_000_000, 32, 8, 128, 131_072)  # 131,072
QWEN = model("nvidia/Qwen3-235B-A22B-FP4", 134_000_000_000, 94, 4, 128, 40_960)  # 192,512
QWEN_HEAD = model("nvidia/Qwen3-235B-A22B-Eagle3", 600_000_000, 1, 4, 128, 40_960)  # 2,048

# 119.6 GiB are visible of "128 GB"; 12 GiB are kept back: room for 115,534,620,262 bytes.
TOTAL = 128_419_522_150
SPARK = {"total": TOTAL, "available": 124_000_000_000, "slot": 0, "usage": []}
ROOM = 115_534_620_262
VLLM = "vllm (vllm:26.01, up 3 days, not this collection's) holds 40 GB; stop it with: docker stop vllm"

EAGLE = {"target": GPT_OSS, "draft": GPT_OSS_HEAD, "method": "eagle3", "draft_length": 5}
PAIR = {"target": LLAMA, "draft": LLAMA_SMALL, "method": "draft_target", "draft_length": 4}
QWENS = {"target": QWEN, "draft": QWEN_HEAD, "method": "eagle3", "draft_length": 3, "context": 40_960}
ALONE = {"target": GPT_OSS, "draft": {}, "method": "none", "draft_length": 0}


def arguments(*parts: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
    made: dict[str, t.Any] = {
        "context": 32_768,
        "concurrency": 1,
        "kv_cache": "planned",
        "reserve_gib": 12,
        "memory": SPARK,
        "sparks": 1,
        "options": {},
    }
    for part in parts:
        made.update(part)
    return {**made, **changes}


def planned(*parts: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
    return plan(read(arguments(*parts, **changes)), "spark-1")


def memory(**changes: t.Any) -> dict[str, t.Any]:
    return {**SPARK, **changes}


# Plans worked by hand


def test_gpt_oss_with_its_whole_context_fits() -> None:
    result = planned(EAGLE, context=131_072)
    # 131,072 + 15 tokens in blocks of 32 are 131,104, and two blocks; each takes 73,728 + 2,048 bytes.
    assert [row["bytes"] for row in result["rows"]] == [65_200_000_000, 431_000_000, 9_939_386_368, 10_000_000_000]
    assert result["needed"] == 85_570_386_368
    assert result["room"] == ROOM
    assert result["verdict"] == "fits"
    assert result["fitting_context"] == 131_072
    assert result["message"] == ""
    # With the rule's 8 GB for the system in place of 12 GiB it is the example's 93 GB.
    assert (result["needed"] + 8_000_000_000) // 1_000_000_000 == 93


def test_the_llama_pair_fits_with_32k() -> None:
    result = planned(PAIR)
    # 32,768 + 12 tokens are 32,800 in blocks, and two; each takes 327,680 + 131,072 bytes. With the system: 82 GB.
    assert result["rows"][2]["bytes"] == 32_864 * 458_752 == 15_076_425_728
    assert result["needed"] == 73_776_425_728
    assert result["verdict"] == "fits"
    # (115,534,620,262 - 58,700,000,000) / 458,752 = 123,889 tokens, 123,872 in blocks, less 76: 120 x 1,024 and some.
    assert result["fitting_context"] == 122_880
    assert "Fits with 41.8 GB to spare; up to 122,880 tokens of context would fit." in " ".join(result["lines"])


def test_the_llama_pair_does_not_fit_with_131k() -> None:
    result = planned(PAIR, context=131_072)
    assert result["needed"] == 48_700_000_000 + 131_168 * 458_752 + 10_000_000_000 == 118_873_582_336
    assert result["verdict"] == "less_context"
    assert result["fitting_context"] == 122_880
    assert result["message"] == (
        "nvidia/Llama-3.3-70B-Instruct-FP4 with Draft-Target, draft length 4, with 1 request of 131,072 tokens, "
        "needs 119 GB of memory, 3.3 GB more than is available. It fits with -e speculative_serve_context=122880. "
        "-e speculative_serve_overcommit=true tries it anyway, and may hang the machine."
    )
    assert "it would fit on two Sparks unchanged" in " ".join(" ".join(result["lines"]).split())


def test_the_proposed_context_fits_and_the_next_does_not() -> None:
    assert planned(PAIR, context=122_880)["verdict"] == "fits"
    assert planned(PAIR, context=123_904)["verdict"] == "less_context"


def test_qwen_on_two_sparks() -> None:
    result = planned(QWENS, sparks=2)
    # Half the target, the whole head, (192,512 + 2,048) / 2 bytes for each of 41,056 tokens. The example: 90 GB.
    assert [row["bytes"] for row in result["rows"]] == [67_000_000_000, 600_000_000, 41_056 * 97_280, 10_000_000_000]
    assert result["needed"] == 81_593_927_680
    assert result["verdict"] == "fits"


def test_qwen_on_one_spark() -> None:
    result = planned(QWENS)
    assert result["needed"] == 134_600_000_000 + 41_056 * 194_560 + 10_000_000_000
    assert result["verdict"] == "does_not_fit"
    assert result["fitting_context"] is None
    assert result["message"].endswith("Choose a smaller model; it would fit on two Sparks.")
    assert "overcommit" not in result["message"]


@pytest.mark.parametrize(
    ("total", "two"),
    # Two nodes need 32.6 + 0.431 + 131,168 x 37,888 + 10 = 48.0 GB each, besides 12.9 GB.
    [(60_000_000_000, "it would not fit on two Sparks either."), (64_000_000_000, "it would fit on two Sparks.")],
)
def test_gpt_oss_on_a_spark_with_64_gb(total: int, two: str) -> None:
    small = memory(total=total, available=total - 4_500_000_000)
    result = planned(EAGLE, context=131_072, memory=small)
    assert result["verdict"] == "does_not_fit"
    assert result["message"].endswith(two)
    assert planned(ALONE, {"target": LLAMA_SMALL}, memory=small)["verdict"] == "fits"


def test_without_drafts_only_the_target_counts() -> None:
    result = planned(ALONE)
    assert len(result["rows"]) == 3
    assert result["needed"] == 65_200_000_000 + 32_832 * 73_728 + 10_000_000_000


# What there is


def test_our_own_deployment_gives_its_memory_back() -> None:
    result = planned(EAGLE, memory=memory(available=30_000_000_000, slot=80_000_000_000))
    assert result["room"] == 110_000_000_000
    assert result["verdict"] == "fits"
    assert any("including the current deployment's" in line for line in result["lines"])


def test_others_who_hold_memory_are_named() -> None:
    result = planned(EAGLE, context=131_072, memory=memory(available=78_000_000_000, usage=[VLLM]))
    assert result["verdict"] == "less_context"
    # (78,000,000,000 - 75,631,000,000) / 75,776 = 31,263 tokens, 31,232 in blocks, less 79: 30 x 1,024 and some.
    assert f"{VLLM}. Until then it fits with -e speculative_serve_context=30720." in result["message"]
    assert "two Sparks" not in result["message"] + " ".join(result["lines"])


def test_others_who_leave_nothing() -> None:
    result = planned(EAGLE, memory=memory(available=40_000_000_000))
    assert result["verdict"] == "does_not_fit"
    assert "'ps aux --sort -rss' lists them. -e speculative_serve_overcommit=true" in result["message"]
    assert "smaller model" not in result["message"]


@pytest.mark.parametrize("unknown", ["slot", "available"])
def test_without_knowing_what_is_free_the_total_counts(unknown: str) -> None:
    result = planned(EAGLE, memory=memory(**{unknown: None}))
    assert result["room"] == ROOM
    assert result["verdict"] == "fits"
    assert any("is unknown: the memory plan counts" in warning for warning in result["warnings"])


@pytest.mark.parametrize("nothing", [None, {}, {"total": None, "available": None, "slot": None, "usage": None}])
def test_without_knowing_the_memory_nothing_is_said(nothing: t.Any) -> None:
    result = planned(EAGLE, memory=nothing)
    assert (result["verdict"], result["room"], result["message"]) == ("unknown", None, "")
    assert result["options"]["max_seq_len"] == 32_768


# What the engine options say


def test_the_options_follow_from_context_and_parallel() -> None:
    assert planned(EAGLE, concurrency=4)["options"] == {
        "max_batch_size": 4,
        "cuda_graph_config": {"max_batch_size": 4},
        "max_seq_len": 32_768,
        "kv_cache_config": {"max_tokens": 4 * 32_832 + 32, "free_gpu_memory_fraction": 0.9},
        "enable_chunked_prefill": True,
    }


def test_explicit_options_win_and_are_counted() -> None:
    explicit = {
        "max_seq_len": 16_384,
        "max_batch_size": 2,
        "max_num_tokens": 16_384,
        "cuda_graph_config": {"batch_sizes": [1, 2]},
        "kv_cache_config": {"free_gpu_memory_fraction": 0.8},
    }
    result = planned(EAGLE, options=explicit)
    assert result["context"] == 16_384
    assert result["rows"][2]["bytes"] == (2 * 16_448 + 32) * 75_776
    # A fraction that is there stays; prompts fit into one pass.
    assert result["options"] == {"kv_cache_config": {"max_tokens": 2 * 16_448 + 32}}


def test_an_explicit_size_of_the_cache() -> None:
    options = {"kv_cache_config": {"free_gpu_memory_fraction": 0.9, "max_tokens": 1_000_000}}
    result = planned(EAGLE, options=options)
    assert result["rows"][2]["bytes"] == 1_000_000 * 75_776
    assert "kv_cache_config" not in result["options"]
    assert result["verdict"] == "less_context"
    # 39,903,620,262 / 75,776 = 526,599 tokens, in whole blocks.
    assert "It fits with kv_cache_config.max_tokens: 526592 in speculative_serve_options." in result["message"]
    small = planned(EAGLE, options={"kv_cache_config": {"max_tokens": 8192}})
    assert "of 8,192 tokens, which is less than one request of 32,768 tokens takes" in small["warnings"][0]


def test_the_fraction_stays_a_cap() -> None:
    # A tenth of what the weights leave: 0.1 x (124 - 65.631) = 5.84 GB, and 131k take 9.93.
    result = planned(EAGLE, context=131_072, options={"kv_cache_config": {"free_gpu_memory_fraction": 0.1}})
    assert result["verdict"] == "less_context"
    assert result["fitting_context"] == 5_836_900_000 // 75_776 // 1024 * 1024 == 76_800
    assert "a KV cache of 9.9 GB, but kv_cache_config.free_gpu_memory_fraction allows 5.8 GB" in result["message"]


def test_fewer_conversations_are_a_way_out_too() -> None:
    result = planned(EAGLE, context=131_072, concurrency=16)
    # 39,903,620,262 / 75,776 = 526,599 tokens: 4 times 131,136, or 16 times 32,896, and a block.
    assert result["fitting_context"] == 32_768
    assert "with -e speculative_serve_context=32768, or with -e speculative_serve_concurrency=4." in result["message"]
    explicit = planned(EAGLE, context=131_072, options={"max_batch_size": 16})
    assert "or with max_batch_size: 4 in the engine options." in explicit["message"]


@pytest.mark.parametrize(("dtype", "each"), [("fp8", 37_888), ("nvfp4", 21_312), ("bfloat16", 75_776)])
def test_the_type_of_the_cache(dtype: str, each: int) -> None:
    options = {"kv_cache_config": {"dtype": dtype, "free_gpu_memory_fraction": 0.9}}
    assert planned(EAGLE, options=options)["rows"][2]["bytes"] == 32_864 * each


def fp8(one: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"name": one["name"], "facts": {**one["facts"], "kv_cache_dtype": "fp8"}}


def test_the_cache_is_what_the_checkpoint_asks_for() -> None:
    both = {"target": fp8(LLAMA), "draft": fp8(LLAMA_SMALL)}
    result = planned(PAIR, both, context=131_072)
    # 89 GB, where BF16 would not fit.
    assert result["needed"] == 48_700_000_000 + 131_168 * 229_376 + 10_000_000_000 == 88_786_791_168
    assert result["verdict"] == "fits"
    assert "The KV cache is counted in FP8, which the checkpoint asks for" in " ".join(result["lines"])
    # Each in its own type.
    one = planned(PAIR, {"target": fp8(LLAMA)})
    assert one["rows"][2]["bytes"] == 32_864 * (163_840 + 131_072)
    # What the options say wins.
    wide = planned(PAIR, both, options={"kv_cache_config": {"dtype": "bfloat16"}})
    assert wide["rows"][2]["bytes"] == 32_864 * 458_752
    assert not any("FP8" in line for line in wide["lines"])


def test_an_eagle_head_has_the_type_of_its_target() -> None:
    result = planned(QWENS, {"target": fp8(QWEN)}, sparks=2)
    assert result["rows"][2]["bytes"] == 41_056 * 48_640
    assert planned(QWENS, {"draft": fp8(QWEN_HEAD)}, sparks=2)["rows"][2]["bytes"] == 41_056 * 97_280


@pytest.mark.parametrize(
    ("context", "draft_length", "concurrency", "tokens"),
    [
        # A context that fills its blocks is no special case, nor is one that does not.
        (8192, 5, 1, 8192 + 32 + 32 + 32),
        (8190, 5, 1, 8224 + 32 + 32),
        (8190, 0, 1, 8192 + 32 + 32),
        # From 11 on the drafts of one conversation fill a second block.
        (8192, 11, 1, 8192 + 64 + 32 + 32),
        (65_536, 3, 4, 4 * (65_568 + 32) + 32),
    ],
)
def test_the_room_of_conversations(context: int, draft_length: int, concurrency: int, tokens: int) -> None:
    result = planned(EAGLE, context=context, draft_length=draft_length, concurrency=concurrency)
    assert result["options"]["kv_cache_config"]["max_tokens"] == tokens


def test_the_servers_own_way_sets_only_batch_sizes() -> None:
    result = planned(EAGLE, kv_cache="fraction")
    assert result["options"] == {"max_batch_size": 1, "cuda_graph_config": {"max_batch_size": 1}}
    assert result["rows"][2] == {
        "name": "KV cache: 90% of what is left, at least 2,048 tokens",
        "bytes": 2048 * 75_776,
    }
    assert result["context"] == 131_072
    assert result["verdict"] == "fits"
    tight = planned(EAGLE, kv_cache="fraction", memory=memory(available=75_700_000_000))
    assert tight["verdict"] == "does_not_fit"


def test_null_is_the_servers_own_value() -> None:
    assert planned(EAGLE, options={"max_seq_len": None})["context"] == 131_072
    result = planned(EAGLE, options={"kv_cache_config": {"max_tokens": None}, "cuda_graph_config": None})
    assert result["rows"][2]["bytes"] == 2048 * 75_776
    assert set(result["options"]) == {"max_batch_size", "max_seq_len", "enable_chunked_prefill"}


@pytest.mark.parametrize(
    ("context", "options", "latent", "chunked"),
    [
        (8192, {}, False, False),
        (8193, {}, False, True),
        (8192, {"max_num_tokens": 1024}, False, True),
        (32_768, {"enable_chunked_prefill": False}, False, False),
        (32_768, {}, True, False),
    ],
)
def test_long_prompts_are_cut_up(context: int, options: dict[str, t.Any], latent: bool, chunked: bool) -> None:
    facts = {**GPT_OSS["facts"], "model_type": "deepseek_v3" if latent else "gpt_oss"}
    result = planned(ALONE, {"target": {"name": "example/target", "facts": facts}}, context=context, options=options)
    assert result["options"].get("enable_chunked_prefill", False) is chunked
    refused = "tokens are refused: one pass takes no more" in " ".join(" ".join(result["lines"]).split())
    assert refused is (not chunked and context > 8192)


@pytest.mark.parametrize("image", ["example.com/release:1.2.0rc6", "example.com/release:1.3.0rc12"])
@pytest.mark.parametrize("explicit", [{}, {"kv_cache_config": {"free_gpu_memory_fraction": 0.85}}])
def test_the_engine_takes_the_options(image: str, explicit: dict[str, t.Any]) -> None:
    made = planned(EAGLE, options=explicit)["options"]
    cache = {**made["kv_cache_config"], **explicit.get("kv_cache_config", {})}
    merged = {**made, **explicit, "kv_cache_config": cache}
    built = build(Request(release=image, method="eagle3", draft_model="/draft", drafted=5, options=merged))
    assert built.errors == []
    assert built.options["kv_cache_config"]["max_tokens"] == 32_864


# What the models do not say


def test_a_model_of_unknown_shape() -> None:
    facts = {"weights_bytes": 65_200_000_000, "layers": None, "kv_heads": 8, "head_dim": None}
    result = planned(ALONE, {"target": {"name": "example/odd", "facts": facts}}, concurrency=2)
    assert result["verdict"] == "unknown"
    assert result["rows"][1]["bytes"] is None
    assert result["warnings"] == [
        "The files of example/odd do not give layers, head_dim: the memory plan cannot count it all."
    ]
    assert result["options"]["kv_cache_config"]["max_tokens"] == 2 * 32_800 + 32
    assert result["message"] == ""


def test_weights_alone_can_be_too_much() -> None:
    result = planned(ALONE, {"target": {"name": "example/odd", "facts": {"weights_bytes": 120_000_000_000}}})
    assert result["verdict"] == "does_not_fit"
    assert "needs 130 GB of memory, 14.5 GB more than is available. Choose a smaller model." in result["message"]


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"weights_bytes": "65 GB", "layers": True, "kv_heads": -8},
        {"weights_bytes": 10**400, "layers": 10**400},
    ],
)
def test_facts_of_any_kind(facts: t.Any) -> None:
    assert planned(ALONE, {"target": {"name": "example/odd", "facts": facts}})["verdict"] == "unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"draft_length": 10**400},
        *({"options": {key: 10**400}} for key in ("max_seq_len", "max_batch_size", "max_num_tokens")),
        *({"options": {"kv_cache_config": {key: 10**400}}} for key in ("max_tokens", "tokens_per_block")),
    ],
)
def test_numbers_that_nothing_counts_with(changes: dict[str, t.Any]) -> None:
    with pytest.raises(PlanError, match=r"is a number of 401 digits, which nothing can count with; correct it\.$"):
        planned(EAGLE, changes)


@pytest.mark.parametrize("key", ["total", "available", "slot"])
def test_memory_that_no_machine_has(key: str) -> None:
    assert planned(EAGLE, memory=memory(**{key: 10**400}))["verdict"] == "fits"


def test_a_draft_that_the_options_bring_along_is_not_counted() -> None:
    raw = {"decoding_type": "Eagle3", "speculative_model": "/draft", "max_draft_len": 3}
    result = planned(ALONE, method="", options={"speculative_config": raw})
    assert result["warnings"] == ["The draft model in speculative_config is not part of the memory plan."]
    assert result["options"]["kv_cache_config"]["max_tokens"] == 32_864


def test_a_draft_model_with_a_shorter_context() -> None:
    short = model("example/draft", 6_000_000_000, 32, 8, 128, 8192)
    result = planned(PAIR, {"draft": short})
    assert "The draft model example/draft was made for 8,192 tokens" in result["warnings"][0]


def test_an_eagle_head_with_a_shorter_context() -> None:
    short = model("example/head", 431_000_000, None, 8, 64, 2048)
    (warning,) = planned(EAGLE, {"draft": short})["warnings"]
    assert warning == (
        "The head example/head was made for 2,048 tokens, so its drafts are seldom accepted between there and "
        "32,768. TensorRT-LLM before its pull request 11598 (February 2026) reads past the head's table of positions "
        "there; speculative_serve_context: 2048 is on the safe side."
    )
    assert planned(EAGLE, {"draft": short}, context=2048)["warnings"] == []


# Inputs


def test_a_context_longer_than_the_models() -> None:
    with pytest.raises(PlanError, match=r"is 40,961 tokens, but nvidia/Qwen3-235B-A22B-FP4 was made for 40,960: set"):
        planned(QWENS, context=40_961)
    # Whoever scales the positions says so in the engine's own words.
    assert planned(QWENS, options={"max_seq_len": 131_072}, sparks=2)["context"] == 131_072


@pytest.mark.parametrize("name", ["context", "concurrency"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "32k", "", "-5", True, None, [1], "9" * 30, "1_000", "²"])
def test_counts_are_whole_and_above_zero(name: str, value: t.Any) -> None:
    with pytest.raises(
        PlanError, match=rf"^speculative_serve_{name} is .*, but must be a whole number of \w+ above 0\.$"
    ):
        planned(EAGLE, {name: value})


@pytest.mark.parametrize("value", [-1, "much", True, None, float("nan"), float("inf"), [12], "-0.5"])
def test_the_reserve_is_not_negative(value: t.Any) -> None:
    with pytest.raises(
        PlanError, match=r"^speculative_serve_reserve_gib is .*, but must be a number of GiB, 0 or more\.$"
    ):
        planned(EAGLE, reserve_gib=value)


def test_the_reserve_is_less_than_the_memory() -> None:
    with pytest.raises(PlanError, match=r"keeps back 215 GB, but this Spark has 128 GB in all; set it to less\.$"):
        planned(EAGLE, reserve_gib=200)


def test_numbers_from_the_command_line_and_all_errors_at_once() -> None:
    assert planned(EAGLE, context="16384", concurrency=" 2 ", reserve_gib="8.5")["context"] == 16_384
    assert planned(EAGLE, reserve_gib=0)["room"] == 124_000_000_000
    with pytest.raises(PlanError, match=r"_context is 0.*_concurrency is 0.*_reserve_gib is -1"):
        planned(EAGLE, context=0, concurrency=0, reserve_gib=-1)


# For people


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kv_cache": "fraction"},
        {"context": 131_072, "concurrency": 10**9},
        {"memory": None},
        {"target": {"name": f"/srv/{'models/' * 20}{'x' * 200}", "facts": GPT_OSS["facts"]}},
    ],
)
def test_the_table_is_narrow(changes: dict[str, t.Any]) -> None:
    lines = planned(EAGLE, changes)["lines"]
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("spark-1, memory: ")


def test_the_table() -> None:
    lines = planned(EAGLE, context=131_072)["lines"]
    assert lines[:7] == [
        "spark-1, memory: openai/gpt-oss-120b with EAGLE-3, draft length 5",
        "",
        "  weights of openai/gpt-oss-120b                        65.2 GB",
        "  weights of nvidia/gpt-oss-120b-Eagle3-long-context     431 MB",
        "  KV cache for 1 request of 131,072 tokens               9.9 GB",
        "  workspace and CUDA graphs                             10.0 GB",
        "  " + 61 * "-",
    ]
    assert lines[15] == "  Fits with 30.0 GB to spare."
    assert " ".join(" ".join(lines[16:]).split()) == (
        "Chunked prefill is switched on, since longer prompts would be refused; it is the first thing to switch off if "
        "answers to long prompts are bad (enable_chunked_prefill: false in the engine options)."
    )
    explicit = planned(EAGLE, context=131_072, options={"enable_chunked_prefill": False})["lines"]
    assert explicit[:16] == lines[:16]
    assert " ".join(" ".join(explicit[16:]).split()) == (
        "Prompts of more than 8,192 tokens are refused: one pass takes no more (max_num_tokens), and chunked prefill "
        "is off."
    )


# What CUDA calls free


def cuda(free: int, unused: int, available: int = 124_000_000_000) -> dict[str, t.Any]:
    return {"free": free, "unused": unused, "available": available}


def test_what_cuda_calls_free_stands_beside_what_is_available() -> None:
    result = planned(EAGLE, memory=memory(cuda=cuda(118_000_000_000, 118_500_000_000)))
    assert result["free_for_gpu"] == "118 GB according to CUDA, 124 GB available"
    row = next(line for line in result["lines"] if "according to CUDA" in line)
    assert row.split() == ["free", "according", "to", "CUDA", "118", "GB"]
    assert result["warnings"] == planned(EAGLE)["warnings"]
    assert result["room"] == ROOM


def test_what_the_server_takes_is_told_where_it_is_known() -> None:
    assert planned(EAGLE)["takes"] == planned(EAGLE)["needed"]
    assert planned(EAGLE)["share"] == 0
    rest = planned(EAGLE, kv_cache="fraction")
    assert (rest["takes"] < rest["needed"], rest["share"]) == (True, 0.9)


@pytest.mark.parametrize("said", [None, {}, {"free": None, "unused": 1, "available": 1}, {"problem": None}])
def test_an_image_that_was_not_asked_or_did_not_say(said: dict[str, t.Any] | None) -> None:
    result = planned(EAGLE, memory=memory(cuda=said))
    assert result["free_for_gpu"] == ""
    assert "according to CUDA" not in " ".join(result["lines"])


def test_files_that_hold_what_is_needed_are_warned_of_with_the_remedy() -> None:
    # 85.6 GB are needed with the whole context, and 60 GB less are free.
    result = planned(EAGLE, context=131_072, memory=memory(cuda=cuda(58_000_000_000, 58_300_000_000)))
    assert result["verdict"] == "fits"
    assert result["message"] == ""
    assert result["warnings"][-1] == (
        "CUDA calls 58.0 GB free, which is less than the 85.6 GB that are needed, although 124 GB are available. Files "
        "that were read hold 65.7 GB. Those of the models are given back while they are loaded; should the KV cache "
        """become smaller than planned all the same, -e '{"speculative_serve_drop_caches": true}' gives back all of """
        "them before a start."
    )


def test_a_driver_that_keeps_what_is_needed_is_warned_of() -> None:
    warned = planned(EAGLE, context=131_072, memory=memory(cuda=cuda(80_000_000_000, 122_000_000_000)))["warnings"]
    assert "Files that were read hold only 2.0 GB; the driver keeps the rest from programs." in warned[-1]
    assert "reboot, or serve less with speculative_serve_context." in warned[-1]


def test_what_does_not_fit_anyway_is_refused_without_cuda_s_word() -> None:
    small = memory(available=70_000_000_000, cuda=cuda(60_000_000_000, 61_000_000_000, 70_000_000_000))
    result = planned(EAGLE, context=131_072, memory=small)
    assert result["message"]
    assert not any("CUDA calls" in warning for warning in result["warnings"])


# Any number of Sparks


def with_heads(number: int) -> dict[str, t.Any]:
    return {"target": {**QWEN, "facts": {**QWEN["facts"], "attention_heads": number}}}


def test_the_target_is_divided_among_four() -> None:
    two, four = (planned(QWENS, with_heads(64), sparks=sparks) for sparks in (2, 4))
    assert " ".join(" ".join(four["lines"]).split()).startswith("spark-1, memory (each of 4 Sparks): nvidia/")
    assert four["rows"][0]["bytes"] == 33_500_000_000
    assert four["rows"][2]["bytes"] == two["rows"][2]["bytes"] / 2
    # A draft is on each of them.
    assert four["rows"][1] == two["rows"][1]


def test_a_number_that_does_not_divide_the_heads_is_refused() -> None:
    with pytest.raises(PlanError) as refused:
        planned(QWENS, with_heads(64), sparks=3)
    assert str(refused.value) == (
        "The recipe is for 3 Sparks, but nvidia/Qwen3-235B-A22B-FP4 has 64 attention heads, which cannot be divided "
        "among so many. Set its sparks to one of 1, 2, 4, 8, 16, 32, 64."
    )
    # What its files do not say is no problem.
    assert planned(QWENS, sparks=3)["rows"][0]["bytes"] == 44_666_666_667


def test_of_several_the_plan_of_the_one_with_the_least_room_is_told() -> None:
    plans = [{"lines": [name], "room": room, "needed": 5} for name, room in (("a", 9), ("b", 7), ("c", 8))]
    assert tightest(plans) == ["b", "", "  The other Sparks need the same and have at least as much memory."]
    assert tightest([{"lines": ["a"], "room": None, "needed": 5}, {}]) == ["a"]
    assert tightest([{}]) == []


def test_vllm_gets_its_kv_cache_in_bytes_and_the_fraction_that_its_start_needs() -> None:
    result = planned(ALONE, engine="vllm", context=8_192)
    # 8,192 tokens in blocks of 16, and two blocks; 73.3 GB with weights and 7 GiB of workspace.
    assert result["options"] == {
        "max-num-seqs": 1,
        "max-num-batched-tokens": 8_192,
        "max-model-len": 8_192,
        "kv-cache-memory-bytes": 8_224 * 73_728,
        "gpu-memory-utilization": 0.58,
    }


# The shapes of the checkpoints nvidia/Qwen3.6-35B-A3B-NVFP4 and nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4.
QWEN_HYBRID: dict[str, t.Any] = {
    "name": "nvidia/Qwen3.6-35B-A3B-NVFP4",
    "facts": {
        "weights_bytes": 23_500_000_000,
        **{"layers": 40, "kv_heads": 2, "head_dim": 256, "max_context": 262_144, "prediction_layers": 1},
        **{"attention_layers": 10, "state_layers": 30, "state_values": 32 * 128 * 128},
        **{"convolution_values": 8192, "convolution_width": 4},
    },
}
NEMOTRON: dict[str, t.Any] = {
    "name": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    "facts": {
        "weights_bytes": 80_600_000_000,
        **{"layers": 88, "kv_heads": 2, "head_dim": 128, "max_context": 262_144, "prediction_layers": 1},
        **{"attention_layers": 8, "state_layers": 40, "state_values": 128 * 64 * 128},
        **{"convolution_values": 10_240, "convolution_width": 4},
    },
}
FP8 = {"engine": "vllm", "options": {"kv-cache-dtype": "fp8"}, "draft": {}, "method": "mtp"}


@pytest.mark.parametrize(
    ("target", "drafted", "tokens"),
    # The blocks that were logged on a Spark: eugr/spark-vllm-docker pull request 98.
    [(QWEN_HYBRID, 3, 2144), (NEMOTRON, 2, 8400)],
)
def test_a_block_holds_the_state_of_a_layer(target: dict[str, t.Any], drafted: int, tokens: int) -> None:
    assert block_tokens(read(arguments(FP8, target=target, draft_length=drafted))) == tokens
    # TensorRT-LLM keeps its states elsewhere.
    elsewhere = arguments(target=target, draft={}, method="mtp", draft_length=drafted)
    assert block_tokens(read(elsewhere)) == 32


def test_a_hybrid_model_keeps_keys_and_values_of_its_attention_and_states_of_the_rest() -> None:
    result = planned(FP8, target=QWEN_HYBRID, draft_length=3, context=262_144, concurrency=2)
    # 262,144 + 3 tokens in blocks of 2,144 are 263,712, and one more for each; and three for both. 10 layers and the
    # one that drafts keep 1,024 bytes of a token. 30 layers keep 2,195,456 bytes five times for each of two.
    tokens = 2 * (263_712 + 2_144) + 3 * 2_144
    assert result["rows"][1]["bytes"] == tokens * 11 * 1024 + 2 * 30 * 2_195_456 * 5
    assert result["rows"][1]["name"].startswith("KV cache and states for 2 requests")
    assert result["rows"][2]["bytes"] == 12 * 2**30
    assert (result["verdict"], result["options"]["kv-cache-memory-bytes"]) == ("fits", result["rows"][1]["bytes"])


def test_a_hybrid_model_has_two_blocks_more_than_vllm_counts() -> None:
    # The shape of nvidia/Qwen3.6-27B-NVFP4. By the formulas of vLLM 0.28.0 a request of 262,144 tokens takes 164 blocks
    # of tokens, 15 of states and one more, each of 17 layers.
    facts = {
        **QWEN_HYBRID["facts"],
        **{"layers": 64, "kv_heads": 4, "attention_layers": 16, "state_layers": 48},
        **{"state_values": 48 * 128 * 128, "convolution_values": 10_240},
    }
    target = {"name": "nvidia/Qwen3.6-27B-NVFP4", "facts": facts}
    result = planned(FP8, target=target, draft_length=3, context=262_144, concurrency=1)
    block = 17 * 3_276_800
    assert result["kv_cache_bytes"] - (164 + 15 + 1) * block >= 2 * block


def test_a_smaller_state_takes_half() -> None:
    full, half = (
        planned({**FP8, "options": {"kv-cache-dtype": "fp8", **more}}, target=NEMOTRON, draft_length=1)[
            "kv_cache_bytes"
        ]
        for more in ({}, {"mamba-ssm-cache-dtype": "float16"})
    )
    assert half < full


def test_the_context_that_fits_a_hybrid_model_does() -> None:
    given = {**FP8, "target": NEMOTRON, "draft_length": 3, "concurrency": 16}
    refused = planned(given, context=262_144)
    assert refused["verdict"] == "less_context"
    fitting = refused["fitting_context"]
    assert planned(given, context=fitting)["verdict"] == "fits"


def test_states_of_unknown_size_are_not_counted() -> None:
    facts = {**QWEN_HYBRID["facts"], "state_values": None}
    result = planned(FP8, target={"name": "a/b", "facts": facts}, draft_length=1)
    assert result["verdict"] == "unknown"
    assert "the size of its states" in result["warnings"][0]


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({"method": "mtp"}, 37),
        ({"method": "ngram"}, 36),
        # vLLM's own section.
        ({"method": "", "options": {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}}}, 37),
        ({"method": "mtp", "draft": model("a/assistant", 1, 4, 8, 64, 131_072)}, 40),
        ({"method": "dflash", "draft": model("a/dflash", 1, 5, 8, 64, 131_072)}, 41),
        ({"method": "pard", "draft": model("a/pard", 1, 16, 8, 64, 131_072)}, 52),
    ],
)
def test_the_layers_of_what_drafts_are_in_the_same_pool(changes: dict[str, t.Any], layers: int) -> None:
    request = read(arguments(ALONE, engine="vllm", draft_length=3, **changes))
    assert bytes_per_token(request, 1) == layers * 2048


def test_vllm_may_take_a_fraction_of_all_that_is_usable() -> None:
    options = planned(ALONE, engine="vllm", kv_cache="fraction")["options"]
    assert options["gpu-memory-utilization"] == math.floor(100 * ROOM / TOTAL) / 100
    assert "kv-cache-memory-bytes" not in options
    given = planned(ALONE, engine="vllm", options={"gpu-memory-utilization": 0.5})
    assert set(given["options"]).isdisjoint({"gpu-memory-utilization", "kv-cache-memory-bytes"})


def test_an_explicit_cache_of_vllm_is_counted_in_tokens() -> None:
    result = planned(ALONE, engine="vllm", context=8_192, options={"kv-cache-memory-bytes": 5_000 * 73_728})
    assert result["kv_cache_bytes"] == 5_000 * 73_728
    assert "KV cache of 5,000 tokens" in result["warnings"][0]
