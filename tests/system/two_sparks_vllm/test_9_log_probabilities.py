# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two Sparks with a half of the model each compute what one computes, position by position: equal text shows less."""

from __future__ import annotations

import math
import typing as t

import pytest

from tests import playbook
from tests.first_light import Rank, variables

ALONE = "first_light"
PROMPTS = (
    "Question: What is the capital of France? Answer: Paris is the capital of France, and has been for centuries.",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20",
    "The Apache License is a permissive licence: it lets anyone use the software for any purpose, and change it.",
    "def add(a: int, b: int) -> int:\n    return a + b\n\n\ndef multiply(a: int, b: int) -> int:\n    return a * b\n",
    "Wasser ist eine chemische Verbindung aus Sauerstoff und Wasserstoff. À bientôt! 日本語 ✓",
)
# In bfloat16, sums of halves are rounded otherwise, and logits between 16 and 32 have steps of 0.125. So far apart may
# the two likeliest tokens of a tie be, the figures of a token, and those of all tokens on average. On the twin, 191
# positions were apart by 0.45 at most and 0.037 on average, with two ties of 0.25.
TIE, APART, ON_AVERAGE = 0.5, 0.75, 0.06


class Position(t.NamedTuple):
    """What the engine says of a place in a text: the token there, and the likeliest ones with their figures."""

    token: str
    logprob: float
    likeliest: dict[str, float]

    @property
    def best(self) -> str:
        return max(self.likeliest, key=lambda token: self.likeliest[token])

    def gap(self, other: str) -> float:
        """Return by how much another token is less likely than the likeliest."""
        return self.likeliest[self.best] - self.likeliest.get(other, -math.inf)


Texts = list[list[Position]]


def look(node: Rank, prompt: str) -> list[Position]:
    """Return the positions of a text, all of whose tokens are given."""
    (choice,) = node.ask(prompt=prompt, max_tokens=1, prompt_logprobs=5)["choices"]
    # Nothing is before the first token. The token of the text comes first, whatever its rank.
    places = [list(place.items()) for place in choice["prompt_logprobs"][1:]]
    return [
        Position(
            place[0][1]["decoded_token"],
            place[0][1]["logprob"],
            {f"{number} {entry['decoded_token']!r}": entry["logprob"] for number, entry in place},
        )
        for place in places
    ]


@pytest.fixture(name="both", scope="module")
def fixture_both(head: Rank) -> tuple[Texts, Texts]:
    """The same texts, seen by two Sparks and then by one of them."""
    head.wait_until_it_runs()
    two = [look(head, prompt) for prompt in PROMPTS]
    playbook.succeed("serve", "--limit", "spark-1", variables=variables(ALONE))
    alone = Rank(1, ALONE)
    alone.wait_until_it_runs()
    return two, [look(alone, prompt) for prompt in PROMPTS]


@pytest.fixture(name="pairs", scope="module")
def fixture_pairs(both: tuple[Texts, Texts]) -> list[tuple[Position, Position]]:
    """Each position on two Sparks with the same one on one Spark."""
    return [pair for texts in zip(*both) for pair in zip(*texts)]


def test_the_positions_are_those_of_the_texts(both: tuple[Texts, Texts]) -> None:
    two, one = ([[position.token for position in text] for text in texts] for texts in both)
    assert two == one
    for prompt, tokens in zip(PROMPTS, one):
        assert len(tokens) > 15
        # A letter of more than one token is in none of them.
        assert prompt.endswith("".join(tokens)) or not prompt.isascii()


def test_every_token_is_as_likely_on_two_sparks_as_on_one(pairs: list[tuple[Position, Position]]) -> None:
    apart = [abs(two.logprob - one.logprob) for two, one in pairs]
    print(f"{len(pairs)} positions, apart by {sum(apart) / len(apart):.4f} on average, {max(apart):.4f} at most")
    assert [pair for pair, size in zip(pairs, apart) if size >= APART] == []
    assert sum(apart) / len(apart) < ON_AVERAGE
    # Not the figures of an engine that computes nothing.
    assert len({one.logprob for _, one in pairs}) > len(pairs) / 2


def test_another_token_is_the_likeliest_only_at_a_tie(pairs: list[tuple[Position, Position]]) -> None:
    others = [(two, one) for two, one in pairs if two.best != one.best]
    for two, one in others:
        print(f"a tie before {one.token!r}: {two.best} on two Sparks, {one.best} on one, {one.gap(two.best):.4f} apart")
    assert [(two, one) for two, one in others if max(one.gap(two.best), two.gap(one.best)) >= TIE] == []
    assert len(others) < len(pairs) / 20
