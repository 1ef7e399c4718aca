# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts without a play, as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines import verdict

ROOT = Path(__file__).parents[5]
MODULE = verdict.__name__
VLLM = {"engine": "vllm", "release": "0.32.0", "options": {"max-num-seqs": 4}}
TENSORRT_LLM = {"engine": "tensorrt_llm", "release": "1.3.0rc12", "options": {"max_batch_size": 4}}


def ask(given: t.Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", MODULE],
        input=given if isinstance(given, str) else json.dumps(given),
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_engine_answers_a_list_of_requests() -> None:
    given = [
        VLLM,
        {**VLLM, "options": {"max-num-seqs": "four", "max-model-leng": 1}},
        {**VLLM, "release": "vllm/vllm-openai:v0.28.0", "options": {"unheard-of-option": 1}},
        TENSORRT_LLM,
        {**TENSORRT_LLM, "options": {"kv_cache_config": {"free_gpu_memory_fractoin": 0.5}}},
    ]
    done = ask(given)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert [answer["accepted"] for answer in answers] == [True, False, True, True, False]
    assert {finding["path"] for finding in answers[1]["refused"]} == {"max-num-seqs", "max-model-leng"}
    assert [finding["path"] for finding in answers[2]["warnings"]] == ["release", "unheard-of-option"]
    assert [finding["path"] for finding in answers[4]["refused"]] == ["kv_cache_config.free_gpu_memory_fractoin"]


def test_one_request_has_one_answer() -> None:
    assert json.loads(ask(VLLM).stdout) == {"accepted": True, "refused": [], "warnings": []}


@pytest.mark.parametrize(
    "given",
    ["no JSON", 3, {}, [{}], {**VLLM, "more": 1}, {**VLLM, "engine": "unheard"}, {**VLLM, "options": []}],
)
def test_what_is_no_request_ends_with_the_reason(given: t.Any) -> None:
    done = ask(given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("The input cannot be judged: ")
