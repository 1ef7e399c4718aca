# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The options of a module that its action calls again and again, until it has finished."""

from __future__ import annotations

import typing as t


def following(by_default: bool) -> dict[str, dict[str, t.Any]]:
    """Return the options of dgx_spark.speculative._following, which the action half reads."""
    return {
        "follow": {"type": "bool", "default": by_default},
        "interval": {"type": "float", "default": 10},
        "timeout": {"type": "float", "default": 0},
    }
