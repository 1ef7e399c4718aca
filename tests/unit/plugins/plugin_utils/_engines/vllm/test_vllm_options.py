# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of vLLM: what the neutral inputs become, what is refused, and what the memory plan adds."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Built, Planned, Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.engine import VLLM
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.rules import KINDS, OWN

IMAGE = "vllm/vllm-openai:v0.32.0"


def build(options: t.Mapping[str, t.Any] | None = None, **request: t.Any) -> Built:
    return VLLM.build(Request(**{"release": IMAGE, "options": options or {}, **request}))


def errors(options: t.Mapping[str, t.Any] | None = None, **request: t.Any) -> dict[str, str]:
    return {error.path: error.message for error in build(options, **request).errors}


@pytest.mark.parametrize(
    ("method", "section"),
    [
        ("eagle3", {"method": "eagle3", "num_speculative_tokens": 3, "model": "a/head"}),
        ("draft_target", {"method": "draft_model", "num_speculative_tokens": 3, "model": "a/head"}),
        ("dflash", {"method": "dflash", "num_speculative_tokens": 3, "model": "a/head"}),
        ("dspark", {"method": "dspark", "num_speculative_tokens": 3, "model": "a/head"}),
        # An assistant of the target model.
        ("mtp", {"method": "mtp", "num_speculative_tokens": 3, "model": "a/head"}),
        (
            "pard",
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "a/head", "parallel_drafting": True},
        ),
    ],
)
def test_a_method_is_spelt_as_vllm_does(method: str, section: dict[str, t.Any]) -> None:
    built = build(method=method, drafted=3, draft_model="a/head")
    assert built.errors == built.warnings == []
    assert built.options["speculative-config"] == section
    assert VLLM.section(section).method == method
    assert VLLM.section(section).length == 3


def test_mtp_drafts_from_the_target_model_alone() -> None:
    section = build(method="mtp", drafted=3, draft_model="").options["speculative-config"]
    assert section == {"method": "mtp", "num_speculative_tokens": 3}


