# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""What matters of a diff of data: Docker tells all of a mount or of an environment where one word is another."""

from __future__ import annotations

import typing as t


def is_nothing(value: t.Any) -> bool:
    return value is None or value in ("", [], {})


def plain(value: t.Any) -> t.Any:
    """Return data without what is not set."""
    if isinstance(value, dict):
        return {key: one for key, found in value.items() if not is_nothing(one := plain(found))}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def essence(value: t.Any) -> t.Any:
    """Return data without what is not set or off, which for Docker is the same."""
    if isinstance(value, dict):
        return {key: essence(one) for key, one in value.items() if one is not False}
    return value


def apart(before: t.Any, after: t.Any) -> tuple[t.Any, t.Any]:
    """Return what each of two has that the other lacks, without what is not set."""
    before, after = plain(before), plain(after)
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = {key: apart(before.get(key), after.get(key)) for key in sorted({*before, *after})}
        mine, theirs = ({key: cluster[side] for key, cluster in pairs.items()} for side in (0, 1))
        return plain(mine), plain(theirs)
    if isinstance(before, list) and isinstance(after, list):
        if not all(isinstance(one, dict) for one in (*before, *after)):
            # Their order may be what differs, as that of a command's words.
            return (None, None) if before == after else (before, after)
        known = [[essence(one) for one in side] for side in (before, after)]
        return [one for one in known[0] if one not in known[1]], [one for one in known[1] if one not in known[0]]
    return (None, None) if before == after else (before, after)


def changes(diff: t.Any) -> t.Any:
    """Return a module's diff, or several; texts stay as they are."""
    if isinstance(diff, list):
        return [changes(one) for one in diff]
    old, new = (diff.get("before"), diff.get("after")) if isinstance(diff, dict) else (None, None)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return diff
    # Such as the path of what is told of.
    same = {key: one for key, one in old.items() if isinstance(one, str) and one == new.get(key)}
    before, after = apart(old, new)
    return {**diff, "before": {**same, **before}, "after": {**same, **after}}
