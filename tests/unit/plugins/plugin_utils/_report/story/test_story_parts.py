# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pure parts of the story; whole runs are in tests/unit/plugins/callback."""

from __future__ import annotations

import pickle
import types
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.story.changes import changes
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.story.failures import (
    Failure,
    blocks,
    failure_text,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.story.screen import (
    Progress,
    Report,
    Screen,
    cut,
    wrap,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.story.steps import (
    Entry,
    Step,
    changed_by,
    result_text,
)


@pytest.mark.parametrize(
    ("texts", "room", "expected"),
    [
        (["abc"], 3, "abc"),
        (["  a\nb\tc\033"], 9, "  a b c "),
        (["Fetch: 3 of 5 GB", "3 of 5 GB"], 16, "Fetch: 3 of 5 GB"),
        (["Fetch: 3 of 5 GB", "3 of 5 GB"], 15, "3 of 5 GB"),
        (["Fetch: 3 of 5 GB, 2 min left"], 20, "Fetch: 3... min left"),
        (["模型ab模型cd"], 11, "模型...型cd"),
        ([""], 3, ""),
    ],
)
def test_what_is_drawn_fits_into_a_line_with_its_end(texts: list[str], room: int, expected: str) -> None:
    assert cut(texts, room) == expected


def test_long_lines_are_wrapped_and_keep_their_indentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = "A sentence that is longer than a line.\n  - https://example.com/a/path/that/is/long"
    assert wrap(text, "> ", "  ") == [
        "> A sentence that is longer",
        "  than a line.",
        "    -",
        "      https://example.com/a/path/that/is/long",
    ]
    assert wrap("", "ok  Serve  ") == ["ok  Serve"]


def test_a_command_stays_on_its_line_and_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = "ansible-playbook playbooks/serve.yml -e recipe=single_eagle3_page -e speculation=off"
    assert wrap(f"- Without drafts:\n  {command}", "    ", "    ") == ["    - Without drafts:", f"      {command}"]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"msg": "one: No way."}, "No way."),
        ({}, "Failed without a message."),
        ({"censored": "the output has been hidden"}, "the output has been hidden"),
        ({"msg": "The download failed.", "rc": 1}, "The download failed."),
        ({"msg": "non-zero return code", "rc": 1}, "non-zero return code\nrc: 1"),
        ({"msg": "Broken", "rc": 2, "stdout": "a\nb"}, "Broken\nrc: 2\nstdout:\n    a\n    b"),
        ({"msg": "Broken", "stderr": "why", "stdout": "a"}, "Broken\nstderr:\n    why\nstdout:\n    a"),
        ({"msg": ["One.", "Two."]}, "One.\nTwo."),
        ({"reason": "There is no such file."}, "There is no such file."),
        ({"msg": "All", "results": [{"item": 1, "unreachable": True, "msg": "refused"}]}, "1: refused"),
        ({"msg": "No facts.", "failed_modules": {"setup": {"msg": "no python"}}}, "No facts.\nno python"),
        ({"msg": "All", "results": [{"item": 1, "failed": True, "msg": "no"}, {"item": 2, "msg": "fine"}]}, "1: no"),
    ],
)
def test_why(result: dict[str, t.Any], expected: str) -> None:
    assert failure_text(result, "one") == expected


def test_what_moves_the_cursor_is_not_printed() -> None:
    assert wrap("a\x1b[2Jb") == ["a [2Jb"]


def test_of_a_long_log_the_end_is_shown_and_what_is_left_out_is_said() -> None:
    shown = failure_text({"msg": "Broken", "stderr": "\n".join(f"line {number}" for number in range(30))}, "one")
    assert shown.splitlines()[2] == "    (10 earlier lines: -v)"
    assert shown.splitlines()[-1] == "    line 29"


MODELS = {"source": "/models", "target": "/models"}
FILES = {"source": "/state/mine/generations/01ab", "target": "/deployment"}


def failure(host: str, task: str, text: str) -> Failure:
    return Failure(host, task, text, frozenset())


def test_a_cause_is_told_once_and_another_one_too() -> None:
    same = [failure("one", "Start", "Port taken."), failure("one", "Tell", "one: Port taken. Stop it.")]
    (shown,) = blocks(same)
    assert shown.count("Port taken") == 1
    assert "FAILED  one: Start" in shown
    (shown,) = blocks([failure("one", "Start", "No memory."), failure("one", "Tell", "It does not serve.")])
    assert shown.index("It does not serve.") < shown.index("Start: No memory.")
    hidden = "the output has been hidden due to the fact that 'no_log: true' was specified for this result"
    (shown,) = blocks([failure("one", "Reload", hidden), failure("one", "Tell", "It refuses.")])
    assert "It refuses." in shown
    assert "hidden" not in shown


