# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Combinations of release, method, model and options that public threads report as bad on a DGX Spark.

They are warnings and not errors: each was seen by somebody, on some machine, and may be repaired in an image whose tag
does not say so. The range of releases is what the thread reports, not what may be affected.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import Version, within

_UPSTREAM = "https://github.com/NVIDIA/TensorRT-LLM"
_FP4_EXPERTS = r"^(?=.*fp4)(?=.*(-a\d+(\.\d+)?b|moe|mixtral|llama-4|deepseek(?!.*distill)))"


@dataclasses.dataclass(frozen=True)
class Case:
    """What an issue is compared with; without a target model, issues of particular models are left out."""

    version: Version | None
    method: str
    options: t.Mapping[str, t.Any]
    target_model: str = ""
    # How many Sparks serve as one.
    sparks: int = 1

    def mapping(self, key: str) -> t.Mapping[str, t.Any]:
        value = self.options.get(key)
        return value if isinstance(value, dict) else {}


def _always(case: Case) -> bool:
    return True


def _reduces_between_sparks(case: Case) -> bool:
    return case.sparks > 1


def _drafts_with_eagle3(case: Case) -> bool:
    return case.method == "eagle3"


def _drafts_in_one_model(case: Case) -> bool:
    return case.method == "eagle3" and case.mapping("speculative_config").get("eagle3_one_model") is not False


def _has_host_cache(case: Case) -> bool:
    return bool(case.mapping("kv_cache_config").get("host_cache_size"))


def _runs_experts_on_trtllm(case: Case) -> bool:
    return case.mapping("moe_config").get("backend") == "TRTLLM"


def _runs_experts_on_cutlass(case: Case) -> bool:
    # Where nothing is said it is what these releases take.
    return case.mapping("moe_config").get("backend") in (None, "CUTLASS")


def _runs_untuned(case: Case) -> bool:
    return case.options.get("enable_autotuner") is False


def _drafts_with_mtp(case: Case) -> bool:
    return case.method == "MTP"


def _counts_cache_in_tokens(case: Case) -> bool:
    cache = case.mapping("kv_cache_config")
    by_bytes = cache.get("max_gpu_total_bytes") or cache.get("use_kv_cache_manager_v2") is False
    return bool(cache.get("max_tokens")) and not by_bytes


@dataclasses.dataclass(frozen=True)
class KnownIssue:
    """One combination, what comes of it, and where that was reported.

    Without first it holds for all releases. Models is searched in the target model's name, which may be empty.
    """

    id: str
    path: str
    message: str
    url: str
    first: str | None = None
    last: str | None = None
    models: str = ""
    applies: t.Callable[[Case], bool] = _always

    def matches(self, case: Case) -> bool:
        return (
            self._is_of(case.version) and bool(re.search(self.models, case.target_model, re.I)) and self.applies(case)
        )

    def _is_of(self, version: Version | None) -> bool:
        return self.first is None or (version is not None and within(version, self.first, self.last))

    def __str__(self) -> str:
        return f"{self.message}; see {self.url}"


