# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train drafts for the real model, once, and offer them in the twin's Hub. Run as: python -m tests.twin.drafts"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from tests.twin import real_model
from tests.twin.lifecycle import HUB, VLLM_LOCK, alone
from tests.twin.names import CACHE
from tests.twin.vllm import build
from tests.twin.wheels import run

HERE = Path(__file__).parent
PROGRAMS = ("answers.py", "train.py")
# By the directory of each that train.py writes, what its repository in the Hub is, and in one sentence.
OFFERED = {
    "eagle3": (f"{real_model.IDENTIFIER}-Eagle3", "An EAGLE-3 head"),
    "draft": (f"{real_model.IDENTIFIER}-Draft", "A draft model of three layers"),
}


def drafts(tag: str, checkpoint: Path) -> Path:
    """Return the directory of the drafts, which are trained once, in containers of the image."""
    inputs = b"".join((HERE / name).read_bytes() for name in (*PROGRAMS, "prompts.yml"))
    key = hashlib.sha256(checkpoint.name.encode() + inputs).hexdigest()[:16]
    result = CACHE / "vllm" / f"drafts-{key}"
    if result.is_dir():
        return result
    print("Training drafts for the model (about ten minutes, once) ...", flush=True)
    unfinished = result.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    mounts = {checkpoint: "/model:ro", unfinished: "/made", HERE: "/programs:ro"}
    options = [part for path, place in mounts.items() for part in ("--volume", f"{path.resolve()}:{place}")]
    options += ["--network", "none", "--shm-size", "1g"]
    user = f"{os.getuid()}:{os.getgid()}"
    for program in PROGRAMS:
        log = f"/made/{program}.log"
        command = f"HOME=/tmp python3 /programs/{program} > {log} 2>&1 || {{ tail -n 30 {log}; exit 1; }}"
        run(["docker", "run", "--rm", "--user", user, *options, "--entrypoint", "/bin/sh", tag, "-c", command])
    (unfinished / "answers.pt").unlink()
    unfinished.rename(result)
    return result


def offer() -> None:
    """Offer the drafts in the Hub of the twins of this checkout, which may run."""
    with alone(VLLM_LOCK):
        tag = build.build()
        made = drafts(tag, build.checkpoint(tag))
        for name, (identifier, words) in OFFERED.items():
            text = f"{words} for {real_model.IDENTIFIER}, trained on that model's answers for the twin's tests."
            real_model.offer(made / name, HUB, identifier, text)


if __name__ == "__main__":
    offer()
