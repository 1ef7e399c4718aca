# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validate rendered engine options with the engine's own program, before any weights are downloaded.

Runs inside a container of the image. The last line of its output is JSON: {"available": bool, "accepted": bool,
"version": str, "error": str or null, "with_models": bool, "without_models": str or null}.
judge.py, beside it, is the engine's half. Importing the engine may hang or crash, so a separate process with a deadline
does it. A cold disk needs long for some 20 GB of libraries, so there are two attempts: at the second one they are in
the page cache. If models.json names the models, their configuration is judged afterwards; without that judgement, such
as without a GPU, the answer on the options alone counts.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import typing as t
from pathlib import Path

OPTIONS = Path("/check/options.yml")
# Beside it. The models' paths, the number of Sparks, and the environment of the server; empty for no models.
MODELS = "models.json"
DEADLINE_S = 240.0
TRIES = 2
INSIDE = "--inside"
MARK = "dgx-spark-speculative-answer:"
ERROR_LIMIT = 1500


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of the image."""

    available: bool
    accepted: bool
    version: str
    error: str | None
    # Whether the models were judged with the options, and why not; null if that was not asked.
    with_models: bool = False
    without_models: str | None = None


def not_available(reason: str) -> Answer:
    return Answer(available=False, accepted=False, version="", error=reason[:ERROR_LIMIT])


def engine_half() -> types.ModuleType:
    """Return judge.py from beside this file. The environment of a recipe can name other directories for modules."""
    spec = importlib.util.spec_from_file_location("judge", Path(__file__).resolve().with_name("judge.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(options: dict[str, t.Any]) -> Answer:
    """Have the engine's own half of this program judge the options."""
    available, version, complaints = engine_half().judge(options)
    text = "; ".join(complaints)
    return Answer(available, available and not complaints, version, text[:ERROR_LIMIT] or None)


def judge_models(answer: Answer, options: dict[str, t.Any], models: dict[str, t.Any]) -> Answer:
    """Return an answer on options that were accepted, together with the models."""
    judged, _version, texts = engine_half().judge_models(options, models)
    text = "; ".join(texts)[:ERROR_LIMIT]
    if not judged:
        return dataclasses.replace(answer, without_models=text)
    return dataclasses.replace(answer, accepted=not text, error=text or None, with_models=True, without_models=None)


def read_models(path: Path) -> dict[str, t.Any]:
    """Return what models.json beside the options has; empty if there is none."""
    file = path.with_name(MODELS)
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def read_options(path: Path) -> dict[str, t.Any]:
    """Return the options. Raise ValueError with the reason if there are none."""
    try:
        import yaml
    except ImportError as error:
        raise ValueError("the image has no YAML library") from error
    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"{path} does not hold a mapping")
    return options or {}


def inside(path: Path) -> t.NoReturn:
    """Answer, and leave at once: libraries that were imported may not let a process end."""
    try:
        options, models = read_options(path), read_models(path)
        answer = judge(options)
        if answer.accepted and models:
            # Counts if what follows hangs or crashes.
            say(dataclasses.replace(answer, without_models="it gave no answer on them"))
            answer = judge_models(answer, options, models)
    except ValueError as error:
        answer = not_available(str(error))
    say(answer)
    os._exit(0)


def say(answer: Answer) -> None:
    print(f"\n{MARK}{json.dumps(dataclasses.asdict(answer))}", flush=True)


def answer_in(output: str) -> Answer | None:
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    return Answer(**json.loads(lines[-1][len(MARK) :])) if lines else None


def ask(path: Path, deadline: float) -> Answer:
    """Return the answer of the image, or the reason why there is none. Retry a slow one, because it is then cached."""
    late = not_available(f"the engine did not answer within {deadline:.0f} s, twice")
    for _number in range(TRIES):
        answer, is_late = ask_once(path, deadline)
        if not is_late:
            return answer
        late = answer if answer.available else late
    return late


def ask_once(path: Path, deadline: float) -> tuple[Answer, bool]:
    """Return the answer of a process that imports the engine, or why there is none, and whether it took too long."""
    command = [sys.executable, str(Path(__file__).resolve()), INSIDE, str(path)]
    # To a file and not a pipe, which a left-over child of its own could hold open.
    with tempfile.TemporaryFile() as output_file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **read_models(path).get("environment", {}), "HF_HUB_OFFLINE": "1"},
            start_new_session=True,
        )
        late = False
        try:
            process.wait(timeout=deadline)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output_file.seek(0)
        output = output_file.read().decode(errors="replace")
    answer = answer_in(output)
    if answer is None:
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")
        answer = not_available(f"the engine ended with code {process.returncode}: {last}")
    return answer, late


def main(arguments: t.Sequence[str]) -> int:
    if arguments[:1] == [INSIDE]:
        inside(Path(arguments[1]))
    path = Path(arguments[0]) if arguments else OPTIONS
    print(json.dumps(dataclasses.asdict(ask(path, DEADLINE_S))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
