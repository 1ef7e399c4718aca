# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.spelling import nearest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines import methods
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Built, Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm import spelling
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import (
    build,
    render,
)

RELEASE = "1.3.0rc12"
HEAD = (
    "/cache/huggingface/hub/models--nvidia--gpt-oss-120b-Eagle3-long-context/snapshots"
    "/633caf45f31288cbb70ee237f7c939db707ecc94"
)
EAGLE = {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/models/head"}
TYPES = (
    "Eagle3, Draft_Target, NGram, MTP, PARD, SA, DFlash, DSpark, AUTO, SaveState, Eagle, Lookahead, Medusa,"
    " User_Provided"
)

SINGLE_EAGLE3: dict[str, t.Any] = {
    "kv_cache_config": {"enable_block_reuse": False, "free_gpu_memory_fraction": 0.9},
    "cuda_graph_config": {"max_batch_size": 1},
    "enable_attention_dp": False,
    "disable_overlap_scheduler": False,
    "enable_autotuner": False,
    "max_batch_size": 1,
}

SINGLE_EAGLE3_TEXT = f"""\
# Managed by Ansible, module dgx_spark.speculative.trtllm_config; local edits are overwritten.
revision: 0123abc
enable_attention_dp: false
max_batch_size: 1
disable_overlap_scheduler: false
enable_autotuner: false
kv_cache_config:
  free_gpu_memory_fraction: 0.9
  enable_block_reuse: false
cuda_graph_config:
  max_batch_size: 1
speculative_config:
  decoding_type: Eagle3
  max_draft_len: 5
  speculative_model: {HEAD}
"""


def built(options: dict[str, t.Any] | None = None, **more: t.Any) -> Built:
    return build(Request(**{"release": RELEASE, "options": options or {}, **more}))


def errors(options: dict[str, t.Any] | None = None, **more: t.Any) -> list[str]:
    return [str(error) for error in built(options, **more).errors]


def of_rules(answer: Built) -> list[str]:
    """Return the warnings but for the issue of requests, which most drafts have."""
    of_requests = [f"{issue.path}: {issue}" for issue in answer.known_issues if issue.refuse]
    return [str(warning) for warning in answer.warnings if str(warning) not in of_requests]


def warnings(options: dict[str, t.Any] | None = None, **more: t.Any) -> list[str]:
    answer = built(options, **more)
    assert answer.errors == []
    return of_rules(answer)


def speculation_errors(**changes: t.Any) -> list[str]:
    return errors({"speculative_config": {**EAGLE, **changes}})


# The recipes


def test_one_spark_with_eagle3_is_rendered_exactly() -> None:
    answer = built(SINGLE_EAGLE3, method="eagle3", draft_model=HEAD, drafted=5, revision="0123abc")
    assert (answer.errors, of_rules(answer)) == ([], [])
    assert render(answer.options) == SINGLE_EAGLE3_TEXT


def test_one_spark_with_a_draft_model_is_rendered_exactly() -> None:
    options = {
        "print_iter_log": False,
        "disable_overlap_scheduler": True,
        "max_batch_size": 1,
        "kv_cache_config": {"free_gpu_memory_fraction": 0.9, "enable_block_reuse": False},
    }
    answer = built(options, method="draft_target", draft_model="nvidia/Llama-3.1-8B-Instruct-FP4", drafted=4)
    assert (answer.errors, of_rules(answer)) == ([], [])
    assert render(answer.options).splitlines()[1:] == [
        "max_batch_size: 1",
        "disable_overlap_scheduler: true",
        "print_iter_log: false",
        "kv_cache_config:",
        "  free_gpu_memory_fraction: 0.9",
        "  enable_block_reuse: false",
        "speculative_config:",
        "  decoding_type: Draft_Target",
        "  max_draft_len: 4",
        "  speculative_model: nvidia/Llama-3.1-8B-Instruct-FP4",
    ]


@pytest.mark.parametrize("release", ["1.2.0rc6", RELEASE])
@pytest.mark.parametrize(
    ("method", "section"),
    [
        ("mtp", {"decoding_type": "MTP", "num_nextn_predict_layers": 3}),
        ("ngram", {"decoding_type": "NGram", "max_draft_len": 3, "max_matching_ngram_size": 2}),
    ],
)
def test_methods_without_a_draft_model(release: str, method: str, section: dict[str, t.Any]) -> None:
    answer = built(release=release, method=method, drafted=3)
    assert (answer.errors, answer.options["speculative_config"]) == ([], section)


def test_two_sparks_share_the_tensors() -> None:
    answer = built({"max_num_tokens": 1024}, method="eagle3", draft_model="/m", drafted=3, world_size=2)
    assert answer.errors == []
    assert answer.options["tensor_parallel_size"] == 2


def test_the_order_of_the_input_does_not_matter() -> None:
    reordered = dict(reversed(list(SINGLE_EAGLE3.items())))
    assert render(built(reordered).options) == render(built(SINGLE_EAGLE3).options)


def test_nothing_at_all_is_still_a_mapping() -> None:
    assert yaml.safe_load(render(built().options)) == {}


def test_method_none_ignores_the_draft() -> None:
    assert built(method="none", draft_model="/m", drafted=5).options == {}


def test_awkward_values_survive_the_file() -> None:
    options = {
        "revision": "1e5",
        "model_kwargs": {"b": ["no", 1.5e-5, None], "a": "x: #y\n" + "long " * 100},
        "cuda_graph_config": None,
    }
    assert yaml.safe_load(render(built(options).options)) == options


def test_a_schedule_that_came_as_json_gets_its_numbers_back_in_order() -> None:
    answer = built({"speculative_config": {**EAGLE, "draft_len_schedule": {"32": 1, "8": 2, "4": 5}}})
    assert answer.errors == []
    assert list(answer.options["speculative_config"]["draft_len_schedule"].items()) == [(4, 5), (8, 2), (32, 1)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"hf_revision": "main"}, {"revision": "main"}),
        (
            {"speculative_config": {"decoding_type": "PARD", "max_draft_len": 1, "speculative_model_dir": "/m"}},
            {"speculative_config": {"decoding_type": "PARD", "max_draft_len": 1, "speculative_model": "/m"}},
        ),
        ({"load_format": "DUMMY"}, {"load_format": "dummy"}),
        ({"cp_config": {"cp_type": "helix"}}, {"cp_config": {"cp_type": "HELIX"}}),
        ({"moe_config": {"load_balancer": "/lb.yml"}}, {"moe_config": {"load_balancer": "/lb.yml"}}),
        ({"batch_wait_timeout_ms": 1}, {"batch_wait_timeout_ms": 1}),
    ],
)
def test_other_spellings_are_written_in_one_way(given: dict[str, t.Any], expected: dict[str, t.Any]) -> None:
    answer = built(given)
    assert (answer.errors, answer.options) == ([], expected)