def test_a_cause_whose_end_lacks_the_output_of_the_program_is_told_once_with_it() -> None:
    output = "non-zero return code\nrc: 3\nstderr:\n    no memory"
    (shown,) = blocks([failure("one", "Start", output), failure("one", "Diagnose", "non-zero return code")])
    assert "FAILED  one: Start" in shown
    assert "earlier failure" not in shown
    assert shown.count("non-zero return code") == shown.count("no memory") == 1


def test_hosts_that_fail_alike_share_a_block_and_others_do_not() -> None:
    assert len(blocks([failure("one", "Look", "No."), failure("two", "Look", "No.")])) == 1
    assert len(blocks([failure("one", "Look", "No."), failure("two", "Look", "Neither.")])) == 2


def test_a_line_for_all_hosts_or_for_each_that_differs() -> None:
    step = Step(Entry("models", "Get the models"), 0)
    for host in ("one", "two"):
        step.of(host).changed.append("models")
    assert [mark for mark, _ in step.lines("Get the models", 1, ["one", "two"], [])] == ["changed"]
    assert [mark for mark, _ in step.lines("Get the models", 1, ["two"], ["one"])] == ["failed", "changed"]
    step.of("two").changed.clear()
    lines = step.lines("Get the models", 1, ["one", "two"], [])
    assert [(mark, text.split("1.0 s  ")[1]) for mark, text in lines] == [("changed", "one: models")]
    step.of("two").said = "all here"
    lines = step.lines("Get the models", 1, ["one", "two"], [])
    assert [text.split("1.0 s  ")[1] for _mark, text in lines] == ["one: models", "two: all here"]


def test_a_task_that_helps_no_user_is_not_shown_at_work() -> None:
    step = Step(Entry("models", "Get the models"), 0)
    seen = []
    for action in ("ansible.builtin.command", "ansible.builtin.validate_argument_spec"):
        step.begin(types.SimpleNamespace(name="Look", action=action), 0)
        seen.append(step.doing)
    assert seen == ["Look", ""]


def test_a_step_that_has_changed_nothing_and_has_nothing_to_say_has_no_line() -> None:
    step = Step(Entry("", ""), 0)
    assert step.is_silent()
    step.of("one")
    assert step.is_silent()
    step.of("one").changed.append("")
    assert not step.is_silent()
    assert [text.rstrip() for _mark, text in step.lines("Make a directory", 1, ["one"], [])] == [
        "changed  Make a directory                          1.0 s"
    ]


def test_a_title_that_is_longer_than_its_column_goes_on_below() -> None:
    step = Step(Entry("", ""), 0)
    step.of("one").changed.append("container")
    ((_mark, text),) = step.lines("Take over from whatever run changes the Sparks", 1, ["one"], [])
    assert text.splitlines() == [
        "changed  Take over from whatever run changes",
        "         the Sparks                                1.0 s  container",
    ]


@pytest.mark.parametrize(
    ("action", "args", "expected"),
    [
        ("ansible.builtin.copy", {}, "files"),
        ("community.docker.docker_container", {}, "container"),
        ("dgx_spark.speculative.watched_job", {"name": "pull-proxy"}, "image"),
        ("dgx_spark.speculative.watched_job", {"name": "finalize"}, ""),
        ("dgx_spark.speculative.watched_job", {"name": "{{ one }}"}, ""),
        ("ansible.builtin.file", {"state": "directory"}, ""),
        ("ansible.builtin.file", {"state": "absent"}, "files"),
        ("somebody.elses.flux_capacitor", {}, "flux capacitor"),
    ],
)
def test_what_a_task_has_changed_is_said_in_a_word(action: str, args: dict[str, t.Any], expected: str) -> None:
    assert changed_by(types.SimpleNamespace(action=action, args=args)) == expected