def test_further_keys_go_with_the_method() -> None:
    further = {"moe_backend": "triton", "prompt_lookup_max": 8}
    section = build({"speculative-config": further}, method="ngram", drafted=3).options["speculative-config"]
    assert section == {**further, "method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2}
    # Without speculation they are of no use.
    built = build({"speculative-config": further}, method="none")
    assert (built.errors, "speculative-config" in built.options) == ([], False)


@pytest.mark.parametrize("key", ["method", "num_speculative_tokens", "num-speculative-tokens", "model"])
def test_keys_that_the_method_decides_are_refused(key: str) -> None:
    found = errors({"speculative-config": {key: "x"}}, method="mtp", drafted=1)
    assert found == {f"speculative-config.{key}": "remove it: it follows from method mtp and its inputs"}
    assert list(errors({"speculative-config": {key: "x"}}, method="none")) == [f"speculative-config.{key}"]


def test_what_tells_a_method_from_another_stays() -> None:
    section = {"parallel_drafting": False}
    assert list(errors({"speculative-config": section}, method="pard", drafted=1, draft_model="a/b")) == [
        "speculative-config.parallel_drafting"
    ]
    assert errors({"speculative-config": section}, method="draft_target", drafted=1, draft_model="a/b") == {}


def test_further_keys_are_a_mapping() -> None:
    assert errors({"speculative-config": "mtp"}, method="mtp", drafted=1) == {
        "speculative-config": "must be a mapping, not the text 'mtp'"
    }


@pytest.mark.parametrize(("image", "refused"), [("v0.26.0", True), ("v0.27.1", False), ("latest", False)])
@pytest.mark.parametrize("options", [{}, {"speculative-config": {"method": "dspark", "num_speculative_tokens": 3}}])
def test_a_method_that_is_younger_than_the_release(image: str, refused: bool, options: dict[str, t.Any]) -> None:
    request = {} if options else {"method": "dspark", "drafted": 3, "draft_model": "a/b"}
    found = errors(options, release=f"vllm/vllm-openai:{image}", **request)
    assert list(found) == ["method"] * refused
    assert "dspark needs vLLM 0.27.0 or later" in found.get("method", "dspark needs vLLM 0.27.0 or later")


@pytest.mark.parametrize(("value", "refused"), [("0", True), (0, True), ("1", False)])
def test_a_model_runner_that_lacks_the_method(value: t.Any, refused: bool) -> None:
    request: dict[str, t.Any] = {"drafted": 3, "draft_model": "a/b"}
    request["environment"] = {"VLLM_USE_V2_MODEL_RUNNER": value}
    assert list(errors(method="dspark", **request)) == ["environment"] * refused
    assert errors(method="eagle3", **request) == {}


HYBRID = {"model_type": "qwen3_5_moe", "state_layers": 30}


@pytest.mark.parametrize(
    ("method", "options", "target", "draft", "words"),
    [
        (
            "ngram",
            {},
            HYBRID,
            {},
            "garble the text of a/b, a hybrid model of type qwen3_5_moe: see https://github.com/",
        ),
        (None, {"speculative-config": {"method": "ngram"}}, HYBRID, {}, "Method ngram makes vLLM garble"),
        ("ngram", {}, {"model_type": "llama", "state_layers": None}, {}, ""),
        ("mtp", {}, HYBRID, {}, ""),
        ("none", {}, HYBRID, {}, ""),
        ("dflash", {}, HYBRID, {"architecture": "DFlash2DraftModel"}, "is older than vLLM 0.28.0, the first that has"),
        ("dflash", {}, HYBRID, {"architecture": "DFlashDraftModel"}, ""),
    ],
)
def test_a_method_that_does_not_suit_the_models(
    method: str | None, options: dict[str, t.Any], target: dict[str, t.Any], draft: dict[str, t.Any], words: str
) -> None:
    request = Request("v0.27.1", method, "a/draft", options=options, target_model="a/b")
    found = VLLM.misfits(request, target, draft)
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_n_gram_has_its_window() -> None:
    section = build(method="ngram", drafted=4).options["speculative-config"]
    assert section == {
        **{"method": "ngram", "num_speculative_tokens": 4},
        **{"prompt_lookup_max": 4, "prompt_lookup_min": 2},
    }


@pytest.mark.parametrize(("image", "counts"), [(IMAGE, "summary"), ("vllm/vllm-openai:v0.28.0", None)])
def test_an_answer_has_the_counts_of_its_drafts(image: str, counts: str | None) -> None:
    built = build(method="mtp", drafted=1, release=image)
    assert built.options.get("per-request-spec-decode-metrics") == counts
    # A benchmark takes the drafts out of the options of a deployment.
    assert "per-request-spec-decode-metrics" not in build(built.options | {"speculative-config": None}).options
    without = {key: value for key, value in built.options.items() if key != "speculative-config"}
    assert "per-request-spec-decode-metrics" not in build(without, method="none").options


def test_without_speculation_there_is_no_section() -> None:
    assert "speculative-config" not in build(method="none").options


def test_the_api_names_the_model_as_its_repository_does() -> None:
    assert build(target_model="a/Model-1B").options["served-model-name"] == "Model-1B"
    assert build({"served-model-name": "mine"}, target_model="a/b").options["served-model-name"] == "mine"


@pytest.mark.parametrize(
    ("options", "path", "words"),
    [
        ({"max_model_len": 1}, "max_model_len", "max-model-len"),
        ({"no-enable-prefix-caching": True}, "no-enable-prefix-caching", "enable-prefix-caching: false"),
        ({"max-model-leng": 1}, "max-model-leng", "did you mean 'max-model-len'?"),
        ({"seed": None}, "seed", "must not be null"),
        ({"enforce-eager": "yes"}, "enforce-eager", "must be true or false"),
        ({"block-size": True}, "block-size", "must be a whole number"),
        ({"max-model-len": "32k"}, "max-model-len", "the memory plan counts with it"),
        ({"kv-cache-memory-bytes": "8G"}, "kv-cache-memory-bytes", "the memory plan counts with it"),
        ({"gpu-memory-utilization": 0.95}, "gpu-memory-utilization", "freezes the machine"),
        ({"gpu-memory-utilization": 2}, "gpu-memory-utilization", "at most 1"),
        ({"enable-auto-tool-choice": True}, "enable-auto-tool-choice", "needs tool-call-parser"),
        ({"speculative-config": "ngram"}, "speculative-config", "must be a mapping"),
        ({"speculative-config": {"method": "mtp"}}, "speculative-config.num_speculative_tokens", "is missing"),
        ({7: 1}, "7", "must be a text"),
        ({"compilation-config.backend": "a"}, "compilation-config.backend", "Write keys as a mapping"),
        ({"middleware=evil.C": True}, "middleware=evil.C", "has letters, digits and dashes"),
    ],
)
def test_what_vllm_would_refuse_or_misread(options: dict[t.Any, t.Any], path: str, words: str) -> None:
    assert words in errors(options)[path]


def test_the_beginning_of_a_name_is_not_left_to_an_image() -> None:
    """Its parser would take it for the whole name."""
    assert "is not an option" in errors({"log-c": "/a"}, release="v0.31.0")["log-c"]


@pytest.mark.parametrize("key", sorted(OWN))
def test_what_the_collection_sets_is_refused_with_its_place(key: str) -> None:
    assert errors({key: "x"})[key] == f"remove it. {OWN[key]}"


def test_a_draft_section_that_vllm_spells_otherwise() -> None:
    section = {"method": "ngram", "num_speculative_tokens": 4, "tensor_parallel_size": 1}
    found = errors({"speculative-config": section, "async-scheduling": True})
    assert "draft_tensor_parallel_size" in found["speculative-config.tensor_parallel_size"]
    assert "ngram" in found["async-scheduling"]


def test_the_keys_of_a_draft_section_have_one_spelling() -> None:
    found = errors({"speculative-config": {"method": "mtp", "num-speculative-tokens": 4}})
    assert found == {
        "speculative-config.num-speculative-tokens": "write it with underscores: num_speculative_tokens",
    }


def test_speculation_from_both_sides() -> None:
    section = {"method": "mtp", "num_speculative_tokens": 1}
    found = errors({"speculative-config": section}, method="ngram", drafted=2)
    assert list(found) == ["speculative-config.method", "speculative-config.num_speculative_tokens"]
    assert build({"speculative-config": section}).method == "raw"


def test_a_method_without_its_head() -> None:
    assert errors(method="eagle3", drafted=2) == {"draft_model": "is missing, and the method eagle3 needs one"}


def test_a_method_that_it_lacks() -> None:
    assert errors(method="medusa", drafted=2) == {
        "method": f"vLLM does not have medusa; it has {', '.join(VLLM.methods)}"
    }


def test_several_sparks_are_served_and_none_is_not() -> None:
    assert errors(world_size=4) == {}
    assert "at least 1" in errors(world_size=0)["world_size"]


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (IMAGE, []),
        ("vllm/vllm-openai:v0.32.0-ubuntu2404", []),
        ("vllm/vllm-openai:v0.31.0", ["options are judged by the image only"]),
        ("vllm/vllm-openai:latest", ["names no release of vLLM"]),
        ("vllm/vllm-openai@sha256:" + "a" * 64, ["names no release of vLLM"]),
    ],
)
def test_a_release_that_is_not_known_here(image: str, said: list[str]) -> None:
    built = build({"quite-new": 1}, release=image)
    assert len(built.errors) == (not said)
    assert [text for text in said if any(text in str(warning) for warning in built.warnings)] == said
    # A misspelt name is none of a newer release.
    assert errors({"max-model-leng": 1}, release=image)


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.32.0-cu129", "vllm/vllm-openai:nightly-cu129-aarch64"])
def test_an_image_without_kernels_for_a_gb10_is_refused(image: str) -> None:
    assert "has no kernels for a GB10: use the image without -cu129" in errors(release=image)["release"]
    assert errors(release=image.replace("-cu129", "")) == {}