# Keys and values


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_bach_size": 1}, "max_bach_size: is not a key of release family 1.3; did you mean 'max_batch_size'?"),
        ({"zzz": 1}, "zzz: is not a key of release family 1.3"),
        (
            {"free_gpu_memory_fraction": 0.9},
            "free_gpu_memory_fraction: is not a key of release family 1.3 here;"
            " did you mean 'kv_cache_config.free_gpu_memory_fraction'?",
        ),
        (
            {"moe_config": {"stream_interval": 2}},
            "moe_config.stream_interval: is not a key of release family 1.3 here; did you mean 'stream_interval'?",
        ),
        (
            {"use_torch_sampler": True},
            "use_torch_sampler: is not a key of release family 1.3; use sampler_type: TorchSampler",
        ),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype: is not a key of release family 1.3; use kv_cache_config.dtype"),
        (
            {"prometheus_metrics_config": {}},
            "prometheus_metrics_config: is a key of a newer release than release family 1.3",
        ),
        (
            {"speculative_config": {**EAGLE, "acceptance_rate_threshold": 0.5}},
            "speculative_config.acceptance_rate_threshold: is not a key of 1.3.0rc12 yet; later releases have it",
        ),
        (
            {"speculative_config": {**EAGLE, "draft_model": "/m"}},
            "speculative_config.draft_model: is not a key of release family 1.3; use speculative_model",
        ),
        (
            {"speculative_config": {**EAGLE, "is_keep_all": True}},
            "speculative_config.is_keep_all: is a key of decoding_type NGram only",
        ),
        (
            {"speculative_config": {**EAGLE, "max_batch_size": 1}},
            "speculative_config.max_batch_size: is not a key of release family 1.3 here;"
            " did you mean 'max_batch_size'?",
        ),
        (
            {"speculative_config": {"decoding_type": "MTP", "BEGIN_THINKING_PHASE_TOKEN": 1}},
            "speculative_config.BEGIN_THINKING_PHASE_TOKEN: is not a key of release family 1.3;"
            " did you mean 'begin_thinking_phase_token'?",
        ),
        ({"quant_config": {}}, "quant_config: remove it: it exists for the TensorRT backend only"),
        ({"_mpi_session": 1}, "_mpi_session: remove it: it is a Python object, which a file can not hold"),
        ({"hf_revision": "a", "revision": "a"}, "hf_revision: is another name of revision; give only one of them"),
        (
            {"kv_connector_config": {"connector_module": "a", "connector_worker_class": "b"}},
            "kv_connector_config.connector_scheduler_class: is missing",
        ),
    ],
)
def test_keys(options: dict[str, t.Any], expected: str) -> None:
    assert errors(options) == [expected]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_batch_size": True}, "max_batch_size: must be a whole number (at least 1), not true"),
        ({"max_batch_size": "8"}, "max_batch_size: must be a whole number (at least 1), not the text '8'"),
        ({"max_batch_size": 0}, "max_batch_size: must be a whole number (at least 1), not 0"),
        ({"enable_autotuner": 0}, "enable_autotuner: must be true or false, not 0"),
        ({"revision": 1234567}, "revision: must be a text, not 1234567"),
        ({"kv_cache_config": None}, "kv_cache_config: must be a mapping, not null"),
        ({"pp_partition": [1, "2"]}, "pp_partition[1]: must be a whole number, not the text '2'"),
        ({"video_pruning_rate": 1}, "video_pruning_rate: must be a number (at least 0, below 1), not 1"),
        (
            {"moe_config": {"backend": "CUTLAS"}},
            "moe_config.backend: must be one of AUTO, CUTLASS, CUTEDSL, WIDEEP, TRTLLM, DEEPGEMM, DENSEGEMM, VANILLA,"
            " TRITON, not 'CUTLAS'; did you mean 'CUTLASS'?",
        ),
        (
            {"moe_config": {"backend": "MARLIN"}},
            "moe_config.backend: 'MARLIN' is of a newer release than release family 1.3",
        ),
        (
            {"moe_config": {"load_balancer": {"num_slots": "x"}}},
            "moe_config.load_balancer.num_slots: must be a whole number, not the text 'x'",
        ),
        ({"moe_config": {"load_balancer": 5}}, "moe_config.load_balancer: must be a mapping or a text, not 5"),
        (
            {"nvfp4_gemm_config": {"allowed_backends": []}},
            "nvfp4_gemm_config.allowed_backends: must not be an empty list",
        ),
        (
            {"env_overrides": {"A": None}},
            "env_overrides.A: must be true or false or a text or a whole number or a number, not null",
        ),
        (
            {"speculative_config": {**EAGLE, "eagle_choices": "[0"}},
            "speculative_config.eagle_choices: must be a list of lists or the text of one, not '[0'",
        ),
        (
            {"speculative_config": {"decoding_type": "MTP", "max_draft_len": 3}},
            "speculative_config.max_draft_len: is not a key of 1.3.0rc12 yet; write num_nextn_predict_layers",
        ),
        (
            {"speculative_config": {"max_draft_len": 5}},
            f"speculative_config.decoding_type: is missing; it must be one of {TYPES}",
        ),
        (
            {"speculative_config": {"decoding_type": "DraftTarget"}},
            f"speculative_config.decoding_type: must be one of {TYPES}, not 'DraftTarget';"
            " did you mean 'Draft_Target'?",
        ),
        (
            {"speculative_config": {"decoding_type": 3}},
            f"speculative_config.decoding_type: must be one of {TYPES}, not 3",
        ),
        (
            {"speculative_config": {"decoding_type": "DFlash", "max_draft_len": 7}},
            "speculative_config.decoding_type: 'DFlash' is not a value of 1.3.0rc12 yet; later releases have it",
        ),
        (
            {"sparse_attention_config": {"algorithm": "dsa", "page_size": 4}},
            "sparse_attention_config.page_size: is a key of algorithm rocket only",
        ),
    ],
)
def test_values(options: dict[str, t.Any], expected: str) -> None:
    assert errors(options) == [expected]


