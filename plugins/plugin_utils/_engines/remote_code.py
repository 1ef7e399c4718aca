# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Check the option by which an engine runs Python of a model's authors."""

from __future__ import annotations

import typing as t

from ...module_utils._models.disk import COMMIT
from .effects import Effect, has_row
from .engine import Engine, Request
from .findings import Report


def check_remote_code(engine: Engine, request: Request, effects: t.Sequence[Effect], report: Report) -> None:
    """Check that the code is that of a commit, which cannot change, and name it. The draft model's code runs, too."""
    option = engine.remote_code
    if request.options.get(option) is not True:
        return
    for effect in (effect for effect in effects if has_row(engine.effects().unpins, effect.path)):
        report.error(
            effect.path,
            f"{effect.words}, so {option} would run other Python than that of the commit. Remove one of the two",
        )
    section = request.options.get(engine.speculation)
    drafting = engine.section(section).draft if isinstance(section, dict) else None
    for model in dict.fromkeys(str(model) for model in (request.target_model, request.draft_model, drafting) if model):
        revision = request.revisions.get(model)
        if revision and COMMIT.fullmatch(revision):
            report.warn(option, f"runs Python from {model}@{revision}")
        elif revision:
            report.error(
                option,
                f"would run Python from {model} as it is at '{revision}' on the day of the download. Set the revision "
                f"of this model to a commit of 40 digits from https://huggingface.co/{model}/commits/main, or remove "
                "the option",
            )
        elif model == drafting and not model.startswith("/"):
            report.error(
                option,
                f"would run Python from {model}, of which no commit is known. Make it the draft_model as well, with a "
                "commit as revision, or remove the option",
            )
        else:
            report.error(
                option,
                f"would run Python from the directory {model}, which has no commit. Give the model by its id and a "
                "commit as revision, or remove the option",
            )