def test_an_old_release_is_refused() -> None:
    assert "older than 0.24.0" in errors(release="vllm/vllm-openai:v0.23.1")["release"]


def test_the_plan_adds_what_is_open() -> None:
    planned = Planned(concurrency=2, context=2048, tokens=4128, chunked=False, cache_bytes=190_218_240, share=0.07)
    assert VLLM.fill({}, planned) == {
        "max-num-seqs": 2,
        "max-num-batched-tokens": 4096,
        "max-model-len": 2048,
        "kv-cache-memory-bytes": 190_218_240,
        "gpu-memory-utilization": 0.07,
    }
    given = {"max-num-seqs": 4, "max-model-len": 1024}
    assert set(VLLM.fill(given, planned)).isdisjoint(given)


def test_options_ask_for_memory() -> None:
    limits = VLLM.limits({"max-model-len": 2048, "max-num-seqs": 2, "kv-cache-memory-bytes": 5, "block-size": 32})
    assert (limits.context, limits.concurrency, limits.cache_bytes, limits.block) == (2048, 2, 5, 32)
    assert not limits.by_fraction
    assert VLLM.limits({"gpu-memory-utilization": 0.5}).by_fraction
    assert VLLM.limits({"kv-cache-dtype": "fp8_e4m3"}).cache_type == "fp8"


