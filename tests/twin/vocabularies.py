# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch the two public tiktoken vocabularies of gpt-oss from a Python package that contains them."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from tests.twin.names import CACHE, TwinError

VOCABULARIES = CACHE / "vocabularies"
PACKAGE = "litellm==1.109.1"
MEMBERS = "litellm/litellm_core_utils/tokenizers"
# Name: the file in the package, named by a hash of its URL, and the checksum of its content.
FILES = {
    "cl100k_base.tiktoken": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base.tiktoken": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}


def ensure_vocabularies(directory: pathlib.Path = VOCABULARIES) -> None:
    """Fetch the vocabularies once."""
    if all((directory / name).exists() for name in FILES):
        return
    print("Fetching the vocabularies (41 MB, once) ...", flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        # The files are the same for every platform: ask for a package that exists on any machine.
        result = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
                *("--python-version", "3.11", "--platform", "manylinux_2_28_x86_64", "--dest", temporary, PACKAGE),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise TwinError(f"pip could not fetch {PACKAGE} with the vocabularies: {result.stderr.strip()[-300:]}")
        wheel = next(pathlib.Path(temporary).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            for name, (member, checksum) in FILES.items():
                content = archive.read(f"{MEMBERS}/{member}")
                if hashlib.sha256(content).hexdigest() != checksum:
                    raise TwinError(f"{name} in {PACKAGE} is not the published file: its checksum differs.")
                fresh = directory / f"{name}.new"
                fresh.write_bytes(content)
                fresh.rename(directory / name)
