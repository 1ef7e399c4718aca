# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action.report import section

from tests.unit import plays


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_in_a_playbook(tmp_path: Path, check: list[str]) -> None:
    task: dict[str, object] = {"lines": ["first {line}", "  'second'"], "document": {"n": 1}, "json_path": "out.json"}
    task |= {"title": "Of both", "items": ["a sentence"], "unreachable": ["three"]}
    (tmp_path / "out.json").write_text('{"three": {"n": 1}, "four": {"n": 1}}')
    play = {"gather_facts": False, "tasks": [{"dgx_spark.speculative.report": task}]}
    done = plays.run(tmp_path, play, *check, hosts="one,two,")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nfirst {line}\n  'second'\n\n  Of both:\n    - a sentence\n") == 2
    assert "changed=0" in done.stdout
    # What was found on a host that is now out of reach is not told as if it were so.
    document = {"one": {"n": 1}, "two": {"n": 1}, "three": {"unreachable": True}, "four": {"n": 1}}
    assert json.loads((tmp_path / "out.json").read_text()) == document


def test_sentences_are_wrapped() -> None:
    lines = section("Title", ["word " * 60, "short"])
    assert lines[:2] == ["", "  Title:"]
    assert max(map(len, lines)) <= 100
    assert " ".join(lines).count("word") == 60
    assert lines[-1] == "    - short"
    assert section("Title", []) == []