def test_all_errors_come_at_once() -> None:
    options = {
        "enable_autotunner": False,
        "max_batch_size": "1",
        "kv_cache_config": {"dtype": "fp9"},
        "cuda_graph_config": {"batch_sizes": [1, 2], "max_batch_size": 4},
        "speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 0},
    }
    assert errors(options) == [
        "enable_autotunner: is not a key of release family 1.3; did you mean 'enable_autotuner'?",
        "max_batch_size: must be a whole number (at least 1), not the text '1'",
        "kv_cache_config.dtype: must be one of auto, fp8, nvfp4, bfloat16, float16, float32, int64, int32, int8, bool,"
        " not 'fp9'; did you mean 'fp8'?",
        "speculative_config.speculative_model: is missing; Eagle3 needs a draft model",
        "speculative_config.max_draft_len: must be at least 1 for Eagle3",
        "cuda_graph_config.batch_sizes: its largest size must equal max_batch_size (4), not 2",
    ]


# Rules


@pytest.mark.parametrize("method", ["eagle3", "draft_target"])
def test_a_method_needs_a_draft_model_and_a_length(method: str) -> None:
    name = {"eagle3": "Eagle3", "draft_target": "Draft_Target"}[method]
    assert errors(method=method, draft_model="") == [
        f"draft_model: is missing; {name} needs a draft model",
        f"max_draft_len: is missing; {name} needs a draft length",
    ]
    assert errors(method=method, draft_model="/m", drafted=0) == [f"max_draft_len: must be at least 1 for {name}"]
    assert errors(method=method, draft_model="/m", drafted=-1) == [
        "max_draft_len: must be a whole number (at least 0), not -1"
    ]


