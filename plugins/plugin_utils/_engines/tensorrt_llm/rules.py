# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Rules over more than one engine option; each reads only values of the right type, as the rest is reported already."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import typing as t

from ....module_utils._data.numbers import is_number, is_whole
from ..findings import Report
from .schema import Family
from .vocabulary import SPECULATION

PARALLEL_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
# The models that the documentation of the dynamic tree excludes: sliding-window and MLA attention.
NO_DYNAMIC_TREE = re.compile(r"gpt-oss|deepseek(?!.*distill)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Subject:
    """The options that rules judge, and the report of their findings."""

    family: Family
    options: t.Mapping[str, t.Any]
    world_size: int
    report: Report
    target_model: str = ""
    # A release newer than those that the rules were written for.
    unread: bool = False

    def mapping(self, key: str) -> t.Mapping[str, t.Any]:
        value = self.options.get(key)
        return value if isinstance(value, dict) else {}

    @property
    def speculation(self) -> t.Mapping[str, t.Any]:
        return self.mapping("speculative_config")

    @property
    def decoding_type(self) -> str | None:
        value = self.speculation.get("decoding_type")
        return value if isinstance(value, str) and value in _types(self) else None


def _int_in(mapping: t.Mapping[str, t.Any], key: str, default: int | None = None) -> int | None:
    value = mapping.get(key, default)
    return value if is_whole(value) else None


def _number_in(mapping: t.Mapping[str, t.Any], key: str) -> float | None:
    value = mapping.get(key)
    return value if is_number(value) else None


def spec(key: str) -> str:
    return f"speculative_config.{key}"


def decoding_type_is_served(subject: Subject) -> None:
    reason = subject.family["refused_types"].get(subject.decoding_type)
    if reason:
        subject.report.error(spec("decoding_type"), f"{subject.decoding_type} can not be served: {reason}")


def draft_model_is_given(subject: Subject) -> None:
    key = subject.family["draft_model_key"]
    if subject.decoding_type in subject.family["needs_model"] and not subject.speculation.get(key):
        subject.report.error(spec(key), f"is missing; {subject.decoding_type} needs a draft model")


def something_is_drafted(subject: Subject) -> None:
    if subject.decoding_type not in subject.family["needs_length"]:
        return
    length = subject.speculation.get("max_draft_len")
    if length is None:
        subject.report.error(spec("max_draft_len"), f"is missing; {subject.decoding_type} needs a draft length")
    elif length == 0 and not isinstance(length, bool):
        subject.report.error(spec("max_draft_len"), f"must be at least 1 for {subject.decoding_type}")


def schedule_or_concurrency(subject: Subject) -> None:
    given = [key for key in ("max_concurrency", "draft_len_schedule") if subject.speculation.get(key) is not None]
    if len(given) == 2:
        subject.report.error(spec("max_concurrency"), "excludes draft_len_schedule; keep one of them")
    elif given == ["max_concurrency"] and subject.decoding_type == "Eagle" and "Eagle3" in _types(subject):
        subject.report.error(spec("max_concurrency"), "is refused with decoding_type Eagle; write decoding_type Eagle3")


def _types(subject: Subject) -> t.Collection[str]:
    return t.cast("dict[str, str]", subject.family["sections"][SPECULATION]["variants"])


def schedule_fits_its_longest(subject: Subject) -> None:
    schedule = subject.speculation.get("draft_len_schedule")
    if not isinstance(schedule, dict):
        return
    where = spec("draft_len_schedule")
    if not schedule:
        subject.report.error(where, "must not be empty")
    if not schedule or not all(is_whole(number) for pair in schedule.items() for number in pair):
        return
    for size, length in schedule.items():
        if size < 1:
            subject.report.error(f"{where}.{size}", "the batch size must be at least 1")
        if length < 0:
            subject.report.error(f"{where}.{size}", f"the draft length must be at least 0, not {length}")
    _compare_schedule(subject, schedule, where)


def _compare_schedule(subject: Subject, schedule: dict[int, int], where: str) -> None:
    start = subject.family["schedule_start"]
    if start is not None and start not in schedule:
        subject.report.error(where, f"must have the batch size {start}")
        return
    smallest = min(schedule) if start is None else start
    longest = _int_in(subject.speculation, "max_draft_len")
    if longest is None:
        return
    if schedule[smallest] != longest:
        subject.report.error(
            f"{where}.{smallest}",
            f"must equal max_draft_len ({longest}) at the smallest batch size, not {schedule[smallest]}",
        )
    for size, length in schedule.items():
        if size != smallest and length > longest:
            subject.report.error(f"{where}.{size}", f"must not exceed max_draft_len ({longest}), but is {length}")


def dynamic_tree_is_complete(subject: Subject) -> None:
    speculation = subject.speculation
    if speculation.get("use_dynamic_tree") is True and speculation.get("eagle_choices") is not None:
        subject.report.error(spec("eagle_choices"), "is a static tree, which excludes use_dynamic_tree")
    if not _has_dynamic_tree(subject):
        return
    width = _int_in(speculation, "dynamic_tree_max_topK")
    if width is None and speculation.get("dynamic_tree_max_topK") is None:
        subject.report.error(spec("dynamic_tree_max_topK"), "is missing; a dynamic tree needs its width")
    elif width is not None and width < 1:
        subject.report.error(spec("dynamic_tree_max_topK"), f"must be at least 1, not {width}")
    length, nodes = _int_in(speculation, "max_draft_len"), _int_in(speculation, "max_total_draft_tokens")
    bounded = subject.family["tree_by_width"]
    if bounded and width and length and nodes is not None and not length <= nodes <= width * length:
        subject.report.error(
            spec("max_total_draft_tokens"),
            f"must be from {length} (max_draft_len) to {width * length} (dynamic_tree_max_topK times max_draft_len), "
            f"not {nodes}",
        )


def _has_dynamic_tree(subject: Subject) -> bool:
    speculation = subject.speculation
    if subject.family["tree_by_width"] and speculation.get("dynamic_tree_max_topK") is not None:
        return True
    return speculation.get("use_dynamic_tree") is True


def dynamic_tree_suits_the_model(subject: Subject) -> None:
    if not _has_dynamic_tree(subject):
        return
    models = (
        subject.target_model,
        subject.options.get("model"),
        subject.speculation.get(subject.family["draft_model_key"]),
    )
    if any(isinstance(model, str) and NO_DYNAMIC_TREE.search(model) for model in models):
        subject.report.error(
            spec("use_dynamic_tree"), "the dynamic tree does not work with gpt-oss and DeepSeek models"
        )
    else:
        subject.report.warn(
            spec("use_dynamic_tree"), "the dynamic tree does not work with models of sliding-window or MLA attention"
        )


def suffix_automaton_fits(subject: Subject) -> None:
    if subject.decoding_type != "SA":
        return
    speculation, report = subject.speculation, subject.report
    matching = _int_in(speculation, "max_matching_ngram_size", -1)
    pool, pooled = _int_in(speculation, "global_pool_size"), speculation.get("enable_global_pool") is True
    if matching == 0:
        report.error(spec("max_matching_ngram_size"), "must be -1 (the longest match) or at least 1, not 0")
    elif pooled and matching is not None and matching > 64:
        report.error(spec("max_matching_ngram_size"), f"must be at most 64 with enable_global_pool, not {matching}")
    if pool is not None and not pooled:
        report.error(spec("global_pool_size"), "needs enable_global_pool: true")
    batch = _int_in(subject.options, "max_batch_size")
    if pool is not None and batch is not None and pool < batch:
        report.error(spec("global_pool_size"), f"must be at least max_batch_size ({batch}), not {pool}")


def no_pipeline_with_speculation(subject: Subject) -> None:
    stages = _int_in(subject.options, "pipeline_parallel_size")
    if stages is not None and stages > 1 and subject.speculation:
        subject.report.error("pipeline_parallel_size", f"must be 1 with speculative decoding, not {stages}")


def parallel_sizes_fill_the_world(subject: Subject) -> None:
    sizes = [_int_in(subject.options, key, 1) or 0 for key in PARALLEL_SIZES]
    ranks = math.prod(sizes)
    if ranks > 0 and ranks != subject.world_size:
        given = [key for key in PARALLEL_SIZES if key in subject.options]
        subject.report.error(
            (given or PARALLEL_SIZES)[0],
            f"tensor, pipeline and context parallel size are {' x '.join(map(str, sizes))} = {ranks},"
            f" but world_size is {subject.world_size}",
        )


def cache_fraction_is_written(subject: Subject) -> None:
    # NVIDIA's own file for Draft-Target has none, and the server takes it.
    given = isinstance(subject.options.get("kv_cache_config"), dict)
    if given and "free_gpu_memory_fraction" not in subject.mapping("kv_cache_config"):
        subject.report.warn(
            "kv_cache_config.free_gpu_memory_fraction",
            "is missing, so the server takes its own default; write it to be sure of the share",
        )


def graph_sizes_agree(subject: Subject) -> None:
    graphs = subject.mapping("cuda_graph_config")
    sizes, largest = graphs.get("batch_sizes"), graphs.get("max_batch_size")
    if not (sizes and largest):
        return
    where = "cuda_graph_config.batch_sizes"
    if not subject.family["graph_sizes_together"]:
        subject.report.error(where, "excludes max_batch_size; keep one of them")
    elif isinstance(sizes, list) and all(map(is_whole, sizes)) and max(sizes) != largest:
        subject.report.error(where, f"its largest size must equal max_batch_size ({largest}), not {max(sizes)}")


def static_tree_is_a_list(subject: Subject) -> None:
    """Check a static tree as the server does: it parses a Python list and takes the longest branch."""
    choices = subject.speculation.get("eagle_choices")
    if not isinstance(choices, str):
        return
    try:
        tree = ast.literal_eval(choices)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        tree = None
    if not isinstance(tree, list) or not tree:
        subject.report.error(spec("eagle_choices"), f"must be a list of lists or the text of one, not '{choices}'")


def lora_is_not_prefetched(subject: Subject) -> None:
    if subject.mapping("peft_cache_config").get("lora_prefetch_dir") is not None:
        subject.report.error("peft_cache_config.lora_prefetch_dir", "remove it: the server does not support it")


def ray_options_need_ray(subject: Subject) -> None:
    if subject.options.get("orchestrator_type") == "ray":
        return
    for key in ("ray_worker_extension_cls", "ray_placement_config"):
        if subject.options.get(key) is not None:
            subject.report.error(key, "needs orchestrator_type: ray")


def collecting_needs_a_file(subject: Subject) -> None:
    benchmarks = subject.mapping("layer_wise_benchmarks_config")
    if benchmarks.get("calibration_mode") == "COLLECT" and not benchmarks.get("calibration_file_path"):
        subject.report.error(
            "layer_wise_benchmarks_config.calibration_file_path", "is missing; calibration_mode COLLECT needs it"
        )


def balanced_attention_waits_forward(subject: Subject) -> None:
    attention = subject.mapping("attention_dp_config")
    if attention.get("enable_balance") is not True:
        return
    for key in ("timeout_iters", "batching_wait_iters"):
        iterations = _int_in(attention, key)
        if iterations is not None and iterations < 0:
            subject.report.error(f"attention_dp_config.{key}", "must be at least 0 with enable_balance")


def helix_blocks_agree(subject: Subject) -> None:
    context, cache = subject.mapping("cp_config"), subject.mapping("kv_cache_config")
    tokens, expected = _int_in(context, "tokens_per_block"), _int_in(cache, "tokens_per_block", 32)
    parallel = _int_in(subject.options, "context_parallel_size", 1)
    if context.get("cp_type") == "HELIX" and parallel != 1 and tokens is not None and tokens != expected:
        subject.report.error(
            "cp_config.tokens_per_block", f"must equal kv_cache_config.tokens_per_block ({expected}), not {tokens}"
        )


# Advice: the server starts, but not well on a DGX Spark


def graphs_fit_the_batch(subject: Subject) -> None:
    graphs, batch = subject.mapping("cuda_graph_config"), _int_in(subject.options, "max_batch_size")
    sizes = graphs.get("batch_sizes")
    listed = [size for size in sizes if is_whole(size)] if isinstance(sizes, list) else []
    largest = max([*listed, _int_in(graphs, "max_batch_size") or 0])
    if batch is not None and largest > batch:
        where = "batch_sizes" if listed else "max_batch_size"
        subject.report.warn(
            f"cuda_graph_config.{where}",
            f"{largest} exceeds max_batch_size ({batch}); the larger graphs only cost memory",
        )


def cache_leaves_memory(subject: Subject) -> None:
    fraction = _number_in(subject.mapping("kv_cache_config"), "free_gpu_memory_fraction")
    if fraction is not None and 0.9 < fraction <= 1:
        subject.report.warn(
            "kv_cache_config.free_gpu_memory_fraction",
            f"{fraction} is more than 0.9; on a GB10 the system lives in the same memory and may run out of it",
        )


def eagle_means_eagle3(subject: Subject) -> None:
    if subject.decoding_type == "Eagle" and "Eagle3" in _types(subject):
        subject.report.warn(spec("decoding_type"), "Eagle is treated as Eagle3; write Eagle3")


def two_models_are_deprecated(subject: Subject) -> None:
    # An unread release has a finding for each such key already.
    if not subject.family["two_models_end"] or subject.unread:
        return
    for key in ("eagle3_one_model", "mtp_eagle_one_model"):
        if subject.speculation.get(key) is False:
            subject.report.warn(spec(key), "drafting as two models is deprecated and goes with release 1.4")


def save_state_is_no_service(subject: Subject) -> None:
    if subject.decoding_type == "SaveState":
        subject.report.warn(
            spec("decoding_type"), "SaveState collects data to train a draft model; it does not speculate"
        )


RULES: tuple[t.Callable[[Subject], None], ...] = (
    decoding_type_is_served,
    draft_model_is_given,
    something_is_drafted,
    schedule_or_concurrency,
    schedule_fits_its_longest,
    dynamic_tree_is_complete,
    dynamic_tree_suits_the_model,
    suffix_automaton_fits,
    no_pipeline_with_speculation,
    parallel_sizes_fill_the_world,
    cache_fraction_is_written,
    graph_sizes_agree,
    static_tree_is_a_list,
    lora_is_not_prefetched,
    ray_options_need_ray,
    collecting_needs_a_file,
    balanced_attention_waits_forward,
    helix_blocks_agree,
    graphs_fit_the_batch,
    cache_leaves_memory,
    eagle_means_eagle3,
    two_models_are_deprecated,
    save_state_is_no_service,
)
