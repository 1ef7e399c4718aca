# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a container the simulated GPU: an `nvidia-smi` and the files that describe this twin's hardware."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import typing as t

NVIDIA_SMI = pathlib.Path("/usr/local/lib/dgx-spark-twin/nvidia-smi")
FACTS = pathlib.Path("/run/dgx-spark-twin")


def asked_for_gpu(environment: list[str]) -> bool:
    """Whether the container's environment asks for a GPU, as Docker's `--gpus` sets it."""
    values = [entry.partition("=")[2] for entry in environment if entry.startswith("NVIDIA_VISIBLE_DEVICES=")]
    # Docker appends its own value to the image's: the last one counts.
    return bool(values) and values[-1] not in ("", "void", "none")


def furnish(root: pathlib.Path, nvidia_smi: pathlib.Path, facts: pathlib.Path) -> None:
    """Copy what the container shall find into its root directory."""
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(nvidia_smi, program)
    destination = root / "run/dgx-spark-twin"
    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    for fact in facts.glob("*.json"):
        shutil.copy2(fact, destination)


def main() -> None:
    state: dict[str, t.Any] = json.load(sys.stdin)
    bundle = pathlib.Path(state["bundle"])
    configuration = json.loads((bundle / "config.json").read_text())
    if asked_for_gpu(configuration["process"].get("env") or []):
        furnish(bundle / configuration["root"]["path"], NVIDIA_SMI, FACTS)


if __name__ == "__main__":
    main()
