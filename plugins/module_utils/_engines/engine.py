# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The interface of an engine on a Spark: how its log is read."""

from __future__ import annotations

import typing as t

from .._data.problem import KnownProblem


class Stage(t.NamedTuple):
    """One step between the start of a server and its first answer."""

    id: str
    substrings: tuple[str, ...]
    text: str


class Log(t.NamedTuple):
    """The output of an engine, and how it is recognised."""

    # Its name in recipes and records, which is that of its Python package.
    engine: str
    # The option that says how to draft.
    speculation: str
    # Known problems: those before the causes that any engine may have, and all others.
    first: tuple[KnownProblem, ...]
    rows: tuple[KnownProblem, ...]
    # Parts of the line with which a process of the server starts, and the steps of loading.
    starts: tuple[str, ...]
    stages: tuple[Stage, ...]
    # Patterns of time, level and rank before a message, and of what the launcher of ranks writes before each line.
    prefixes: tuple[str, ...]
    tag: str
    # The tokens of the KV cache that its options plan, and a text on what it made by the lines of its last start.
    # None if they do not say, for example because the options have bytes.
    cache_planned: t.Callable[[t.Mapping[str, t.Any]], int | None]
    cache_made: t.Callable[[t.Sequence[str]], str | None]
    # The most tokens of a prompt by its options and the context; None if it takes the context.
    longest_prompt: t.Callable[[t.Mapping[str, t.Any], t.Any], int | None]
    # The route of its figures, and the option that switches them on; empty if they are always there.
    metrics: str
    metrics_option: str
    # Beginnings of the names of its environment variables, which hold no secrets.
    variables: tuple[str, ...]