KNOWN_ISSUES: tuple[KnownIssue, ...] = (
    KnownIssue(
        id="eagle3-garbles-before-8944",
        path="release",
        first="1.2.0rc0",
        last="1.2.0rc1",
        applies=_drafts_with_eagle3,
        message="with EAGLE-3 this release answers with endless repetition or nonsense on a DGX Spark;"
        " use 1.2.0rc6 or a newer one, which have the fix (pull request 8944)",
        url=f"{_UPSTREAM}/issues/8615",
    ),
    KnownIssue(
        id="eagle3-gibberish-11125",
        path="release",
        first="1.2.0rc8",
        last="1.2.0rc8",
        applies=_drafts_with_eagle3,
        message="with EAGLE-3 this release was seen to answer with gibberish on a GPU of the same generation;"
        " use 1.3.0rc12",
        url=f"{_UPSTREAM}/issues/11125",
    ),
    KnownIssue(
        id="gpt-oss-illegal-instruction-11313",
        path="release",
        first="1.2.0rc8",
        last="1.3.0rc2",
        models=r"gpt-oss",
        message="gpt-oss was seen to crash at random with an illegal instruction on a DGX Spark with 1.2.0rc8 and"
        " 1.3.0rc2; use 1.3.0rc12",
        url=f"{_UPSTREAM}/issues/11313",
    ),
    KnownIssue(
        id="eagle3-one-model-hang-12795",
        path="release",
        first="1.3.0rc3",
        # NVIDIA's playbook and other reports serve EAGLE-3 on a Spark with 1.3.0rc12 and 1.3.0rc13.
        last="1.3.0rc11",
        models=r"^(?!.*deepseek(?!.*distill))",
        applies=_drafts_in_one_model,
        message="before 1.3.0rc12 EAGLE-3 in one model may hang on a DGX Spark; use 1.3.0rc12, or try"
        " eagle3_one_model: false",
        url=f"{_UPSTREAM}/pull/12795",
    ),
    KnownIssue(
        id="eagle3-sinks-15739",
        path="release",
        # 8944 brought this kernel to the GB10; when its repair was opened (29 June 2026), main became 1.3.0rc21.
        first="1.2.0rc2",
        last="1.3.0rc20",
        models=r"gpt-oss",
        applies=_drafts_in_one_model,
        message="with EAGLE-3 in one model this release leaves out gpt-oss's attention sinks for all but the first"
        " token that it verifies, so that answers may differ from those without drafts though they read well, and fewer"
        " drafts are accepted; try eagle3_one_model: false (recipe single_eagle3_two_models), or serve without drafts",
        url=f"{_UPSTREAM}/pull/15739",
    ),
    KnownIssue(
        id="eagle3-sinks-18141",
        path="release",
        first="1.3.0rc21",
        # The last tag that is known to be older than the repair (opened 24 August 2026).
        last="1.3.0rc24",
        models=r"gpt-oss",
        applies=_drafts_in_one_model,
        message="with EAGLE-3 in one model this release verifies gpt-oss's drafts inaccurately; on a GB10 0.68 of them"
        " were accepted, and 0.83 after pull request 18141; try eagle3_one_model: false (recipe"
        " single_eagle3_two_models), or a release that has it",
        url=f"{_UPSTREAM}/pull/18141",
    ),
    KnownIssue(
        id="eagle3-drops-tool-calls-16377",
        path="release",
        # Reported of rc13; rc12 has the same kernels.
        first="1.3.0rc12",
        last="1.3.0rc13",
        models=r"gpt-oss",
        applies=_drafts_with_eagle3,
        message="with EAGLE-3 and gpt-oss on a DGX Spark this release may drop tool calls in chat, as 1.3.0rc13 was"
        " seen to do; if you use tools, use method none or another release",
        url=f"{_UPSTREAM}/issues/16377",
    ),
    KnownIssue(
        id="nccl-symmetric-12715",
        path="release",
        # Reported of rc10; rc18 is the last tag before the fix was merged (13 June 2026).
        first="1.3.0rc6",
        last="1.3.0rc18",
        applies=_reduces_between_sparks,
        message="on two Sparks the all-reduce of this release may crash (ncclGinGdakiQueryLastError) or hang while the"
        " server starts, as that of 1.3.0rc10 was seen to; use 1.2.0rc6, which was seen to work, or a release with"
        " pull request 12902",
        url=f"{_UPSTREAM}/issues/12715",
    ),
    KnownIssue(
        id="nvfp4-experts-stall-14500",
        path="release",
        first="1.3.0rc15",
        last="1.3.0rc15",
        models=_FP4_EXPERTS,
        message="this release was seen to stall while loading a mixture of experts in NVFP4 on a DGX Spark;"
        " use 1.3.0rc12",
        url=f"{_UPSTREAM}/issues/14500",
    ),
    KnownIssue(
        id="nvfp4-untuned-11368",
        path="enable_autotuner",
        # Reported of 1.3.0rc2; rc7 is of 13 March 2026, when the repair was opened, which was merged in that month.
        first="1.2.0rc6",
        last="1.3.0rc8",
        models=r"fp4",
        applies=_runs_untuned,
        message="without the autotuner this release takes kernels for matrices in NVFP4 that need more shared memory"
        " than a GB10 has, and ends in its first pass; leave it on, or use a release with pull request 12141",
        url=f"{_UPSTREAM}/issues/11368",
    ),
    KnownIssue(
        id="nvfp4-experts-slow-12897",
        path="moe_config.backend",
        # The repair went into main on 14 or 15 April 2026; rc12 is of 20 April, and its branch may be older.
        first="1.3.0rc11",
        last="1.3.0rc12",
        models=_FP4_EXPERTS,
        applies=_runs_experts_on_cutlass,
        message="this release may have CUTLASS 4.4.1, with which Qwen3-30B-A3B in NVFP4 ran at 4.8 tokens/s on a DGX"
        " Spark, and at 40 with 4.4.2 or with the backend TRITON; if it is as slow, use 1.3.0rc13 or TRITON",
        url=f"{_UPSTREAM}/pull/12899",
    ),
    KnownIssue(
        id="nvfp4-mtp-14575",
        path="release",
        first="1.3.0rc15",
        # Told as repaired in rc17.
        last="1.3.0rc16",
        models=_FP4_EXPERTS,
        applies=_drafts_with_mtp,
        message="with MTP and experts in NVFP4 this release was seen to fail on a DGX Spark while it starts; use"
        " 1.3.0rc17",
        url=f"{_UPSTREAM}/issues/14575",
    ),
    KnownIssue(
        id="nccl-2213",
        path="release",
        # rc18 asks for NCCL 2.28.9 to 2.29.2.
        first="1.3.0rc18",
        last="1.3.0rc18",
        applies=_reduces_between_sparks,
        message="this release may have NCCL 2.28.9, which was seen to crash after about 1.1 million collective"
        " operations on two Sparks (ncclLocalOpAppend); the server is started again then",
        url="https://github.com/NVIDIA/nccl/issues/2213",
    ),
    KnownIssue(
        id="kv-cache-manager-v2-16942",
        path="kv_cache_config.max_tokens",
        # Opened on 28 July 2026; main became rc24 two days later.
        first="1.3.0rc24",
        models=r"gpt-oss",
        applies=_counts_cache_in_tokens,
        message="a release with pull request 16942 sizes the KV cache of gpt-oss by max_gpu_total_bytes, and"
        " max_tokens may limit nothing; give kv_cache_config.max_gpu_total_bytes too, or use_kv_cache_manager_v2:"
        " false",
        url=f"{_UPSTREAM}/pull/16942",
    ),
    KnownIssue(
        id="host-cache-15793",
        path="kv_cache_config.host_cache_size",
        applies=_has_host_cache,
        message="on a GB10 host and GPU share their memory; a host cache only wastes it",
        url=f"{_UPSTREAM}/issues/15793",
    ),
    KnownIssue(
        id="fp4-experts-11932",
        path="moe_config.backend",
        applies=_runs_experts_on_trtllm,
        message="TRTLLM does not run FP4 experts on a GB10; use CUTLASS",
        url=f"{_UPSTREAM}/issues/11932",
    ),
)


def known_issues(case: Case) -> list[KnownIssue]:
    """The known issues a case runs into, in the order of the list."""
    return [issue for issue in KNOWN_ISSUES if issue.matches(case)]
