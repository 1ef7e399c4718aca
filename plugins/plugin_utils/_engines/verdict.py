# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Judge engine options by the rules of this collection, without a play.

Run it as a module; CONTRIBUTING.md has an example. It reads JSON, a request or a list of requests, and writes the
answers in the same form. A request has `engine`, `release` (or the name of an image) and `options`. An answer has
`accepted`, `refused` and `warnings`; each finding has the `path` of its option and a `message`. The image of a release
may refuse more.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import typing as t

from .engine import Request
from .registry import ENGINES, build

KEYS = {"engine": str, "release": str, "options": dict}


def verdict(request: t.Any) -> dict[str, t.Any]:
    """Return the answer to one request; raise ValueError if it is none."""
    if not isinstance(request, dict) or set(request) != set(KEYS):
        raise ValueError(f"a request is a mapping with {', '.join(KEYS)}")
    for key, kind in KEYS.items():
        if not isinstance(request[key], kind):
            raise ValueError(f"{key} must be a {'mapping' if kind is dict else 'text'}")
    if request["engine"] not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}")
    built = build(ENGINES[request["engine"]], Request(request["release"], options=request["options"]))
    refused, warnings = ([dataclasses.asdict(one) for one in found] for found in (built.errors, built.warnings))
    return {"accepted": not refused, "refused": refused, "warnings": warnings}


def main() -> int:
    try:
        given = json.load(sys.stdin)
        answer = [verdict(request) for request in given] if isinstance(given, list) else verdict(given)
    except ValueError as error:
        print(f"The input cannot be judged: {error}", file=sys.stderr)
        return 2
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
