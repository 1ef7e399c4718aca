# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a Spark is, as a program for it: what must be after a fault as it was before, as JSON.

Arguments: the directory of the collection's state, the deployment's name. On standard input: a secret that must be
nowhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

SLOT = "dgx-spark-speculative"
CONFIGURATION = "dgx_spark.speculative.configuration"
# Not what a login, a run or a boot leaves everywhere.
FOREIGN = r"""find /etc /home /usr/local /opt /boot -xdev -not -path '*/.ansible*' -not -path '/home/spark/.local/*' \
  -not -path '/home/spark/.cache/*' -not -name '.*.lock' -not -name .pwd.lock -not -name '.sudo_as_admin_successful' \
  -not -path /home/spark -not -path /opt/ahead\* -not -path /opt -not -path /etc -not -name resolv.conf \
  -not -name mtab -not -name ld.so.cache -printf '%p %y %m %u %g\n'"""
MODELS = "find /home/spark/.cache/huggingface -printf '%p %y %m %u %g %s %l\n'"
# What a run has on a Spark, and nothing should be left of.
OF_A_RUN = re.compile(r"ansible|AnsiballZ|dgx-spark-speculative/jobs/|soak-hog")


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


def foreign() -> list[str]:
    """What belongs to others: kind, mode, owner and, of a file, content."""
    found = []
    for line in said(FOREIGN).splitlines():
        path = Path(line.split(" ")[0])
        found.append(f"{line} {digest(path)[:12]}" if path.is_file() and not path.is_symlink() else line)
    return sorted(found)


def firewall() -> list[str]:
    """Its rules, without the addresses and ports that Docker gives anew at each start."""
    lines = said("iptables-save").splitlines()
    return sorted(line for line in lines if line.startswith("-A") and "127.0.0.11" not in line)


def processes() -> list[str]:
    """What is left of runs, after a moment for what is just ending."""
    left: list[str] = []
    for _ in range(10):
        lines = said(["ps", "-eo", "args"]).splitlines()
        left = sorted(line[:200] for line in lines if OF_A_RUN.search(line) and not line.startswith("python3 -I -c"))
        if not left:
            break
        time.sleep(0.5)
    return left


def generation(state: Path) -> dict[str, str]:
    """The files that the container has mounted, with their modes."""
    mounts = json.loads(said(["docker", "inspect", "--format", "{{json .Mounts}}", SLOT]) or "[]")
    for mount in mounts:
        if mount["Destination"] == "/deployment":
            top = Path(mount["Source"])
            files = [path for path in sorted(top.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
            return {str(path.relative_to(state)): f"{path.stat().st_mode:o} {digest(path)}" for path in files}
    return {}


def deployed(state: Path, deployment: str) -> dict[str, t.Any]:
    """What is recorded, and what is served: draft length and the mark of the whole configuration."""
    file = state / deployment / "record.json"
    record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    labels = ((record.get("container") or {}).get("labels")) or {}
    options = [state / name for name in generation(state) if name.endswith("/options.yml")]
    served = re.search(r"max_draft_len: (\d+)", options[0].read_text(encoding="utf-8")) if options else None
    mark = said(["docker", "inspect", "--format", f'{{{{index .Config.Labels "{CONFIGURATION}"}}}}', SLOT]).strip()
    return {
        "recorded": [record.get("draft_length"), labels.get(CONFIGURATION)],
        "served": [int(served[1]) if served else None, mark or None],
    }


def text_below(*tops: Path) -> str:
    """What small files of these directories say: a secret is in no big one alone."""
    texts = []
    for path in [path for top in tops for path in top.rglob("*") if path.is_file() and not path.is_symlink()]:
        # Those of what runs meanwhile come and go.
        with contextlib.suppress(FileNotFoundError):
            texts += [path.read_text(errors="replace")] if path.stat().st_size < 5_000_000 else []
    return "\n".join(texts)


def leaks(state: Path, secret: str) -> list[str]:
    """Where the secret is to be seen."""
    places = {
        "files": text_below(state, *map(Path, ("/home/spark/.ansible", "/home/spark/.cache", "/tmp", "/var/log"))),
        "containers": said("docker inspect $(docker ps --all --quiet)"),
        "logs": said("for one in $(docker ps --all --quiet); do docker logs --tail 5000 $one 2>&1; done"),
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
                "firewall": firewall(),
                "networks": sorted(said(["docker", "network", "ls", "--format", "{{.Name}}"]).split()),
                "models": sorted(said(MODELS).splitlines()),
                "processes": processes(),
                "volumes": sorted(said(["docker", "volume", "ls", "--quiet"]).split()),
                "foreign": foreign(),
                "generation": generation(state),
                "deployed": deployed(state, deployment),
                "leaks": leaks(state, secret),
            }
        )
    )


if __name__ == "__main__":
    main()
