# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the simulated release of TensorRT-LLM from the image. It decides about options, routes and ports."""

from __future__ import annotations

import os
import re
import typing as t

Family = t.Literal["1.2", "1.3"]
# What a request for log-probabilities does to a server that drafts in one model; otherwise it is answered.
LogProbs = t.Literal["answered", "ends", "hangs", "refused"]

DEFAULT = "1.3.0rc12"


def family_of(release: str) -> Family:
    """Return the family of a release. The engine options were rewritten between 1.2 and 1.3."""
    return "1.3" if _number(release) >= (1, 3) else "1.2"


def early(release: str) -> bool:
    """Return whether a release is like 1.2.0rc1: without the command line, routes and fields of 1.2.0rc6."""
    if family_of(release) == "1.3":
        return False
    candidate = re.search(r"rc(\d+)", release)
    return _number(release) < (1, 2) or (candidate is not None and int(candidate[1]) < 6)


def recent(release: str) -> bool:
    """Return whether a release is like 1.3.0rc29.

    Sources are NVIDIA's pages on 1.3.0rc27 and 1.4.0rc1. If they differ, the stricter behaviour is simulated.
    """
    candidate = re.search(r"rc(\d+)", release)
    return _number(release) >= (1, 4) or (family_of(release) == "1.3" and int(candidate[1] if candidate else 99) >= 27)


def log_probs_of(release: str) -> LogProbs:
    """Return what a release does that drafts in one model: NVIDIA/TensorRT-LLM pull requests 12547 and 18401.

    An assertion ends it; later only its forked workers crash, with which it hangs; from then on the request is refused.
    """
    candidate = re.search(r"rc(\d+)", release)
    number = int(candidate[1]) if candidate else 99
    if family_of(release) == "1.2" or (_number(release) == (1, 3) and number < 10):
        return "ends"
    return "refused" if recent(release) else "hangs"


def _number(release: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (1, 3)


RELEASE = os.environ.get("TRT_LLM_VERSION") or DEFAULT
FAMILY: Family = family_of(RELEASE)
EARLY = early(RELEASE)
RECENT = recent(RELEASE)
LOG_PROBS = log_probs_of(RELEASE)
