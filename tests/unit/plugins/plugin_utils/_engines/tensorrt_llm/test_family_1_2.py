# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Built, Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import (
    build,
    render,
)

TYPES = "Eagle, DraftTarget, NGram, MTP, AUTO, SaveState, Lookahead, Medusa, UserProvided"
EAGLE = {"decoding_type": "Eagle", "max_draft_len": 5, "speculative_model_dir": "/models/head"}


def built(options: dict[str, t.Any] | None = None, release: str = "1.2.0rc6", **more: t.Any) -> Built:
    return build(Request(release, options=options or {}, **more))


def errors(options: dict[str, t.Any] | None = None, release: str = "1.2.0rc6", **more: t.Any) -> list[str]:
    return [str(error) for error in built(options, release, **more).errors]


def speculation_errors(**changes: t.Any) -> list[str]:
    return errors({"speculative_config": {**EAGLE, **changes}})


@pytest.mark.parametrize(("method", "decoding_type"), [("eagle3", "Eagle"), ("draft_target", "DraftTarget")])
@pytest.mark.parametrize("release", ["1.2.0rc1", "1.2.0rc6", "x/release:spark-single-gpu-dev"])
def test_methods_have_the_spelling_of_the_family(release: str, method: str, decoding_type: str) -> None:
    answer = built(release=release, method=method, draft_model="/models/draft", drafted=4)
    assert (answer.family, answer.errors) == ("1.2", [])
    assert render(answer.options).splitlines()[1:] == [
        "speculative_config:",
        f"  decoding_type: {decoding_type}",
        "  max_draft_len: 4",
        "  speculative_model_dir: /models/draft",
    ]


def test_the_draft_target_options_of_the_playbook_are_accepted() -> None:
    options = {
        "print_iter_log": False,
        "disable_overlap_scheduler": True,
        "speculative_config": {
            "decoding_type": "DraftTarget",
            "max_draft_len": 4,
            "speculative_model_dir": "/opt/Llama-3.1-8B-Instruct-FP4/",
        },
        "kv_cache_config": {"enable_block_reuse": False, "free_gpu_memory_fraction": 0.9},
    }
    for release in ("1.2.0rc1", "1.2.0rc6", "spark-single-gpu-dev"):
        assert errors(options, release) == []


def test_what_a_method_lacks_has_the_name_of_its_parameter() -> None:
    assert errors(method="eagle3") == [
        "draft_model: is missing; Eagle needs a draft model",
        "max_draft_len: is missing; Eagle needs a draft length",
    ]


