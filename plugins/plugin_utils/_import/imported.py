# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Hold what an import has so far: the user's decisions, the recipe, and what stands against it."""

from __future__ import annotations

import dataclasses
import typing as t

from .formats import RecipeImportError

Options = dict[str, t.Any]
Part = dict[str, t.Any]
# The input that leaves out what is refused.
LEAVE_OUT = {"without_mods": True}


@dataclasses.dataclass(frozen=True)
class Choices:
    """The decisions of the user; None or empty without one."""

    context: int | None = None
    concurrency: int | None = None
    sparks: int | None = None
    revision: str | None = None
    without_mods: bool = False
    # Repositories of images and models.
    allow_code_of: t.Sequence[str] = ()
    # Paths of options that can do more than tune the server.
    allow_options: t.Sequence[str] = ()


@dataclasses.dataclass
class Imported:
    """The recipe, what was left out with the reason, notes for the user, and an input if it cannot be served.

    The refusals are all reasons against it, with the inputs that allow it. The inputs are not enough if a refusal has
    none. A recipe has failed if a part of it is missing.
    """

    recipe: Part = dataclasses.field(default_factory=dict)
    dropped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    hint: str = ""
    refusals: list[str] = dataclasses.field(default_factory=list)
    inputs: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    is_enough: bool = True
    has_failed: bool = False

    def drop(self, name: str, reason: str) -> None:
        self.dropped.append((name, reason))

    def refuse(self, reason: str, **inputs: t.Any) -> None:
        """Add a reason and the inputs that allow it. The import continues, so that all reasons are read at once."""
        self.refusals.append(reason)
        self.is_enough = self.is_enough and bool(inputs)
        for name, value in inputs.items():
            self.inputs[name] = [*self.inputs.get(name, ()), *value] if isinstance(value, list) else value

    def attempt(self, step: t.Callable[..., Part], *arguments: t.Any) -> Part:
        """Return a part of the recipe; empty, with the reason among the refusals, if there is none."""
        try:
            return step(*arguments, self)
        except RecipeImportError as error:
            self.refuse(str(error))
            self.has_failed = True
            return {}
