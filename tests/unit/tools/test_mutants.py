# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from tools import mutants

PROGRAM = "def double(number):\n    return 2 * number\n"
TEST = "import program\n\n\ndef test_it():\n    assert program.double(3) == 6\n"
ROW = {"file": "program.py", "text": "2 * number", "instead": "3 * number", "tests": ["test_program.py"]}


@pytest.fixture
def tree(tmp_path: Path) -> t.Callable[..., Path]:
    """A checkout with one program, its test, and these defects."""

    def make(test: str = TEST, **rows: t.Any) -> Path:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        files = {"program.py": PROGRAM, "test_program.py": test, mutants.DATA: yaml.safe_dump(rows)}
        for name, text in {**files, "pytest.ini": "[pytest]\npythonpath = .\n"}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return make


def test_a_defect_that_is_seen(tree: t.Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(doubles=ROW)
    assert mutants.main([], root) == 0
    assert capsys.readouterr().out == "doubles: seen\n1 of 1 defects are seen\n"
    assert (root / "program.py").read_text(encoding="utf-8") == PROGRAM


def test_a_wait_for_one_event_ends_before_the_tests_count_as_hung(tree: t.Callable[..., Path]) -> None:
    waits = f"import os\n\n\ndef test_wait():\n    assert float(os.environ['TESTS_WAIT_S']) < {mutants.LONGEST_S}\n"
    assert mutants.main([], tree(f"{TEST}\n\n{waits}", doubles=ROW)) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instead": "number * 2"}, "NOT SEEN"),
        ({"text": "def double", "instead": "deff double"}, "its tests ended with 2 status"),
    ],
    ids=["survives", "no program any more"],
)
def test_a_defect_that_is_not_seen(
    tree: t.Callable[..., Path], capsys: pytest.CaptureFixture[str], change: dict[str, t.Any], said: str
) -> None:
    assert mutants.main([], tree(doubles={**ROW, **change})) == 1
    assert capsys.readouterr().out == f"doubles: {said}\n0 of 1 defects are seen\n"


@pytest.mark.parametrize(
    ("test", "named"), [(TEST.replace("== 6", "== 7"), "test_program.py"), (TEST, "test_nothing.py")]
)
def test_what_is_red_without_a_defect_says_nothing(
    tree: t.Callable[..., Path], capsys: pytest.CaptureFixture[str], test: str, named: str
) -> None:
    assert mutants.main([], tree(test, doubles={**ROW, "tests": [named]})) == 2
    assert capsys.readouterr().err == f"Without any defect these are not green: pytest {named}\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": "4 * number"}, "doubles: program.py has its text 0 times, not once"),
        ({"text": "number"}, "doubles: program.py has its text 2 times, not once"),
        ({"file": "moved.py"}, "doubles: there is no moved.py"),
    ],
)
def test_a_defect_that_fits_no_longer_is_told(
    tree: t.Callable[..., Path], capsys: pytest.CaptureFixture[str], change: dict[str, t.Any], said: str
) -> None:
    assert mutants.main([], tree(doubles={**ROW, **change})) == 2
    assert capsys.readouterr().err.startswith(said)


def test_those_of_the_twin_are_asked_for(tree: t.Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(doubles=ROW, slow={**ROW, "twin": True})
    assert mutants.main(["--twin"], root) == 0
    assert capsys.readouterr().out == "slow: seen\n1 of 1 defects are seen\n"
    assert mutants.main(["fast"], root) == 2
    assert capsys.readouterr().err == "tests/mutants.yml has no fast.\n"


def test_the_defects_fit_the_tree() -> None:
    defects = mutants.read(mutants.ROOT)
    assert defects
    for mutant in defects:
        mutants.mutated(mutant, mutants.content_of(mutants.ROOT, mutant))
        for test in mutant.tests:
            assert test.startswith("-") or (mutants.ROOT / test.partition("::")[0]).exists(), mutant.name
