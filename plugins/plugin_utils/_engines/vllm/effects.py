# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The effects of vLLM's options and variables, by its rows and the shapes that its releases give their options."""

from __future__ import annotations

import functools
from pathlib import Path

from ..effects import Effects, read_effects
from .rules import KINDS, SHAPES


@functools.cache
def effects() -> Effects:
    """Return the table, which only some of a run's tasks need."""
    return read_effects(Path(__file__).with_name("effects.yml"), {**KINDS, **SHAPES}, is_command_line=True)
