# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from tests.unit import plays

SPARK = {
    "is_spark": True,
    "problems": [],
    "gpus": [],
    "memory_total": 128_000_000_000,
    "memory_available": 100_000_000_000,
}


def play(
    directory: Path, more: dict[str, t.Any] | None = None, table: bool = True, **arguments: t.Any
) -> tuple[int, str]:
    """Of a run on this host, the status and what the screen shows."""
    hosts = {"spark-1": {"spark": SPARK, **arguments}, **(more or {})}
    given = {"title": "a model", "image": "release:1", "hosts": hosts, "table": table}
    done = plays.do(directory, {"dgx_spark.speculative.report": {"preflight": given}})
    return done.returncode, done.stdout + done.stderr


def test_without_a_problem_it_succeeds(tmp_path: Path) -> None:
    code, screen = play(tmp_path)
    assert code == 0
    assert "spark-1: preflight for a model" in screen


def test_it_fails_with_every_problem_on_the_screen(tmp_path: Path) -> None:
    spark = {**SPARK, "is_spark": False, "problems": ["it has no NVIDIA GPU"]}
    code, screen = play(tmp_path, spark=spark, problems=["The port is in use.", "The token is missing."])
    assert code == 2
    for text in ("3 problems", "it has no NVIDIA GPU.", "The port is in use.", "The token"):
        assert text in screen


def test_two_hosts_have_one_report(tmp_path: Path) -> None:
    code, screen = play(tmp_path, {"spark-2": {"spark": SPARK, "problems": ["No room."]}})
    assert code == 2
    assert screen.splitlines().count("spark-1 and spark-2: preflight for a model") == 1
    assert "spark-2: No room." in screen
    # As the reason of the failure, and not in the table as well.
    assert "  - spark-2: No room." not in screen


def test_what_is_not_known_of_a_host_is_refused(tmp_path: Path) -> None:
    code, screen = play(tmp_path, prblems=["x"])
    assert code == 2
    assert "hosts, spark-1:" in screen
    assert "prblems" in screen


def test_without_the_table_it_refuses_with_every_problem(tmp_path: Path) -> None:
    assert play(tmp_path, table=False)[0] == 0
    code, screen = play(tmp_path, table=False, problems=["spark-1: The port is in use.", "The token is missing."])
    assert code == 2
    assert "GPU" not in screen
    assert "2 problems; " in screen
    assert "\\n- The port is in use.\\n- The token" in screen
