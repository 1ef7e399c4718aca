# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell whether a run left the twin's Sparks as they were: files, groups, containers, images, volumes.

Run as: python -m tests.fingerprint save | compare | removed
"""

from __future__ import annotations

import difflib
import json
import sys

from tests.twin.control import Spark
from tests.twin.names import STATE

SAVED, INVENTORY = STATE / "fingerprint.json", STATE / "inventory.yml"
MEMBERSHIP = ("docker:", "/etc/group", "/etc/gshadow")
USED_BY_OTHERS = (
    ".cache/huggingface",
    ".cache/huggingface/hub",
    ".cache/huggingface/hub/.locks",
    ".local",
    ".local/share",
)
DIRECTORIES = tuple(f"/home/spark/{name}" for name in USED_BY_OTHERS)

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


def save(sparks: int) -> None:
    """Remember so many Sparks."""
    SAVED.write_text(json.dumps([take(number) for number in range(1, sparks + 1)]), encoding="utf-8")


def changes() -> list[str]:
    """What is another than it was when they were remembered, of all of them."""
    saved = json.loads(SAVED.read_text(encoding="utf-8"))
    return [line for number, before in enumerate(saved, start=1) for line in difference(before, take(number))]


def stays(line: str) -> bool:
    """Whether a cleanup leaves this: membership of the group, and directories that other programs use, too."""
    return line[1:].startswith((*MEMBERSHIP, *(f"{directory} d " for directory in DIRECTORIES)))


def main(arguments: list[str]) -> int:
    if arguments == ["save"]:
        save(len(json.loads(INVENTORY.read_text(encoding="utf-8"))["sparks"]["hosts"]))
        return 0
    if arguments in (["compare"], ["removed"]):
        found = [line for line in changes() if arguments == ["compare"] or not stays(line)]
        print("\n".join(found) or "all is as it was")
        return 1 if found else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
