# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Write the evidence to a redacted archive for a public report, which only its owner can read."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
import time
import typing as t
from pathlib import Path

from .._spark.whole import write_whole
from .diagnosis import Diagnosis
from .evidence import Evidence, KernelLine
from .redaction import Redactor, Secrets, mask_environments, secrets_of

FOLDER = "dgx-spark-diagnosis"
# Accounts and proxies in docker info do not help to find a cause.
PRIVATE_INFO = ("RegistryConfig", "HttpProxy", "HttpsProxy", "NoProxy", "Swarm", "Name", "ID", "Labels")

CONTAINER_FACTS = ("name", "image", "status", "memory_bytes", "ports", "ports_listening", "network_mode")


def _json(data: t.Any) -> str:
    return json.dumps(mask_environments(data), indent=1, sort_keys=True, default=str) + "\n"


def log(lines: t.Iterable[KernelLine]) -> str:
    return "".join(f"{'' if line.at is None else round(line.at, 3)} {line.text}\n" for line in lines)


def contents(evidence: Evidence, diagnosis: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the files of the archive before redaction."""
    info = {name: value for name, value in evidence.docker_info.items() if name not in PRIVATE_INFO}
    # The archive has these files separately.
    record = {name: value for name, value in (evidence.record or {}).items() if name != "files"}
    # Labels of other users' containers stay private.
    containers = [{name: container.get(name) for name in CONTAINER_FACTS} for container in evidence.containers]
    machine = {
        "memory": evidence.memory,
        "disks": [disk._asdict() for disk in evidence.disks],
        "kernel": evidence.kernel_release,
        "name_servers": len(evidence.name_servers or []),
        "default_route": evidence.default_route,
        "gpu_processes": evidence.gpu_processes,
        "port": evidence.port,
    }
    texts = {
        "diagnosis.json": _json(diagnosis),
        "server.log": evidence.server_log,
        "failed.log": evidence.failed_log,
        "container.log": evidence.docker_log,
        "kernel.txt": log(evidence.kernel),
        "systemd-oomd.txt": log(evidence.oomd),
        "docker-inspect.json": _json(evidence.slot) if evidence.slot else "",
        "docker-info.json": _json(info) if info else "",
        "containers.json": _json(containers) if containers else "",
        "state.json": _json(evidence.state) if evidence.state else "",
        "record.json": _json(record) if record else "",
        "machine.json": _json(machine),
        **evidence.files,
    }
    for name, job in evidence.jobs.items():
        texts[f"jobs/{name}.json"] = _json(job)
        texts[f"jobs/{name}.log"] = evidence.job_logs.get(name, "")
    return {name: text for name, text in texts.items() if text}


def archive(texts: t.Mapping[str, str], secrets: Secrets) -> bytes:
    """Return the redacted texts as a .tar.gz archive."""
    redactor = Redactor(secrets)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in sorted(texts.items()):
            data = redactor.redact(text).encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def write(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, in one step."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, data, 0o600)


def host_names() -> tuple[str, ...]:
    """Return the names of this machine."""
    names = {socket.gethostname(), os.uname().nodename}
    return tuple(sorted(names | {name.partition(".")[0] for name in names}))


def make(
    path: Path, evidence: Evidence, diagnosis: Diagnosis, cache: Path, home: Path, hosts: t.Sequence[str] = ()
) -> None:
    """Write the redacted evidence and its diagnosis to an archive."""
    judged = {
        "verdict": diagnosis.verdict,
        "findings": [finding.as_result() for finding in diagnosis.findings],
        "lines": list(diagnosis.lines),
        "sources": [source._asdict() for source in evidence.sources],
        "failure": evidence.failure,
    }
    names = (*host_names(), str(evidence.docker_info.get("Name") or ""), *hosts)
    write(path, archive(contents(evidence, judged), secrets_of(home, cache, names, evidence.user)))
