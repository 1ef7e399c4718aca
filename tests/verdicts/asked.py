# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answer requests as the option check does in a container. Run in the environment of a release: DIRECTORY ANSWERS."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path


def main(directory: str, answers: str) -> None:
    sys.path.insert(0, directory)
    check_options = importlib.import_module("check_options")
    result = []
    for request in json.load(sys.stdin):
        answer = check_options.judge(request["options"])
        if answer.accepted and request.get("models"):
            answer = check_options.judge_models(answer, request["options"], request["models"])
        result.append(dataclasses.asdict(answer))
    Path(answers).write_text(json.dumps(result), encoding="utf-8")
    # Imported libraries may not let a process end.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
