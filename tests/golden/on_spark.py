# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on a Spark, as root: writes down what Docker is asked to create, and shows the files that somebody wrote.

python3 on_spark.py listen PLACE       stands in front of Docker's socket, for as long as it runs
python3 on_spark.py look PLACE         prints the files changed since then
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import pwd
import re
import socket
import stat
import sys
import threading
import typing as t
import urllib.parse
from pathlib import Path

SOCKET = Path("/run/docker.sock")
CREATE = re.compile(rb"POST (?:/v[\d.]+)?/containers/create(\S*) HTTP/1\.1\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
PIECE = 1 << 16
# Docker's, Ansible's and Python's own, and what a running system writes all the time. Other file systems are not
# looked at.
NOT_OURS = (
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/systemd", "/var/lib/NetworkManager", "/var/log", "/tmp"),
    "/home/spark/.ansible",
)
READABLE = 1 << 18
# Of files that were there before, only what has changed is told.
SYSTEM = "/etc/"


class Recorder:
    """Hands every byte on, and keeps the bodies of what creates a container."""

    def __init__(self, place: Path) -> None:
        self.engine = place / "engine.sock"
        self.created = place / "created.jsonl"
        self._one = threading.Lock()

    def listen(self) -> None:
        # Whoever is connected stays so: the engine goes on listening, under another name.
        before = SOCKET.stat()
        SOCKET.rename(self.engine)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(SOCKET))
        os.chown(SOCKET, before.st_uid, before.st_gid)
        SOCKET.chmod(stat.S_IMODE(before.st_mode))
        server.listen(64)
        self.created.touch()
        while True:
            client, _ = server.accept()
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(str(self.engine))
            for arguments in ((client, engine, True), (engine, client, False)):
                threading.Thread(target=self.hand_on, args=arguments, daemon=True).start()

    def hand_on(self, here: socket.socket, there: socket.socket, asks: bool) -> None:
        kept = b""
        with contextlib.suppress(OSError):
            while piece := here.recv(PIECE):
                # Clients send a request when the one before is answered, so that one begins a piece.
                if asks and (kept or CREATE.match(piece)):
                    kept = self.keep(kept + piece)
                there.sendall(piece)
        with contextlib.suppress(OSError):
            there.shutdown(socket.SHUT_WR)

    def keep(self, request: bytes) -> bytes:
        """Write a whole request down; what is not whole yet is handed back."""
        head, end, body = request.partition(b"\r\n\r\n")
        asked, length = CREATE.match(request), LENGTH.search(head)
        if not end or not asked or not length or len(body) < int(length[1]):
            return request
        query = urllib.parse.parse_qs(asked[1].decode().lstrip("?"))
        line = json.dumps({"name": query.get("name", [""])[0], "body": json.loads(body)})
        with self._one, self.created.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        return b""


def paths() -> t.Iterator[tuple[str, os.stat_result]]:
    """Everything on the file system of the root directory."""
    device = os.lstat("/").st_dev
    waiting = ["/"]
    while waiting:
        # What vanishes meanwhile was nothing that stays.
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if found.st_dev == device and entry.name != "__pycache__" and not entry.path.startswith(NOT_OURS):
                    yield entry.path, found
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)


def text_of(path: str, found: os.stat_result) -> str | None:
    """What a file says, if it is one to read; of a zip application its checksum."""
    if stat.S_ISREG(found.st_mode) and found.st_size <= READABLE:
        with contextlib.suppress(FileNotFoundError):
            data = Path(path).read_bytes()
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError:
                return hashlib.sha256(data).hexdigest() if path.endswith(".pyz") else None
    return None


def shown(path: str, found: os.stat_result, before: str | None) -> dict[str, t.Any]:
    # Not the group: whether it is `docker` depends on how old Ansible's connection is.
    owner = pwd.getpwuid(found.st_uid).pw_name
    look: dict[str, t.Any] = {"mode": f"{stat.S_IMODE(found.st_mode):04o}", "owner": owner}
    if stat.S_ISDIR(found.st_mode):
        return {**look, "directory": True}
    if stat.S_ISLNK(found.st_mode):
        return {"link": str(Path(path).readlink())}
    text = text_of(path, found)
    if text is None:
        return {**look, "bytes": found.st_size}
    if before is None:
        return {**look, "text": text}
    lines = difflib.unified_diff(before.splitlines(), text.splitlines(), n=0, lineterm="")
    return {**look, "changed": [line for line in lines if not line.startswith(("---", "+++", "@@"))]}


def state() -> dict[str, t.Any]:
    """All files as they are."""
    return {
        path: (found.st_mode, found.st_ctime_ns, text_of(path, found) if path.startswith(SYSTEM) else None)
        for path, found in paths()
    }


def changed(before: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """The files that are new or not as they were, and new directories."""
    for path, found in paths():
        mode, at, text = before.get(path, (0, 0, None))
        if mode != found.st_mode or (at != found.st_ctime_ns and not stat.S_ISDIR(found.st_mode)):
            with contextlib.suppress(FileNotFoundError):
                look = shown(path, found, text)
                # Written over with what it said.
                if mode != found.st_mode or look.get("changed") != []:
                    yield path, look


def main() -> None:
    what, place = sys.argv[1], Path(sys.argv[2])
    before = place / "before.json"
    if what == "listen":
        place.mkdir(parents=True, exist_ok=True)
        before.write_text(json.dumps(state()))
        Recorder(place).listen()
    else:
        print(json.dumps(dict(changed(json.loads(before.read_text())))))


if __name__ == "__main__":
    main()