@pytest.mark.parametrize("decoding_type", ["NGram", "SA", "PARD"])
def test_types_without_a_draft_model_need_a_length(decoding_type: str) -> None:
    assert errors({"speculative_config": {"decoding_type": decoding_type}}) == [
        f"speculative_config.max_draft_len: is missing; {decoding_type} needs a draft length"
    ]


def test_a_method_has_further_keys_and_decides_its_own() -> None:
    method: dict[str, t.Any] = {"method": "mtp", "drafted": 3}
    assert built({"speculative_config": {"allow_advanced_sampling": True}}, **method).options["speculative_config"] == {
        "decoding_type": "MTP",
        "num_nextn_predict_layers": 3,
        "allow_advanced_sampling": True,
    }
    why = "it follows from method mtp and its inputs"
    assert errors({"speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": 3}}, **method) == [
        f"speculative_config: remove decoding_type: {why}",
        f"speculative_config: remove num_nextn_predict_layers: {why}",
    ]
    assert errors({"speculative_config": [1]}, **method) == ["speculative_config: must be a mapping, not a list"]
    ngram = built({"speculative_config": {"max_matching_ngram_size": 4}}, method="ngram", drafted=5)
    assert ngram.options["speculative_config"]["max_matching_ngram_size"] == 4
    assert ngram.errors == []


def test_without_speculation_there_is_no_section() -> None:
    assert errors({"speculative_config": EAGLE}, method="none") == [
        "speculative_config: conflicts with method none. Remove it to serve without speculation, or "
        "remove method to use it"
    ]
    assert errors({"speculative_config": None}, method="none") == []


def test_a_section_of_ones_own_is_written_as_it_is() -> None:
    section = {"decoding_type": "NGram", "max_draft_len": 4}
    answer = built({"speculative_config": section}, draft_model="/m", drafted=9)
    assert (answer.method, answer.errors, answer.options) == ("raw", [], {"speculative_config": section})
    assert errors({"speculative_config": [1]}) == ["speculative_config: must be a mapping, not a list"]


def test_the_draft_model_completes_a_section_that_needs_one() -> None:
    section = {"decoding_type": "Eagle3", "max_draft_len": 3, "eagle3_layers_to_capture": [1, 2]}
    answer = built({"speculative_config": section}, draft_model="/m")
    assert answer.options["speculative_config"]["speculative_model"] == "/m"
    named = {**section, "speculative_model_dir": "/mine"}
    answer = built({"speculative_config": named}, draft_model="/m")
    assert answer.options["speculative_config"]["speculative_model"] == "/mine"
    assert errors({"speculative_config": section}) == [
        "speculative_config.speculative_model: is missing; Eagle3 needs a draft model"
    ]


