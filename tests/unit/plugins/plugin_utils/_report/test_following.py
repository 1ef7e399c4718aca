# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import watched_job
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report import following

from tests.unit import actions


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ([], []),
        ([(0, None, False), (1, {"text": ""}, False), (2, {}, True)], []),
        ([(0, {"text": "a"}, False), (5, {"text": "b"}, False), (10, {"text": "c"}, False)], ["s | a", "s | c"]),
        ([(0, {"text": "a"}, False), (11, {"text": "a"}, False), (12, {"text": "b"}, False)], ["s | a", "s | b"]),
        ([(0, {"text": "a"}, False), (1, {"text": "b"}, True)], ["s | a", "s | b"]),
        ([(0, {"text": "a"}, False), (1, {"text": "a"}, True)], ["s | a"]),
    ],
)
def test_ticker(told: list[tuple[float, t.Any, bool]], shown: list[str]) -> None:
    lines: list[str] = []
    ticker = following.Ticker("s", 10, lines.append)
    for now, progress, last in told:
        ticker.tell(progress, now, last)
    assert lines == shown


def test_what_was_said_is_not_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    one, other = (types.SimpleNamespace(_uuid=name) for name in ("a", "b"))
    assert not following.is_followed(one)
    assert [following.is_first_to_say(task) for task in (one, one, other)] == [True, False, False]
    assert following.is_followed(one)
    monkeypatch.setattr(following.constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "none"))
    assert not following.is_first_to_say(one)


def test_a_failure_is_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(following.display, "display", said.append)
    monkeypatch.setattr(following, "require_lease", lambda *_: None)
    ended = {"finished": True, "error": "It died.", "progress": {"text": "It died."}}
    action = actions.made(watched_job, {"name": "fetch", "directory": "/jobs"}, lambda *_a, **_k: dict(ended))
    assert action._follow({"timeout": 0, "interval": 10}, "spark-1", {})["msg"] == "It died."
    assert said == []
