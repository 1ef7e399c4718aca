# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts a server as two ranks on two Sparks, after reading back from both what they have been given.

A login at the worker has none of its container's environment, Open MPI binds each of two ranks to one core unless it
is told not to, and a clean start on the wrong interface only shows as a slow server. So each rank says first where it
runs, with which environment, on which cores, with which libraries and files; the two are compared, and a difference
that matters is an error that names it.

Run as: ranks.py serve OPTIONS -- COMMAND   check, then become mpirun with COMMAND on both ranks
        ranks.py check OPTIONS              only check; writes ranks.json; exit 0, 3 for a difference, 4 for mpirun
        ranks.py show --path ...            what a rank says of itself, as a line for check
        ranks.py rank --link ... -- COMMAND what mpirun starts: make the link, become COMMAND
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import typing as t
import zlib
from pathlib import Path

import entrypoint
import pair
import verbs

STATE = Path("/deployment/state")
# gpt-oss needs it; it is compared when the head has it.
VOCABULARIES = Path("/deployment/vocabularies")
MARK = "DGX-SPARK-RANK "
MPIRUN_TIMEOUT_S = 60.0
DIFFERENT = 3
# What ranks.json calls how they talk.
TRANSPORT = "transport"
NOT_STARTED = 4

# Compared between the ranks, with the variables that serve.sh passes on.
PREFIXES = ("NCCL_", "UCX_", "TRITON_", "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_coll", "OMPI_MCA_osc", "OMPI_MCA_mtl")
NAMES = ("CPATH", "HF_HUB_OFFLINE")
# The names of this Spark's ends of the cables.
PER_RAIL = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "UCX_NET_DEVICES")
# Without these NCCL takes the network it finds first.
NEEDED = ("NCCL_SOCKET_IFNAME",)
WEIGHTS = (".safetensors", ".bin", ".json")
# So much of a large file's beginning and end is read.
END_BYTES = 2**20


class Problem(Exception):
    """Why the ranks cannot be started, and what to do."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which two Sparks, and how they reach each other."""

    head: str
    worker: str
    port: int
    subnets: tuple[str, ...]
    paths: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


# What a rank says of itself.


def show(paths: t.Sequence[str], variables: t.Sequence[str]) -> dict[str, t.Any]:
    environment = os.environ
    wanted = (*NAMES, *variables)
    addresses = environment.get("DGX_SPARK_FABRIC_ADDRESSES", "")
    return {
        "rank": int(environment.get("OMPI_COMM_WORLD_RANK", "0")),
        "host": socket.gethostname(),
        "addresses": addresses,
        "gone": [one for one in addresses.replace(",", " ").split() if not pair.is_here(one)],
        "environment": {
            name: value for name, value in sorted(environment.items()) if name.startswith(PREFIXES) or name in wanted
        },
        "cores": len(os.sched_getaffinity(0)),
        "cores_here": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "interfaces": sorted(entry.name for entry in Path("/sys/class/net").glob("*")),
        "rdma": sorted(entry.name for entry in Path("/sys/class/infiniband").glob("*")),
        "rdma_nodes": sorted(entry.name for entry in Path("/dev/infiniband").glob("uverbs*")),
        "verbs": verbs.look(environment),
        "versions": versions(),
        "gpu": gpu(),
        "paths": {path: describe_path(Path(path)) for path in paths},
    }


def versions() -> dict[str, str | None]:
    return {
        "TensorRT-LLM": distribution("tensorrt_llm") or distribution("tensorrt-llm"),
        "PyTorch": distribution("torch"),
        "NCCL": nccl_version(),
        "CUDA": os.environ.get("CUDA_VERSION"),
        "Open MPI": mpirun_version(),
        "Python": sys.version.split()[0],
    }


def distribution(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def nccl_version() -> str | None:
    """Of the library that would be loaded, which need not be the one that a package says."""
    number = ctypes.c_int()
    try:
        if ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return next(filter(None, map(distribution, ("nvidia-nccl-cu13", "nvidia-nccl-cu12"))), None)
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def mpirun_version() -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, timeout=20, check=False)
        match = re.search(r"Open ?MPI\)?\s+v?(\d+\.\d+\S*)", found.stdout)
        return match[1] if match else None
    return None


