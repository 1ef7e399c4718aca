# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action.report import Document, ReportError, section

REPOSITORY = Path(__file__).parents[4]


def test_other_hosts_entries_are_kept(tmp_path: Path) -> None:
    document = Document(tmp_path / "new/status.json")
    document.merge({"a": {"state": "ready"}})
    document.merge({"b": {"state": "dead"}})
    document.merge({"a": {"state": "busy"}})
    path = tmp_path / "new/status.json"
    assert json.loads(path.read_text()) == {"a": {"state": "busy"}, "b": {"state": "dead"}}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["status.json"]


def test_hosts_that_report_at_once_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=Document(path).merge, args=({f"h{n}": {"n": n}},)) for n in range(12)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert json.loads(path.read_text()) == {f"h{n}": {"n": n} for n in range(12)}


@pytest.mark.parametrize("content", [b"not json", b"[1]", b"\xff\xfe{", b"[" * 100_000])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=r"notes\.txt is no report of this collection and is left alone"):
        Document(path).merge({"a": {}})
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"cannot be written \(.*\); choose another path\."):
        Document(tmp_path / "file/status.json").merge({"a": {}})


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_in_a_playbook(tmp_path: Path, check: list[str]) -> None:
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\ncollections_path={REPOSITORY}/collections\n")
    task: dict[str, object] = {"lines": ["first {line}", "  'second'"], "document": {"n": 1}, "json_path": "out.json"}
    task |= {"title": "Of both", "items": ["a sentence"], "unreachable": ["three"]}
    (tmp_path / "out.json").write_text('{"three": {"n": 1}, "four": {"n": 1}}')
    play: dict[str, object] = {"hosts": "one,two", "connection": "local", "gather_facts": False}
    play["tasks"] = [{"name": "Report", "dgx_spark.speculative.report": task}]
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "one,two,", *check, "play.yml"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nfirst {line}\n  'second'\n\n  Of both:\n    - a sentence\n") == 2
    assert "changed=0" in done.stdout
    # What was found on a host that is now out of reach is not told as if it were so.
    document = {"one": {"n": 1}, "two": {"n": 1}, "three": {"unreachable": True}, "four": {"n": 1}}
    assert json.loads((tmp_path / "out.json").read_text()) == document


def test_sentences_are_wrapped() -> None:
    lines = section("Title", ["word " * 60, "short"])
    assert lines[:2] == ["", "  Title:"]
    assert max(map(len, lines)) <= 110
    assert " ".join(lines).count("word") == 60
    assert lines[-1] == "    - short"
    assert section("Title", []) == []
