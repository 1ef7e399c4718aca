# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the stand-in answers: its text is a function of the prompt, and drafts never change it."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from tests.twin.trtllm.server import engine

CORPUS = Path(engine.__file__).with_name("corpus.txt")
PROMPTS = (
    "Why is the sky blue?",
    "What is 17 + 25?",
    "Write a haiku about the sea.",
    "Explain how a lock on a canal works.",
    "A train travels 180 km in 3 hours. How fast is it?",
    "What is 12 * 12?",
)


class Expected(t.NamedTuple):
    """A complete answer."""

    text: str
    finish: str


@functools.cache
def model() -> engine.TargetModel:
    return engine.TargetModel(engine.read_corpus(CORPUS))


@functools.cache
def expected(prompt: str, max_tokens: int) -> Expected:
    """What a plain, greedy completion of so many tokens is, token by token and without drafts."""
    generation = engine.Generation(model().condition(prompt, chat=False), None, engine.Sampling())
    while len(generation.tokens) < max_tokens:
        if generation.step(0).tokens[-1] == engine.END:
            return Expected(engine.detokenize(generation.tokens), "stop")
    return Expected(engine.detokenize(generation.tokens), "length")