@pytest.mark.parametrize(
    ("request_", "method"),
    [
        ({}, "none"),
        ({"method": "none"}, "none"),
        ({"method": "eagle3"}, "eagle3"),
        ({"options": {"speculative_config": {}}}, "raw"),
    ],
)
def test_the_method_that_is_told(request_: dict[str, t.Any], method: str) -> None:
    assert build(Request(RELEASE, **request_)).method == method


def test_revision_is_given_once() -> None:
    assert built({"revision": "a"}, revision="a").options == {"revision": "a"}
    assert errors({"hf_revision": "b"}, revision="a") == [
        "hf_revision: is given as the parameter revision too, with another value"
    ]


@pytest.mark.parametrize(
    ("decoding_type", "reason"),
    [
        ("Medusa", "it does not support the backend pytorch"),
        ("Lookahead", "it does not support the backend pytorch"),
        ("User_Provided", "it needs Python objects, which a file can not hold"),
    ],
)
def test_types_that_are_not_served(decoding_type: str, reason: str) -> None:
    assert errors({"speculative_config": {"decoding_type": decoding_type}}) == [
        f"speculative_config.decoding_type: {decoding_type} can not be served: {reason}"
    ]


SCHEDULE = "speculative_config.draft_len_schedule"


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({}, [f"{SCHEDULE}: must not be empty"]),
        ({"4": 5, "8": 2}, []),
        ({"4": 4}, [f"{SCHEDULE}.4: must equal max_draft_len (5) at the smallest batch size, not 4"]),
        ({"4": 5, "8": 6}, [f"{SCHEDULE}.8: must not exceed max_draft_len (5), but is 6"]),
        ({"0": 5}, [f"{SCHEDULE}.0: the batch size must be at least 1"]),
        ({"4": 5, "8": -1}, [f"{SCHEDULE}.8: the draft length must be at least 0, not -1"]),
        ({"x": 5}, [f"{SCHEDULE}.x: the key must be a whole number"]),
        ({"4": "5"}, [f"{SCHEDULE}.4: must be a whole number, not the text '5'"]),
    ],
)
def test_draft_length_schedule(schedule: dict[str, t.Any], expected: list[str]) -> None:
    assert speculation_errors(draft_len_schedule=schedule) == expected


def test_concurrency_and_schedule() -> None:
    assert speculation_errors(max_concurrency=8) == []
    assert speculation_errors(max_concurrency=8, draft_len_schedule={"4": 5}) == [
        "speculative_config.max_concurrency: excludes draft_len_schedule; keep one of them"
    ]
    assert speculation_errors(max_concurrency=8, decoding_type="Eagle") == [
        "speculative_config.max_concurrency: is refused with decoding_type Eagle; write decoding_type Eagle3"
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"use_dynamic_tree": True}, ["dynamic_tree_max_topK: is missing; a dynamic tree needs its width"]),
        ({"dynamic_tree_max_topK": 0}, ["dynamic_tree_max_topK: must be at least 1, not 0"]),
        ({"dynamic_tree_max_topK": 4, "max_total_draft_tokens": 20}, []),
        (
            {"dynamic_tree_max_topK": 4, "max_total_draft_tokens": 21},
            [
                "max_total_draft_tokens:"
                " must be from 5 (max_draft_len) to 20 (dynamic_tree_max_topK times max_draft_len), not 21"
            ],
        ),
        (
            {"use_dynamic_tree": True, "dynamic_tree_max_topK": 4, "eagle_choices": [[0]]},
            ["eagle_choices: is a static tree, which excludes use_dynamic_tree"],
        ),
        (
            {"use_dynamic_tree": True, "dynamic_tree_max_topK": 4, "speculative_model": HEAD},
            ["use_dynamic_tree: the dynamic tree does not work with gpt-oss and DeepSeek models"],
        ),
    ],
)
def test_dynamic_tree(changes: dict[str, t.Any], expected: list[str]) -> None:
    assert speculation_errors(**changes) == [f"speculative_config.{line}" for line in expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"max_matching_ngram_size": 0},
            "max_matching_ngram_size: must be -1 (the longest match) or at least 1, not 0",
        ),
        (
            {"max_matching_ngram_size": 65, "enable_global_pool": True},
            "max_matching_ngram_size: must be at most 64 with enable_global_pool, not 65",
        ),
        ({"global_pool_size": 64}, "global_pool_size: needs enable_global_pool: true"),
        (
            {"global_pool_size": 4, "enable_global_pool": True},
            "global_pool_size: must be at least max_batch_size (8), not 4",
        ),
    ],
)
def test_suffix_automaton(changes: dict[str, t.Any], expected: str) -> None:
    speculation = {"decoding_type": "SA", "max_draft_len": 4, **changes}
    assert errors({"max_batch_size": 8, "speculative_config": speculation}) == [f"speculative_config.{expected}"]


