# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a Spark is, as a program for it: what must be after a fault as it was before, as JSON.

Arguments: the directory of the collection's state, the deployment's name. On standard input, as JSON: the secrets that
must be nowhere, each with its spellings.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import subprocess
import sys
import time
import typing as t
import zlib
from pathlib import Path

SLOT = "dgx-spark-speculative"
CONFIGURATION = "dgx_spark.speculative.configuration"
# Not what a login, a run or a boot leaves everywhere, nor what Docker and the deployments have: that is looked at by
# itself.
NOT_FOREIGN = (
    *("*/.ansible*", "/home/spark/.local/share/dgx-spark-speculative", "/home/spark/.cache/huggingface", "/opt/ahead"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/log", "/var/tmp", "/var/cache", "/var/lib/systemd"),
    *(
        "/var/lib/apt/lists",
        "/var/lib/apt/periodic",
        "/var/lib/dpkg",
        "/var/lib/sudo",
        "/var/lib/private",
        "/var/lib/NetworkManager/timestamps",
    ),
)
FOREIGN = "/etc /home /usr/local /opt /boot /root /srv /var"
CACHE = Path("/home/spark/.cache/huggingface")
# Where a secret may have got to; what Docker's images bring along is none of ours.
SEARCHED = "/root /etc /run /tmp /var /var/lib/docker /home /opt /srv /usr/local"
NOT_SEARCHED = (
    "/var/lib/containerd",
    *(f"/var/lib/docker/{name}" for name in ("overlay2", "rootfs", "containerd", "image", "buildkit")),
)
# What running containers have written, where they are apt to.
INSIDE = (
    r"for pid in $(docker ps --quiet | xargs -r docker inspect --format '{{.State.Pid}}'); do "
    r"for top in tmp run root var/log; do find /proc/$pid/root/$top -xdev -type f -print0; done; done"
)
MOST_BYTES = 500_000_000
PATTERNS = "/dev/shm/soak-patterns"
# Where each that belongs to a Spark is kept, and where the SSH server of a worker's container has its own.
KEPT = re.compile(r"/dgx-spark-speculative/(cluster|proxy/keys)/|^/proc/\d+/root/run/[^/]+/ssh_host_ed25519_key$")
# What a run has on a Spark, and nothing should be left of.
OF_A_RUN = re.compile(r"ansible|AnsiballZ|dgx-spark-speculative/jobs/|soak-hog")


def find(tops: str, without: tuple[str, ...], rest: str, root: str) -> str:
    """Return a command that goes through these directories of a machine, whose root may be elsewhere."""
    places = " ".join(f"{root}{top}" for top in tops.split())
    left_out = " -o ".join(f"-path '{path if path.startswith('*') else root + path}'" for path in without)
    return rf"find {places} -xdev \( {left_out} \) -prune -o {rest}"


def said(command: str | list[str]) -> str:
    shell = isinstance(command, str)
    return subprocess.run(command, shell=shell, capture_output=True, text=True, errors="replace", check=False).stdout


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


def models(top: Path = CACHE) -> list[str]:
    """Each file of the cache, with the sum of its content."""
    return with_sums(said(["find", str(top), "-printf", "%p %y %m %u %g %s %l\\n"]))


def with_sums(text: str) -> list[str]:
    found = []
    for line in text.splitlines():
        path = Path(line.split(" ")[0])
        found.append(f"{line} {digest(path)[:16]}" if path.is_file() and not path.is_symlink() else line)
    return sorted(found)


def foreign(root: str = "") -> list[str]:
    """What belongs to others: kind, mode, owner and, of a file, content."""
    names = (".*.lock", ".pwd.lock", ".sudo_as_admin_successful", "resolv.conf", "mtab", "ld.so.cache", "daily_lock")
    paths = [f"{root}{path}" for path in ("/home/spark", "/opt", "/etc", "/var/lib")]
    not_these = [f"-not -name '{name}'" for name in names] + [f"-not -path {path}" for path in paths]
    return with_sums(said(find(FOREIGN, NOT_FOREIGN, " ".join((*not_these, r"-printf '%p %y %m %u %g\n'")), root)))


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


def pids_of(container: str) -> list[int]:
    """The processes of a container, by the host's numbers."""
    lines = said(["docker", "top", container, "-eo", "pid"]).splitlines()[1:]
    return [int(line) for line in lines]


def is_engine(arguments: list[str]) -> bool:
    """Whether this is the server or a rank, and neither what has started it nor what watches it."""
    python = bool(arguments) and Path(arguments[0]).name.startswith("python")
    return python and any(re.search(r"trtllm-serve$|mgmn_worker_node", one) for one in arguments[1:3])


def engines() -> dict[int, list[str]]:
    """The processes in the slot that are the server or a rank, with their command lines."""
    found = {}
    for pid in pids_of(SLOT):
        # They come and go.
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")
            if is_engine(arguments):
                found[pid] = arguments
    return found


def server(found: dict[int, list[str]]) -> dict[str, t.Any]:
    """What the server's process says of itself: each line of its diary is of a request that it has ended."""
    shown: dict[str, t.Any] = {"options": None, "options_on_disk": None, "draft_lengths": [], "load_s": None}
    for pid, arguments in found.items():
        given = next((one for one in arguments if one.endswith("/options.yml")), None)
        root = Path(f"/proc/{pid}/root")
        if given is None:
            continue
        shown["options_on_disk"] = digest(root / given.lstrip("/"))
        diary = root / "tmp/standin-requests.jsonl"
        # By the number that it has in its container.
        inside = re.search(r"NSpid:.*\s(\d+)$", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.MULTILINE)
        lines = [json.loads(line) for line in diary.read_text().splitlines() if line] if diary.exists() else []
        own = [line for line in lines if inside and line["pid"] == int(inside[1])]
        # A number may come again in a container that has been started anew.
        own = [line for line in own if line.get("options") == own[-1].get("options")]
        shown["draft_lengths"] = sorted({line["draft_length"] for line in own[-50:]})
        shown["options"] = own[-1].get("options") if own else None
        shown["load_s"] = own[-1].get("load_s") if own else None
    return shown


Secrets = dict[str, dict[str, str]]


def told(texts: dict[str, str], secrets: Secrets) -> list[str]:
    """By place: which secret is to be seen there, and in which spelling."""
    return [
        f"{name} as {spelling} in {place}"
        for place, text in texts.items()
        for name, ways in secrets.items()
        for spelling, secret in ways.items()
        if secret in text
    ]


def leaks_in_files(secrets: Secrets, root: str = "", patterns: str = PATTERNS) -> list[str]:
    """Also in large ones, packed ones, their names and those of containers, but for where each is kept."""
    Path(patterns).write_text(
        "\n".join({text for ways in secrets.values() for text in ways.values()}), encoding="utf-8"
    )
    searched = (
        f"{{ {find(SEARCHED, NOT_SEARCHED, '-type f -print0', root)}; {INSIDE if not root else ':'}; }} 2>/dev/null"
    )
    try:
        found = set(said(f"{searched} | xargs -0 grep -laFf {patterns}").splitlines())
    finally:
        Path(patterns).unlink()
    found |= {path for path in said(searched).split("\0") if is_packed(Path(path))}
    names = said(find(SEARCHED, NOT_SEARCHED, r"-printf '%p\n%l\n'", root))
    texts = {path: text_of(Path(path)) for path in sorted(found) if not KEPT.search(path)}
    return told({**texts, "a file's name": names}, secrets)


def is_packed(path: Path) -> bool:
    """Whether it is gzip's, by how it begins; what runs meanwhile comes and goes."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"
    return False


def text_of(path: Path) -> str:
    """What a file says, also if gzip has packed it; nothing if it is gone or cut off."""
    packed = is_packed(path)
    with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path) if packed else path.open("rb") as file:
        return file.read(MOST_BYTES).decode(errors="replace")
    return ""


def leaks(secrets: Secrets) -> list[str]:
    texts = {
        "a container's definition": said("docker inspect $(docker ps --all --quiet)"),
        "a container's log": said("for one in $(docker ps --all --quiet); do docker logs $one 2>&1; done"),
        "a process": said("ps -eo args; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"),
        "the journal": said("journalctl --quiet --boot --no-pager"),
    }
    return leaks_in_files(secrets) + told(texts, secrets)


def main() -> None:
    state, deployment, secrets = Path(sys.argv[1]), sys.argv[2], json.load(sys.stdin)
    found = engines()
    shown = {
        "addresses": addresses(),
        "routes": sorted(re.sub(r" metric \d+| linkdown", "", line).strip() for line in said("ip route").splitlines()),
        "netplan": {str(path): digest(path) for path in sorted(Path("/etc/netplan").glob("*"))},
        "containers": containers(),
        "images": sorted(said(["docker", "images", "--no-trunc", "--quiet"]).split()),
        "firewall": firewall(),
        "networks": sorted(said(["docker", "network", "ls", "--format", "{{.Name}}"]).split()),
        "models": models(),
        "processes": processes(),
        "volumes": sorted(said(["docker", "volume", "ls", "--quiet"]).split()),
        "foreign": foreign(),
        "generation": generation(state),
        "deployed": deployed(state, deployment),
        "commands": sorted(" ".join(arguments) for arguments in found.values()),
        "server": server(found),
        "leaks": leaks(secrets),
    }
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
