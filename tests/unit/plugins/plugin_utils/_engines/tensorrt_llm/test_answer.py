# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.dgx_spark.speculative.plugins.action.trtllm_config import ARGUMENTS, ENGINE, requested
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import answer
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.releases import (
    FAMILIES,
    in_words,
)

HEADER = "# Managed by Ansible, module dgx_spark.speculative.trtllm_config; local edits are overwritten.\n"
TEXT = (
    HEADER
    + """\
max_batch_size: 1
kv_cache_config:
  free_gpu_memory_fraction: 0.9
speculative_config:
  decoding_type: Eagle3
  max_draft_len: 5
  speculative_model: /models/head
"""
)
VALID: dict[str, t.Any] = {
    "release": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12@sha256:00",
    "method": "eagle3",
    "draft_model": "/models/head",
    "max_draft_len": 5,
    "options": {"kv_cache_config": {"free_gpu_memory_fraction": 0.9}, "max_batch_size": 1},
}


def run(**parameters: t.Any) -> dict[str, t.Any]:
    """What the action returns, without the parameters that are None."""
    given = {key: value for key, value in {**VALID, **parameters}.items() if value is not None}
    validated = ArgumentSpecValidator(ARGUMENTS).validate(given)
    if validated.error_messages:
        return {"failed": True, "msg": "; ".join(validated.error_messages)}
    return answer(ENGINE, ENGINE.build(requested(validated.validated_parameters)))


def test_what_is_asked_for_is_rendered() -> None:
    result = run()
    assert result["changed"] is False
    assert (result["release"], result["family"], result["text"]) == ("1.3.0rc12", "1.3", TEXT)
    assert (result["method"], len(result["warnings"])) == ("eagle3", len(result["known_issues"]))
    assert result["options"] == yaml.safe_load(TEXT)


def test_errors_are_listed() -> None:
    result = run(max_draft_len=0, options={"max_bach_size": 1})
    assert result["msg"] == (
        "Validating the engine options for TensorRT-LLM 1.3.0rc12 found 2 errors, to be corrected:\n"
        "- max_bach_size: is not a key of release family 1.3; did you mean 'max_batch_size'?\n"
        "- max_draft_len: must be at least 1 for Eagle3"
    )
    assert result["errors"] == [
        {"path": "max_bach_size", "message": "is not a key of release family 1.3; did you mean 'max_batch_size'?"},
        {"path": "max_draft_len", "message": "must be at least 1 for Eagle3"},
    ]


def test_one_error() -> None:
    result = run(release="1.3.0rc1")
    families = ", ".join(f"{family['name']} ({in_words(number)})" for number, family in enumerate(FAMILIES))
    assert families.startswith("1.2 (1.2.0rc1 to 1.2.1), 1.3 (1.3.0rc3 and later")
    assert result["msg"] == (
        "Validating the engine options for TensorRT-LLM 1.3.0rc1 found 1 error, to be corrected:\n"
        "- release: the engine options of 1.3.0rc1 are not known here; use a release of the known release families,"
        f" {families}, or set family (in playbooks speculative_serve_family)"
        " to the one to check by"
    )
    assert (result["family"], result["method"]) == ("", "eagle3")


def test_a_family_can_be_chosen_as_yaml_reads_it() -> None:
    result = run(release="1.3.0rc1", family=1.2)
    assert "errors" not in result
    assert result["family"] == "1.2"
    assert result["options"]["speculative_config"]["decoding_type"] == "Eagle"
    assert "value of family must be one of: auto, 1.2, 1.3" in run(family="1.0")["msg"]


def test_a_section_of_ones_own_needs_no_method() -> None:
    section = {"decoding_type": "NGram", "max_draft_len": 4}
    result = run(method=None, options={"speculative_config": section})
    assert (result["method"], result["options"]) == ("raw", {"speculative_config": section})
    assert "conflicts with method none" in run(method="none", options={"speculative_config": section})["msg"]


def test_a_known_issue_is_told_with_its_thread() -> None:
    result = run(release="1.3.0rc13", target_model="openai/gpt-oss-120b")
    url = "https://github.com/NVIDIA/TensorRT-LLM/issues/16377"
    assert [issue["url"] for issue in result["known_issues"]] == [
        "https://github.com/NVIDIA/TensorRT-LLM/pull/15739",
        url,
        "https://github.com/NVIDIA/TensorRT-LLM/pull/18401",
    ]
    assert url in str(result["warnings"])
    assert len(run(target_model="meta-llama/Llama-3.3-70B-Instruct")["known_issues"]) == 1


def test_advice_is_a_warning() -> None:
    result = run(options={"moe_config": {"backend": "TRTLLM"}})
    assert "errors" not in result
    assert result["warnings"][0].startswith("moe_config.backend: ")
    assert "moe_config.backend: TRTLLM does not run FP4 experts on a GB10; use CUTLASS" in str(result["warnings"])
