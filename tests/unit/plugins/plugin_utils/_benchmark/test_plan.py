# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import plan as planning
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.plan import BenchmarkError, SweepPoint

REPOSITORY = Path(__file__).parents[5]
SECTION = {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/cache/draft"}
RECORD: dict[str, t.Any] = {
    "deployment": "single_eagle3",
    "target_model": "openai/gpt-oss-120b",
    "method": "eagle3",
    "draft_length": 5,
    "url": "http://127.0.0.1:8000",
    "image": {"reference": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12", "id": "sha256:1"},
    "models": {"openai/gpt-oss-120b": {"commit": "b5c"}},
    "measurements": {"tokens_per_second": 50.0},
    "files": {"serve.sh": "exec trtllm-serve"},
    "options": {
        "kv_cache_config": {"free_gpu_memory_fraction": 0.9, "enable_block_reuse": False},
        "max_batch_size": 1,
        "speculative_config": SECTION,
    },
}
PROMPTS = [{"id": "a", "category": "chat", "prompt": "Why?", "optional": False}]
SETTINGS = planning.Settings(256, 3, 2, ())


def points(
    record: dict[str, t.Any] = RECORD, lengths: t.Sequence[int] = (0, 3), **changes: t.Any
) -> list[dict[str, t.Any]]:
    wanted = [SweepPoint(length, True) for length in lengths]
    given: dict[str, t.Any] = {"choice": {}, "prompts": PROMPTS, "settings": SETTINGS, **changes}
    return planning.points(record, given["choice"], wanted, given["prompts"], given["settings"])


def test_by_default_longer_drafts_are_tried_while_they_gain_and_what_serves_in_any_case() -> None:
    wanted = planning.sweep_points([], False, 5)
    assert [wish.id for wish in wanted] == ["off", "1", "2", "3", "4", "5", "8"]
    assert [wish.length for wish in wanted if not wish.always] == [4, 8]


def test_a_quick_look_is_three_points_and_what_serves() -> None:
    assert planning.sweep_points([], True, 5) == [
        SweepPoint(0, True),
        SweepPoint(1, True),
        SweepPoint(3, True),
        SweepPoint(5, True),
    ]
    assert len(planning.sweep_points([], True, 3)) == 3


def test_a_list_is_measured_as_it_is_given() -> None:
    # YAML takes a bare off for false.
    assert planning.sweep_points([False, "3", 1, "off", 3], False, 5) == [
        SweepPoint(0, True),
        SweepPoint(3, True),
        SweepPoint(1, True),
    ]
    # From the command line, with a blank after the comma.
    assert planning.sweep_points(["off", " 3"], False, 5) == [SweepPoint(0, True), SweepPoint(3, True)]


def test_a_number_that_ansible_has_tagged_becomes_a_plain_one() -> None:
    class Tagged(int):
        """As Ansible's numbers are: YAML refuses what is only nearly an int."""

    (wish,) = planning.sweep_points([Tagged(2)], False, 5)
    assert type(wish.length) is int
    assert yaml.safe_load(points(lengths=[wish.length])[0]["options"])["speculative_config"]["max_draft_len"] == 2


@pytest.mark.parametrize("wrong", [-1, True, "many", 65, 2.5, None, [1]])
def test_what_is_no_draft_length_is_refused(wrong: t.Any) -> None:
    with pytest.raises(BenchmarkError, match="a number from 1 to 64, or off"):
        planning.sweep_points([1, wrong], False, 5)


def test_without_drafts_means_no_speculative_configuration_at_all() -> None:
    off, three = points()
    assert "speculative_config" not in yaml.safe_load(off["options"])
    assert yaml.safe_load(three["options"])["speculative_config"] == {**SECTION, "max_draft_len": 3}
    for point in (off, three):
        assert yaml.safe_load(point["options"])["kv_cache_config"]["free_gpu_memory_fraction"] == 0.9


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deployment", "another"),
        ("image", {"reference": RECORD["image"]["reference"], "id": "sha256:2"}),
        ("models", {"openai/gpt-oss-120b": {"commit": "c6d"}}),
        ("files", {"serve.sh": "exec trtllm-serve --other"}),
        ("options", {**RECORD["options"], "max_batch_size": 2}),
    ],
)
def test_a_point_is_measured_again_when_something_it_depends_on_has_changed(key: str, value: t.Any) -> None:
    before = [point["fingerprint"] for point in points()]
    assert [point["fingerprint"] for point in points()] == before
    after = [point["fingerprint"] for point in points({**RECORD, key: value})]
    assert not set(before) & set(after)
    assert len(set(before)) == 2


