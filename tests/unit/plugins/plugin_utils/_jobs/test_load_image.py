# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that hands a copied image to Docker, against an Engine on a socket; and the one that takes in copies."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_marks
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import (
    load_image,
    serve_copies,
)

from tests.unit.docker_server import DockerServer, Handler
from tests.unit.programs import standalone
from tests.unit.waiting import WITHIN_S, Clock, until

LAYER = bytes(range(256)) * 20000


class LoadHandler(Handler):
    server: Server

    def do_DELETE(self) -> None:
        self.server.done.append(self.path)
        self.server.pages.clear()
        self.reply(200, [])

    def do_POST(self) -> None:
        self.server.done.append("load")
        self.server.pages["/images/pair:1/json"] = {"Id": "sha256:1"}
        self.server.got = b""
        while len(self.server.got) < self.server.most:
            size = int(self.rfile.readline(), 16)
            self.server.got += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                break
        time.sleep(self.server.hangs)
        self.reply(self.server.status, self.server.answer)


class Server(DockerServer):
    """An Engine that takes an image, or refuses it."""

    handler = LoadHandler
    status = 200
    answer: bytes = b'{"stream": "Loaded image: pair:1"}\n'
    # How much it reads before it answers.
    most = 1 << 40
    hangs = 0.0
    got = b""

    def __init__(self, path: Path, pages: dict[str, t.Any]) -> None:
        self.done: list[str] = []
        super().__init__(path, pages)


@pytest.fixture
def engine(tmp_path: Path) -> t.Iterator[Server]:
    with Server(tmp_path / "docker.sock", {}) as server:
        yield server


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    members = [
        {"name": "layer.tar", "size": len(LAYER), "mode": 0o644, "mtime": 1, "type": "0", "link": "", "data": True},
        {"name": "same.tar", "size": 0, "mode": 0o777, "mtime": 1, "type": "2", "link": "layer.tar", "data": False},
    ]
    (folder / hashlib.sha256(b"layer.tar").hexdigest()).write_bytes(LAYER)
    (folder / "index.json").write_text(json.dumps(members))
    return folder


def run(tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, t.Any]]:
    options = [f"--socket={tmp_path / 'docker.sock'}", "--images=/proc", f"--marks={tmp_path / 'marks'}"]
    code = load_image.main([*options, "pair:1", str(spool)])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_docker_gets_the_image_as_it_was_saved(
    engine: Server, tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[int, bool]] = []
    mark = image_marks.mark_of(tmp_path / "marks", "pair:1")
    monkeypatch.setattr(os, "sync", lambda: flushed.append((len(engine.got), mark.exists())))
    assert run(tmp_path, spool, capsys) == (0, {"result": {"bytes": len(LAYER)}})
    # An image is in memory only when Docker reports it.
    assert flushed == [(len(engine.got), True)]
    assert not mark.exists()
    with tarfile.open(fileobj=io.BytesIO(engine.got)) as archive:
        layer = archive.extractfile("layer.tar")
        assert layer is not None
        assert layer.read() == LAYER
        assert archive.getmember("same.tar").linkname == "layer.tar"
    assert not spool.exists()


@pytest.mark.parametrize(
    ("there", "done"),
    [
        (True, ["/images/pair:1?force=1", "load"]),
        # Layers that are there without their image are removed with it.
        (False, ["load", "/images/pair:1?force=1", "load"]),
    ],
)
def test_an_image_whose_loading_a_power_cut_ended_is_removed_and_loaded(
    engine: Server, tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str], there: bool, done: list[str]
) -> None:
    if there:
        engine.pages["/images/pair:1/json"] = {"Id": "sha256:1"}
    image_marks.begin(tmp_path / "marks", "pair:1")
    mark = image_marks.mark_of(tmp_path / "marks", "pair:1")
    mark.write_text("an earlier boot", encoding="ascii")
    assert run(tmp_path, spool, capsys) == (0, {"result": {"bytes": len(LAYER)}})
    assert engine.done == done
    with tarfile.open(fileobj=io.BytesIO(engine.got)) as archive:
        assert archive.getmember("layer.tar").size == len(LAYER)
    assert (mark.exists(), spool.exists()) == (False, False)


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (
            200,
            b'{"stream": "x"}\n{"errorDetail": {"message": "no space left on device"}}\n',
            " are free in /proc; make room",
        ),
        # moby issue 49473, and what containerd's store answers with status 200 (daemon/containerd/image_exporter.go).
        (500, b'{"message": "content digest sha256:5f1e: not found"}', "('docker pull' of the recipe's image)"),
        (
            200,
            b'{"stream": "Error unpacking image pair:1: content digest sha256:5f1e: not found\\n"}\n',
            "handed out an image that lacks a layer",
        ),
        (200, b'{"stream": "Error unpacking image pair:1: no space left on device"}\n', "Docker's disk is full"),
        (500, b'{"message": "invalid tar header"}', 'failed: {"message": "invalid tar header"}'),
    ],
)
def test_docker_says_why_it_does_not_take_it(
    engine: Server,
    tmp_path: Path,
    spool: Path,
    capsys: pytest.CaptureFixture[str],
    status: int,
    answer: bytes,
    expected: str,
) -> None:
    engine.status, engine.answer = status, answer
    code, said = run(tmp_path, spool, capsys)
    assert code == 1
    assert expected in said["error"]


