# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is served, and where it comes from. Which of Ansible's sources wins: tests/unit/playbooks/test_precedence.py."""

from __future__ import annotations

import importlib
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import choice_record
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.values import merge

IMAGE = "a/release:1.3.0rc12"
RECIPE = {
    "name": "mine",
    "image": IMAGE,
    "target": "a/target",
    "draft": "a/draft",
    "method": "eagle3",
    "draft_length": 5,
    "context": 32768,
    "concurrency": 1,
    "kv_cache": "planned",
    "family": "auto",
}
GIVEN = {**RECIPE, "method": None, "draft_length": None}
BY_BENCHMARK = "chosen by the benchmark of 2026-11-22"
GIVEN_HERE = "given in the inventory, a playbook or with -e"


def choice(length: int) -> dict[str, t.Any]:
    """What a benchmark keeps that has chosen a length; 0 is no speculation."""
    verdict = {"kind": "use" if length else "off", "draft_length": length, "sentence": "Do it."}
    record = {"image": {"reference": IMAGE}, "models": {"a/target": {"commit": "one"}}}
    return choice_record({"date": "2026-11-22", "verdict": verdict}, record, RECIPE, {})


Served = tuple[str, str, int]


@pytest.mark.parametrize(
    ("kept", "given", "expected", "said"),
    [
        (None, {}, ("eagle3", "a/draft", 5), []),
        (choice(3), {}, ("eagle3", "a/draft", 3), [f"draft length 3, {BY_BENCHMARK}"]),
        # Equal to the recipe's, and still the benchmark's.
        (choice(5), {}, ("eagle3", "a/draft", 5), [f"draft length 5, {BY_BENCHMARK}"]),
        (choice(0), {}, ("none", "", 0), [f"no speculation, {BY_BENCHMARK}"]),
        # Equal to what the benchmark or the recipe say, and still somebody's own.
        (choice(3), {"draft_length": "3"}, ("eagle3", "a/draft", 3), [f"draft length 3, {GIVEN_HERE}"]),
        (choice(3), {"draft_length": 5}, ("eagle3", "a/draft", 5), [f"draft length 5, {GIVEN_HERE}"]),
        # Who gives a length, or how to draft, wants drafts.
        (choice(0), {"draft_length": 2}, ("eagle3", "a/draft", 2), [f"draft length 2, {GIVEN_HERE}"]),
        (choice(0), {"method": "eagle3"}, ("eagle3", "a/draft", 5), [f"method eagle3, {GIVEN_HERE}"]),
        (choice(3), {"method": "draft_target"}, ("draft_target", "a/draft", 5), [f"method draft_target, {GIVEN_HERE}"]),
        (
            *(choice(3), {"method": "eagle3"}, ("eagle3", "a/draft", 3)),
            [f"method eagle3, {GIVEN_HERE}", f"draft length 3, {BY_BENCHMARK}"],
        ),
        # Without drafts there is nothing to say of their length.
        (choice(3), {"method": "none", "draft_length": 2}, ("none", "", 0), [f"no speculation, {GIVEN_HERE}"]),
        # An assistant is made for one method: the head of another one is none.
        (None, {"method": "mtp"}, ("mtp", "", 5), [f"method mtp, {GIVEN_HERE}"]),
        (
            *(None, {"method": "mtp", "draft": "an/assistant"}, ("mtp", "an/assistant", 5)),
            [f"draft model an/assistant, {GIVEN_HERE}", f"method mtp, {GIVEN_HERE}"],
        ),
        (None, {"method": ""}, ("", "a/draft", 5), [f"method of its own, {GIVEN_HERE}"]),
        (None, {"draft": "/srv/draft"}, ("eagle3", "/srv/draft", 5), [f"draft model /srv/draft, {GIVEN_HERE}"]),
        # Text from the command line is the same number.
        (None, {"context": "32768"}, ("eagle3", "a/draft", 5), []),
        (choice(3), {"image": "a/release:2"}, ("eagle3", "a/draft", 5), [f"image a/release:2, {GIVEN_HERE}"]),
    ],
)
def test_what_is_served(kept: t.Any, given: dict[str, t.Any], expected: Served, said: list[str]) -> None:
    values = merge(RECIPE, {**GIVEN, **given}, kept)
    assert (values["method"], values["draft"], values["draft_length"]) == expected
    assert [origin["says"] for origin in values["origins"].values()] == said
    assert {origin["from"] for origin in values["origins"].values()} <= {"benchmark", "given"}
    taken = any(BY_BENCHMARK in sentence for sentence in said)
    assert (values["benchmark"].get("draft_length") == expected[2]) == taken


@pytest.mark.parametrize("length", [0, "0"])
def test_a_method_that_is_to_draft_nothing(length: t.Any) -> None:
    with pytest.raises(ValueError, match=r"_draft_length is 0, but method eagle3 needs 1 or more.*-e speculation=off"):
        merge(RECIPE, {**GIVEN, "draft_length": length})
    assert merge(RECIPE, {**GIVEN, "draft_length": length, "method": "none"})["draft_length"] == 0


def test_a_choice_holds_for_the_models_that_were_measured() -> None:
    for commit, length in (("one", 3), ("two", 5)):
        assert merge(RECIPE, GIVEN, choice(3), {"a/target": {"commit": commit}})["draft_length"] == length


def test_a_role_alone_needs_no_recipe_that_says_everything() -> None:
    values = merge({"sparks": 1, "image": IMAGE}, {**RECIPE, "draft_length": 2})
    assert (values["method"], values["draft_length"], values["context"]) == ("eagle3", 2, 32768)