def gpu() -> str | None:
    """Name and driver, as nvidia-smi has them."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return (found.stdout.splitlines() or [""])[0].strip() or None
    return None


def describe_path(path: Path) -> str | None:
    """A word that is the same on both ranks when the files are; None if it is not there.

    Only models from the Hub were copied by checksums. To read a model's weights whole would take minutes: their ends
    tell another model and a copy that was cut off.
    """
    try:
        if path.is_dir():
            names = sorted(
                entry.name for entry in path.iterdir() if entry.suffix in WEIGHTS or path.name == VOCABULARIES.name
            )
            seen = [(name, *describe_file(path / name)) for name in names]
            digest = hashlib.sha256(json.dumps(seen).encode()).hexdigest()
            return f"{len(seen)} files, {sum(size for _name, size, _digest in seen)} bytes, {digest[:12]}"
        return f"file, {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    except OSError:
        return None


def describe_file(path: Path) -> tuple[int, str]:
    """Size and checksum of a file of a model; of large ones that of both ends."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if path.suffix == ".json" or size <= 2 * END_BYTES:
            data = file.read()
        else:
            data = file.read(END_BYTES)
            file.seek(-END_BYTES, os.SEEK_END)
            data += file.read()
    return size, hashlib.sha256(data).hexdigest()


def as_line(rank: dict[str, t.Any]) -> str:
    """Short, so that mpirun does not mix two ranks' lines."""
    return MARK + base64.b64encode(zlib.compress(json.dumps(rank).encode())).decode()


def from_output(text: str) -> list[dict[str, t.Any]]:
    """What the ranks said, in their order; mpirun may have put something before a line."""
    found = []
    for line in text.splitlines():
        _before, mark, data = line.partition(MARK)
        if mark:
            with contextlib.suppress(ValueError, zlib.error):
                found.append(json.loads(zlib.decompress(base64.b64decode(data.strip()))))
    return sorted(found, key=lambda rank: int(rank["rank"]))


# Comparing the two.


class Difference(t.NamedTuple):
    """Something that is not as it has to be."""

    what: str
    values: list[t.Any]
    message: str
    severity: str = "error"


def compare(ranks: t.Sequence[dict[str, t.Any]], plan: Plan) -> list[Difference]:
    """What is wrong with the ranks, errors first; nothing to compare with is an error, too."""
    two = two_hosts(ranks, plan)
    if two:
        return two
    found = [
        *addresses(ranks),
        *environments(ranks),
        *affinities(ranks),
        *interfaces(ranks),
        *transports(ranks),
        *library_versions(ranks),
        *files(ranks, plan.paths),
        *machines(ranks),
    ]
    return sorted(found, key=lambda difference: difference.severity != "error")


def two_hosts(ranks: t.Sequence[dict[str, t.Any]], plan: Plan) -> list[Difference]:
    names = [rank["host"] for rank in ranks]
    if len(ranks) == 2 and names[0] == names[1] and ranks[0]["addresses"] != ranks[1]["addresses"]:
        text = f"both Sparks are called {names[0]}; give one of them another name with 'sudo hostnamectl hostname'"
        return [Difference("host", names, text)]
    if len(ranks) == 2 and names[0] != names[1]:
        return []
    if not ranks:
        return [Difference("host", names, "mpirun ended well, but neither rank said a word")]
    said = f"both ranks run on {names[0]}" if len(ranks) > 1 else f"only {names[0]} has answered"
    text = f"{said}: the other Spark was not reached; check that {plan.worker} is the worker's address on the fabric"
    return [Difference("host", names, text)]


def called(rank: dict[str, t.Any]) -> str:
    return f"rank {rank['rank']} on {rank['host']}"


