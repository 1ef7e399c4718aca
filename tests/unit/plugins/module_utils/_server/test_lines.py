# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.files import read_end
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import lines as log_lines
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.lines import last_lines, last_run

START = "[TensorRT-LLM] TensorRT LLM version: 1.3.0rc12"
BEGIN = "[entrypoint] the server starts"
END = "[entrypoint] the server ended with exit code 1"
BAR = "Loading weights: 100%|##########| 1190/1190 [01:01<00:00, 19.26it/s]"


@pytest.fixture(name="log")
def fixture_log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_last_run_is_what_came_after_the_last_end() -> None:
    assert last_run([START, "a", END, START, "b"]) == [START, "b"]


def test_a_server_that_was_given_up_has_its_last_run_with_the_end() -> None:
    given_up = "[entrypoint] it ended 4 times within an hour and is not started again"
    assert last_run([START, "a", END, START, "b", END, given_up, ""]) == [START, "b", END, given_up, ""]


def test_a_server_that_was_stopped_in_order_has_no_end_and_another_one_a_begin() -> None:
    assert last_run([START, "a", BEGIN, START, "b"]) == [BEGIN, START, "b"]
    assert last_run([START, "a", BEGIN]) == [BEGIN]


def test_noise_is_left_out_unless_raw(log: Path) -> None:
    write(log, START, "\x1b[31mred\x1b[0m", BAR, "", "10%\rdone")
    assert last_lines(log, 10) == ([START, "red", "done"], False)
    assert last_lines(log, 10, raw=True) == ([START, "\x1b[31mred\x1b[0m", BAR, "", "10%\rdone"], False)


def test_the_last_lines_of_more(log: Path) -> None:
    write(log, START, "a", "b", "c")
    assert last_lines(log, 2) == (["b", "c"], True)


def test_all_runs(log: Path) -> None:
    write(log, START, "a", END, START, "b")
    assert last_lines(log, 10)[0] == [START, "b"]
    assert last_lines(log, 10, all_runs=True)[0] == [START, "a", END, START, "b"]


def test_a_run_that_was_rotated_goes_on_in_the_older_file(log: Path) -> None:
    write(log.with_name("server.log.1"), START, "older", END, START, "a")
    write(log, "b")
    assert last_lines(log, 10) == ([START, "a", "b"], False)
    assert last_lines(log, 1) == (["b"], False)


def test_the_older_file_is_another_run_where_this_one_shows_its_beginning(log: Path) -> None:
    write(log.with_name("server.log.1"), START, "a")
    write(log, START, "b")
    assert last_lines(log, 10)[0] == [START, "b"]
    assert last_lines(log, 10, all_runs=True)[0] == [START, "a", START, "b"]


def test_the_older_file_is_another_run_where_nothing_has_been_said_yet(log: Path) -> None:
    write(log.with_name("server.log.1"), START, "a")
    write(log, BEGIN)
    assert last_lines(log, 10)[0] == [BEGIN]


def test_a_long_log_is_read_from_its_end(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "LEAST_BYTES", 20)
    monkeypatch.setattr(log_lines, "BYTES_A_LINE", 1)
    write(log, *(f"line {number}" for number in range(10)))
    assert last_lines(log, 5) == (["line 8", "line 9"], True)


def test_the_end_of_a_file_begins_with_a_whole_line(log: Path) -> None:
    write(log, "first line", "second", "third")
    assert read_end(log, 10) == ("third\n", True)
    assert read_end(log, 1000) == ("first line\nsecond\nthird\n", False)


def test_no_log(log: Path) -> None:
    with pytest.raises(FileNotFoundError):
        last_lines(log, 5)
