# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Calculate the speed, the acceptance length and the tokens a pass of an answer."""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

# In less than that the chunks came out of a buffer.
_LEAST_S = 0.001


def rounded(value: float) -> float:
    """Return a figure as it is stored."""
    return round(value, 6)


def tokens_per_pass(tokens: int | None, later_passes: int) -> float | None:
    """Return tokens a pass as servers count: the pass that read the prompt and made the first token is one, too."""
    return tokens / (1 + later_passes) if tokens and later_passes else None


@dataclasses.dataclass(frozen=True)
class Decoding:
    """The generation of an answer, by the server's own counts of tokens; None is unknown.

    The first chunk is the prompt's own pass. Each later one is one pass of the target model.
    """

    tokens: int | None = None
    ttft_s: float | None = None
    # Of the first chunk.
    first_tokens: int | None = None
    # From the first chunk to the last.
    decode_s: float | None = None
    # Of each later pass.
    pass_tokens: t.Sequence[int] | None = None
    pass_seconds: t.Sequence[float] | None = None
    # The average that the server names.
    tokens_per_pass: float | None = None

    @classmethod
    def of(cls, sample: t.Mapping[str, t.Any]) -> Decoding:
        """Return the figures that a sample of a benchmark has."""
        return cls(**{field.name: sample.get(field.name) for field in dataclasses.fields(cls)})

    @property
    def later_tokens(self) -> int | None:
        """The tokens after the first chunk, which without a count has the one token of the prompt's own pass."""
        return None if self.tokens is None else self.tokens - (self.first_tokens or 1)

    @property
    def speed(self) -> float | None:
        """Tokens per second after the first chunk."""
        tokens, seconds = self.later_tokens or 0, self.decode_s or 0.0
        return tokens / seconds if tokens > 0 and seconds >= _LEAST_S else None

    @property
    def whole_passes(self) -> t.Sequence[int]:
        """Tokens of each pass but the last: the end of the answer cuts that one short."""
        return (self.pass_tokens or ())[:-1]

    @property
    def acceptance_length(self) -> float | None:
        """Tokens of a whole pass."""
        return statistics.fmean(self.whole_passes) if self.whole_passes else None

    @property
    def pass_length(self) -> float | None:
        """Tokens of a pass, the last one included."""
        return statistics.fmean(self.pass_tokens) if self.pass_tokens else None

    @property
    def pass_ms(self) -> float | None:
        """Milliseconds of a pass."""
        return 1000 * statistics.fmean(self.pass_seconds) if self.pass_seconds else None

    @property
    def counted_per_pass(self) -> float | None:
        """Tokens a pass as the server would count them."""
        return tokens_per_pass(self.tokens, len(self.pass_tokens or ()))

    @property
    def server_acceptance_length(self) -> float | None:
        """The server's average without the pass that read the prompt."""
        if not self.tokens or not self.tokens_per_pass:
            return None
        passes = round(self.tokens / self.tokens_per_pass) - 1
        return (self.later_tokens or 0) / passes if passes > 0 else None
