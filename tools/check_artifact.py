# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that the built collection contains the files that a user needs, and no others."""

from __future__ import annotations

import re
import sys
import tarfile
import typing as t

# Files that may be in the artifact. Add each new top-level file here, or to build_ignore in galaxy.yml.
ALLOWED = re.compile(
    r"^(?:(?:MANIFEST|FILES)\.json|(?:README|CHANGELOG|CONTRIBUTING)\.md|LICENSE|requirements\.yml"
    r"|(?:changelogs|docs|meta|playbooks|plugins|roles)(?:/.*)?)$"
)
JUNK = re.compile(
    r"(?:^|/)(?:\.(?!keep$)[^/]*|__pycache__|[^/]*\.(?:pyc|orig|rej|log|gz|retry|json|html)|[^/]*~)(?:/|$)"
)
MANIFESTS = ("MANIFEST.json", "FILES.json")
REQUIRED = ("MANIFEST.json", "README.md", "LICENSE", "meta/runtime.yml", "playbooks", "plugins", "roles")


def findings(names: t.Collection[str]) -> t.Iterator[str]:
    """Yield a sentence for each error in the list of an artifact's files."""
    for name in sorted(names):
        if not ALLOWED.search(name) or (JUNK.search(name) and name not in MANIFESTS):
            yield f"{name} does not belong into the collection: add it to build_ignore in galaxy.yml."
    for name in REQUIRED:
        if name not in names:
            yield f"{name} is missing from the collection."


def main() -> int:
    """Print the findings in the artifact named on the command line."""
    with tarfile.open(sys.argv[1]) as artifact:
        found = list(findings(artifact.getnames()))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
