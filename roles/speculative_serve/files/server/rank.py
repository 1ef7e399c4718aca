# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report the facts of a rank: host, environment, cores, libraries and files."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import typing as t
import zlib
from pathlib import Path

from server import rdma
from server.cluster import is_here
from server.libraries import distribution, nccl_version

# gpt-oss needs it; it is compared when the head has it.
TIKTOKEN_ENCODINGS = Path("/deployment/tiktoken_encodings")
MARK = "DGX-SPARK-RANK "
# Variables that are compared between the ranks, with those of the engine and those that serve.sh passes on.
PREFIXES = ("NCCL_",)
WEIGHTS = (".safetensors", ".bin", ".json")
# So much of a large file's beginning and end is read.
END_BYTES = 2**20


def show(
    number: int, paths: t.Sequence[str], variables: t.Sequence[str], versions: t.Mapping[str, str | None]
) -> dict[str, t.Any]:
    """Return the facts of this rank, with the variables whose names begin so, and the versions of its engine."""
    environment = os.environ
    wanted = (*PREFIXES, *variables)
    addresses = environment.get("DGX_SPARK_FABRIC_ADDRESSES", "")
    return {
        "rank": number,
        "host": socket.gethostname(),
        "addresses": addresses,
        "gone": [part for part in addresses.replace(",", " ").split() if not is_here(part)],
        "environment": {name: value for name, value in sorted(environment.items()) if name.startswith(wanted)},
        "cores": len(os.sched_getaffinity(0)),
        "cores_here": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "interfaces": sorted(entry.name for entry in Path("/sys/class/net").glob("*")),
        "rdma": sorted(entry.name for entry in Path("/sys/class/infiniband").glob("*")),
        "rdma_nodes": sorted(entry.name for entry in Path("/dev/infiniband").glob("uverbs*")),
        "verbs": rdma.look(environment),
        "versions": {**versions, **library_versions()},
        "gpu": gpu(),
        "paths": {path: describe_path(Path(path)) for path in paths},
    }


def library_versions() -> dict[str, str | None]:
    return {
        "PyTorch": distribution("torch"),
        "NCCL": nccl_version(),
        "CUDA": os.environ.get("CUDA_VERSION"),
        "Python": sys.version.split()[0],
    }


def gpu() -> str | None:
    """Name and driver, as nvidia-smi has them."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return (result.stdout.splitlines() or [""])[0].strip() or None
    return None


def describe_path(path: Path) -> str | None:
    """Return a hash that is equal on two ranks if their files are; None if the path does not exist.

    Only models from the Hub are copied with checksums. Reading all weights would take minutes; the ends of the files
    show another model or a partial copy.
    """
    try:
        if path.is_dir():
            names = sorted(
                entry.name
                for entry in path.iterdir()
                if entry.suffix in WEIGHTS or path.name == TIKTOKEN_ENCODINGS.name
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
    """Return the ranks' facts in rank order; mpirun may have put a prefix before a line."""
    result = []
    for line in text.splitlines():
        _before, mark, data = line.partition(MARK)
        if mark:
            with contextlib.suppress(ValueError, zlib.error):
                result.append(json.loads(zlib.decompress(base64.b64decode(data.strip()))))
    return sorted(result, key=lambda rank: int(rank["rank"]))
