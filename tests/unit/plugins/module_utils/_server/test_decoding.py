# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Speed, acceptance length and tokens a pass of an answer."""

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.decoding import Decoding, tokens_per_pass

# Two tokens with the prompt, then passes of 3, 4 and 1, the last of which the end of the answer cut short.
ANSWER = Decoding(
    tokens=10,
    ttft_s=0.5,
    first_tokens=2,
    decode_s=0.4,
    pass_tokens=[3, 4, 1],
    pass_seconds=[0.1, 0.2, 0.1],
    tokens_per_pass=2.5,
)


def test_an_answer_with_known_passes() -> None:
    assert ANSWER.speed == pytest.approx(8 / 0.4)
    assert ANSWER.acceptance_length == 3.5
    assert ANSWER.pass_length == pytest.approx(8 / 3)
    assert ANSWER.pass_ms == pytest.approx(400 / 3)
    assert ANSWER.counted_per_pass == 2.5
    assert ANSWER.server_acceptance_length == pytest.approx(8 / 3)
    assert Decoding.of({**vars(ANSWER), "prompt": "chat-1"}) == ANSWER


def test_without_counts_the_first_chunk_is_one_token() -> None:
    assert Decoding(tokens=12, decode_s=0.5).speed == 22


@pytest.mark.parametrize(
    "answer",
    [Decoding(), Decoding(tokens=0, tokens_per_pass=1.0), Decoding(tokens=1, decode_s=0.0, pass_tokens=[])],
    ids=["nothing", "no token", "one chunk"],
)
def test_what_is_not_known_has_no_figure(answer: Decoding) -> None:
    assert answer.speed is None
    assert answer.acceptance_length is None
    assert answer.pass_length is None
    assert answer.pass_ms is None
    assert answer.counted_per_pass is None
    assert answer.server_acceptance_length is None


def test_chunks_out_of_one_buffer_have_no_speed() -> None:
    assert Decoding(tokens=12, decode_s=0.0005).speed is None


def test_the_prompts_own_pass_counts_for_a_server() -> None:
    assert (tokens_per_pass(10, 3), tokens_per_pass(10, 0), tokens_per_pass(None, 3)) == (2.5, None, None)
