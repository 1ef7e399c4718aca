# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Offer checkpoints of the real vLLM in the twin's Hub, without a copy of their weights."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import typing as t
from pathlib import Path

from tests.twin.models import describe

# The organisation is the twin's, because the files are not those of the original repository.
IDENTIFIER = "twin/SmolLM2-135M-Instruct-Q4"
LICENSE = "apache-2.0"
TEXT = """\
SmolLM2-135M-Instruct by HuggingFaceTB, with the weights of a 4-bit GGUF file by QuantFactory.

Changed: the weights are converted to bfloat16, and zeros are added to have 12 attention heads. The chat template knows
tools. Only the twin, a simulated Spark for tests, offers this repository."""


def readme(identifier: str, text: str) -> str:
    """Return the page of a repository."""
    return f"---\nlicense: {LICENSE}\nlanguage: [en]\n---\n# {identifier}\n\n{text}\n"


def commit(checkpoint: Path, page: str) -> str:
    """Return the commit of a checkpoint. Its path has a hash of its inputs, so nothing large is read."""
    name = "/".join(checkpoint.parts[-2:])
    return hashlib.sha1(f"{name} {page}".encode(), usedforsecurity=False).hexdigest()


def described(description: Path) -> t.Any:
    """Return the commit that the Hub offers; None if it does not have the model."""
    return json.loads(description.read_text(encoding="utf-8"))["sha"] if description.is_file() else None


def offer(checkpoint: Path, hub: Path, identifier: str = IDENTIFIER, text: str = TEXT) -> None:
    """Link the files of a checkpoint into the Hub's directory, unless it has this checkpoint."""
    page = readme(identifier, text)
    description, place, sha = hub / f"{identifier}.json", hub / identifier, commit(checkpoint, page)
    if described(description) == sha:
        return
    # The Hub reads the description first, so an unfinished repository does not exist.
    description.unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(checkpoint, place, copy_function=os.link)
    (place / "README.md").write_text(page, encoding="utf-8")
    describe(hub, identifier, sha, ["*.safetensors"], license=LICENSE)
