# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import huggingface_snapshot, watched_job
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import TIKTOKEN_ENCODINGS

from tests.unit import actions

PATH = "/state/tiktoken_encodings/o200k_base.tiktoken"
FOUND = {
    "models": {"lab/one": {"commit": "1", "bytes": 7}},
    "model_facts": {"lab/one": {}},
    "files_missing": [PATH, "/else"],
}
HEAD = {**FOUND, "model_facts": {"lab/one": {"layers": 3}}, "repositories": [{"id": "lab/one", "commit": "1"}]}
VARIABLES = {
    "inventory_hostname": "spark-2",
    "ansible_play_hosts_all": ["spark-1", "spark-2"],
    "hostvars": {"spark-1": {"view": HEAD}, "spark-2": {}},
}


@pytest.fixture(name="asked")
def fixture_asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, t.Any]:
    """What a host was asked, and what it answers."""
    kept: dict[str, t.Any] = {"answer": FOUND}

    def run(self: t.Any, _tmp: t.Any = None, _task_vars: t.Any = None) -> dict[str, t.Any]:
        kept["args"] = self._task.args
        return dict(kept["answer"])

    monkeypatch.setattr(huggingface_snapshot.Following, "run", run)
    return kept


def look(**arguments: t.Any) -> dict[str, t.Any]:
    found: dict[str, t.Any] = actions.made(huggingface_snapshot, arguments).run(task_vars=VARIABLES)
    return found


def test_vocabularies_are_files_and_are_fetched_where_they_are_missing(asked: dict[str, t.Any]) -> None:
    found = look(
        tiktoken_encodings=["o200k_base"], tiktoken_directory="/state/tiktoken_encodings", files={"/else": "1"}
    )
    assert asked["args"] == {"files": {"/else": "1", PATH: TIKTOKEN_ENCODINGS["o200k_base"]}}
    assert [one["path"] for one in found["downloads"]] == [PATH]
    assert (found["bytes"], found["model_facts"], list(found["tiktoken_encodings"])) == (7, {"lab/one": {}}, [PATH])


def test_what_the_head_knows_is_not_asked_again(asked: dict[str, t.Any]) -> None:
    found = look(from_hosts={"reference": "view"})
    assert asked["args"] == {"files": {}, "reference": HEAD["repositories"]}
    assert (found["bytes"], found["model_facts"]) == (7, HEAD["model_facts"])


def test_a_spark_that_cannot_have_what_the_head_has_is_named(asked: dict[str, t.Any]) -> None:
    asked["answer"] = {"failed": True, "msg": "No.", "errors": ["/here is empty"]}
    assert look(from_hosts={"reference": "view"})["msg"].startswith("spark-2: No. ")
    assert look()["msg"] == "No."


def test_a_dictionary_is_handed_to_a_program_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    action = actions.made(watched_job, {"arguments": ["a", {"b": [1]}], "stdin": "secret"})
    monkeypatch.setattr(watched_job.Following, "run", lambda *_a, **_k: {})
    action.run()
    assert action._task.args == {"arguments": ["a", '{"b": [1]}'], "stdin": "secret"}


def test_what_was_brought_has_to_be_there(asked: dict[str, t.Any]) -> None:
    asked["answer"] = {**FOUND, "verified": False, "unverified": [{"id": "lab/one"}], "files_missing": []}
    found = look(after_step="the download", cache_directory="/cache")
    assert "since" not in asked["args"]
    assert (found["failed"], found["msg"]) == (
        True,
        "spark-2: lab/one changed in the cache /cache since the download ended. Run the same again.",
    )
    asked["answer"] = {**FOUND, "verified": True, "unverified": [], "files_missing": []}
    assert "failed" not in look(after_step="the download", cache_directory="/cache")