@pytest.mark.parametrize(
    ("options", "world_size", "expected"),
    [
        ({"tensor_parallel_size": 2}, 2, []),
        ({"tensor_parallel_size": 2}, 1, ["tensor_parallel_size: {} 2 x 1 x 1 = 2, but world_size is 1"]),
        ({"tensor_parallel_size": 1}, 2, ["tensor_parallel_size: {} 1 x 1 x 1 = 1, but world_size is 2"]),
        ({"pipeline_parallel_size": 2}, 2, []),
        (
            {"pipeline_parallel_size": 2, "tensor_parallel_size": 2},
            2,
            ["tensor_parallel_size: {} 2 x 2 x 1 = 4, but world_size is 2"],
        ),
        ({}, 0, ["world_size: must be at least 1, not 0"]),
        (
            {"tensor_parallel_size": "2"},
            2,
            ["tensor_parallel_size: must be a whole number (at least 1), not the text '2'"],
        ),
    ],
)
def test_parallel_sizes(options: dict[str, t.Any], world_size: int, expected: list[str]) -> None:
    sizes = "tensor, pipeline and context parallel size are"
    assert errors(options, world_size=world_size) == [line.format(sizes) for line in expected]


def test_no_pipeline_with_speculation() -> None:
    assert errors({"pipeline_parallel_size": 2, "speculative_config": EAGLE}, world_size=2) == [
        "pipeline_parallel_size: must be 1 with speculative decoding, not 2"
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"cuda_graph_config": {"batch_sizes": [1, 2], "max_batch_size": 4}},
            "cuda_graph_config.batch_sizes: its largest size must equal max_batch_size (4), not 2",
        ),
        (
            {"peft_cache_config": {"lora_prefetch_dir": "/lora"}},
            "peft_cache_config.lora_prefetch_dir: remove it: the server does not support it",
        ),
        ({"ray_worker_extension_cls": "a.B"}, "ray_worker_extension_cls: needs orchestrator_type: ray"),
        (
            {"layer_wise_benchmarks_config": {"calibration_mode": "COLLECT"}},
            "layer_wise_benchmarks_config.calibration_file_path: is missing; calibration_mode COLLECT needs it",
        ),
        (
            {"attention_dp_config": {"enable_balance": True, "timeout_iters": -1}},
            "attention_dp_config.timeout_iters: must be at least 0 with enable_balance",
        ),
    ],
)
def test_rules_inside_a_section(options: dict[str, t.Any], expected: str) -> None:
    assert errors(options) == [expected]