def test_other_prompts_or_settings_are_another_measurement() -> None:
    before = points()[0]["fingerprint"]
    assert points(prompts=[{**PROMPTS[0], "prompt": "How?"}])[0]["fingerprint"] != before
    assert points(settings=planning.Settings(128, 3, 2, ()))[0]["fingerprint"] != before


def test_what_the_server_would_refuse_is_told_before_anything_is_changed() -> None:
    record = copy.deepcopy(RECORD)
    record["options"]["speculative_config"]["draft_len_schedule"] = {1: 5}
    with pytest.raises(BenchmarkError) as error:
        points(record, (0, 3))
    assert "draft length 3: speculative_config.draft_len_schedule" in str(error.value)
    assert "draft length 0" not in str(error.value)


@pytest.mark.parametrize("sparks", [2, 3, 4, 8])
def test_of_several_sparks_the_options_are_for_as_many_ranks(sparks: int) -> None:
    options = {**RECORD["options"], "tensor_parallel_size": sparks}
    nodes = [f"spark-{number}" for number in range(sparks)]
    assert len(points({**RECORD, "options": options, "cluster": {"rank": 0, "nodes": nodes}})) == 2
    with pytest.raises(planning.BenchmarkError, match="world_size is 1"):
        points({**RECORD, "options": options})


def test_a_length_is_measured_under_the_key_of_its_method() -> None:
    record = copy.deepcopy(RECORD)
    record["options"]["speculative_config"] = {"decoding_type": "SA", "num_nextn_predict_layers": 1}
    with pytest.raises(BenchmarkError, match="has no max_draft_len"):
        points(record)
    record["options"]["speculative_config"]["decoding_type"] = "MTP"
    assert "num_nextn_predict_layers: 3" in points(record)[1]["options"]


def test_what_has_no_drafts_cannot_be_measured_with_drafts() -> None:
    plain = {**RECORD, "method": "none", "options": {"max_batch_size": 1}}
    with pytest.raises(BenchmarkError, match="has no speculation to measure"):
        points(plain)
    # An earlier benchmark has turned them off, and knows how they were made.
    again = points(plain, choice={"speculative_config": SECTION})
    assert yaml.safe_load(again[1]["options"])["speculative_config"]["max_draft_len"] == 3


def test_the_prompts_that_come_with_the_role_can_be_used() -> None:
    path = REPOSITORY / "roles/speculative_benchmark/files/prompts.jsonl"
    prompts = planning.read_prompts(path.read_text(encoding="utf-8"), str(path))
    assert {prompt["category"] for prompt in prompts} == {"chat", "reasoning", "code", "extraction", "long-context"}
    # What may not fit a deployment is left out there.
    assert all(prompt["optional"] == (prompt["category"] == "long-context") for prompt in prompts)


def test_a_prompt_of_ones_own_is_named_by_its_line() -> None:
    (prompt,) = planning.read_prompts('\n{"prompt": "Why?", "output_length": 256}\n', "p.jsonl")
    assert prompt == {"id": "line-2", "category": "own", "prompt": "Why?", "optional": False}


def test_all_that_is_wrong_with_the_prompts_is_told_by_line() -> None:
    lines = [
        {"prompt": "Why?", "id": "a"},
        {"question": "Why?"},
        {"prompt": " "},
        ["Why?"],
        {"prompt": "Why?", "id": "a"},
        {"prompt": "Why?", "optional": "no"},
    ]
    with pytest.raises(BenchmarkError) as error:
        planning.read_prompts("\n".join([*map(json.dumps, lines), "{"]), "mine.jsonl")
    text = str(error.value).splitlines()
    assert text[0] == "The prompts in mine.jsonl cannot be used:"
    assert [line.partition(":")[0] for line in text[1:-1]] == [f"- line {n}" for n in (2, 3, 4, 6, 7)]
    assert "'prompt' is missing" in text[1]
    assert text[-1] == "- the id 'a' is there more than once"


