# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVIDIA's AIPerf, a client of another make, measures of the same prompts: the outside check of our own.

Nothing installs it (1.2 GB): python3 -m venv ~/aiperf && ~/aiperf/bin/pip install 'aiperf>=0.13'. What its options are
for is told in its documentation and was tried with 0.13.0: the server counts the tokens (a client's own count was seen
three times wrong), nothing reads the server's metrics (which are drained by reading) or the GPU's, and the tokenizer is
a directory, so that nothing is fetched.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import typing as t
from pathlib import Path


class AiperfError(Exception):
    """It measured nothing; what it said last."""


def command(program: str, url: str, model: str, tokenizer: Path, prompts: Path, count: int, output: Path) -> list[str]:
    return [
        *(program, "profile", "--model", model, "--tokenizer", str(tokenizer), "--url", url),
        *("--endpoint-type", "completions", "--streaming", "--use-server-token-count"),
        *("--concurrency", "1", "--request-count", str(count), "--warmup-request-count", "1"),
        *("--input-file", str(prompts), "--custom-dataset-type", "single-turn", "--extra-inputs", "temperature:0"),
        *("--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--output-artifact-dir", str(output)),
    ]


def tokens_per_second(
    program: str, url: str, model: str, tokenizer: Path, prompts: t.Sequence[str], max_tokens: int
) -> float:
    """The speed of an answer, the prompts asked one at a time."""
    # Offline, AIPerf 0.13.0 takes the path of a tokenizer for a model of the Hub.
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    with tempfile.TemporaryDirectory() as directory:
        lines, output = Path(directory) / "prompts.jsonl", Path(directory) / "output"
        asked = [json.dumps({"text": prompt, "output_length": max_tokens}) for prompt in prompts]
        lines.write_text("\n".join(asked) + "\n", encoding="utf-8")
        words = command(program, url, model, tokenizer, lines, len(prompts), output)
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, env=environment)
        try:
            found = json.loads((output / "profile_export_aiperf.json").read_text(encoding="utf-8"))
            return float(found["output_token_throughput_per_user"]["avg"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise AiperfError((done.stdout + done.stderr)[-2000:]) from error