def test_helix_blocks_agree() -> None:
    options = {"context_parallel_size": 2, "cp_config": {"cp_type": "HELIX", "tokens_per_block": 64}}
    assert errors(options, world_size=2) == [
        "cp_config.tokens_per_block: must equal kv_cache_config.tokens_per_block (32), not 64"
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"max_batch_size": 1, "cuda_graph_config": {"max_batch_size": 8}},
            "cuda_graph_config.max_batch_size: 8 exceeds max_batch_size (1); the larger graphs only cost memory",
        ),
        (
            {"max_batch_size": 4, "cuda_graph_config": {"batch_sizes": [1, 8]}},
            "cuda_graph_config.batch_sizes: 8 exceeds max_batch_size (4); the larger graphs only cost memory",
        ),
        (
            {"kv_cache_config": {"enable_block_reuse": False}},
            "kv_cache_config.free_gpu_memory_fraction: is missing, so the server takes its own default;"
            " write it to be sure of the share",
        ),
        (
            {"kv_cache_config": {"free_gpu_memory_fraction": 0.95}},
            "kv_cache_config.free_gpu_memory_fraction: 0.95 is more than 0.9;"
            " on a GB10 the system lives in the same memory and may run out of it",
        ),
        (
            {"speculative_config": {**EAGLE, "decoding_type": "Eagle"}},
            "speculative_config.decoding_type: Eagle is treated as Eagle3; write Eagle3",
        ),
        (
            {"speculative_config": {**EAGLE, "eagle3_one_model": False}},
            "speculative_config.eagle3_one_model: drafting as two models is deprecated and goes with release 1.4",
        ),
        (
            {"speculative_config": {**EAGLE, "dynamic_tree_max_topK": 4}},
            "speculative_config.use_dynamic_tree:"
            " the dynamic tree does not work with models of sliding-window or MLA attention",
        ),
        (
            {"speculative_config": {"decoding_type": "SaveState", "output_directory": "/tmp/x"}},
            "speculative_config.decoding_type: SaveState collects data to train a draft model; it does not speculate",
        ),
        ({"model": "a/b"}, "model: it silently replaces the model named on trtllm-serve's command line"),
        (
            {"sampler_type": "TorchSampler"},
            "sampler_type: it is deprecated: TorchSampler becomes the only sampler",
        ),
    ],
)
def test_advice(options: dict[str, t.Any], expected: str) -> None:
    assert warnings(options) == [expected]


@pytest.mark.parametrize(
    ("word", "expected"), [("draft-target", "Draft_Target"), ("eagle3", "Eagle3"), ("Ngrams", "NGram"), ("xyz", None)]
)
def test_nearest(word: str, expected: str | None) -> None:
    assert nearest(word, ["Eagle", "Eagle3", "Draft_Target", "NGram"]) == expected


# A release that is newer than what the rules were written for


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"moe_config": {"backend": "MARLIN"}}, "moe_config.backend: 'MARLIN' is not known here; the image decides"),
        ({"telemetry_config": {"disabled": True}}, "telemetry_config: is not known here; the image decides"),
        ({"cuda_graph_config": {"mode": "decode"}}, "cuda_graph_config.mode: is not known here; the image decides"),
        ({"quite_another_thing": [1]}, "quite_another_thing: is not known here; the image decides"),
    ],
)
def test_what_only_a_newer_release_may_have_is_left_to_the_image(options: dict[str, t.Any], told: str) -> None:
    assert warnings(options, release="1.3.0rc29")[1:] == [told]
    assert built(options, release="1.3.0rc29").options == options


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_batch_sise": 1}, "max_batch_sise: is not a key of release family 1.3; did you mean 'max_batch_size'?"),
        ({"tp_size": 2}, "tp_size: is not a key of release family 1.3; use tensor_parallel_size"),
        ({"moe_config": {"backend": "CUTLAS"}}, "moe_config.backend: must be one of {backends}, not 'CUTLAS'; did you"),
        (
            {"moe_config": {"free_gpu_memory_fraction": 0.5}},
            "moe_config.free_gpu_memory_fraction: is not a key of release family 1.3 here; did you mean"
            " 'kv_cache_config.free_gpu_memory_fraction'?",
        ),
    ],
)
def test_a_misspelling_is_none_in_a_newer_release_either(options: dict[str, t.Any], expected: str) -> None:
    backends = "AUTO, CUTLASS, CUTEDSL, WIDEEP, TRTLLM, DEEPGEMM, DENSEGEMM, VANILLA, TRITON"
    (error,) = errors(options, release="1.3.0rc29")
    assert error.startswith(expected.format(backends=backends))


DFLASH = {"decoding_type": "DFlash", "max_draft_len": 7, "speculative_model": "/m"}


