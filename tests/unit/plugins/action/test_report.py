# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action.report import section
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status import Status

from tests.unit import plays


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_in_a_playbook(tmp_path: Path, check: list[str]) -> None:
    task: dict[str, object] = {"lines": ["first {line}", "  'second'"], "document": {"n": 1}, "json_path": "out.json"}
    task |= {"unreachable": ["three"]}
    (tmp_path / "out.json").write_text('{"three": {"n": 1}, "four": {"n": 1}}')
    play = {"gather_facts": False, "tasks": [{"dgx_spark.speculative.report": task}]}
    done = plays.run(tmp_path, play, *check, hosts="one,two,")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nfirst {line}\n  'second'\n") == 2
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


def report_facts(directory: Path, facts: dict[str, dict[str, t.Any]], task: dict[str, t.Any]) -> str:
    """Report the facts of each host, which are in its variable `result`."""
    known = {"ansible.builtin.set_fact": {"result": "{{ facts[inventory_hostname] }}"}}
    play = {"gather_facts": False, "vars": {"facts": facts}, "tasks": [known, {"dgx_spark.speculative.report": task}]}
    done = plays.run(directory, play, hosts="".join(f"{host}," for host in facts))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


HEAD = {"deployment": "a", "cluster": {"rank": 0, "role": "head"}}


def test_diagnoses_that_contradict_each_other_are_reported_and_kept(tmp_path: Path) -> None:
    report = {"diagnosis": {"lines": ["its lines"]}, "from_hosts": {"diagnoses": "result"}}
    kept = {"document": {"verdict": "healthy"}, "json_path": "out.json"}
    screen = report_facts(tmp_path, {"one": HEAD, "two": HEAD}, {**report, **kept})
    assert screen.count("its lines") == 2
    assert "its lines\n\n  Of the two Sparks together:\n    - one and two are both the head" in screen
    document = json.loads((tmp_path / "out.json").read_text())["one"]
    assert document["verdict"] == "healthy"
    assert [sentence.partition(":")[0] for sentence in document["between"]] == ["one and two are both the head"]


def test_a_status_is_reported_where_there_is_one(tmp_path: Path) -> None:
    reached = Status(state="absent", container=None).facts()
    task = {"status": {}, "from_hosts": {"statuses": "result"}, "document": {"n": 1}, "json_path": "out.json"}
    screen = report_facts(tmp_path, {"one": reached, "two": {}}, task)
    assert "one: nothing is deployed" in screen
    assert "two:" not in screen.partition("PLAY RECAP")[0]
    document = json.loads((tmp_path / "out.json").read_text())
    assert document == {host: {"n": 1, "between": []} for host in ("one", "two")}


def test_the_plan_with_the_least_free_memory_is_reported(tmp_path: Path) -> None:
    plans = {name: {"lines": [f"plan of {name}"], "room": room, "needed": 1} for name, room in (("one", 7), ("two", 5))}
    screen = report_facts(tmp_path, plans, {"memory_plan": {}, "from_hosts": {"plans": "result"}})
    assert screen.count("plan of two") == 2
    assert "plan of one" not in screen
