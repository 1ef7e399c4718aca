# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The logs of all engines. Each log is read by the rows and marks of all of them, since their texts differ."""

from __future__ import annotations

import typing as t

from .engine import Log, Stage
from .tensorrt_llm import LOG_OF_TENSORRT_LLM
from .vllm import LOG_OF_VLLM

# By the name of the engine, as recipes and records have it.
LOGS: dict[str, Log] = {log.engine: log for log in (LOG_OF_TENSORRT_LLM, LOG_OF_VLLM)}
# The engine of a record that names none.
DEFAULT = LOG_OF_TENSORRT_LLM.engine
START_MARKERS: tuple[str, ...] = tuple(mark for log in LOGS.values() for mark in log.starts)
STAGES: tuple[Stage, ...] = tuple(stage for log in LOGS.values() for stage in log.stages)


def log_of(record: t.Mapping[str, t.Any]) -> Log:
    """Return the log of the engine of a record."""
    return LOGS[record.get("engine") or DEFAULT]