def test_where_ansible_does_not_tell_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> t.NoReturn:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", gone)
    assert merge(RECIPE, {**GIVEN, "draft_length": 2})["origins"]["draft_length"]["says"].endswith(GIVEN_HERE)


def test_what_is_no_number_is_said() -> None:
    with pytest.raises(ValueError, match="speculative_serve_draft_length is 'many', but must be a whole number"):
        merge(RECIPE, {**GIVEN, "draft_length": "many"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "dspark"}, "method dspark is not offered for TensorRT-LLM"),
        ({"method": "suffix"}, "speculative_serve_method: method suffix is not offered: vLLM needs the package"),
        ({"method": "eagle"}, "speculative_serve_method is 'eagle', but must be one of eagle3, "),
        # What YAML makes of off and no.
        ({"method": False}, "speculative_serve_method is 'False', but must be one of eagle3, "),
        ({"family": False}, "speculative_serve_family is 'False', but must be one of auto"),
        ({"family": 1.1}, r"speculative_serve_family is '1\.1', but must be one of auto, 1\.2, 1\.3"),
    ],
)
def test_a_method_or_family_that_nobody_knows_is_said(given: dict[str, t.Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        merge(RECIPE, {**GIVEN, **given})


@pytest.mark.parametrize("length", [1025, 10**9, "1000000000"])
def test_a_draft_length_that_is_a_slip_is_said(length: t.Any) -> None:
    with pytest.raises(ValueError, match=r"speculative_serve_draft_length is \d+, but must be 1024 or less"):
        merge(RECIPE, {**GIVEN, "draft_length": length})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"best": 1.5, "worst": 1.5}),
        ({"draft_length": 3}, {"best": 1.3, "worst": 1.3}),
        ({"method": "none"}, None),
        ({"method": ""}, None),
        ({"break_even": {}}, None),
    ],
)
def test_from_when_on_drafts_pay(given: dict[str, t.Any], expected: t.Any) -> None:
    assert merge(RECIPE, {**GIVEN, "break_even": {"draft_cost": 0.1}, **given})["break_even"] == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": {}, "environment": {}, "port": 8000}, []),
        (
            {"options": {"kv_cache_config": {"free_gpu_memory_fraction": 0.8}, "max_batch_size": 2}},
            ["engine options kv_cache_config.free_gpu_memory_fraction 0.8, max_batch_size 2"],
        ),
        # Without its value, which may be a token.
        ({"environment": {"SHARED": "1", "MINE": "2", "HF_TOKEN": "hf_secret"}}, ["environment MINE, HF_TOKEN"]),
        ({"port": "8001"}, ["port 8001"]),
        # Text from the command line is the same number.
        ({"port": "8000"}, []),
    ],
)
def test_options_environment_and_port_of_ones_own_are_named(given: dict[str, t.Any], said: list[str]) -> None:
    recipe = {**RECIPE, "options": {"max_batch_size": 1}, "environment": {"SHARED": 1}, "port": 8000}
    found = merge(recipe, {**GIVEN, **given})
    assert [origin["says"] for origin in found["origins"].values()] == [f"{one}, {GIVEN_HERE}" for one in said]
    assert found["lines"] == [f"not from the recipe: {one}, {GIVEN_HERE}" for one in said]


def before(*names: str, **values: t.Any) -> dict[str, t.Any]:
    """The record of what serves, with those of its values that were not the recipe's."""
    return {**RECIPE, **values, "origins": {name: {"from": "given", "says": "so"} for name in names}}


@pytest.mark.parametrize(
    ("record", "given", "lines"),
    [
        (before(), {}, []),
        (before("draft_length", draft_length=3), {}, ["changed: draft length 3 -> 5, as the recipe has it"]),
        (before("options"), {}, ["changed: engine options as the recipe has it again"]),
        (
            before("draft_length", draft_length=3),
            {"draft_length": 4},
            [f"not from the recipe: draft length 4, {GIVEN_HERE}"],
        ),
    ],
)
def test_what_is_put_back_to_the_recipes_is_named_as_a_change(
    record: dict[str, t.Any], given: dict[str, t.Any], lines: list[str]
) -> None:
    assert merge(RECIPE, {**GIVEN, **given}, before=record)["lines"] == lines


WITHOUT = {**RECIPE, "method": "none", "draft": "", "draft_length": 0, "speculation": False}


@pytest.mark.parametrize(
    ("recipe", "given", "where"),
    [(WITHOUT, {}, "given with -e speculation=off"), (RECIPE, {"method": "none"}, GIVEN_HERE)],
)
def test_speculation_that_is_turned_off_is_no_value_of_the_recipe(
    recipe: dict[str, t.Any], given: dict[str, t.Any], where: str
) -> None:
    found = merge(recipe, {**GIVEN, **given, "draft": recipe["draft"]}, before=before("draft_length", draft_length=3))
    assert found["lines"] == [f"not from the recipe: no speculation, {where}"]
    assert found["origins"]["method"]["says"] == f"no speculation, {where}"
    # The next plain run takes it back.
    served = {**before(), "method": "none", "draft_length": 0, "origins": found["origins"]}
    assert merge(RECIPE, GIVEN, before=served)["lines"] == ["changed: method none -> eagle3, as the recipe has it"]


def test_a_recipe_that_never_had_speculation_is_as_it_is() -> None:
    alone = {key: value for key, value in WITHOUT.items() if key != "speculation"}
    assert merge(alone, {**GIVEN, "draft": ""})["lines"] == []
