# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Reduce the diff of data to its differences: Docker reports a whole mount or environment if one word differs."""

from __future__ import annotations

import typing as t

from ....module_utils._deployment.names import LABEL
from ....module_utils._deployment.records import GENERATIONS


def is_nothing(value: t.Any) -> bool:
    return value is None or value in ("", [], {})


def is_internal(mount: t.Any) -> bool:
    """Return whether a mount is the directory of a generation, whose files have a diff of their own."""
    return isinstance(mount, dict) and f"/{GENERATIONS}/" in str(mount.get("source"))


def without_internals(value: t.Any) -> t.Any:
    """Return data without this collection's labels, most of which are hashes, and without generations."""
    if isinstance(value, dict):
        return {key: without_internals(item) for key, item in value.items() if not str(key).startswith(LABEL)}
    return [without_internals(item) for item in value if not is_internal(item)] if isinstance(value, list) else value


def plain(value: t.Any) -> t.Any:
    """Return data without unset values."""
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if not is_nothing(kept := plain(item))}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def essence(value: t.Any) -> t.Any:
    """Return data without values that are unset or off, which is the same for Docker."""
    if isinstance(value, dict):
        return {key: essence(item) for key, item in value.items() if item is not False}
    return value


def apart(before: t.Any, after: t.Any) -> tuple[t.Any, t.Any]:
    """Return the part of each of two values that the other one lacks, without unset values."""
    before, after = plain(before), plain(after)
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = {key: apart(before.get(key), after.get(key)) for key in sorted({*before, *after})}
        old, new = ({key: pair[side] for key, pair in pairs.items()} for side in (0, 1))
        return plain(old), plain(new)
    if isinstance(before, list) and isinstance(after, list):
        if not all(isinstance(item, dict) for item in (*before, *after)):
            # The order may differ, as in the words of a command.
            return (None, None) if before == after else (before, after)
        old_items, new_items = ([essence(item) for item in side] for side in (before, after))
        return [item for item in old_items if item not in new_items], [
            item for item in new_items if item not in old_items
        ]
    return (None, None) if before == after else (before, after)


def changes(diff: t.Any) -> t.Any:
    """Return a module's diff, or several, reduced to the differences. Texts stay unchanged."""
    if isinstance(diff, list):
        return [changes(item) for item in diff]
    old, new = (diff.get("before"), diff.get("after")) if isinstance(diff, dict) else (None, None)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return diff
    old, new = without_internals(old), without_internals(new)
    # Keep texts that identify the object, such as its path.
    same = {key: text for key, text in old.items() if isinstance(text, str) and text == new.get(key)}
    before, after = apart(old, new)
    return {**diff, "before": {**same, **before}, "after": {**same, **after}}
