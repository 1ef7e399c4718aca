# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that the tests detect seeded defects.

Run as: python -m tools.mutants [--twin] [NAME...]

tests/mutants.yml has defects that were fixed here once, or could be made: a text in a file, its replacement, and the
tests that must fail. Each defect is made in a copy of the checkout, one after the other. With --twin, only the defects
run that need the twin, without it all others. TWIN names the twin.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import yaml

from tools.check_files import tracked_files

ROOT = Path(__file__).resolve().parent.parent
DATA = "tests/mutants.yml"
GREEN, RED = 0, 1
# Longest time of unit tests and of tests on the twin. After that, they count as hung.
LONGEST_S, LONGEST_ON_TWIN_S = 300, 1800
# Longest wait of a unit test for one event (tests/unit/waiting.py). With a defect, it may never come.
WAIT_S = 120


class MutantError(Exception):
    """The data do not match the files. The text is one sentence."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A defect, with the pytest arguments of the tests that detect it."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
    twin: bool = False


def read(root: Path) -> list[Mutant]:
    """Return all defects. The key is the statement that the tests verify."""
    data = yaml.safe_load((root / DATA).read_text(encoding="utf-8"))
    return [Mutant(name, **{**row, "tests": tuple(row["tests"])}) for name, row in data.items()]


def mutated(mutant: Mutant, content: str) -> str:
    """Return the file with the defect."""
    count = content.count(mutant.text)
    if count != 1:
        raise MutantError(f"{mutant.name}: {mutant.file} has its text {count} times, not once; correct it in {DATA}.")
    return content.replace(mutant.text, mutant.instead)


def content_of(root: Path, mutant: Mutant) -> str:
    try:
        return (root / mutant.file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MutantError(f"{mutant.name}: there is no {mutant.file}; say in {DATA} where its text is now.") from None


def copy(root: Path, place: Path) -> None:
    """Copy the tracked files and the links of the checkout, and link its .cache and .venv."""
    for name in tracked_files(root):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, place / name)
    for link in (path for path in (root / "collections").rglob("*") if path.is_symlink()):
        (place / link.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
        (place / link.relative_to(root)).symlink_to(link.readlink())
    for name in (".cache", ".venv"):
        if (root / name).exists():
            (place / name).symlink_to(root / name)


def run(place: Path, tests: t.Sequence[str], seconds: float) -> int | None:
    """Run the tests and return pytest's exit status; None if it does not end in time."""
    command = [sys.executable, "-m", "pytest", "-q", "--exitfirst", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TESTS_WAIT_S": str(WAIT_S)}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, timeout=seconds, check=False, stdout=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode


def verdict(place: Path, mutant: Mutant) -> str:
    """Return an empty text if the tests fail with the defect, else the error."""
    whole = content_of(place, mutant)
    (place / mutant.file).write_text(mutated(mutant, whole), encoding="utf-8")
    try:
        status = run(place, mutant.tests, LONGEST_ON_TWIN_S if mutant.twin else LONGEST_S)
    finally:
        (place / mutant.file).write_text(whole, encoding="utf-8")
    if status == RED:
        return ""
    return "NOT SEEN" if status == GREEN else f"its tests ended with {'no' if status is None else status} status"


def require_green(place: Path, mutants: t.Sequence[Mutant]) -> None:
    """Check that all tests pass without a defect. Otherwise a broken twin would look like a detected defect."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    longest = sum(LONGEST_ON_TWIN_S if mutant.twin else LONGEST_S for mutant in mutants)
    if tests and run(place, tests, longest) != GREEN:
        raise MutantError(f"Without any defect these are not green: pytest {' '.join(tests)}")


def chosen(mutants: t.Sequence[Mutant], names: t.Collection[str], twin: bool) -> list[Mutant]:
    unknown = sorted(set(names) - {mutant.name for mutant in mutants})
    if unknown:
        raise MutantError(f"{DATA} has no {' and no '.join(unknown)}.")
    return [mutant for mutant in mutants if mutant.twin == twin and (not names or mutant.name in names)]


def main(arguments: t.Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Whether the tests see a defect.")
    parser.add_argument("--twin", action="store_true", help="those that only the twin shows")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(arguments)
    survived = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory).resolve()
        try:
            mutants = chosen(read(root), args.names, args.twin)
            for mutant in mutants:
                mutated(mutant, content_of(root, mutant))
            copy(root, place)
            require_green(place, mutants)
            for mutant in mutants:
                wrong = verdict(place, mutant)
                survived += bool(wrong)
                print(f"{mutant.name}: {wrong or 'seen'}", flush=True)
        except MutantError as error:
            print(error, file=sys.stderr)
            return 2
    print(f"{len(mutants) - survived} of {len(mutants)} defects are seen")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
