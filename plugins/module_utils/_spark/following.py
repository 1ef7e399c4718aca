# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Define the options of modules that their action calls repeatedly until they have finished."""

from __future__ import annotations

import typing as t


def following(by_default: bool) -> dict[str, dict[str, t.Any]]:
    """Return the options of the fragment dgx_spark.speculative._following, which the action plugin reads."""
    return {
        "follow": {"type": "bool", "default": by_default},
        "interval": {"type": "float", "default": 10},
        "timeout": {"type": "float", "default": 0},
    }
