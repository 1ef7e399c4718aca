# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that every file names its licence, and that no file names a path or host of one machine."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

SPDX = "SPDX-License-Identifier: GPL-3.0-or-later"
HEADER_LINES = 8

# Formats without comments, the licence itself, and generated files.
WITHOUT_HEADER = re.compile(r"\.(json|jsonl|md|txt|tiktoken|png|svg)$|^LICENSE$|^changelogs/changelog\.yaml$")
HEADER_ALL_THE_SAME = re.compile(r"^meta/ee-requirements\.txt$")

# Joined from parts, because this file is checked, too.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("ports", "ubuntu", "com"),
        ("registry", "npmjs", "org"),
    )
)
MACHINE_PATHS = ("/" + "work/", "/" + "root/.", "/" + "tmp/w/", "/" + "opt/pypi")


def findings(name: str, text: str) -> t.Iterator[str]:
    """Yield a sentence for each error in a file."""
    wants_header = HEADER_ALL_THE_SAME.search(name) or not WITHOUT_HEADER.search(name)
    if wants_header and text.strip() and not any(SPDX in line for line in text.splitlines()[:HEADER_LINES]):
        yield f"{name}: the first {HEADER_LINES} lines lack '{SPDX}'."
    for number, line in enumerate(text.splitlines(), start=1):
        for host in REGISTRY_HOSTS:
            if host in line:
                yield f"{name}:{number}: names the package registry {host}; leave that to the tools' configuration."
        for path in MACHINE_PATHS:
            if re.search(rf"(?<![\w.~}}]){re.escape(path)}", line):
                yield f"{name}:{number}: names {path}, a path of one machine."


def tracked_files(root: Path) -> list[str]:
    """List the files that git tracks or would track, so that new files are checked before the commit."""
    # The checkout may belong to another user.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and (root / name).is_file() and not (root / name).is_symlink()})


def main() -> int:
    """Print the findings in the repository around this file."""
    root = Path(__file__).resolve().parent.parent
    found: list[str] = []
    for name in tracked_files(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += findings(name, text)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
