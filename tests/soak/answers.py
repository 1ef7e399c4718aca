# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the stand-in answers: its text is a function of the prompt, and drafts never change it."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from tests.twin.trtllm.server import calls, engine

CORPUS = Path(engine.__file__).with_name("corpus.txt")
PROMPTS = (
    "Why is the sky blue?",
    "What is 17 + 25?",
    "Write a haiku about the sea.",
    "Explain how a lock on a canal works.",
    "A train travels 180 km in 3 hours. How fast is it?",
    "What is 12 * 12?",
)


# What the tools' question is about, and the one function that there is.
ASKS_FOR_A_CALL = "What is the weather in Paris?"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
# How one asks: for a text, in a chat, and in a chat with tools.
ROUTES = ("completions", "chat", "tools")


class Expected(t.NamedTuple):
    """A complete answer."""

    text: str
    finish: str
    thinking: str = ""
    calls: tuple[tuple[str, str], ...] = ()


@functools.cache
def model() -> engine.TargetModel:
    return engine.TargetModel(engine.read_corpus(CORPUS))


@functools.cache
def expected(prompt: str, max_tokens: int, route: str = "completions") -> Expected:
    """Return what is answered, token by token and without speculation."""
    if route == "tools":
        call = calls.choose(TOOLS, None, prompt)
        assert call
        thinking = f"The user wants what the function {call.name} knows. I call it."
        return Expected("", "tool_calls", thinking, ((call.name, call.arguments),))
    tokens, finish = generated(prompt, max_tokens, chat=route == "chat")
    if route == "completions":
        return Expected(engine.detokenize(tokens), finish)
    position = tokens.index(engine.FINAL) if engine.FINAL in tokens else len(tokens)
    return Expected(engine.detokenize(tokens[position:]), finish, engine.detokenize(tokens[:position]))


def generated(prompt: str, max_tokens: int, chat: bool) -> tuple[list[engine.Token], str]:
    """Return the tokens of a greedy answer, and why it ends."""
    generation = engine.Generation(model().condition(prompt, chat=chat), None, engine.Sampling())
    while len(generation.tokens) < max_tokens:
        if generation.step(0).tokens[-1] == engine.END:
            return generation.tokens[:-1], "stop"
    return generation.tokens, "length"