@pytest.mark.parametrize("release", ["1.3.0rc29", "1.4.0rc4"])
@pytest.mark.parametrize(
    "section",
    [
        {**EAGLE, "use_rejection_sampling": True, "advanced_sampling_mode": "no_topk", "enable_penalty": False},
        {"decoding_type": "MTP", "max_draft_len": 3, "use_dynamic_tree": True, "dynamic_tree_max_topK": 2},
        {"decoding_type": "PARD", "max_draft_len": 4, "speculative_model": "/m", "sa_config": {"threshold": 4}},
        {"decoding_type": "SA", "max_draft_len": 4, "acceptance_rate_threshold": 0.5},
        {**DFLASH, "attention_backend": "TRTLLM", "target_layer_ids": [1, 2]},
        {**DFLASH, "decoding_type": "DSpark", "block_size": 7, "markov_head_type": "gated"},
    ],
    ids=lambda section: str(section["decoding_type"]),
)
def test_the_speculation_of_newer_releases_is_known(section: dict[str, t.Any], release: str) -> None:
    answer = built({"speculative_config": section}, release=release)
    assert answer.errors == []
    assert answer.options["speculative_config"] == section


@pytest.mark.parametrize("section", [EAGLE, {"decoding_type": "MTP", "max_draft_len": 3}, DFLASH])
def test_a_made_up_key_of_the_speculation_is_refused(section: dict[str, t.Any]) -> None:
    options = {"speculative_config": {**section, "quite_another_thing": 1}}
    expected = "speculative_config.quite_another_thing: is not a key of release family 1.3"
    assert errors(options, release="1.3.0rc29") == [expected]
    # Of what was not read, the image decides.
    assert errors(options, release="1.4.0rc5") == []


@pytest.mark.parametrize(
    ("section", "since"),
    [
        ({**EAGLE, "enable_penalty": True}, "1.3.0rc27"),
        ({**DFLASH, "attention_backend": "VANILLA"}, "1.3.0rc27"),
    ],
)
def test_what_a_release_in_between_may_lack_is_left_to_the_image(section: dict[str, t.Any], since: str) -> None:
    options = {"speculative_config": section}
    assert errors(options) != []
    assert errors(options, release="1.3.0rc20") == []
    assert any(since in warning for warning in warnings(options, release="1.3.0rc20"))
    assert errors(options, release=since) == []


@pytest.mark.parametrize(
    ("section", "key"),
    [
        *((EAGLE, key) for key in ("acceptance_window", "acceptance_length_threshold")),
        *((EAGLE, key) for key in ("eagle3_one_model", "greedy_sampling", "posterior_threshold")),
        ({"decoding_type": "MTP", "mtp_eagle_one_model": True}, "mtp_eagle_one_model"),
    ],
)
def test_what_a_release_has_no_more_is_refused(section: dict[str, t.Any], key: str) -> None:
    options = {"speculative_config": {key: None, **section}}
    assert errors(options) == []
    # It is not known which release lost it.
    assert warnings(options, release="1.3.0rc20")[1:] == [
        f"speculative_config.{key}: is gone from 1.3.0rc27 on, and may be gone in 1.3.0rc20; remove it if so"
    ]
    assert errors(options, release="1.3.0rc29") == [
        f"speculative_config.{key}: is no key of 1.3.0rc29 any more; remove it"
    ]


# A method whose draft length has another key


def test_a_method_writes_its_length_under_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.METHODS, "mtp", methods.Method("MTP", "", {}))
    row = spelling.Spelling({"1.3": "MTP"}, length="num_nextn_predict_layers")
    monkeypatch.setitem(spelling.SPELLINGS, "mtp", row)
    answer = built(method="mtp", drafted=3)
    assert answer.errors == []
    assert answer.options["speculative_config"] == {"decoding_type": "MTP", "num_nextn_predict_layers": 3}
    assert spelling.length_key("MTP") == "num_nextn_predict_layers"
    assert errors(method="mtp", drafted=0) == ["max_draft_len: must be a whole number (at least 1), not 0"]


def test_a_later_release_takes_the_usual_key_for_mtp() -> None:
    assert errors({"speculative_config": {"decoding_type": "MTP", "max_draft_len": 3}}, release="1.3.0rc29") == []


def test_a_length_that_would_be_ignored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.METHODS, "mtp", methods.Method("MTP", "", {}))
    monkeypatch.setitem(spelling.SPELLINGS, "mtp", spelling.Spelling({"1.3": "MTP"}))
    assert errors(method="mtp", drafted=3) == [
        "max_draft_len: is not a key of 1.3.0rc12 yet; write num_nextn_predict_layers"
    ]
