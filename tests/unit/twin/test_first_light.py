# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What counts as an answer of the real model: its own one, whatever the processor rounds."""

from __future__ import annotations

import typing as t

import pytest

from tests.first_light import TOKENS, Rank


class Canned(Rank):
    """A rank with answers of its own: what it says, and how likely its tokens are when it reads them."""

    def __init__(self, said: dict[str, t.Any], prompt: float, gaps: t.Sequence[float]) -> None:
        self.said, self.prompt, self.gaps = said, prompt, gaps

    def ask(self, **body: t.Any) -> dict[str, t.Any]:
        if "return_token_ids" in body:
            return self.said
        own = [{"logprob": self.prompt}, *({"logprob": -0.1 - gap} for gap in self.gaps)]
        places = [{str(token): place, "0": {"logprob": -0.1}} for token, place in zip(body["prompt"][1:], own)]
        return {"choices": [{"prompt_logprobs": [None, *places]}]}


def said(model: str = Rank.model, tokens: int = TOKENS) -> dict[str, t.Any]:
    choice = {"prompt_token_ids": [1, 2], "token_ids": list(range(3, 3 + tokens))}
    return {"model": model, "usage": {"completion_tokens": tokens}, "choices": [choice]}


@pytest.mark.parametrize(
    ("answer", "prompt", "last", "right"),
    [
        (said(), -0.1, 0.0, True),
        # A tie that this processor decides in another way.
        (said(), -0.1, 0.5, True),
        ({}, -0.1, 0.0, False),
        (said(model="another"), -0.1, 0.0, False),
        (said(tokens=0), -0.1, 0.0, False),
        # An engine whose weights are chance, and one that accepts wrong drafts.
        (said(), -10.8, 0.0, False),
        (said(), -0.1, 2.75, False),
    ],
)
def test_a_right_answer_is_the_models_own(answer: dict[str, t.Any], prompt: float, last: float, right: bool) -> None:
    assert Canned(answer, prompt, [0.0] * (TOKENS - 1) + [last]).is_right() is right
