# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Check the environment of vLLM for variables that have no effect.

vLLM only warns of a variable that it does not know, and many public recipes still set such ones. Source: vllm/envs.py
of the releases 0.24.0 to 0.33.0.
"""

from __future__ import annotations

import re
import typing as t

from ....module_utils._docker.release import Version, version_of
from ..findings import Report


class Removed(t.NamedTuple):
    """Variables that no supported release reads, and the option that replaced them; empty if there is none."""

    names: re.Pattern[str]
    option: str
    # The first release without them, if an older supported one still reads them.
    since: str = ""


REMOVED = (
    # VLLM_USE_FLASHINFER_MOE_INT4 is still there.
    Removed(re.compile(r"VLLM_USE_FLASHINFER_MOE_(FP4|FP8|FP16|MXFP4_\w+)"), "moe-backend"),
    Removed(re.compile(r"VLLM_FLASHINFER_MOE_BACKEND|VLLM_MXFP4_USE_MARLIN"), "moe-backend"),
    Removed(re.compile(r"VLLM_TEST_FORCE_FP8_MARLIN"), "moe-backend", since="0.29.0"),
    Removed(re.compile(r"VLLM_NVFP4_GEMM_BACKEND"), "linear-backend"),
    Removed(re.compile(r"VLLM_ATTENTION_BACKEND"), "attention-backend"),
    Removed(re.compile(r"VLLM_USE_V1|VLLM_RPC_TIMEOUT"), ""),
)
NO_EFFECT = "vLLM no longer reads this variable, so it has no effect"
# With a key of its own the server would refuse the collection's probes, which have none.
KEY = "remove it. A secret does not belong into an environment that is stored as text. The API proxy checks keys"


def is_removed(row: Removed, name: str, version: Version | None) -> bool:
    """Return whether a release no longer reads a variable. An unknown release may be any."""
    if not row.names.fullmatch(name):
        return False
    since = version_of(row.since)
    return since is None or (version is not None and version >= since)


def check_environment(environment: t.Mapping[str, t.Any], version: Version | None, report: Report) -> None:
    """Report each variable that has no effect, with the option that replaced it."""
    for name in environment:
        if name == "VLLM_API_KEY":
            report.error(f"environment.{name}", KEY)
        for row in (row for row in REMOVED if is_removed(row, name, version)):
            fix = f"Set the engine option {row.option} instead" if row.option else "Remove it"
            report.error(f"environment.{name}", f"{NO_EFFECT}. {fix}")
