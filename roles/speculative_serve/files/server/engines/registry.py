# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of this container, by the environment."""

from __future__ import annotations

import typing as t

from server.engines.engine import Engine
from server.engines.tensorrt_llm import TENSORRT_LLM
from server.engines.vllm import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (TENSORRT_LLM, VLLM)}


def engine_of(environment: t.Mapping[str, str]) -> Engine:
    """Return the engine of a container by its environment."""
    return ENGINES[environment.get("DGX_SPARK_ENGINE", TENSORRT_LLM.name)]
