# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the golden files anew, or compare with them. Run as: python -m tests.golden [--record] [STORY...]"""

from __future__ import annotations

import argparse
import difflib

from tests.golden.stories import STORIES, Case, tell


def difference(case: Case, said: str) -> str:
    """What has changed, as a review reads it; empty if nothing has."""
    expected = case.expected.read_text(encoding="utf-8") if case.expected.exists() else ""
    lines = (expected.splitlines(), said.splitlines())
    return "\n".join(difflib.unified_diff(*lines, f"{case.name}, written down", f"{case.name}, now", lineterm=""))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the golden files anew")
    parser.add_argument("stories", nargs="*", default=list(STORIES), metavar="STORY", help=", ".join(STORIES))
    asked = parser.parse_args()
    different: list[Case] = []

    def seen(case: Case, said: str) -> None:
        if found := difference(case, said):
            print(found, flush=True)
            different.append(case)
        if asked.record:
            case.expected.write_text(said, encoding="utf-8")

    for story in asked.stories:
        tell(story, seen)
    return 0 if asked.record or not different else 1


if __name__ == "__main__":
    raise SystemExit(main())
