# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which TensorRT-LLM the stand-in plays: the release that its image names decides about options, routes and ports."""

from __future__ import annotations

import os
import re
import typing as t

Family = t.Literal["1.2", "1.3"]

DEFAULT = "1.3.0rc12"


def family_of(release: str) -> Family:
    """The engine options were rewritten between 1.2 and 1.3."""
    return "1.3" if _number(release) >= (1, 3) else "1.2"


def early(release: str) -> bool:
    """As 1.2.0rc1 was: before the command line and the routes of 1.2.0rc6, and before the fields that came with it."""
    if family_of(release) == "1.3":
        return False
    candidate = re.search(r"rc(\d+)", release)
    return _number(release) < (1, 2) or (candidate is not None and int(candidate[1]) < 6)


def recent(release: str) -> bool:
    """As 1.3.0rc29 is taken to be: by NVIDIA's pages on 1.3.0rc27 and 1.4.0rc1, and unkind where they differ."""
    candidate = re.search(r"rc(\d+)", release)
    return _number(release) >= (1, 4) or (family_of(release) == "1.3" and int(candidate[1] if candidate else 99) >= 27)


def _number(release: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (1, 3)


RELEASE = os.environ.get("TRT_LLM_VERSION") or DEFAULT
FAMILY: Family = family_of(RELEASE)
EARLY = early(RELEASE)
RECENT = recent(RELEASE)
