# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a field check, as a test reads it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from tests import playbook


def rows(outcome: playbook.Outcome) -> list[dict[str, t.Any]]:
    """What was reported of each Spark, by row; the files are not left in the checkout."""
    found = [Path(line.partition(": ")[2]) for line in outcome.output.splitlines() if line.endswith((".html", ".json"))]
    sparks = json.loads(next(path for path in found if path.suffix == ".json").read_text(encoding="utf-8"))["sparks"]
    for path in found:
        path.unlink()
    return [{row["id"]: row for row in spark["rows"]} for spark in sparks]
