# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""results.json of a benchmark whose truth is known: what sweep.py measures on a server with these properties."""

from __future__ import annotations

import dataclasses
import random
import typing as t

CATEGORIES = ("chat", "reasoning", "code", "extraction", "long context")
WORDS = ["a", "train", "goes", "through", "the", "night", "and", "nobody", "knows", "when", "it", "will", "arrive"]

Acceptance = t.Union[float, t.Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A prompt, and how many tokens its answer has if nothing cuts it."""

    id: str
    category: str
    natural_tokens: int = 10_000


def prompts(each: int = 3, categories: t.Sequence[str] = CATEGORIES, natural_tokens: int = 10_000) -> list[Prompt]:
    """So many prompts of each category."""
    return [
        Prompt(f"{category.replace(' ', '-')}-{number}", category, natural_tokens)
        for category in categories
        for number in range(1, each + 1)
    ]


@dataclasses.dataclass(frozen=True)
class Truth:
    """A server. A pass that checks k drafts takes target_ms (1 + growth k) + k draft_ms; each draft token is accepted
    with the same chance, of its own in each category if acceptance is a mapping."""

    acceptance: Acceptance = 0.7
    target_ms: float = 20.0
    draft_ms: float = 3.0
    growth: float = 0.0
    noise: float = 0.02
    ttft_ms: float = 150.0
    max_tokens: int = 256
    repetitions: int = 3
    # Without counts in each chunk nobody knows what a pass made; the server's own count may be missing, too, or wrong.
    chunk_usage: bool = True
    server_count: bool = True
    server_factor: float = 1.0
    clock_mhz: float = 2400.0

    def chance(self, category: str) -> float:
        return self.acceptance if isinstance(self.acceptance, (int, float)) else self.acceptance[category]

    def acceptance_length(self, draft_length: int, category: str = "") -> float:
        return sum(self.chance(category) ** position for position in range(draft_length + 1))

    def pass_ms(self, draft_length: int) -> float:
        return self.target_ms * (1 + self.growth * draft_length) + draft_length * self.draft_ms

    def tokens_per_second(self, draft_length: int, category: str = "") -> float:
        return 1000 * self.acceptance_length(draft_length, category) / self.pass_ms(draft_length)

    def speedup(self, draft_length: int, category: str = "") -> float:
        return self.tokens_per_second(draft_length, category) / self.tokens_per_second(0, category)


# On these drafts win, with length 3; and lose, with any.
WINS = Truth()
LOSES = Truth(acceptance=0.3, draft_ms=10.0, growth=0.2)


def _answer(prompt: Prompt, tokens: int) -> str:
    chance = random.Random(f"text {prompt.id}")
    return " ".join(chance.choice(WORDS) for _unused in range(tokens))


def _sample(
    truth: Truth, prompt: Prompt, draft_length: int, repetition: int, seed: int, chance: random.Random
) -> dict[str, t.Any]:
    total = min(truth.max_tokens, prompt.natural_tokens)
    # Which tokens a draft guesses depends on the text alone: the same for all draft lengths and repetitions.
    draws = random.Random(f"{seed} {prompt.id}")
    guessed = [draws.random() < truth.chance(prompt.category) for _unused in range(total + draft_length)]
    tokens = [1]
    seconds: list[float] = []
    while (done := sum(tokens)) < total:
        accepted = 0
        while accepted < draft_length and guessed[done + accepted]:
            accepted += 1
        tokens.append(min(1 + accepted, total - done))
        seconds.append(truth.pass_ms(draft_length) / 1000 * max(0.1, chance.gauss(1, truth.noise)))
    return {
        "prompt": prompt.id,
        "category": prompt.category,
        "repetition": repetition,
        "prompt_tokens": 40,
        "tokens": total,
        "ttft_s": truth.ttft_ms / 1000 * max(0.1, chance.gauss(1, truth.noise)),
        "first_tokens": 1,
        "decode_s": sum(seconds),
        "pass_tokens": tokens[1:] if truth.chunk_usage else None,
        "pass_seconds": seconds if truth.chunk_usage else None,
        # The server counts the pass that read the prompt, too.
        "tokens_per_pass": truth.server_factor * total / len(tokens) if truth.server_count else None,
        "text": _answer(prompt, total) if repetition == 0 else None,
        "finish_reason": "length" if total < prompt.natural_tokens else "stop",
    }


def point(truth: Truth, draft_length: int, asked: t.Sequence[Prompt], seed: int) -> dict[str, t.Any]:
    """What was measured with one draft length; 0 is without speculation."""
    chance = random.Random(f"{seed} {draft_length}")
    samples = [
        _sample(truth, prompt, draft_length, repetition, seed, chance)
        for repetition in range(truth.repetitions)
        for prompt in asked
    ]
    clock = truth.clock_mhz
    return {
        "id": str(draft_length) if draft_length else "off",
        "draft_length": draft_length,
        "fingerprint": f"{draft_length:064x}",
        "measured_at": "2026-11-22T10:00:00Z",
        "seconds": sum(sample["ttft_s"] + sample["decode_s"] for sample in samples),
        "loading_s": 131.5,
        "error": None,
        "samples": samples,
        "lengths": [
            {"asked_tokens": 1024, "prompt_tokens": 1019, "ttft_s": 0.31},
            {"asked_tokens": 8192, "prompt_tokens": 8177, "ttft_s": 2.42},
        ],
        "gpu": {
            "clock_mhz": {"mean": clock, "low": clock - 30, "high": clock + 15},
            "power_w": {"mean": 61.0, "low": 48.2, "high": 70.5},
            "temperature_c": {"mean": 63.0, "low": 55.0, "high": 67.0},
            "samples": 240,
        },
        "memory_available": 31_000_000_000,
    }


def failed(draft_length: int, reason: str) -> dict[str, t.Any]:
    """A point whose server did not come up."""
    return {
        **point(WINS, draft_length, [], 0),
        "seconds": 12.0,
        "loading_s": None,
        "error": reason,
        "lengths": [],
        "gpu": None,
        "memory_available": None,
    }


def results(
    truth: Truth = WINS,
    draft_lengths: t.Sequence[int] = (0, 1, 2, 3),
    asked: t.Sequence[Prompt] | None = None,
    errors: t.Mapping[int, str] | None = None,
    seed: int = 1,
) -> dict[str, t.Any]:
    """The whole file; errors names the draft lengths that could not be measured, and why."""
    asked = prompts() if asked is None else asked
    reasons = errors or {}
    return {
        "schema": 1,
        "started_at": "2026-11-22T09:30:00Z",
        "finished_at": "2026-11-22T10:45:00Z",
        "left_out": [],
        "skipped": [],
        "points": [
            failed(length, reasons[length]) if length in reasons else point(truth, length, asked, seed)
            for length in draft_lengths
        ],
        "restored": True,
    }


def change_answer(measured: dict[str, t.Any], point_id: str, prompt_id: str, at_character: int) -> None:
    """Make the answers of a point to a prompt go on differently from a character on."""
    for entry in measured["points"]:
        for sample in entry["samples"]:
            if entry["id"] == point_id and sample["prompt"] == prompt_id and sample["text"] is not None:
                sample["text"] = sample["text"][:at_character] + "# and now for something else"


# gpt-oss-120b with EAGLE-3 on one Spark, as its recipe counts it.
ROOFLINE: dict[str, t.Any] = {
    "draft_cost": 0.318,
    "expert_share": 0.381,
    "experts": 128,
    "active_experts": 4,
    "target_gb": 5.0,
}


def context(**changes: t.Any) -> dict[str, t.Any]:
    """What the controller knows about the deployment that was measured."""
    return {
        "title": "gpt-oss-120b with EAGLE-3 on one Spark",
        "deployment": "single_eagle3",
        "recipe": "single_eagle3",
        "engine": "tensorrt_llm",
        "draft_length": 5,
        "method": "eagle3",
        "image": {
            "reference": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
            "id": "sha256:" + "1" * 64,
            "digests": ["nvcr.io/nvidia/tensorrt-llm/release@sha256:" + "2" * 64],
        },
        "models": {"openai/gpt-oss-120b": "3" * 40, "nvidia/gpt-oss-120b-Eagle3-long-context": "4" * 40},
        "hardware": {"gpu": "NVIDIA GB10", "driver": "580.95.05", "sparks": 1},
        "versions": {"collection": "0.1.0", "tensorrt_llm": "1.3.0rc12"},
        "date": "2026-11-22",
        "settings": {"max_tokens": 256, "repetitions": 3, "warmup": 2, "prompt_lengths": [1024, 8192]},
        # Of an empty list.
        "prompts": "4f53cda18c2b",
        "roofline": ROOFLINE,
        **changes,
    }
