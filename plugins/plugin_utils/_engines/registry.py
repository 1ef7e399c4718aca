# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The engines by name, and the words for how one drafts."""

from __future__ import annotations

import dataclasses
import typing as t

from .effects import known_effects
from .engine import Built, Engine, Request
from .findings import Finding, Report
from .methods import METHODS, NONE, NOT_OFFERED, called, method_words
from .remote_code import check_remote_code
from .tensorrt_llm.engine import TENSORRT_LLM
from .vllm.engine import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (TENSORRT_LLM, VLLM)}
# The engine of a recipe that names none.
DEFAULT = TENSORRT_LLM.name


def engine_of(how: t.Mapping[str, t.Any]) -> Engine:
    """Return the engine of a recipe, a deployment or a record."""
    return ENGINES[how.get("engine") or DEFAULT]


def build(engine: Engine, request: Request) -> Built:
    """Return the engine options of a request, judged by the rules that hold of every engine, too.

    Options of another engine have that as their only error.
    """
    built = engine.build(request)
    foreign = foreign_options(engine, request.options)
    kept, warnings = ([one for one in found if one.path not in foreign] for found in (built.errors, built.warnings))
    errors = [
        Finding(
            name,
            f"is an option of {other.words}, and {engine.words} serves this recipe. Remove it, or serve a recipe with "
            f"engine {other.name}",
        )
        for name, other in foreign.items()
    ]
    report = Report([*errors, *kept], warnings)
    effects = known_effects(engine.effects(), request.options, request.environment)
    check_remote_code(engine, request, effects, report)
    judged = {engine.remote_code, *(error.path for error in report.errors)}
    for effect in (effect for effect in effects if effect.path not in judged):
        report.warn(effect.path, effect.words)
    return dataclasses.replace(built, errors=report.errors, warnings=report.warnings)


def foreign_options(engine: Engine, options: t.Mapping[str, t.Any]) -> dict[str, Engine]:
    """Return the options that an engine does not have, but another one, in any spelling."""
    known = {name: {_word(option) for option in one.options} for name, one in ENGINES.items()}
    unknown = [str(option) for option in options if _word(str(option)) not in known[engine.name]]
    others = ((option, [one for one in ENGINES.values() if _word(option) in known[one.name]]) for option in unknown)
    return {option: having[0] for option, having in others if having}


def _word(option: str) -> str:
    return option.replace("-", "_")


def refused_method(engine: Engine, method: str) -> str:
    """Return why an engine cannot use a method, with the engines that can; empty if it can."""
    if method in NOT_OFFERED:
        return f"method {method} is not offered: {NOT_OFFERED[method]}. Choose one of {', '.join(engine.methods)}"
    if method in ("", NONE, *engine.methods):
        return ""
    choice = f"Choose one of {', '.join(engine.methods)}"
    if method in METHODS and engine.name in METHODS[method].options_only:
        own = METHODS[method].options_only[engine.name]
        return (
            f"method {method} is not offered for {engine.words}. {choice}, or leave method out and configure {own} as "
            f"{engine.speculation} in options"
        )
    others = " and ".join(other.words for other in ENGINES.values() if method in other.methods)
    have = f"; {others} has it" if others else ""
    return f"{engine.words} does not have method {method}{have}. {choice}"


def drafting(how: t.Mapping[str, t.Any]) -> str | None:
    """Return the speculation in words; None if it is unknown."""
    method = how.get("method")
    if method is None:
        return None
    if method in METHODS:
        return f"with {called(how)}"
    if method:
        return "without speculation"
    # The engine options have the method.
    engine = engine_of(how)
    section = how.get("speculation") or (how.get("options") or {}).get(engine.speculation)
    own = engine.section(section).method if isinstance(section, dict) else ""
    name = f"{method_words(own)}, by " if own else ""
    return f"with {name}a {engine.speculation} of its own"
