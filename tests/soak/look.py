# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a Spark is, as a program for it: what must be after a fault as it was before, as JSON.

Arguments: the directory of the collection's state, the deployment's name. On standard input: a secret that must be
nowhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

SLOT = "dgx-spark-speculative"
# Not what a login, a run or a boot leaves everywhere.
FOREIGN = r"""find /etc /home /usr/local /opt /boot -xdev -not -path '*/.ansible*' -not -path '/home/spark/.local/*' \
  -not -path '/home/spark/.cache/*' -not -name '.*.lock' -not -name .pwd.lock -not -name '.sudo_as_admin_successful' \
  -not -path /home/spark -not -path /opt/ahead\* -not -path /opt -not -path /etc -not -name resolv.conf \
  -not -name mtab -not -name ld.so.cache -printf '%p %y %m %u %g %s\n'"""


def said(command: str | list[str]) -> str:
    done = subprocess.run(command, shell=isinstance(command, str), capture_output=True, text=True, check=False)
    return done.stdout


def addresses() -> dict[str, list[str]]:
    """By interface, of those that outlive a container."""
    found = json.loads(said(["ip", "-json", "address"]) or "[]")
    names = re.compile("eth0|en")
    return {
        one["ifname"]: sorted(f"{each['local']}/{each['prefixlen']}" for each in one["addr_info"])
        for one in found
        if names.match(one["ifname"])
    }


def containers() -> dict[str, dict[str, t.Any]]:
    """What of each may not be another one."""
    names = said(["docker", "ps", "--all", "--quiet"]).split()
    found = json.loads(said(["docker", "inspect", *names]) or "[]") if names else []
    return {
        one["Name"].lstrip("/"): {
            "image": one["Image"],
            "running": one["State"]["Running"] and not one["State"]["Paused"],
            "policy": one["HostConfig"]["RestartPolicy"]["Name"],
        }
        for one in found
    }


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def generation(state: Path) -> dict[str, str]:
    """The files that the container has mounted, with their modes."""
    mounts = json.loads(said(["docker", "inspect", "--format", "{{json .Mounts}}", SLOT]) or "[]")
    for mount in mounts:
        if mount["Destination"] == "/deployment":
            top = Path(mount["Source"])
            files = [path for path in sorted(top.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
            return {str(path.relative_to(state)): f"{path.stat().st_mode:o} {digest(path)}" for path in files}
    return {}


def draft_lengths(state: Path, deployment: str) -> dict[str, int | None]:
    """What is recorded, and what is served."""
    record = state / deployment / "record.json"
    recorded = json.loads(record.read_text(encoding="utf-8")).get("draft_length") if record.exists() else None
    options = [state / name for name in generation(state) if name.endswith("/options.yml")]
    served = re.search(r"max_draft_len: (\d+)", options[0].read_text(encoding="utf-8")) if options else None
    return {"recorded": recorded, "served": int(served[1]) if served else None}


def text_below(*tops: Path) -> str:
    """What small files of these directories say: a secret is in no big one alone."""
    files = [path for top in tops for path in top.rglob("*") if path.is_file() and not path.is_symlink()]
    return "\n".join(path.read_text(errors="replace") for path in files if path.stat().st_size < 5_000_000)


def leaks(state: Path, secret: str) -> list[str]:
    """Where the secret is to be seen."""
    places = {
        "files": text_below(state, *map(Path, ("/home/spark/.ansible", "/tmp", "/var/log"))),
        "containers": said("docker inspect $(docker ps --all --quiet)"),
        "processes": said("ps -eo args"),
        "journal": said("journalctl --quiet --boot --no-pager | tail -n 20000"),
    }
    return [name for name, text in places.items() if secret in text]


def main() -> None:
    state, deployment, secret = Path(sys.argv[1]), sys.argv[2], sys.stdin.read().strip()
    sys.stdout.write(
        json.dumps(
            {
                "addresses": addresses(),
                "routes": sorted(
                    re.sub(r" metric \d+| linkdown", "", line).strip() for line in said("ip route").splitlines()
                ),
                "netplan": {str(path): digest(path) for path in sorted(Path("/etc/netplan").glob("*"))},
                "containers": containers(),
                "images": sorted(said(["docker", "images", "--no-trunc", "--quiet"]).split()),
                "volumes": sorted(said(["docker", "volume", "ls", "--quiet"]).split()),
                "foreign": sorted(said(FOREIGN).splitlines()),
                "generation": generation(state),
                "draft_lengths": draft_lengths(state, deployment),
                "leaks": leaks(state, secret),
            }
        )
    )


if __name__ == "__main__":
    main()
