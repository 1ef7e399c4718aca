# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""vLLM's spelling of the speculation methods: their rows of methods.yml, under its name.

method  the value of the key method in speculative-config
adds    further keys of speculative-config
"""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.rows import Field, check_mapping, refuse
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.methods import (
    FILE,
    NONE,
    draft_model,
    read_methods,
)

NAME = "vllm"
# The keys of speculative-config for the draft length and the draft model, of every method.
LENGTH = "num_speculative_tokens"
MODEL = "model"


@dataclasses.dataclass(frozen=True)
class Spelling:
    """A method in speculative-config."""

    method: str
    adds: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


ROW: dict[str, Field] = {"method": Field(str, required=True), "adds": Field(dict)}


def read(path: Path) -> dict[str, Spelling]:
    """Return the spelling of each method of a file that vLLM has, by its name; raises DataError."""
    rows = {name: row.engines[NAME] for name, row in read_methods(path).items() if NAME in row.engines}
    refuse(path, [error for name, row in rows.items() for error in check_mapping(f"{name}.engines.{NAME}", row, ROW)])
    return {name: Spelling(**row) for name, row in rows.items()}


SPELLINGS = read(FILE)


def method_of(method: t.Any) -> str:
    """Return our name of a method of vLLM, or vLLM's own where it belongs to none of ours."""
    if not isinstance(method, str) or not method:
        return ""
    return next((name for name, spelling in SPELLINGS.items() if spelling.method == method), method)


def section_of(method: str | None, drafted: int | None, model: str | None) -> dict[str, t.Any]:
    """Return the speculative-config of a method; empty without one."""
    if method in (None, NONE) or method not in SPELLINGS:
        return {}
    spelling = SPELLINGS[method]
    inputs = {LENGTH: drafted, MODEL: model if draft_model(method) else None}
    return {
        "method": spelling.method,
        **{key: value for key, value in inputs.items() if value is not None},
        **spelling.adds,
    }
