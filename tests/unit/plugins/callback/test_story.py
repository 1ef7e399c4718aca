# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person sees of runs of the real ansible-playbook, kept in expected/ (STORY_RECORD=1 writes them anew).

How long a task takes is the plays' to say (plays/clock/by_the_plays_clock.py): a slow machine tells the same story.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import pytest

from tests.unit.waiting import WITHIN_S, until

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[3]
DRAWN = "\r\033[2K"
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


class Runner:
    """Runs the playbooks in plays/ with the story."""

    def __init__(self, directory: Path) -> None:
        # Of the same length wherever the tests run: long lines are wrapped.
        self.place = Path(tempfile.mkdtemp(dir="/tmp"))
        groups = {
            "sparks": {"hosts": {"one": {}, "two": {}}, "vars": {**LOCAL, "place": str(self.place)}},
            "away": {"hosts": {"three": GONE}},
        }
        self.inventory = directory / "hosts.yml"
        self.inventory.write_text(json.dumps(groups))
        config = f"[defaults]\ncollections_path={REPOSITORY}/collections\ncallback_result_format=yaml\n"
        (directory / "ansible.cfg").write_text(config)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
            "ANSIBLE_STDOUT_CALLBACK": "by_the_plays_clock",
            "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "plays/clock"),
            "ANSIBLE_LOCAL_TEMP": str(directory / "local"),
            "ANSIBLE_REMOTE_TEMP": str(directory / "remote"),
            "COLUMNS": "100",
            "TERM": "xterm",
        }

    def start(self, name: str, *arguments: str, **options: t.Any) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "ansible",
            "playbook",
            "-f1",
            "-i",
            str(self.inventory),
            f"{name}.yml",
            *arguments,
        ]
        changes = options.pop("changes", {})
        streams: dict[str, t.Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
        return subprocess.Popen(
            command,
            cwd=HERE / "plays",
            env={**self.environment, **changes},
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            **streams,
        )

    def run(self, name: str, *arguments: str, **changes: str) -> str:
        return self.start(name, *arguments, changes=changes).communicate(timeout=WITHIN_S)[0]

    def on_a_terminal(self, name: str, *arguments: str, **changes: str) -> str:
        mine, its = pty.openpty()
        process = self.start(name, *arguments, changes=changes, stdout=its, stderr=its)
        os.close(its)
        shown = b""
        # A terminal whose other end is closed answers with an error.
        while piece := read(mine):
            shown += piece
        process.wait(timeout=WITHIN_S)
        os.close(mine)
        return shown.decode().replace("\r\n", "\n")

    def normal(self, text: str) -> str:
        text = text.replace(str(self.place), "PLACE")
        return re.sub(r"PLACE/\.ansible_tmp\S+|/\S*ansible-local-\S+", "TEMPORARY", text)


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


@pytest.fixture(name="runner")
def fixture_runner(tmp_path: Path) -> t.Iterator[Runner]:
    runner = Runner(tmp_path)
    yield runner
    shutil.rmtree(runner.place)


def compare(name: str, text: str) -> None:
    path = HERE / "expected" / f"{name}.txt"
    if "STORY_RECORD" in os.environ:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "playbook", "arguments"),
    [
        ("roles", "roles", []),
        ("limit", "roles", ["--limit", "two"]),
        ("check", "check", ["--check", "--diff"]),
        ("only_looks", "only_looks", ["--limit", "one", "--diff"]),
        ("data", "data", ["--limit", "one", "--diff"]),
        ("rescue", "rescue", []),
        ("rescued", "rescued", []),
        ("dealt_with", "dealt_with", ["--limit", "one"]),
        ("another_cause", "another_cause", ["--limit", "one"]),
        ("somebody_elses", "somebody_elses", []),
        ("preflight", "preflight", []),
        ("retries", "retries", []),
        ("unreachable", "unreachable", []),
        ("nobody", "nobody", []),
        ("warns", "warns", ["--limit", "one"]),
        ("warns_and_fails", "warns_and_fails", ["--limit", "one"]),
        ("follow", "follow", []),
    ],
)
def test_what_is_printed(runner: Runner, name: str, playbook: str, arguments: list[str]) -> None:
    compare(name, runner.normal(runner.run(playbook, *arguments)))


def interrupted(runner: Runner, name: str, is_under_way: t.Callable[[], bool]) -> str:
    process = runner.start(name, "--limit", "one")
    until(is_under_way)
    os.killpg(process.pid, signal.SIGINT)
    return runner.normal(process.communicate(timeout=WITHIN_S)[0])


def test_ctrl_c_names_the_step_that_was_under_way(runner: Runner) -> None:
    compare("interrupted", interrupted(runner, "long", (runner.place / "asleep").exists))


def test_ctrl_c_says_what_goes_on(runner: Runner) -> None:
    file = runner.place / "one"
    shown = interrupted(runner, "follow_long", lambda: file.exists() and len(file.read_text()) > 1)
    assert "interrupted during: Download, which keeps running. Run the same command to reattach" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_verbose_is_ansibles_own_output(runner: Runner) -> None:
    shown = runner.run("retries", "-v")
    assert "TASK [Wait until it answers]" in shown
    assert "FAILED - RETRYING: [one]" in shown
    assert "PLAY RECAP" in shown


def test_a_mistake_in_the_story_hides_nothing(runner: Runner) -> None:
    broken = {"ANSIBLE_STDOUT_CALLBACK": "broken", "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "plays/callback")}
    shown = runner.run("check", "--diff", **broken)
    assert "The story breaks off (ZeroDivisionError('a mistake'))" in shown
    assert "+port: 8000" in shown
    assert "changed: [one]" in shown
    assert "PLAY RECAP" in shown
    shown = runner.run("another_cause", **broken)
    assert "no memory" in shown
    assert "It does not serve." in shown


@pytest.mark.parametrize("columns", [100, 40])
def test_a_terminal_has_one_line_that_is_drawn_in_place(runner: Runner, columns: int) -> None:
    shown = runner.on_a_terminal("follow", COLUMNS=str(columns), NO_COLOR="1")
    assert "\033" not in shown.replace(DRAWN, "")
    pieces = shown.split(DRAWN)
    drawn = [piece for piece in pieces if piece and "\n" not in piece]
    assert max(map(len, drawn)) < columns
    assert any("of 3 GB" in piece for piece in drawn)
    # Nothing stands behind what was drawn: it was erased before each line that stays.
    lines = "".join(piece for piece in pieces if "\n" in piece)
    compare(f"terminal_{columns}", runner.normal(lines))


def test_colours_mark_what_changed_by_the_real_clock(runner: Runner) -> None:
    shipped = {"ANSIBLE_STDOUT_CALLBACK": "dgx_spark.speculative.story"}
    assert "\033[0;33mchanged" in runner.on_a_terminal("check", **shipped)
