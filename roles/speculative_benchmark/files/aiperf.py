# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A second opinion: the same prompts asked by NVIDIA's AIPerf, which also measures several users at once.

AIPerf is not installed by this collection. What its options are for is told in its documentation and was tried with
0.13.0: the server counts the tokens (a client's own count was seen three times wrong), nothing reads the server's
metrics (which are drained by reading) or the GPU's, and the tokenizer is a directory, so that nothing is fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import typing as t
from pathlib import Path

OLDEST = (0, 13)
INSTALL = (
    "install it with: python3 -m venv ~/aiperf && ~/aiperf/bin/pip install 'aiperf>=0.13' "
    "(a Spark needs gcc and python3-dev for that)"
)
SPEED, TOTAL, FIRST = "output_token_throughput_per_user", "output_token_throughput", "time_to_first_token"


class AiperfError(Exception):
    """AIPerf cannot be used; one sentence."""


def version(program: str) -> str:
    """The version of the program; refuses what is missing or too old."""
    try:
        done = subprocess.run([expanded(program), "--version"], capture_output=True, text=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise AiperfError(f"AIPerf cannot be run as {program} ({type(error).__name__}): {INSTALL}.") from error
    words = done.stdout.split()
    found = words[-1] if words else ""
    numbers = tuple(map(int, re.findall(r"\d+", found)[:2]))
    if len(numbers) < 2 or numbers < OLDEST:
        raise AiperfError(
            f"{program} is AIPerf {found or 'without a version'}, but 0.13 or newer is needed: {INSTALL}."
        )
    return found


def expanded(program: str) -> str:
    """The program with a home directory instead of ~."""
    return str(Path(program).expanduser())


def command(
    program: str, url: str, model: str, tokenizer: str, prompts: Path, concurrency: int, count: int, output: Path
) -> list[str]:
    return [
        *(expanded(program), "profile", "--model", model, "--tokenizer", tokenizer, "--url", url),
        *("--endpoint-type", "completions", "--streaming", "--use-server-token-count"),
        *("--concurrency", str(concurrency), "--request-count", str(count), "--warmup-request-count", "1"),
        *("--input-file", str(prompts), "--custom-dataset-type", "single-turn", "--extra-inputs", "temperature:0"),
        *("--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--output-artifact-dir", str(output)),
    ]


def profile(
    program: str,
    url: str,
    model: str,
    tokenizer: str,
    prompts: t.Sequence[str],
    max_tokens: int,
    concurrency: int,
    directory: Path,
    timeout: float,
) -> dict[str, t.Any]:
    """What AIPerf measures with so many users at once; its own files are not kept."""
    shutil.rmtree(directory, ignore_errors=True)
    lines = directory / "prompts.jsonl"
    # Offline, AIPerf 0.13.0 takes the path of a tokenizer for a model of the Hub.
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    output = directory / "output"
    words = command(program, url, model, tokenizer, lines, concurrency, len(prompts), output)
    said = ""
    try:
        directory.mkdir(parents=True)
        lines.write_text(
            "".join(json.dumps({"text": prompt, "output_length": max_tokens}) + "\n" for prompt in prompts),
            encoding="utf-8",
        )
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment,
        )
        said = done.stdout + done.stderr
        found = json.loads((output / "profile_export_aiperf.json").read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("its report is no object")
    except subprocess.TimeoutExpired as error:
        raise AiperfError(f"AIPerf did not finish within {timeout:.0f} s.") from error
    except (OSError, ValueError) as error:
        reasons = re.findall(r"Reason: (.*)", said)
        # Where it has not even run, what was in the way is all there is to tell.
        reason = reasons[0].strip(" │") if reasons else "" if said else getattr(error, "strerror", None)
        raise AiperfError(f"AIPerf measured nothing{f': {reason}' if reason else ''}.") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return figures(found, concurrency)


def figures(found: t.Mapping[str, t.Any], concurrency: int) -> dict[str, t.Any]:
    """What is kept of AIPerf's report; unknown is None."""

    def average(name: str, scale: float = 1.0) -> float | None:
        entry = found.get(name)
        value = entry.get("avg") if isinstance(entry, dict) else None
        return round(value * scale, 4) if isinstance(value, (int, float)) else None

    return {
        "concurrency": concurrency,
        "tokens_per_second": average(SPEED),
        "total_tokens_per_second": average(TOTAL),
        "ttft_s": average(FIRST, 0.001),
        "requests": average("request_count"),
        "error": None,
    }
