# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random faults on the twin for so many minutes, and a verdict.

Run as: python -m tests.soak [--sparks 2] [--minutes 15] [--seed 1] [--detach] [--judge]

A history is kept in .cache/soak/<sparks>-<seed>, and gone on with by the same command, which is how a soak that was cut
off ends, and how a seed that fails is played again: remove its history first. TWIN names the twin.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

from tests.playbook import ROOT
from tests.soak.judge import counted, judge, longest
from tests.soak.run import History, Soak, SoakError
from tests.twin.names import NAME

KEPT = ROOT / ".cache" / "soak"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").partition(". ")[0])
    parser.add_argument("--sparks", type=int, choices=(1, 2), default=1)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget the history of this seed")
    parser.add_argument("--detach", action="store_true", help="go on without this terminal")
    parser.add_argument("--judge", action="store_true", help="only judge the history that there is")
    return parser.parse_args()


def verdict(directory: Path) -> int:
    """Tell what the history shows."""
    lines = History(directory / "history.jsonl").lines
    found = judge(lines)
    seconds = sum(line["seconds"] for line in lines if line["kind"] == "rounded")
    served = sum(line["kind"] == "answered" and line["status"] == 200 for line in lines)
    print(f"{seconds / 60:.0f} min, {sum(line['kind'] == 'round' for line in lines)} rounds, {served} answers")
    print("\nFault                            times   longest alone   promised")
    alone = longest(lines)
    for name, times in counted(lines).items():
        took = f"{alone[name][0]:10.0f} s {alone[name][1]:10.0f} s" if name in alone else ""
        print(f"{name:32} {times:5}   {took}")
    struck = [line["standby"] for line in lines if line["kind"] == "struck"]
    print(f"\n{sum(struck)} of {len(struck)} runs were struck while a container was on standby")
    print(f"\n{len(found)} promises not kept" if found else "\nAll promises kept")
    print("\n".join(map(str, found)))
    return 1 if found else 0


@contextlib.contextmanager
def alone() -> t.Iterator[None]:
    """One soak a twin: another one would make it anew."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{NAME}.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SoakError(f"A soak of the twin {NAME} is under way. TWIN=x names another twin.") from None
        yield


def detach(log: Path) -> None:
    """The same without this terminal; what was to be forgotten is."""
    arguments = [one for one in sys.argv[1:] if one not in ("--detach", "--fresh")]
    with log.open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    print(f"It goes on by itself: {log}")


def main() -> int:
    given = arguments()
    directory = KEPT / f"{given.sparks}-{given.seed}"
    if given.judge:
        return verdict(directory)
    try:
        with alone():
            if given.fresh:
                shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True, exist_ok=True)
            if not given.detach:
                Soak(given.sparks, given.seed, directory).go_on(given.minutes)
    except SoakError as error:
        print(f"It ended before its time: {error}")
        return 1
    if given.detach:
        detach(directory / "log")
        return 0
    return verdict(directory)


if __name__ == "__main__":
    sys.exit(main())
