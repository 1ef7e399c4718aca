# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the errors that a program of another project finds with the known deviations, each with its reason."""

from __future__ import annotations

import dataclasses
import re
import typing as t

Deviation = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Complaint:
    """An error that a test of another project found."""

    test: str
    error: str

    def matches(self, deviation: Deviation) -> bool:
        """Return whether a known deviation explains it."""
        return bool(re.match(deviation["error"], self.error) and re.fullmatch(deviation.get("test", ".*"), self.test))


def unexplained(found: t.Sequence[Complaint], known: t.Sequence[Deviation]) -> tuple[list[Complaint], list[Deviation]]:
    """Return the errors without a deviation, and the deviations that no error has any more.

    What is due to the setup of the test may be absent: on another processor the model's answer may be shorter.
    """
    return (
        [one for one in found if not any(one.matches(deviation) for deviation in known)],
        [one for one in known if not (one.get("setup") or any(error.matches(one) for error in found))],
    )
