# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cut the power of a virtual machine for so many minutes, and give a verdict.

Run as: python -m tests.power [--minutes 60] [--seed 1] [--fresh] [--judge] [--unflushed]

A history is kept in .cache/power/<seed>, and the same command continues it. With --unflushed nothing is flushed to the
disk: then the verdict must be bad, or these cuts would show nothing.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys

from tests.playbook import ROOT
from tests.power.build import build
from tests.power.judge import judge, table
from tests.power.run import History, Power

KEPT = ROOT / ".cache" / "power"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.power", description=(__doc__ or "").partition(". ")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget the history of this seed")
    parser.add_argument("--judge", action="store_true", help="only judge the history that there is")
    parser.add_argument("--unflushed", action="store_true", help="flush nothing, to see that it is noticed")
    return parser.parse_args()


def verdict(history: History) -> int:
    """Print what the history shows."""
    print("\nPlace        under way                  cuts")
    for (place, what), count in table(history.lines).items():
        print(f"{place:12} {what:25} {count:5}")
    found = judge(history.lines)
    print(f"\n{sum(table(history.lines).values())} cuts, {len(found) or 'no'} findings")
    print("\n".join(found))
    return 1 if found else 0


def main() -> int:
    given = arguments()
    # The machine ends with it.
    signal.signal(signal.SIGTERM, lambda *_details: sys.exit(143))
    directory = KEPT / f"{given.seed}{'-unflushed' if given.unflushed else ''}"
    if given.fresh:
        shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    if not given.judge:
        build()
        Power(directory, given.seed, {"unflushed": "1"} if given.unflushed else {}).go_on(given.minutes)
    return verdict(History(directory / "history.jsonl"))


if __name__ == "__main__":
    sys.exit(main())