@pytest.mark.parametrize(
    ("decoding_type", "expected"),
    [
        ("Eagle3", f"must be one of {TYPES}, not 'Eagle3'; did you mean 'Eagle'?"),
        ("Draft_Target", f"must be one of {TYPES}, not 'Draft_Target'; did you mean 'DraftTarget'?"),
        ("User_Provided", f"must be one of {TYPES}, not 'User_Provided'; did you mean 'UserProvided'?"),
        ("SA", "'SA' is of a newer release than release family 1.2"),
        ("PARD", "'PARD' is of a newer release than release family 1.2"),
    ],
)
def test_spellings_of_1_3(decoding_type: str, expected: str) -> None:
    assert speculation_errors(decoding_type=decoding_type) == [f"speculative_config.decoding_type: {expected}"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # The server itself lets these through to a later failure.
        ({"max_draft_len": "5"}, ["max_draft_len: must be a whole number (at least 0), not the text '5'"]),
        ({"eagle3_one_model": "no"}, ["eagle3_one_model: must be true or false, not the text 'no'"]),
        ({"max_draft_len": 0}, ["max_draft_len: must be at least 1 for Eagle"]),
        (
            {"speculative_model": "/m"},
            ["speculative_model: is not a key of release family 1.2; use speculative_model_dir"],
        ),
        ({"sa_config": {}}, ["sa_config: is a key of a newer release than release family 1.2"]),
        ({"eagle3_model_arch": "llama3"}, ["eagle3_model_arch: is a key of a newer release than release family 1.2"]),
        ({"max_concurrency": 8}, []),
        ({"dynamic_tree_max_topK": 4, "max_total_draft_tokens": 64}, []),
        ({"use_dynamic_tree": True}, ["dynamic_tree_max_topK: is missing; a dynamic tree needs its width"]),
        ({"draft_len_schedule": {"1": 5, "8": 2}}, []),
        ({"draft_len_schedule": {"4": 5}}, ["draft_len_schedule: must have the batch size 1"]),
        (
            {"draft_len_schedule": {"1": 4}},
            ["draft_len_schedule.1: must equal max_draft_len (5) at the smallest batch size, not 4"],
        ),
    ],
)
def test_eagle(changes: dict[str, t.Any], expected: list[str]) -> None:
    assert speculation_errors(**changes) == [f"speculative_config.{line}" for line in expected]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"speculative_config": None}, "speculative_config: must be a mapping, not null"),
        ({"moe_config": {"backend": "AUTO"}}, "moe_config.backend: 'AUTO' is of a newer release than {family}"),
        ({"hf_revision": "main"}, "hf_revision: is not a key of {family}; use revision"),
        ({"sleep_config": {}}, "sleep_config: is a key of a newer release than {family}"),
        ({"tool_parser": "qwen3"}, "tool_parser: is a key of a newer release than {family}"),
        (
            {"scheduler_config": {"waiting_queue_policy": "fcfs"}},
            "scheduler_config.waiting_queue_policy: is a key of a newer release than {family}",
        ),
        (
            {"cache_transceiver_config": {"backend": "MOONCAKE"}},
            "cache_transceiver_config.backend: 'MOONCAKE' is of a newer release than {family}",
        ),
        (
            {"sparse_attention_config": {"algorithm": "skip_softmax"}},
            "sparse_attention_config.algorithm: 'skip_softmax' is of a newer release than {family}",
        ),
        (
            {"speculative_config": {"decoding_type": "NGram", "max_draft_len": 4}},
            "speculative_config.max_matching_ngram_size: is missing",
        ),
        (
            {"speculative_config": {"decoding_type": "MTP", "BEGIN_THINKING_PHASE_TOKEN": 1}},
            "speculative_config.BEGIN_THINKING_PHASE_TOKEN: is no key of 1.2.0rc6 any more; remove it",
        ),
        ({"cp_config": None}, "cp_config: must be a mapping, not null"),
        (
            {"cuda_graph_config": {"batch_sizes": [1, 2], "max_batch_size": 2}},
            "cuda_graph_config.batch_sizes: excludes max_batch_size; keep one of them",
        ),
        (
            {"speculative_config": {"decoding_type": "Lookahead"}},
            "speculative_config.decoding_type: Lookahead can not be served: it does not support the backend pytorch",
        ),
    ],
)
def test_what_differs_from_1_3(options: dict[str, t.Any], expected: str) -> None:
    assert errors(options) == [expected.format(family="release family 1.2")]


def test_all_of_a_dynamic_batch_must_be_given() -> None:
    assert errors({"scheduler_config": {"dynamic_batch_config": {"enable_batch_size_tuning": True}}}) == [
        "scheduler_config.dynamic_batch_config.enable_max_num_tokens_tuning: is missing",
        "scheduler_config.dynamic_batch_config.dynamic_batch_moving_average_window: is missing",
    ]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"env_overrides": {"A": "1"}}, "env_overrides"),
        ({"nvfp4_gemm_config": {"allowed_backends": ["cutlass"]}}, "nvfp4_gemm_config"),
        ({"speculative_config": {**EAGLE, "draft_len_schedule": {"1": 5}}}, "speculative_config.draft_len_schedule"),
        (
            {"cache_transceiver_config": {"kv_transfer_sender_future_timeout_ms": 1}},
            "cache_transceiver_config.kv_transfer_sender_future_timeout_ms",
        ),
        (
            {"speculative_config": {"decoding_type": "MTP", "begin_thinking_phase_token": 1}},
            "speculative_config.begin_thinking_phase_token",
        ),
    ],
)
def test_keys_that_came_within_the_family(options: dict[str, t.Any], path: str) -> None:
    assert errors(options) == []
    assert errors(options, "1.2.0rc1") == [f"{path}: is not a key of 1.2.0rc1 yet; later releases have it"]
    answer = built(options, "spark-single-gpu-dev")
    assert answer.errors == []
    assert f"{path}: the oldest releases of family 1.2 do not have this key" in map(str, answer.warnings)


def test_a_spelling_that_ended_within_the_family() -> None:
    assert errors({"speculative_config": {"decoding_type": "MTP", "BEGIN_THINKING_PHASE_TOKEN": 1}}, "1.2.0rc1") == []


def test_two_models_are_no_matter_of_age() -> None:
    assert built({"speculative_config": {**EAGLE, "eagle3_one_model": False}}).warnings == []


def test_a_cache_without_a_fraction_is_nvidias_own_draft_target_file() -> None:
    answer = built({"kv_cache_config": {"enable_block_reuse": False}}, "1.2.0rc6")
    assert answer.errors == []
    assert "kv_cache_config.free_gpu_memory_fraction: is missing" in str(answer.warnings[0])
