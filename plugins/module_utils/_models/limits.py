# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""For how long the Hub refuses requests because there were too many."""

from __future__ import annotations

import re
import typing as t

# Without a time in the answer: the Hub counts requests in windows of five minutes
# (https://huggingface.co/docs/hub/rate-limits).
WINDOW_S = 300.0
RESET = re.compile(r";\s*t=(\d+)")
SECONDS = re.compile(r"[0-9]{1,6}")


class Headers(t.Protocol):
    """The headers of an answer from any HTTP library."""

    def get(self, name: str, /) -> t.Any: ...


def limited_s(headers: Headers, otherwise: float = WINDOW_S) -> float:
    """Return the seconds in the headers of an answer 429, `otherwise` without them."""
    reset = RESET.search(headers.get("RateLimit") or "")
    said = headers.get("Retry-After") or (reset[1] if reset else "")
    return max(1.0, float(said)) if SECONDS.fullmatch(said) else otherwise