class Paper:
    """A display that no terminal is behind."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def display(self, msg: str, *arguments: t.Any, **options: t.Any) -> None:
        self.lines.append(msg)


def test_where_nothing_can_be_drawn_each_host_has_a_line_now_and_then() -> None:
    paper, now = Paper(), 100.0
    screen = Screen(paper, lambda: now)
    for now in (101.0, 110.0, 111.0, 119.0, 121.0):
        screen.note("one", [f"one at {now:g}"], since=100.0)
    screen.note("two", ["two"], since=100.0)
    assert paper.lines == ["one at 110", "one at 121", "two"]


def test_warnings_are_kept_and_errors_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    paper = Paper()
    screen = Screen(paper, lambda: 0.0)
    paper.display("[WARNING]: first, and it is a long one", stderr=True)
    paper.display("[ERROR]: no", stderr=True)
    paper.display("[WARNING]: told before.", stderr=True)
    paper.display("Of this image:\n - told\n   before, and more")
    paper.display("[WARNING]: to whom it may concern, as a report")
    assert paper.lines == [
        "[ERROR]: no",
        "Of this image:\n - told\n   before, and more",
        "[WARNING]: to whom it may concern, as a report",
    ]
    screen.release()
    paper.display("[WARNING]: last", stderr=True)
    assert paper.lines[3:] == ["[WARNING]: first, and it is a\n  long one", "[WARNING]: last"]


@pytest.mark.parametrize(("unchanged", "shown"), [(True, ["\nIt serves.\n"]), (False, ["\nIt serves.\nAnd how.\n"])])
def test_where_nothing_was_changed_a_report_is_short(unchanged: bool, shown: list[str]) -> None:
    paper = Paper()
    screen = Screen(paper, clock=lambda: 0)
    screen.in_short = lambda: unchanged
    paper.display(pickle.loads(pickle.dumps(Report("\nIt serves.\nAnd how.\n", "\nIt serves.\n"))))
    # What was left out was told before, and is no warning now.
    paper.display("[WARNING]: And how.", stderr=True)
    screen.release()
    assert paper.lines == shown


def test_a_report_without_a_short_form_is_shown_whole() -> None:
    paper = Paper()
    screen = Screen(paper, clock=lambda: 0)
    screen.in_short = lambda: True
    paper.display(Report("It serves."))
    paper.display(Report("The plan.", ""))
    assert paper.lines == ["It serves."]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"progress": {"text": "3 of 5 GB"}}, "3 of 5 GB"),
        ({"progress": {"text": "4.9 of 5 GB"}, "job": "fetch"}, ""),
        ({"progress": None, "recipe": {"title": "a model with drafts"}}, "a model with drafts"),
        (
            {
                "repositories": [
                    {"bytes_total": 3_000_000_000, "bytes_missing": 0},
                    {"bytes_total": 1_000_000_000, "bytes_missing": 0},
                ]
            },
            "4.0 GB, all here",
        ),
        ({"repositories": [{"bytes_total": 3_000_000_000, "bytes_missing": 2_000_000_000}]}, "3.0 GB, 2.0 GB to fetch"),
        ({"repositories": [{"bytes_total": None, "bytes_missing": None}]}, ""),
        ({"repositories": "of somebody else's module", "recipe": "soup", "progress": 3}, ""),
        ({"repositories": ["of somebody else's module"]}, ""),
    ],
)
def test_what_a_result_says(result: dict[str, t.Any], expected: str) -> None:
    assert result_text(result) == expected


def test_progress_comes_whole_from_a_worker() -> None:
    sent = pickle.loads(pickle.dumps(Progress("one | 3 of 5 GB")))
    assert isinstance(sent, Progress)
    assert sent == "one | 3 of 5 GB"


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        ({"before": "a\n", "after": "b\n"}, {"before": "a\n", "after": "b\n"}),
        (
            {"before": {"exists": False}, "after": {"exists": True}},
            {"before": {"exists": False}, "after": {"exists": True}},
        ),
        ({"before": {"a": None, "b": 0}, "after": {"a": [], "b": 1}}, {"before": {"b": 0}, "after": {"b": 1}}),
        ([{"before": {"a": [1, 2]}, "after": {"a": [2, 1]}}],) * 2,
        ([{"before": {"a": [1, 1]}, "after": {"a": [1]}}],) * 2,
        ([{"before": {"a": [1], "b": [2]}, "after": {"a": [1], "b": [2]}}], [{"before": {}, "after": {}}]),
        ({"before": {"a": [{"b": 1, "c": False}]}, "after": {"a": [{"b": 1}]}}, {"before": {}, "after": {}}),
        (
            {"before": {"a": [{"b": 1, "c": False}]}, "after": {"a": [{"b": 2}]}},
            {"before": {"a": [{"b": 1}]}, "after": {"a": [{"b": 2}]}},
        ),
        ({"before": {"p": "/x", "s": 1}, "after": {"p": "/x", "s": 2}},) * 2,
        (
            {
                "before": {"labels": {"mine": "a", "dgx_spark.speculative.options": "1f"}, "mounts": [MODELS, FILES]},
                "after": {"labels": {"mine": "b", "dgx_spark.speculative.options": "2e"}, "mounts": [MODELS]},
            },
            {"before": {"labels": {"mine": "a"}}, "after": {"labels": {"mine": "b"}}},
        ),
        ({"prepared": "as it is"}, {"prepared": "as it is"}),
    ],
)
def test_of_data_only_what_differs_is_a_change(diff: t.Any, expected: t.Any) -> None:
    assert changes(diff) == expected
