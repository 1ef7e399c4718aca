# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the answer of check_options.py, which has the image judge the engine options."""

from __future__ import annotations

import typing as t

Mapping = t.Mapping[str, t.Any]


def refusal(plan: Mapping, answer: Mapping) -> str:
    """Return why the image rejects the engine options of a plan; empty if it does not, or could not judge them."""
    if not answer["available"] or answer["accepted"]:
        return ""
    return (
        f"{plan['engine_words']} {answer['version']} in {plan['served']['image']} rejects the engine options: "
        f"{answer['error'].rstrip('.')}. This collection's rules accept them. Nothing was changed, and no weights were "
        f"downloaded. {plan['fix']}"
    )


def warnings(image: str, answer: Mapping) -> list[str]:
    """Return what the image did not judge, with the reason; empty if it judged all, or was not asked."""
    if not answer:
        return []
    reason = answer.get("without_models") if answer["available"] else answer["error"]
    if not reason:
        return []
    what = "the engine options without the models" if answer["available"] else "no engine options"
    return [
        f"The image {image} judged {what} ({reason.rstrip('.')}). Options that this collection accepts by mistake "
        "would end the server while it starts. The next run asks again."
    ]
