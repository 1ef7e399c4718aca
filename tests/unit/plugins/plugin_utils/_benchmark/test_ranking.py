# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.page import page
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.ranking import (
    ALL,
    Ranking,
    fastest_way,
    is_same_way,
    rank,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.table import ranking_table

from tests.unit import benchmark_reports as reports
from tests.unit import benchmark_results as measured

# What one chat drafts well the other cannot, and the reverse for code.
CHATTY = {**dict.fromkeys(measured.CATEGORIES, 0.5), "chat": 0.8, "code": 0.2}
CODING = {**dict.fromkeys(measured.CATEGORIES, 0.5), "chat": 0.2, "code": 0.8}
NGRAM = {"engine": "vllm", "method": "ngram", "title": "n-gram", "models": {"openai/gpt-oss-120b": "3" * 40}}
MTP: t.Any = {"engine": "vllm", "method": "mtp"}
EAGLE = "TensorRT-LLM with EAGLE-3, draft length 3"


def truth(acceptance: t.Any, target_ms: float = 20.0) -> measured.Truth:
    return measured.Truth(acceptance=acceptance, target_ms=target_ms)


@pytest.fixture(name="four", scope="module")
def fixture_four() -> Ranking:
    """Two engines and four ways to draft or not; without speculation the second engine is a fifth slower."""
    return rank(
        [
            reports.report(truth(CHATTY), (0, 3)),
            reports.report(truth(CODING), (0, 3), method="draft_target"),
            reports.report(truth(CODING, 24.0), (0, 3), **NGRAM),
            reports.report(truth(0.1, 24.0), (0, 3), **MTP),
        ]
    )


def test_the_order_is_that_of_the_truth(four: Ranking) -> None:
    assert {way.words for way in four.ways} == {
        EAGLE,
        "TensorRT-LLM without speculation",
        "TensorRT-LLM with Draft-Target, draft length 3",
        "vLLM without speculation",
        "vLLM with n-gram, draft length 3",
        "vLLM with MTP, draft length 3",
    }
    assert [kind.name for kind in four.kinds] == [ALL, *measured.CATEGORIES]
    assert [kind.prompts for kind in four.kinds] == [15, *[3] * 5]
    by_name = {kind.name: kind for kind in four.kinds}
    chat, code = by_name["chat"], by_name["code"]
    assert chat.places[0].way.words == EAGLE
    assert not chat.rivals
    assert code.places[0].way.words == "TensorRT-LLM with Draft-Target, draft length 3"
    assert four.ways[-1].words == "vLLM with MTP, draft length 3"
    wanted = truth(CODING, 24.0).tokens_per_second(3, "code") / truth(CODING).tokens_per_second(3, "code")
    ngram = next(place for place in code.places if "n-gram" in place.way.words)
    assert ngram.share
    assert ngram.share["mean"] == pytest.approx(wanted, rel=0.02)
    assert four.notes == ()


def test_a_clear_winner_and_one_that_may_be_chance(four: Ranking) -> None:
    everything, chat = four.kinds[:2]
    second = chat.places[1]
    assert second.share
    assert (
        fastest_way(chat)
        == f"Chat: {EAGLE} is fastest; next is {second.way.words} ({second.share['mean']:.2f} times its speed)."
    )
    # They draft equally well, each of them other texts.
    assert {everything.places[0].way.words, *(place.way.words for place in everything.rivals)} == {
        EAGLE,
        "TensorRT-LLM with Draft-Target, draft length 3",
    }
    assert "was fastest, but others may be as fast: " in fastest_way(everything)


def test_the_terminal_and_the_page_have_it(four: Ranking) -> None:
    text = " ".join(" ".join(ranking_table(four)).split())
    made = reports.Page(page(reports.report(truth(CHATTY), (0, 3)), None, four))
    for kind in four.kinds:
        assert fastest_way(kind) in text
        assert fastest_way(kind) in " ".join(made.text.split())
    for way in four.ways:
        (row,) = (cells for cells in made.rows if cells and cells[0] == f"{way.words} {way.title}")
        assert len(row) == 1 + len(four.kinds)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"models": {"another/model": "1"}}, "no model in common"),
        ({"hardware": {"gpu": "another"}}, "different hardware"),
        ({"settings": {"max_tokens": 9}}, "different settings"),
        ({"prompts": "0123"}, "different prompts"),
    ],
)
def test_what_limits_the_comparison(changes: dict[str, t.Any], note: str) -> None:
    (said,) = rank([reports.report(), reports.report(**{**MTP, **changes})]).notes
    assert note in said


def test_an_engine_that_was_slower_in_another_report() -> None:
    (note,) = rank([reports.report(), reports.report(truth(0.7, 24.0), method="mtp")]).notes
    assert note.startswith("Without speculation, TensorRT-LLM made 42 to 50 tokens/s in these reports.")


def test_a_report_whose_speeds_cannot_be_compared() -> None:
    found = rank([reports.wins(), reports.disturbed()])
    assert f"{reports.disturbed()['title']}: {reports.disturbed()['verdict']['sentence']}" in found.notes


def test_only_common_prompts_count() -> None:
    results = reports.report(draft_lengths=(0, 1))
    few = reports.report(draft_lengths=(0, 1), **MTP)
    for point in few["points"]:
        del point["by_category"]["chat"]["speeds"]["chat-1"]
    found = rank([results, few])
    assert found.kinds[0].prompts == 14
    assert found.notes == ("Only the 14 prompts that all reports have are compared.",)
    for point in few["points"]:
        point["by_category"] = None
    found = rank([results, few])
    assert (found.ways, found.kinds) == ((), ())
    assert "nothing to compare" in found.notes[0]
    assert "nothing to compare" in page(results, None, found)


def test_reports_without_figures() -> None:
    assert rank([reports.report(draft_lengths=()), reports.report(draft_lengths=())]).kinds == ()
    alone = rank([reports.report(draft_lengths=(3,)), reports.report(draft_lengths=())])
    assert fastest_way(alone.kinds[0]) == f"All prompts: {EAGLE} was the only one measured."


@pytest.mark.parametrize(
    ("changes", "same"), [({}, True), ({"date": "2026-01-01"}, True), (MTP, False), ({"method": "mtp"}, False)]
)
def test_one_report_of_the_same_way_is_before_and_after(changes: dict[str, t.Any], same: bool) -> None:
    assert is_same_way(reports.report(draft_lengths=(), **changes), reports.report(draft_lengths=())) is same