def test_equal_options_give_the_same_text() -> None:
    first, second = (VLLM.render(options) for options in ({"a": 1, "b": [2]}, {"b": [2], "a": 1}))
    assert first == second
    assert yaml.safe_load(first) == {"a": 1, "b": [2]}


def test_the_names_are_those_of_the_parser() -> None:
    """As many as the parser of that release has, with the two names of one of them."""
    assert len(KINDS) == len(set(KINDS)) == 317
    assert KINDS["enforce-eager"] == "switch"
    assert KINDS["max-num-seqs"] == "int"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("VLLM_USE_FLASHINFER_MOE_FP4", "moe-backend"),
        ("VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS", "moe-backend"),
        ("VLLM_FLASHINFER_MOE_BACKEND", "moe-backend"),
        ("VLLM_MXFP4_USE_MARLIN", "moe-backend"),
        ("VLLM_TEST_FORCE_FP8_MARLIN", "moe-backend"),
        ("VLLM_NVFP4_GEMM_BACKEND", "linear-backend"),
        ("VLLM_ATTENTION_BACKEND", "attention-backend"),
        ("VLLM_USE_V1", ""),
        ("VLLM_RPC_TIMEOUT", ""),
    ],
)
def test_a_variable_that_vllm_no_longer_reads_is_refused(name: str, option: str) -> None:
    fix = f"Set the engine option {option} instead" if option else "Remove it"
    expected = {f"environment.{name}": f"vLLM no longer reads this variable, so it has no effect. {fix}"}
    assert errors(environment={name: "1", "VLLM_USE_DEEP_GEMM": "0", "NCCL_DEBUG": "INFO"}) == expected
    assert option in ("", *KINDS)


def test_a_variable_that_the_release_reads_is_accepted() -> None:
    """It was removed in 0.29.0, and the name of an image may hide its release."""
    environment = {"VLLM_TEST_FORCE_FP8_MARLIN": "1", "VLLM_USE_FLASHINFER_MOE_INT4": "1"}
    for image in ("vllm/vllm-openai:v0.28.0", "registry.example/own:latest"):
        assert errors(environment=environment, release=image) == {}


def test_a_key_in_the_environment_is_refused_as_in_the_options() -> None:
    assert "secret" in errors(environment={"VLLM_API_KEY": "x"})["environment.VLLM_API_KEY"]
