# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell whether a run left a Spark as it was: files, groups, containers, images, volumes.

Run as: python -m tests.fingerprint save | compare
"""

from __future__ import annotations

import difflib
import sys

from tests.twin.control import Spark
from tests.twin.names import STATE

SAVED = STATE / "fingerprint.txt"

# Logs, Ansible's own temporary directory and what a login leaves behind are not changes of the Spark.
COMMAND = r"""
find /etc /home /usr/local /opt /var/lib/dpkg/status -xdev \
  -not -path '*/.ansible*' -not -path '/etc/.pwd.lock' -not -name '.sudo_as_admin_successful' \
  -not -path '/home/spark' -not -path '/home/member' \
  -printf '%p %y %m %u %g %s\n' | sort
cat /etc/group
docker ps --all --format 'container {{.Names}} {{.Image}}'
docker images --no-trunc --format 'image {{.Repository}}:{{.Tag}} {{.ID}}'
docker volume ls --format 'volume {{.Name}}'
"""


def take(number: int = 1) -> str:
    """A Spark's fingerprint, one fact a line."""
    result = Spark(number).exec(COMMAND)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return result.stdout


def difference(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def main(arguments: list[str]) -> int:
    if arguments == ["save"]:
        SAVED.write_text(take(), encoding="utf-8")
        return 0
    if arguments == ["compare"]:
        changes = difference(SAVED.read_text(encoding="utf-8"), take())
        print("\n".join(changes) or "the Spark is as it was")
        return 1 if changes else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
