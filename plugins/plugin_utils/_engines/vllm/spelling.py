# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""vLLM's spelling of the speculation methods: their rows of methods.yml, under its name.

method           the value of the key method in speculative-config
also             pattern of further values that vLLM replaces with this one
adds             further keys of speculative-config, which the engine options may replace
fixed            further keys by which vLLM tells it from another method, which they may not
since            the first release that has it; default: all that the collection serves
drafts           by the architecture of a draft model, the first release that has it
runner           the model runner that alone has it; default: any
garbles_hybrids  the thread that reports wrong text for hybrid targets, to which it is refused
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from pathlib import Path

from ..._data.rows import Field
from ..methods import FILE, draft_model, read_engine_rows

NAME = "vllm"
# The keys of speculative-config for the draft length and the draft model, of every method.
LENGTH = "num_speculative_tokens"
MODEL = "model"


@dataclasses.dataclass(frozen=True)
class Spelling:
    """A method in speculative-config."""

    method: str
    also: str = ""
    adds: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    fixed: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    since: str = ""
    drafts: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    runner: str = ""
    garbles_hybrids: str = ""

    def has(self, section: t.Mapping[str, t.Any]) -> bool:
        """Return whether a speculative-config has this method."""
        name = str(section.get("method"))
        is_own = name == self.method or re.fullmatch(self.also, name) is not None
        return is_own and self.fixed.items() <= section.items()


RELEASE = Field(str, pattern=re.compile(r"\d+\.\d+\.\d+"), form="a release such as 0.28.0")
ROW: dict[str, Field] = {
    "method": Field(str, required=True),
    "also": Field(str),
    "adds": Field(dict),
    "fixed": Field(dict),
    "since": RELEASE,
    "drafts": Field(dict, each=RELEASE),
    "runner": Field(str, choices=("V2",)),
    "garbles_hybrids": Field(str),
}


def read(path: Path) -> dict[str, Spelling]:
    """Return the spelling of each method of a file that vLLM has, by its name; raises DataError."""
    return {name: Spelling(**row) for name, row in read_engine_rows(path, NAME, ROW).items()}


SPELLINGS = read(FILE)


def spelt(section: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a speculative-config with the names of its keys as vLLM reads them."""
    return {str(key).replace("-", "_"): value for key, value in section.items()}


def method_of(section: t.Any) -> str:
    """Return our name of the method in a speculative-config, or vLLM's own where it belongs to none of ours."""
    method = section.get("method") if isinstance(section, dict) else None
    if not isinstance(method, str) or not method:
        return ""
    names = [name for name, spelling in SPELLINGS.items() if spelling.has(section)]
    # One with fixed keys is told by them from the method without.
    return max(names, key=lambda name: len(SPELLINGS[name].fixed), default=method)


def decided_keys(method: str) -> tuple[str, ...]:
    """Return the keys of speculative-config that follow from a method and its inputs."""
    return ("method", LENGTH, MODEL, *(SPELLINGS[method].fixed if method in SPELLINGS else ()))


def section_of(method: str, drafted: int | None, model: str | None, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the speculative-config of a method with further keys of it from the options; empty without a method."""
    if method not in SPELLINGS:
        return {}
    spelling = SPELLINGS[method]
    inputs = {LENGTH: drafted, MODEL: (model or None) if draft_model(method) else None}
    return {
        "method": spelling.method,
        **{key: value for key, value in inputs.items() if value is not None},
        **spelling.adds,
        **options,
        **spelling.fixed,
    }
