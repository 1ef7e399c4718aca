# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create a Debian repository of the packages in a directory. Run as: repository.py DIRECTORY REPOSITORY"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

SUITE = "bookworm"


def entry(control: str, name: str, content: bytes) -> str:
    """Return the index entry of a package: its control fields, and its file."""
    fields = {"Filename": f"pool/{name}", "Size": len(content), "SHA256": hashlib.sha256(content).hexdigest()}
    return control.strip() + "".join(f"\n{key}: {value}" for key, value in fields.items()) + "\n"


def release(indexes: dict[str, bytes], architecture: str) -> str:
    """Return the Release file of the repository with the checksums of its indexes."""
    fields = {
        "Origin": "dgx-spark-twin",
        "Suite": SUITE,
        "Codename": SUITE,
        "Date": "Thu, 01 Jan 1970 00:00:00 UTC",
        "Architectures": architecture,
        "Components": "main",
    }
    lines = [f"{key}: {value}" for key, value in fields.items()]
    lines.append("SHA256:")
    lines += [f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}" for name, content in indexes.items()]
    return "\n".join(lines) + "\n"


def make(packages: Path, repository: Path) -> None:
    pool = repository / "pool"
    pool.mkdir(parents=True)
    entries = []
    for package in sorted(packages.glob("*.deb")):
        # apt writes an epoch's colon as %3a, which a request would have to quote again.
        name = re.sub(r"%[0-9a-f]{2}", "_", package.name)
        shutil.copyfile(package, pool / name)
        control = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
        entries.append(entry(control, name, package.read_bytes()))
    known = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    architecture = known.stdout.strip()
    index = f"main/binary-{architecture}/Packages"
    content = "\n".join(entries).encode()
    suite = repository / "dists" / SUITE
    (suite / index).parent.mkdir(parents=True)
    (suite / index).write_bytes(content)
    (suite / "Release").write_text(release({index: content}, architecture), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