def test_docker_may_refuse_before_it_has_got_everything(
    engine: Server, tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.status, engine.answer, engine.most = 500, b"no", 100_000
    code, said = run(tmp_path, spool, capsys)
    assert code == 1
    assert said["error"].startswith(("Loading pair:1 into Docker failed: no", "The Docker Engine went away"))


def test_docker_that_hangs(
    engine: Server, tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_image, "SILENCE_S", 0.3)
    engine.hangs = 2
    code, said = run(tmp_path, spool, capsys)
    assert code == 1
    assert "has said nothing for 1 s while it loaded the image pair:1, so it hangs" in said["error"]
    assert "restart it with 'sudo systemctl restart docker', and run the same again." in said["error"]


def test_no_docker(tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, spool, capsys)
    assert code == 1
    assert "went away" in said["error"]


def test_an_image_that_came_in_half(tmp_path: Path, spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spool / "index.json").unlink()
    code, said = run(tmp_path, spool, capsys)
    assert (code, said["error"]) == (1, "The image pair:1 has not come whole from the other Spark; run the same again.")


# What takes in copies.


def service(tmp_path: Path, program: str, idle: str = "0.3") -> subprocess.Popen[str]:
    sshd = tmp_path / "sshd"
    sshd.write_text(f"#!/bin/sh\n{program}\n")
    sshd.chmod(0o755)
    command = [sys.executable, str(standalone("serve_copies")), str(sshd), "/config", idle, "word"]
    # As the job is started.
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def pid_in(path: Path) -> int:
    """The number that a process writes there."""
    return int(until(lambda: path.exists() and path.read_text().strip()))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_service_ends_when_nobody_comes(tmp_path: Path) -> None:
    process = service(tmp_path, "echo 'Server listening on 10.0.0.2 port 2234.' >&2; exec sleep 60")
    out, _error = process.communicate(timeout=WITHIN_S)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0]["progress"]["text"] == "Server listening on 10.0.0.2 port 2234"
    assert lines[-1]["error"] == "The copy service ended after 0.3 s without a copy."


def test_the_service_stays_while_somebody_is_connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd, clock = tmp_path / "sshd", Clock()
    sshd.write_text("#!/bin/sh\nexec sleep 60\n")
    sshd.chmod(0o755)
    connected = iter([1, 1, 1, 1, 1, 0, 0, 0])

    def look(_pid: int) -> int:
        clock.sleep(60)
        return next(connected)

    for name, double in (("time", clock), ("children", look), ("keep_orphans", lambda: None), ("POLL_S", 0)):
        monkeypatch.setattr(serve_copies, name, double)
    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    assert serve_copies.serve(str(sshd), "/config", 100) == ("The copy service ended after 100 s without a copy.")
    assert clock.monotonic() == 7 * 60


def test_a_connection_is_a_process_that_sshd_has_made() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as sshd:
        until(lambda: len(serve_copies.children(sshd.pid)) == 1)
        os.killpg(sshd.pid, signal.SIGKILL)


def test_the_service_says_why_it_cannot_run(tmp_path: Path) -> None:
    process = service(tmp_path, "echo 'Bind to port 2234 on 10.0.0.2 failed: Address already in use.' >&2; exit 255")
    out, _error = process.communicate(timeout=WITHIN_S)
    assert json.loads(out.splitlines()[-1])["error"] == (
        "The copy service cannot run (Bind to port 2234 on 10.0.0.2 failed: Address already in use); "
        "run the same again."
    )


@pytest.mark.parametrize("whole_group", [False, True])
def test_ending_the_service_ends_sshd_and_every_connection(tmp_path: Path, whole_group: bool) -> None:
    # A session as sshd makes one for each connection, and what runs in it in another one.
    connection = f"setsid sh -c 'echo $$ > {tmp_path}/receiver; exec sleep 60' & echo $$ > {tmp_path}/session; wait"
    (tmp_path / "connection").write_text(connection)
    program = f'trap "exit 0" TERM; echo $$ > {tmp_path}/sshd.pid; setsid sh {tmp_path}/connection & wait'
    process = service(tmp_path, program, idle="60")
    pids = [pid_in(tmp_path / name) for name in ("sshd.pid", "session", "receiver")]
    assert all(map(runs, pids))
    if whole_group:
        # As the job is ended: sshd goes first, and its sessions lose their parent.
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 143
    assert not any(map(runs, pids))


def test_connections_do_not_outlive_an_sshd_that_dies(tmp_path: Path) -> None:
    program = f"setsid sh -c 'echo $$ > {tmp_path}/session; exec sleep 60' & sleep 1; exit 3"
    process = service(tmp_path, program, idle="60")
    session = pid_in(tmp_path / "session")
    out, _error = process.communicate(timeout=WITHIN_S)
    assert json.loads(out.splitlines()[-1])["error"] == "The copy service cannot run (exit code 3); run the same again."
    assert not runs(session)
