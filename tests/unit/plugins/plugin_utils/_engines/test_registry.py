# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._engines.registry import LOGS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import (
    Built,
    Engine,
    Request,
    is_set,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.methods import METHODS, ROWS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import (
    ENGINES,
    build,
    drafting,
    engine_of,
    refused_method,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.schema import FAMILIES
from server.engines.registry import ENGINES as IN_CONTAINER


def test_all_worlds_and_the_methods_name_the_same_engines() -> None:
    named = {name for method in METHODS.values() for name in method.engines}
    assert set(ENGINES) == set(LOGS) == set(IN_CONTAINER) == named
    for name, engine in ENGINES.items():
        assert set(engine.methods) == {method for method, row in METHODS.items() if name in row.engines}


def test_what_can_only_be_configured_in_options_is_a_type_of_the_engine() -> None:
    types = {row.options_only["tensorrt_llm"] for row in ROWS.values() if row.options_only}
    assert types == {"DFlash", "DSpark", "PARD", "SA"}
    assert types <= set(FAMILIES[-1]["sections"]["SpeculativeConfig"]["variants"])
    # Such a method is told by the engine's own name.
    for kind in types:
        assert drafting({"method": "", "options": {"speculative_config": {"decoding_type": kind}}})


def test_a_record_that_names_no_engine_is_of_the_default() -> None:
    assert engine_of({}) is engine_of({"engine": None}) is ENGINES["tensorrt_llm"]


@pytest.mark.parametrize(
    ("path", "given"),
    [("a", True), ("b.c", True), ("b.d", False), ("e.f", False), ("g.h", False), ("i", True), ("j", False)],
)
def test_an_option_is_given_also_as_null(path: str, given: bool) -> None:
    options = {"a": 1, "b": {"c": None}, "e": None, "g": [1], "i": None}
    assert is_set(options, path) is given


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"method": None}, None),
        ({"method": "none"}, "without speculation"),
        ({"method": "eagle3", "draft_length": 3}, "with EAGLE-3, draft length 3"),
        ({"method": "", "options": {"speculative_config": {"decoding_type": "Eagle"}}}, "with EAGLE-3, by a"),
        ({"method": "", "options": {"speculative_config": {"decoding_type": "NGram"}}}, "with n-gram, by a"),
        ({"method": "", "options": {"speculative_config": {"decoding_type": "SA"}}}, "with SA, by a"),
        ({"method": "", "speculation": {"decoding_type": "Eagle3"}}, "with EAGLE-3, by a"),
        (
            {"engine": "vllm", "method": "", "speculation": {"method": "mtp"}},
            "with MTP, by a speculative-config of its own",
        ),
        ({"method": ""}, "with a speculative_config of its own"),
    ],
)
def test_speculation_in_words(how: dict[str, t.Any], words: str | None) -> None:
    said = drafting(how)
    assert said == words if said is None or words is None else said.startswith(words)


@pytest.mark.parametrize(
    ("engine", "method", "words"),
    [
        ("vllm", "", ""),
        ("vllm", "none", ""),
        ("vllm", "dspark", ""),
        ("tensorrt_llm", "dspark", "method dspark is not offered for TensorRT-LLM. Choose one of eagle3, "),
        ("vllm", "unheard", "vLLM does not have method unheard. Choose one of eagle3, "),
        ("vllm", "suffix", "method suffix is not offered: vLLM needs the package arctic-inference"),
    ],
)
def test_a_method_that_an_engine_lacks_names_the_engines_that_have_it(engine: str, method: str, words: str) -> None:
    said = refused_method(ENGINES[engine], method)
    assert said.startswith(words)
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    ("engine", "image", "options", "foreign"),
    [
        ("vllm", "vllm/vllm-openai:v0.32.0", {"max_batch_size": 4, "kv_cache_config": {}}, "TensorRT-LLM"),
        ("vllm", "vllm/vllm-openai:v0.31.0", {"max-batch-size": 4}, "TensorRT-LLM"),
        ("tensorrt_llm", "release:1.3.0rc12", {"max-num-seqs": 4, "gpu_memory_utilization": 0.9}, "vLLM"),
        # Of both, of none, and in another spelling.
        ("vllm", "vllm/vllm-openai:v0.32.0", {"dtype": "auto"}, ""),
        ("vllm", "vllm/vllm-openai:v0.32.0", {"max_num_seqs": 4}, ""),
        ("tensorrt_llm", "release:1.3.0rc12", {"unheard": 1}, ""),
    ],
)
def test_options_of_another_engine(engine: str, image: str, options: dict[str, t.Any], foreign: str) -> None:
    own = ENGINES[engine]
    built = build(own, Request(image, "none", options=options))
    told = {error.path: error.message for error in built.errors}
    says = f"is an option of {foreign}, and {own.words} serves this recipe. Remove it, or serve a recipe with engine "
    assert [path for path, message in told.items() if message.startswith(says)] == (list(options) if foreign else [])
    assert built.errors == own.build(Request(image, "none", options=options)).errors or foreign


IMAGES = {"vllm": "vllm/vllm-openai:v0.32.0", "tensorrt_llm": "release:1.3.0rc12"}


def running_code(engine: Engine, allowed: bool, revisions: dict[str, str], **request: t.Any) -> Built:
    given = {"method": "eagle3", "drafted": 3, "target_model": "a/target", "draft_model": "a/head"}
    options = {engine.remote_code: allowed}
    return build(engine, Request(IMAGES[engine.name], revisions=revisions, options=options, **{**given, **request}))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(
    ("revisions", "words"),
    [
        ({"a/target": "main", "a/head": "b" * 40}, "Python from a/target as it is at 'main'"),
        # The draft model's code runs as well.
        ({"a/target": "b" * 40, "a/head": "v1"}, "Python from a/head as it is at 'v1'"),
        ({"a/head": "b" * 40}, "directory a/target, which has no commit"),
        ({"a/target": "B" * 40, "a/head": "b" * 40}, "Python from a/target as it is at 'BBBB"),
    ],
)
def test_code_of_a_model_without_a_commit_is_refused(engine: Engine, revisions: dict[str, str], words: str) -> None:
    told = {error.path: error.message for error in running_code(engine, True, revisions).errors}
    assert words in told[engine.remote_code]
    assert running_code(engine, False, revisions).errors == []


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_code_of_a_model_at_a_commit_is_named(engine: Engine) -> None:
    built = running_code(engine, True, {"a/target": "b" * 40}, method="none", drafted=None, draft_model=None)
    assert (built.errors, built.options[engine.remote_code]) == ([], True)
    assert f"{engine.remote_code}: runs Python from a/target@{'b' * 40}" in map(str, built.warnings)


def test_an_engine_is_complete() -> None:
    for engine in ENGINES.values():
        empty = [field.name for field in dataclasses.fields(engine) if getattr(engine, field.name) in ("", (), None)]
        # An engine may have one family alone.
        assert empty in ([], ["families"])
