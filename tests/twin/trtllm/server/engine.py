# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small n-gram language model with real speculative sampling.

The target model knows contexts of up to ten tokens and follows the document that fits the prompt best; the draft
model knows two tokens of context and only a part of the corpus. Drafts are verified as in the literature: greedy
decoding keeps them while they agree, sampling accepts with probability min(1, p/q) and otherwise draws from the rest.
Acceptance is therefore measured and not made up, and drafts never change what is generated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import random
import re
import typing as t
from pathlib import Path

Token = str
Distribution = dict[Token, float]

THINK: Token = "<|think|>"
FINAL: Token = "<|final|>"
END: Token = "<|end|>"
CONTROL = frozenset({THINK, FINAL, END})
WRONG: Token = "<|wrong|>"  # no model generates it

TARGET_ORDER = 10
DRAFT_ORDER = 2
BACKOFF = 0.05  # weight of shorter contexts
BACKGROUND = 0.03  # weight of all other documents beside the one that fits the prompt
HELD_BACK = 0.2  # share of the sentences that the draft model never saw

_TOKEN = re.compile(r" ?[A-Za-z']+| ?\d| ?[^\sA-Za-z'\d]|\s+")
_WORD = re.compile(r"[a-z]{2,}|\d+")
_SUM = re.compile(r"(\d{1,6})\s*(\+|-|\*|x|times|plus|minus|multiplied by)\s*(\d{1,6})", re.IGNORECASE)


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens; joining them gives the text again."""
    return _TOKEN.findall(text)


def detokenize(tokens: t.Iterable[Token]) -> str:
    return "".join(token for token in tokens if token not in CONTROL)


@dataclasses.dataclass(frozen=True)
class Document:
    question: str
    thinking: str
    answer: str

    def tokens(self) -> list[Token]:
        return [THINK, *tokenize(self.thinking), FINAL, *tokenize(self.answer), END]


def read_corpus(path: Path) -> list[Document]:
    text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("# "))
    documents = []
    for block in text.strip().split("\n%%\n"):
        match = re.fullmatch(r"Q: (.*?)\nT: (.*?)\nA: (.*)", block, re.DOTALL)
        if match is None:
            raise ValueError(f"The corpus {path} has a block without Q, T and A: {block[:60]!r}")
        documents.append(Document(*match.groups()))
    return documents


def arithmetic(prompt: str) -> Document | None:
    """Return the answer to the first sum, difference or product of two numbers in the prompt."""
    match = _SUM.search(prompt)
    if match is None:
        return None
    left, right = int(match[1]), int(match[3])
    name = match[2].lower()
    if name in ("+", "plus"):
        sign, result = "+", left + right
    elif name in ("-", "minus"):
        sign, result = "-", left - right
    else:
        sign, result = "*", left * right
    equation = f"{left} {sign} {right} = {result}"
    thinking = "The user asks for a calculation. I can do it in my head."
    return Document(prompt, thinking, f"{equation}. So the final answer is {result}.")


class NGrams:
    """Counts of the tokens after each context."""

    def __init__(self, sequences: t.Iterable[t.Sequence[Token]], order: int) -> None:
        self.order = order
        self.counts: dict[tuple[Token, ...], dict[Token, int]] = {}
        for sequence in sequences:
            self._learn(sequence)

    def _learn(self, sequence: t.Sequence[Token]) -> None:
        for position in range(1, len(sequence)):
            token = sequence[position]
            for length in range(min(self.order, position) + 1):
                followers = self.counts.setdefault(tuple(sequence[position - length : position]), {})
                followers[token] = followers.get(token, 0) + 1


def interpolate(sources: t.Sequence[tuple[float, NGrams]], context: t.Sequence[Token], order: int) -> Distribution:
    """Mix the distributions of the sources. The longest known context has the largest weight."""
    distribution: Distribution = {}
    for length in range(1, min(order, len(context)) + 1):
        merged = _merge(sources, tuple(context[-length:]))
        if not merged:
            break
        scale = 1 / (sum(merged.values()) + (BACKOFF if distribution else 0.0))
        mixed = {token: BACKOFF * share * scale for token, share in distribution.items()}
        for token, weight in merged.items():
            mixed[token] = mixed.get(token, 0.0) + weight * scale
        distribution = mixed
    if distribution:
        return distribution
    unconditional = _merge(sources, ())
    total = sum(unconditional.values())
    return {token: weight / total for token, weight in unconditional.items()}


def _merge(sources: t.Sequence[tuple[float, NGrams]], context: tuple[Token, ...]) -> Distribution:
    merged: Distribution = {}
    for weight, grams in sources:
        for token, count in grams.counts.get(context, {}).items():
            merged[token] = merged.get(token, 0.0) + weight * count
    return merged


class Conditioned(t.Protocol):
    """A language model that has read a prompt."""

    def distribution(self, generated: t.Sequence[Token]) -> Distribution: ...


class TargetModel:
    """The large model, which learns the corpus once and is conditioned on each prompt."""

    def __init__(self, documents: t.Sequence[Document]) -> None:
        self.documents = list(documents)
        self.background = NGrams((document.tokens() for document in documents), TARGET_ORDER)
        self.grams = [NGrams([document.tokens()], TARGET_ORDER) for document in documents]
        self._words = [set(_words(document.question)) for document in documents]
        self._rest = [set(_words(document.answer)) for document in documents]
        containing: dict[str, int] = {}
        for words in self._words:
            for word in words:
                containing[word] = containing.get(word, 0) + 1
        self._rarity = {word: math.log(1 + len(documents) / n) for word, n in containing.items()}

    def condition(self, prompt: str, *, chat: bool) -> TargetState:
        calculated = arithmetic(prompt)
        ranked = [self.grams[index] for index in self._rank(prompt)]
        if calculated is not None and not self._certain(prompt):
            ranked.insert(0, NGrams([calculated.tokens()], TARGET_ORDER))
        return TargetState(self.background, ranked, THINK if chat else FINAL)

    def _certain(self, prompt: str) -> bool:
        """Return whether the prompt repeats most of a known question, so that it is not just a calculation."""
        words = set(_words(prompt))
        return any(len(words & known) >= 0.6 * len(known) and len(known) > 6 for known in self._words)

    def _rank(self, prompt: str) -> list[int]:
        words = set(_words(prompt))

        def fit(index: int) -> tuple[float, str]:
            questions = words & self._words[index]
            answers = words & self._rest[index]
            score = sum(self._rarity[word] for word in questions) + 0.2 * len(answers)
            return -score / math.sqrt(4 + len(self._words[index])), _digest(f"{index} {prompt}")

        return sorted(range(len(self.documents)), key=fit)


class TargetState:
    """The large model after a prompt, with the best matching document first."""

    def __init__(self, background: NGrams, ranked: t.Sequence[NGrams], start: Token) -> None:
        self._background = background
        self._ranked = ranked
        self._start = start

    def distribution(self, generated: t.Sequence[Token]) -> Distribution:
        segment = generated.count(END)
        sources = [(1.0, self._ranked[segment % len(self._ranked)]), (BACKGROUND, self._background)]
        return interpolate(sources, context_of(generated, self._start, TARGET_ORDER), TARGET_ORDER)


class DraftModel:
    """The small model: it has shorter contexts and a part of the corpus, and does not see the prompt."""

    def __init__(self, documents: t.Sequence[Document]) -> None:
        self._sources = [(1.0, NGrams(_seen_by_draft(documents), DRAFT_ORDER))]

    def condition(self, start: Token) -> DraftState:
        return DraftState(self._sources, start)


class DraftState:
    def __init__(self, sources: t.Sequence[tuple[float, NGrams]], start: Token) -> None:
        self._sources = sources
        self._start = start

    def distribution(self, generated: t.Sequence[Token]) -> Distribution:
        return interpolate(self._sources, context_of(generated, self._start, DRAFT_ORDER), DRAFT_ORDER)


class LookupState:
    """Drafts without a model (NGram): the tokens that followed an earlier occurrence of the last tokens."""

    def __init__(self, prompt: t.Sequence[Token], longest: int, oldest: bool = True) -> None:
        self._prompt = list(prompt)
        self._longest = longest
        self._oldest = oldest

    def distribution(self, generated: t.Sequence[Token]) -> Distribution:
        history = [*self._prompt, *generated]
        for length in range(min(self._longest, len(history) - 1), 0, -1):
            wanted = history[-length:]
            starts = range(len(history) - length)
            for start in starts if self._oldest else reversed(starts):
                if history[start : start + length] == wanted:
                    return {history[start + length]: 1.0}
        return {history[-1] if history else " the": 1.0}


class Babble:
    """A broken engine that generates random tokens."""

    def __init__(self, vocabulary: t.Sequence[Token]) -> None:
        self._vocabulary = sorted(set(vocabulary) - CONTROL)

    def distribution(self, generated: t.Sequence[Token]) -> Distribution:
        number = int(_digest(f"{len(generated)} {generated[-1:]}"), 16)
        return {self._vocabulary[number % len(self._vocabulary)]: 1.0}


class Loop:
    """A broken engine that repeats a few words."""

    _PHRASE = tokenize(" the total of the total of")

    def distribution(self, generated: t.Sequence[Token]) -> Distribution:
        return {self._PHRASE[len(generated) % len(self._PHRASE)]: 1.0}


def context_of(generated: t.Sequence[Token], start: Token, order: int) -> list[Token]:
    """Return the last tokens as context. After an ignored end, a new document begins, as in the training."""
    context: list[Token] = []
    for token in reversed(generated):
        if len(context) == order:
            break
        if token == END:
            return [FINAL, *context][-order:]
        context.insert(0, token)
    return ([start, *context] if len(context) == len(generated) else context)[-order:]


@dataclasses.dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature <= 1e-4 or self.top_k == 1


@dataclasses.dataclass(frozen=True)
class Step:
    """The result of one pass of the target model."""

    tokens: list[Token]
    drafted: int
    accepted: int


class Generation:
    """The generation of one request. A share of the drafts can be wrong on purpose, which only costs passes."""

    def __init__(
        self, target: Conditioned, draft: Conditioned | None, sampling: Sampling, draft_errors: float = 0.0
    ) -> None:
        self._target = target
        self._draft = draft
        self._sampling = sampling
        self._draft_errors = draft_errors
        self._luck = random.Random(1)
        self._random = random.Random(sampling.seed)
        self.tokens: list[Token] = []

    def step(self, draft_length: int) -> Step:
        """Run one pass of the target model over up to draft_length drafted tokens."""
        drafts = self._propose(draft_length)
        new: list[Token] = []
        for token, guess in drafts:
            truth = self._shaped(self._target, [*self.tokens, *new])
            chosen = self._verify(token, guess, truth)
            new.append(chosen)
            if chosen != token:
                return self._keep(new, len(drafts), len(new) - 1)
        new.append(self._draw(self._shaped(self._target, [*self.tokens, *new])))
        return self._keep(new, len(drafts), len(drafts))

    def _keep(self, new: list[Token], drafted: int, accepted: int) -> Step:
        self.tokens.extend(new)
        return Step(new, drafted, accepted)

    def _propose(self, draft_length: int) -> list[tuple[Token, Distribution]]:
        drafts: list[tuple[Token, Distribution]] = []
        if self._draft is None:
            return drafts
        for _ in range(draft_length):
            guess = self._shaped(self._draft, [*self.tokens, *(token for token, _ in drafts)])
            if self._draft_errors and self._luck.random() < self._draft_errors:
                guess = {WRONG: 1.0}
            drafts.append((self._draw(guess), guess))
        return drafts

    def _verify(self, token: Token, guess: Distribution, truth: Distribution) -> Token:
        if self._sampling.greedy:
            return self._draw(truth)
        if self._random.random() * guess[token] < truth.get(token, 0.0):
            return token
        rest = {name: share - guess.get(name, 0.0) for name, share in truth.items() if share > guess.get(name, 0.0)}
        # If both distributions agree, rounding may leave an empty rest.
        return self._draw(rest or truth)

    def _draw(self, distribution: Distribution) -> Token:
        if self._sampling.greedy:
            return likeliest(distribution)
        return self._random.choices(list(distribution), list(distribution.values()))[0]

    def _shaped(self, model: Conditioned, generated: t.Sequence[Token]) -> Distribution:
        distribution = model.distribution(generated)
        return distribution if self._sampling.greedy else shape(distribution, self._sampling)


def likeliest(distribution: Distribution) -> Token:
    return min(distribution, key=lambda token: (-distribution[token], token))


def shape(distribution: Distribution, sampling: Sampling) -> Distribution:
    """Apply temperature, top_k and top_p."""
    ordered = sorted(distribution.items(), key=lambda item: (-item[1], item[0]))
    highest = ordered[0][1]
    warm = [(token, (share / highest) ** (1 / sampling.temperature)) for token, share in ordered]
    if sampling.top_k > 0:
        warm = warm[: sampling.top_k]
    total = sum(share for _, share in warm)
    kept: Distribution = {}
    reached = 0.0
    for token, share in warm:
        kept[token] = share / total
        reached += share / total
        if reached >= sampling.top_p:
            break
    return {token: share / reached for token, share in kept.items()}


def _seen_by_draft(documents: t.Sequence[Document]) -> t.Iterator[list[Token]]:
    for document in documents:
        sentence: list[Token] = []
        for token in document.tokens():
            sentence.append(token)
            if token.isspace() or token in (".", "!", "?", ":", END):
                if int(_digest(detokenize(sentence))[:4], 16) / 0xFFFF >= HELD_BACK:
                    yield sentence
                # The next sentence starts with the mark, so that the model learns its first word after it.
                sentence = [token]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
