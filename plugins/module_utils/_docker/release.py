# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Parse and compare releases of TensorRT-LLM, as in an image's tag."""

from __future__ import annotations

import re
import typing as t

RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:rc(\d+))?(?:\.post(\d+))?(?:\.dev(\d+))?(?:[-+][\w.+-]+)?")

# Major, minor, patch, candidate (infinite for a final release) and post release (-1 for a nightly build before it).
Version = tuple[int, int, int, float, int]
# The first and the last release of a range; without a last release the range is open.
Range = t.Sequence[t.Optional[str]]


def release_of(text: str) -> str:
    """Return the release in a release or an image reference: the tag, without registry, repository and digest."""
    name = text.strip().partition("@")[0]
    last = name.rpartition("/")[2]
    return last.rpartition(":")[2] if ":" in last else last


def version_of(release: str) -> Version | None:
    """Return a release as a comparable tuple. A final release is greater than its candidates."""
    match = RELEASE.fullmatch(release)
    if match is None:
        return None
    major, minor, patch, candidate, post, nightly = match.groups()
    return int(major), int(minor), int(patch), float(candidate or "inf"), int(post or 0) - (nightly is not None)


def is_nightly(version: Version) -> bool:
    """Return whether a version is a build between two releases, such as 1.3.0rc26.dev202609010000."""
    return version[4] < 0


def within(version: Version, first: str | None, last: str | None) -> bool:
    """Return whether a version is in a range, both ends included. A post release counts as its base release."""
    start, end = version_of(first or ""), version_of(last or "")
    return start is not None and start <= version and (end is None or version[:4] <= end[:4])


def range_of(version: Version, ranges: t.Sequence[Range]) -> Range | None:
    """Return the range of a version. If several match, return the last one."""
    return next((ends for ends in reversed(ranges) if within(version, *ends)), None)
