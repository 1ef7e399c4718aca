# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The fields of requests that end or hang a server, as a pattern by which the API proxy finds them.

The proxy reads no JSON. A quotation mark inside of a text is escaped, so a name between two plain ones and before a
colon is always that of a field. It may have escapes itself, and the server reads UTF-16 and UTF-32 as well, of which
each field has NUL bytes.
"""

from __future__ import annotations

import typing as t

from ...module_utils._deployment.records import nodes_of
from .._engines.engine import AUTO, Request
from .._engines.registry import engine_of

Mapping = t.Mapping[str, t.Any]
Rows = t.Sequence[Mapping]

# The beginnings of all values but null, false and 0, with which the server does the same as without the field. A text
# may mean true. A mapping does not count: the field is then one of a schema, such as that of a tool.
SET = r'(?:["t-]|[1-9]|0[.])'


def spelt(letter: str) -> str:
    """Return a letter as a pattern: as it is, or as an escape."""
    code = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(letter):04x}")
    return rf"(?:{letter}|\\u{code})"


def pattern(fields: t.Iterable[str]) -> str:
    """Return what the bodies with one of these fields have, in the syntax of RE2."""
    names = "|".join("".join(map(spelt, field)) for field in fields)
    return rf'\x00|"(?:{names})"\s*:\s*{SET}'


def of_record(record: Mapping) -> list[dict[str, t.Any]]:
    """Return the known issues of a recorded deployment."""
    request = Request(
        release=record["image"]["reference"],
        options=record["options"],
        family=record.get("family") or AUTO,
        target_model=record.get("target_model"),
        world_size=len(nodes_of(record.get("cluster") or {})) or 1,
    )
    return [vars(issue) for issue in engine_of(record).build(request).known_issues]


def refusal(issues: Rows) -> dict[str, t.Any]:
    """Return the fields that end or hang a deployment with these known issues, and the pattern; empty without any."""
    bad = [issue for issue in issues if issue["refuse"]]
    fields = list(dict.fromkeys(field for issue in bad for field in issue["refuse"]))
    if not fields:
        return {}
    return {"fields": fields, "pattern": pattern(fields), "urls": [issue["url"] for issue in bad]}
