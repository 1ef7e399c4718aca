# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from tests.unit import plays

REPOSITORY = Path(__file__).parents[4]
RECORD: dict[str, t.Any] = {
    "deployment": "single_eagle3",
    "variant": "qa",
    "target_model": "openai/gpt-oss-120b",
    "method": "eagle3",
    "draft_length": 5,
    "url": "http://127.0.0.1:8000",
    "image": {"reference": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12", "id": "sha256:1"},
    "models": {"openai/gpt-oss-120b": {"commit": "b5c"}},
    "files": {},
    "options": {"speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/draft"}},
}
PROMPTS = {"record": RECORD, "prompts": "prompts.jsonl"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    """What came of one task after the other, by its name."""
    directory = tmp_path_factory.mktemp("controller")
    (directory / "prompts.jsonl").write_text('{"prompt": "Why?"}\n')
    (directory / "no_text.jsonl").write_bytes(b"\xff")
    # All as from the command line, where a list is a text.
    given: dict[str, dict[str, t.Any]] = {
        "planned": {"draft_lengths": "off,3", "prompt_lengths": "1000,4000"},
        "none asked for": {"repetitions": "0"},
        "a lease of an hour": {"sweep": {"lease_s": "3600"}},
        "no file": {"prompts": "none.jsonl"},
        "no text": {"prompts": "no_text.jsonl"},
    }
    tasks = [
        {
            "name": name,
            "dgx_spark.speculative.benchmark": {"plan": {**PROMPTS, **task}},
            "register": f"seen_{number}",
            "ignore_errors": True,
        }
        for number, (name, task) in enumerate(given.items())
    ]
    kept = "{{ [" + ", ".join(f"seen_{number}" for number in range(len(given))) + "] | to_json }}"
    keep = {"name": "Keep", "ansible.builtin.copy": {"content": kept, "dest": f"{directory}/seen.json"}}
    done = plays.do(directory, *tasks, keep)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(zip(given, json.loads((directory / "seen.json").read_text()), strict=True))


def test_lists_from_the_command_line_are_read(seen: dict[str, t.Any]) -> None:
    found = seen["planned"]
    assert [point["id"] for point in found["points"]] == ["off", "3"]
    assert found["settings"] == {
        "max_tokens": 256,
        "repetitions": 3,
        "warmup": 2,
        "prompt_lengths": [1000, 4000],
    }
    assert found["changed"] is False
    assert re.fullmatch(r"spark-1-single_eagle3-qa-\d{4}-\d\d-\d\d-\d{6}", found["report_name"])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none asked for", "speculative_benchmark_repetitions is too small: 0; give 1 or more."),
        ("a lease of an hour", "speculative_benchmark_lease_s is 3600, but must be from 1 to 900."),
        ("no file", "none.jsonl cannot be read (No such file or directory); give a file of JSON lines."),
        ("no text", "no_text.jsonl cannot be read (it is no UTF-8 text); give a file of JSON lines."),
    ],
)
def test_what_cannot_be_planned_is_told_with_the_way_out(seen: dict[str, t.Any], name: str, sentence: str) -> None:
    assert sentence in seen[name]["msg"]
    assert seen[name]["msg"].startswith("spark-1: ")
