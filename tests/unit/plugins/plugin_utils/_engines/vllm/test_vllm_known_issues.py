# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.options import build

QWEN_3_6 = "nvidia/Qwen3.6-27B-NVFP4"
QWEN_3_8 = "unsloth/Qwen3.8-27B-NVFP4"
FLASH = "RadixArk/Qwen3.8-Flash-Next-NVFP4"
GEMMA = "google/gemma-4-31B-it"


def drafts(method: str, **keys: int) -> dict[str, t.Any]:
    return {"speculative-config": {"method": method, **keys}}


OWN_DRAFTS = drafts("mtp", num_speculative_tokens=3)
PREFIXES = {"enable-prefix-caching": True}


def ids(release: str, target: str, sparks: int = 1, **more: t.Any) -> list[str]:
    request = Request(f"vllm/vllm-openai:v{release}", target_model=target, world_size=sparks, **more)
    answer = build(request)
    told = [warning.message for warning in answer.warnings]
    assert [str(issue) for issue in answer.known_issues if str(issue) not in told] == []
    return [issue.id for issue in answer.known_issues]


@pytest.mark.parametrize(
    ("release", "sparks", "expected"),
    [
        ("0.24.0-ubuntu2404", 2, ["nccl-hang-42354"]),
        ("0.25.1", 4, ["nccl-hang-42354"]),
        ("0.26.0", 2, ["nccl-hang-42354"]),
        ("0.26.0", 1, []),
        ("0.27.0", 2, []),
    ],
)
def test_issues_of_a_release_on_several_sparks(release: str, sparks: int, expected: list[str]) -> None:
    assert ids(release, QWEN_3_6, sparks) == expected


@pytest.mark.parametrize(
    ("target", "drafting", "expected"),
    [
        (QWEN_3_8, {"method": "mtp", "drafted": 3}, ["qwen3-8-mtp-reboot-262"]),
        (QWEN_3_8, {"options": OWN_DRAFTS}, ["qwen3-8-mtp-reboot-262"]),
        (QWEN_3_8, {"method": "none"}, []),
        (QWEN_3_8, {"method": "dflash", "drafted": 7, "draft_model": "z-lab/Qwen3.8-27B-DFlash2"}, []),
        (QWEN_3_6, {"method": "mtp", "drafted": 3}, []),
        (QWEN_3_6, {"method": "mtp", "drafted": 3, "options": PREFIXES}, ["hybrid-mtp-prefixes-53912"]),
        (QWEN_3_6, {"method": "none", "options": PREFIXES}, []),
        (FLASH, {"method": "mtp", "drafted": 4}, []),
        (FLASH, {"method": "mtp", "drafted": 5}, ["flash-next-mtp-lengths-53"]),
        (FLASH, {"method": "none"}, []),
        # vLLM takes these names of it for mtp.
        (FLASH, {"options": drafts("qwen3_5_mtp", num_speculative_tokens=5)}, ["flash-next-mtp-lengths-53"]),
        (FLASH, {"options": drafts("qwen3_5_mtp", num_speculative_tokens=4)}, []),
        (FLASH, {"options": drafts("mtp", **{"num-speculative-tokens": 4})}, []),
        (FLASH, {"options": drafts("eagle3", num_speculative_tokens=5)}, []),
        (QWEN_3_6, {"options": {"moe-backend": "flashinfer_trtllm"}}, ["trtllm-experts-2045"]),
    ],
)
def test_issues_of_a_model_with_its_drafts(target: str, drafting: dict[str, t.Any], expected: list[str]) -> None:
    assert ids("0.28.0", target, **drafting) == expected


@pytest.mark.parametrize(
    ("sparks", "options", "expected"),
    [(1, {}, []), (2, {}, ["gemma-4-31b-graphs-414"]), (2, {"enforce-eager": True}, [])],
)
def test_issues_of_a_model_on_two_sparks(sparks: int, options: dict[str, t.Any], expected: list[str]) -> None:
    assert ids("0.28.0", GEMMA, sparks, options=options) == expected


def test_an_image_without_a_release_has_no_issues_of_releases() -> None:
    request = Request("registry.example/vllm:nightly", target_model=QWEN_3_8, method="mtp", drafted=3, world_size=2)
    assert [issue.id for issue in build(request).known_issues] == ["qwen3-8-mtp-reboot-262"]
