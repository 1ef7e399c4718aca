# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Save the state of this machine that the twin must not change, and compare it after a test.

Run as: python -m tests.twin.machine save | compare LETTER...
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import typing as t

from tests.twin.names import CACHE, PREFIX

SAVED = CACHE / "machine.json"

# These change by themselves.
RESTLESS = (
    "fs.dentry-state",
    "fs.file-nr",
    "fs.inode-nr",
    "fs.inode-state",
    "fs.quota.",
    "kernel.ns_last_pid",
    "kernel.pty.nr",
    "kernel.random.",
    "net.netfilter.nf_conntrack_count",
    "net.ipv4.route.flush",
)
# The control group of a Spark, in which the letter of its twin may be missing.
SPARK_GROUP = re.compile(rf"/{PREFIX}(?:-([a-z]))?-\d+(?:/|$)")
# Docker creates these for networks and containers and removes them with these.
DOCKERS_LINKS = ("br-", "veth", "docker")


def sysctls(root: pathlib.Path = pathlib.Path("/proc/sys")) -> dict[str, str]:
    """Return all readable kernel parameters that do not change by themselves."""
    found = {}
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        name = ".".join(parts)
        if name.startswith(RESTLESS) or any(part.startswith(DOCKERS_LINKS) for part in parts) or not path.is_file():
            continue
        try:
            found[name] = path.read_text(errors="replace").strip()
        except OSError:
            continue
    return found


def of_ip(*arguments: str) -> list[dict[str, t.Any]]:
    """Return the output of `ip` as data."""
    result = subprocess.run(["ip", "-json", *arguments], capture_output=True, text=True, check=True)
    return t.cast("list[dict[str, t.Any]]", json.loads(result.stdout or "[]"))


def snapshot() -> dict[str, t.Any]:
    """Return kernel parameters, links, addresses, routes, clock source and control groups, without Docker's."""
    links = {
        link["ifname"]: [link["flags"], link["mtu"], link.get("address")]
        for link in of_ip("link")
        if not link["ifname"].startswith(DOCKERS_LINKS)
    }
    routes = [
        [route["dst"], route.get("gateway"), route.get("dev")]
        for version in ("-4", "-6")
        for route in of_ip(version, "route")
        if not str(route.get("dev", "")).startswith(DOCKERS_LINKS)
    ]
    groups = {
        path.as_posix()
        for path in pathlib.Path("/sys/fs/cgroup").rglob("*")
        if path.is_dir() and not any(part.startswith(("docker", "system.slice")) for part in path.parts)
    }
    return {
        "sysctls": sysctls(),
        "links": links,
        "routes": sorted(routes, key=str),
        "cgroups": sorted(groups),
        "modules": sorted(path.name for path in pathlib.Path("/sys/module").iterdir()),
    }


def empty(group: str) -> bool:
    """Return whether a control group has no process."""
    try:
        return not pathlib.Path(group, "cgroup.procs").read_text().strip()
    except OSError:
        return False


def of_twins(groups: t.Iterable[str], letters: t.Collection[str]) -> list[str]:
    """Return the control groups without those of other twins, which may come and go meanwhile."""
    found = [(group, SPARK_GROUP.search(group)) for group in groups]
    return [group for group, spark in found if spark is None or (spark[1] or "") in letters]


def counted(before: t.Sequence[str], now: t.Sequence[str]) -> list[str]:
    """Return the control groups that a removed twin may have left: the old ones, and new ones without a process.

    All others change with other users of this machine.
    """
    return [*before, *(group for group in now if group not in before and empty(group))]


def differences(before: dict[str, t.Any], after: dict[str, t.Any]) -> list[str]:
    """Return the changes between two snapshots, one readable line each."""
    lines = []
    for kind in before:
        old, new = before[kind], after[kind]
        if isinstance(old, dict):
            names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
            lines += [f"{kind}: {name} was {old.get(name)!r} and is {new.get(name)!r}" for name in names]
        else:
            lines += [f"{kind}: {item!r} is gone" for item in old if item not in new]
            lines += [f"{kind}: {item!r} is new" for item in new if item not in old]
    return lines


def main(arguments: list[str]) -> int:
    """Save the state of the machine before the twin starts, or print the changes since then."""
    if arguments == ["save"]:
        SAVED.parent.mkdir(parents=True, exist_ok=True)
        SAVED.write_text(json.dumps(snapshot()), encoding="utf-8")
        return 0
    if arguments[:1] == ["compare"]:
        before, now = json.loads(SAVED.read_text(encoding="utf-8")), json.loads(json.dumps(snapshot()))
        for one in (before, now):
            one["cgroups"] = of_twins(one["cgroups"], arguments[1:])
        changes = differences(before, {**now, "cgroups": counted(before["cgroups"], now["cgroups"])})
        print("\n".join(changes) or "The machine is as it was before the twin.")
        return 1 if changes else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