def test_a_line_ends_where_json_lines_end() -> None:
    text = '\ufeff{"prompt": "one\u2028two\x85three"}\r\n{"prompt": "four"}\r\n'
    assert [prompt["prompt"] for prompt in planning.read_prompts(text, "p.jsonl")] == ["one\u2028two\x85three", "four"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"prompt": ' + "[" * 100_000, "has too many brackets within each other"),
        (r'{"prompt": "a \ud83d b"}', "'prompt' has half a character in it"),
    ],
)
def test_a_hostile_line_is_named(line: str, reason: str) -> None:
    with pytest.raises(planning.BenchmarkError, match=f"line 2: {reason}"):
        planning.read_prompts('{"prompt": "\\ud83d\\ude00 fine"}\n' + line, "mine.jsonl")


def test_a_file_without_prompts_is_refused() -> None:
    with pytest.raises(BenchmarkError, match=r"no prompts in mine\.jsonl"):
        planning.read_prompts("\n", "mine.jsonl")


def test_it_is_said_how_often_the_model_is_loaded_and_until_when() -> None:
    now = datetime.datetime(2026, 11, 22, 12, 0)
    wanted = planning.sweep_points([], False, 5)
    text = " ".join(planning.announcement("spark-1", RECORD, wanted, 15, SETTINGS, 300.0, now))
    assert "at draft length off, 1, 2, 3, 5, and at 4, 8 while longer drafts gain" in text
    assert "15 prompts, 3 times each, 256 tokens at most" in text
    assert "loaded 6 to 8 times" in text
    # A point: 300 s and 45 answers of 256 tokens at 50 a second; seven of them and the way back.
    assert "That takes about 49 min to 67 min, until about 13:07. " in text
    assert "http://127.0.0.1:8000 answers with other drafts than yours, or not at all" in text


def test_two_benchmarks_of_a_day_have_names_of_their_own() -> None:
    now = datetime.datetime(2026, 11, 28, 23, 58, 59, tzinfo=datetime.timezone.utc)
    names = [
        planning.report_name(
            "spark-1", {"deployment": "mine", "variant": variant}, now + datetime.timedelta(seconds=after)
        )
        for variant, after in (("", 0), ("qa", 0), ("", 61))
    ]
    assert names == [
        "spark-1-mine-2026-11-28-235859",
        "spark-1-mine-qa-2026-11-28-235859",
        "spark-1-mine-2026-11-29-000000",
    ]


def test_no_time_is_promised_that_nobody_knows() -> None:
    wanted = planning.sweep_points([0, 1], False, 5)
    text = " ".join(planning.announcement("spark-1", RECORD, wanted, 15, SETTINGS, None, datetime.datetime.now()))
    assert "loaded 3 times" in text
    assert "That takes" not in text


def test_the_collection_knows_its_version(tmp_path: Path) -> None:
    assert planning.collection_version(REPOSITORY) == yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"]
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"version": "1.2.3"}}')
    assert planning.collection_version(tmp_path) == "1.2.3"


def test_the_program_is_told_what_it_measures_and_where() -> None:
    told = {"results": "/state/benchmark/mine", "lease_s": 60, "seconds_a_load": None}
    found = planning.task({**RECORD, "title": "Mine", "served_model": "gpt"}, points(), PROMPTS, SETTINGS, told)
    assert (found["title"], found["url"], found["model"]) == ("Mine", "http://127.0.0.1:8000", "gpt")
    assert (found["points"], found["prompts"]) == (points(), PROMPTS)
    assert told.items() <= found.items()
    assert dataclasses.asdict(SETTINGS).items() <= found.items()


def test_a_benchmark_at_work_is_known_by_its_points() -> None:
    assert planning.key(points()) == planning.key(points()) != planning.key(points(lengths=(0, 2)))


@pytest.mark.parametrize(
    ("recipe", "hosts", "reason"),
    [
        (
            {"name": "other", "sparks": 1},
            ["a"],
            "single_eagle3 serves here, but the recipe is other. Give the recipe that it was deployed with, as -e "
            "recipe=NAME or PATH.",
        ),
        (
            {"name": "single_eagle3", "sparks": 1},
            ["a", "b"],
            "serving with the winner is for one deployment at a time, and this run has a, b. Choose with --limit.",
        ),
    ],
)
def test_a_winner_is_chosen_for_what_serves_only(recipe: dict[str, t.Any], hosts: list[str], reason: str) -> None:
    with pytest.raises(BenchmarkError) as error:
        planning.check_recipe(recipe, RECORD, hosts)
    assert str(error.value) == reason
    planning.check_recipe({"name": "single_eagle3", "sparks": 1}, RECORD, ["a"])
