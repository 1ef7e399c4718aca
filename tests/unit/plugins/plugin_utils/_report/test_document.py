# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.document import Document, ReportError


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