def addresses(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    """NCCL would say 'unhandled system error'."""
    for rank in ranks:
        if rank["gone"]:
            text = f"{rank['host']} no longer has its fabric address {' and '.join(rank['gone'])}"
            yield Difference(
                "addresses",
                [other["addresses"] for other in ranks],
                f"{text}; run 'sudo netplan apply' there, or the playbook again, which looks at the network",
            )


def environments(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    settings = [rank["environment"] for rank in ranks]
    for name in sorted({*settings[0], *settings[1], *NEEDED}):
        values = [setting.get(name) for setting in settings]
        lacking = [called(rank) for rank, value in zip(ranks, values) if value is None]
        if len(lacking) == len(ranks):
            text = f"neither rank has {name}, without which NCCL takes the first network that it finds"
            yield Difference(name, values, f"{text}; run the playbook again")
        elif lacking:
            text = f"{lacking[0]} does not have {name}, which the other rank has"
            yield Difference(name, values, f"{text}; run the playbook again")
        elif values[0] != values[1] and name not in PER_RAIL:
            text = f"{name} is '{values[0]}' on {ranks[0]['host']} and '{values[1]}' on {ranks[1]['host']}"
            yield Difference(name, values, f"{text}; it has to be the same on both")


def affinities(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    cores = [rank["cores"] for rank in ranks]
    for rank in ranks:
        if rank["cores"] == 1 and rank["cores_here"] > 1:
            text = f"{called(rank)} is bound to one of {rank['cores_here']} cores, which starves NCCL's threads"
            yield Difference("cores", cores, f"{text}; look for a binding policy among the OMPI_ and PRTE_ variables")


def interfaces(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    for name, known_as in (("NCCL_SOCKET_IFNAME", "interfaces"), ("NCCL_IB_HCA", "rdma")):
        for rank in ranks:
            wanted, known = rank["environment"].get(name, ""), rank[known_as]
            # Without RDMA devices in sight nothing can be said about their names; '^' excludes.
            if not known or wanted.startswith("^"):
                continue
            exactly = wanted.startswith("=")
            for one in filter(None, wanted.lstrip("=").split(",")):
                device = one.partition(":")[0]
                if not any(device == has or (not exactly and has.startswith(device)) for has in known):
                    text = f"{name} names {device}, which {rank['host']} does not have (it has {', '.join(known)})"
                    yield Difference(name, [other["environment"].get(name) for other in ranks], text)


def transports(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    """NCCL takes TCP without a word where a rank cannot use its RDMA devices."""
    for rank in ranks:
        told, known = verbs.by_tcp(rank["environment"]), rank["verbs"]
        lacking = [device for device, node in known.items() if node is None]
        has = ", ".join(rank["rdma_nodes"]) or "nothing"
        why = f"as {told} says" if told else None
        if not known and not rank["rdma"]:
            why = why or "for this Spark has no RDMA device: 'sudo modprobe mlx5_ib', then run the playbook again"
        if why:
            text = f"{called(rank)} goes through the cable by TCP and not by RDMA, {why}"
            yield Difference(TRANSPORT, [other["verbs"] for other in ranks], text, "warning")
        elif lacking or (not known and len(rank["rdma_nodes"]) < len(rank["addresses"].split(","))):
            text = f"{called(rank)} cannot use {' and '.join(lacking) or 'all its RDMA devices'}"
            advice = "start its container again with 'docker restart', which gives it what the Spark has by then"
            yield Difference(
                TRANSPORT, [other["verbs"] for other in ranks], f"{text} (/dev/infiniband has {has}); {advice}"
            )


def library_versions(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    for name in ranks[0]["versions"]:
        values = [rank["versions"].get(name) for rank in ranks]
        if values[0] != values[1]:
            text = f"{name} is {values[0]} on {ranks[0]['host']} and {values[1]} on {ranks[1]['host']}"
            yield Difference(
                name, values, f"{text}: the containers were made from different images; run the playbook again"
            )


def files(ranks: t.Sequence[dict[str, t.Any]], paths: t.Sequence[str]) -> t.Iterator[Difference]:
    for path in dict.fromkeys([*paths, *ranks[0]["paths"]]):
        values = [rank["paths"].get(path) for rank in ranks]
        lacking = [rank["host"] for rank, value in zip(ranks, values) if value is None]
        if lacking:
            text = (
                f"{path} is missing or incomplete on {' and '.join(lacking)}; run the playbook again, which copies it"
            )
            yield Difference(path, values, text)
        elif values[0] != values[1]:
            text = f"{path} differs: {values[0]} on {ranks[0]['host']}, {values[1]} on {ranks[1]['host']}"
            yield Difference(path, values, f"{text}; run the playbook again")


def machines(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    """What makes one rank slower than the other, but serves."""
    for what, name in (("gpu", "GPU and driver"), ("memory_gib", "memory in GiB")):
        values = [rank[what] for rank in ranks]
        # Two Sparks of one model need not have the same memory to the last page.
        same = values[0] == values[1] or (what == "memory_gib" and abs(values[0] - values[1]) <= 2)
        if not same:
            text = f"{name}: {values[0]} on {ranks[0]['host']} and {values[1]} on {ranks[1]['host']}"
            yield Difference(what, values, f"{text}; the slower one sets the pace", "warning")


def table(ranks: t.Sequence[dict[str, t.Any]]) -> str:
    """What the ranks said, side by side."""
    rows = [["", *(f"rank {rank['rank']}" for rank in ranks)]]

    def add(name: str, values: t.Iterable[object]) -> None:
        rows.append([name, *("-" if value in (None, "", []) else str(value) for value in values)])

    add("host", (rank["host"] for rank in ranks))
    add("fabric addresses", (rank["addresses"] for rank in ranks))
    add("cores", (f"{rank['cores']} of {rank['cores_here']}" for rank in ranks))
    add("memory in GiB", (rank["memory_gib"] for rank in ranks))
    add("GPU, driver", (rank["gpu"] for rank in ranks))
    add("RDMA devices", (", ".join(rank["rdma"]) for rank in ranks))
    add("RDMA nodes", (", ".join(rank["rdma_nodes"]) for rank in ranks))
    add("by RDMA", (", ".join(device for device, node in rank["verbs"].items() if node) for rank in ranks))
    for part in ("versions", "environment", "paths"):
        for name in dict.fromkeys(name for rank in ranks for name in rank[part]):
            add(name, (rank[part].get(name) for rank in ranks))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


# Starting them.


def write_files(plan: Plan, run: Path) -> tuple[Path, Path]:
    """The hostfile and ssh's configuration; nothing of the user's own is used."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    hostfile = run / "hostfile"
    pair.write_private(hostfile, f"{plan.head} slots=1\n{plan.worker} slots=1\n")
    settings = {
        "Port": plan.port,
        "User": "root",
        "AddressFamily": "inet",
        "BindAddress": plan.head,
        "IdentityFile": pair.KEYS / "id_ed25519",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": pair.KEYS / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "UpdateHostKeys": "no",
        "BatchMode": "yes",
        "PreferredAuthentications": "publickey",
        "ConnectTimeout": 10,
        "ControlPath": "none",
        "LogLevel": "ERROR",
    }
    configuration = run / "ssh_config"
    pair.write_private(configuration, "".join(f"{name} {value}\n" for name, value in settings.items()))
    return hostfile, configuration


def mpirun(plan: Plan, version: str, hostfile: Path, ssh_config: Path, interfaces: str) -> list[str]:
    """mpirun's command line up to the program.

    MPI only starts the ranks and tells them apart; over TCP on the fabric, so that nothing depends on what UCX finds.
    Open MPI 5 has another launcher with settings of its own, and does not find a network in one's CIDR notation
    (open-mpi/ompi issue 13155), so that it gets the names of the interfaces, and the worker puts in its own.
    """
    agent = f"ssh -F {ssh_config}"
    networks = ",".join(plan.subnets)
    if int(version.split(".")[0]) >= 5:
        launcher = ["--prtemca", "plm_ssh_agent", agent]
        if interfaces:
            launcher += ["--prtemca", "prte_if_include", interfaces.lstrip("=")]
    else:
        launcher = ["--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", networks]
    messages = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", networks]
    ranks = ["--hostfile", str(hostfile), "-np", "2", "--map-by", "ppr:1:node", "--bind-to", "none"]
    # What serve.sh has set, and both ranks need; everything else a rank has from its own container.
    passed = [word for name in plan.passed for word in ("-x", name)]
    return ["mpirun", "--allow-run-as-root", *ranks, *launcher, *messages, *passed]


def before_mpirun(plan: Plan) -> str:
    """What mpirun would take a minute to fail for, or fail for without a word; returns its version."""
    if not pair.is_here(plan.head):
        raise Problem(
            f"{plan.head}, which is this Spark's address on the fabric, is on none of its interfaces; run the playbook "
            "again, which looks at the network"
        )
    if pair.is_here(plan.worker):
        raise Problem(
            f"{plan.worker}, which has to be the other Spark's address, is this Spark's own; run the playbook again, "
            "which looks at the network"
        )
    for name in ("id_ed25519", "known_hosts"):
        if not (pair.KEYS / name).is_file():
            raise Problem(f"the pair's {name} is missing; run the playbook again, which makes the keys")
    version = mpirun_version()
    if version is None:
        raise Problem("this image has no mpirun of Open MPI; two Sparks need an image of TensorRT-LLM")
    return version


# What mpirun or ssh says, and what it means. The first that is found is the cause: mpirun adds guesses of its own.
MEANINGS: tuple[tuple[str, str], ...] = (
    (r"\[launch\] (?P<said>.+)", "the worker's container refuses: {said}"),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key is known for",
        "the worker's host key is not the one that the playbook has written down: another machine answers at {worker}, "
        "or the worker's keys were made anew; if that is so, run the playbook again",
    ),
    (
        r"Permission denied \(publickey",
        "the worker does not accept the head's key; run the playbook again, which writes the keys to both Sparks",
    ),
    (
        r"Connection refused",
        "nothing listens at {worker} port {port}; see the log of the worker's container, which runs sshd there",
    ),
    (
        r"Connection timed out|No route to host|Network is unreachable|Connection closed by remote host",
        "the worker does not answer at {worker} port {port}; check the cable, the other Spark and its firewall",
    ),
    (r"Could not resolve hostname", "{worker} is no address; run the playbook again"),
    (
        r"not enough slots",
        "mpirun took both addresses for one Spark; check that {head} and {worker} are on different ones",
    ),
    (
        r"(?P<said>could not find an executable|unable to find the specified executable|cannot be run on the worker).*",
        "a program is missing in one of the containers; both have to run the same image: run the playbook again",
    ),
    (
        r"failed to report back|before communicating back to mpirun|No OOB path|unable to connect to the remote daemon",
        "mpirun's daemon on the worker could not call back the head at {head}; a firewall on the head has to accept "
        "what comes from {worker}",
    ),
    (
        r"lost communication with a remote daemon|ORTE daemon has unexpectedly failed|one or more daemons",
        "mpirun's daemon on the worker has ended; both containers have to run the same image, and the log of the "
        "worker's one says more",
    ),
)


def explain(output: str, code: int | None, plan: Plan) -> str:
    """Why mpirun has failed; without an exit code it has not ended within its time."""
    known = {"head": plan.head, "worker": plan.worker, "port": plan.port}
    for pattern, meaning in MEANINGS:
        match = re.search(pattern, output)
        if match:
            return meaning.format(**known, **match.groupdict())
    if code is None:
        return (
            f"mpirun has not ended within {MPIRUN_TIMEOUT_S:g} s; check that {plan.head} and {plan.worker} are the "
            "addresses on the two Sparks' fabric interfaces, and that no firewall is between them"
        )
    return f"mpirun ended with exit code {code}: {main_line(output)}"


def main_line(output: str) -> str:
    """What comes first between Open MPI's dashes; else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line, following in zip(lines, lines[1:]):
        if not line.strip("-") and following.strip("-"):
            return following
    return lines[-1] if lines else "it printed nothing"


def ask_ranks(plan: Plan, command: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Have both ranks say how they are; what mpirun says besides goes to the log."""
    paths = [word for path in plan.paths for word in ("--path", path)]
    variables = [word for name in plan.passed for word in ("--variable", name)]
    script = str(Path(__file__).resolve())
    process = subprocess.Popen(
        [*command, sys.executable, script, "show", *paths, *variables],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    timed_out = False
    try:
        output = process.communicate(timeout=MPIRUN_TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        timed_out = True
        output = end_mpirun(process)
    said = "\n".join(line for line in output.splitlines() if MARK not in line)
    if said.strip():
        print(said, flush=True)
    if timed_out or process.returncode != 0:
        raise Problem(explain(said, None if timed_out else process.returncode, plan))
    return from_output(output)


def end_mpirun(process: subprocess.Popen[str]) -> str:
    """End it with all that it has started, first in a way that lets it end the other rank."""
    family = {process.pid, *entrypoint.descendants(process.pid)}
    process.terminate()
    try:
        return process.communicate(timeout=5)[0]
    except subprocess.TimeoutExpired:
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return process.communicate()[0]


def check(plan: Plan, state: Path, run: Path) -> list[str]:
    """Compare the ranks; returns mpirun's command line. Raises Problem, exits for a difference."""
    version = before_mpirun(plan)
    try:
        hostfile, ssh_config = write_files(plan, run)
    except OSError as error:
        raise Problem(f"{error.filename or run} cannot be written ({error.strerror}); is the disk full?") from error
    command = mpirun(plan, version, hostfile, ssh_config, os.environ.get("NCCL_SOCKET_IFNAME", ""))
    print(f"[ranks] {shlex.join(command)}", flush=True)
    found = ask_ranks(plan, command)
    differences = compare(found, plan)
    write_report(state, found, differences)
    if len(found) == 2:
        print(f"[ranks] what the two ranks have:\n{table(found)}", flush=True)
    errors = [difference for difference in differences if difference.severity == "error"]
    for difference in differences:
        if difference.severity == "warning":
            print(f"[ranks] warning: {difference.message}", flush=True)
    # The last line is what state.json gives as the reason.
    for difference in reversed(errors):
        print(f"[ranks] {difference.message}", flush=True)
    if errors:
        sys.exit(DIFFERENT)
    return command


def write_report(
    state: Path, ranks: t.Sequence[dict[str, t.Any]], differences: t.Sequence[Difference], problem: str | None = None
) -> None:
    """ranks.json, for status and diagnosis."""
    path = state / "ranks.json"
    report = {
        "at": round(time.time(), 3),
        "ranks": list(ranks),
        "differences": [difference._asdict() for difference in differences],
        "problem": problem,
    }
    # A full disk is no reason not to serve.
    with contextlib.suppress(OSError):
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        entrypoint.give_to_owner(draft)
        draft.replace(path)


def link_model(target: str, name: str) -> None:
    """The name the API calls the model by; the same place on both ranks."""
    place = Path(name)
    if place.is_symlink() and str(place.readlink()) == target:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        place.unlink()
    place.symlink_to(target)


def parse(arguments: t.Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the command after '--'."""
    own = list(arguments)
    command: list[str] = []
    if "--" in own:
        command = own[own.index("--") + 1 :]
        own = own[: own.index("--")]
    parser = argparse.ArgumentParser(prog="ranks.py")
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("serve", "check"):
        sub = actions.add_parser(name)
        sub.add_argument("--head", required=True)
        sub.add_argument("--worker", required=True)
        sub.add_argument("--port", type=int, default=2233)
        sub.add_argument("--subnet", action="append", required=True)
        sub.add_argument("--path", action="append", default=[])
        sub.add_argument("--pass", action="append", default=[], dest="passed")
        sub.add_argument("--link", nargs=2, default=[])
    sub = actions.add_parser("show")
    sub.add_argument("--path", action="append", default=[])
    sub.add_argument("--variable", action="append", default=[])
    sub = actions.add_parser("rank")
    sub.add_argument("--link", nargs=2, default=[])
    return parser.parse_args(own), command


def plan_of(options: argparse.Namespace) -> Plan:
    vocabularies = [str(VOCABULARIES)] if VOCABULARIES.is_dir() else []
    return Plan(
        options.head,
        options.worker,
        options.port,
        tuple(options.subnet),
        (*options.path, *vocabularies),
        tuple(options.passed),
        tuple(options.link),
    )


def main(arguments: t.Sequence[str]) -> int:
    options, command = parse(arguments)
    if options.action == "show":
        # In one piece, whatever the other rank says at the same time.
        os.write(1, (as_line(show(options.path, options.variable)) + "\n").encode())
        return 0
    if options.action == "rank":
        if options.link:
            link_model(*options.link)
        return become(command)
    plan = plan_of(options)
    try:
        start = check(plan, STATE, pair.RUN)
    except Problem as problem:
        write_report(STATE, [], [], str(problem))
        print(f"[ranks] the two ranks cannot be started: {problem}", flush=True)
        return NOT_STARTED
    if options.action == "check":
        return 0
    link = ["--link", *plan.link] if plan.link else []
    return become([*start, sys.executable, str(Path(__file__).resolve()), "rank", *link, "--", *command])


def become(command: t.Sequence[str]) -> t.NoReturn:
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
