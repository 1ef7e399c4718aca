# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the golden files are made with: the recorder on Docker's socket, the look at files, and the names."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import typing as t
from pathlib import Path

import pytest

from tests.golden import normal, on_spark
from tests.unit.docker_server import DockerServer


class Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("docker")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


@pytest.fixture(name="recorder")
def fixture_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> on_spark.Recorder:
    path = tmp_path / "docker.sock"
    DockerServer(path, {"/version": {"Version": "1"}})
    path.chmod(0o660)
    monkeypatch.setattr(on_spark, "SOCKET", path)
    recorder = on_spark.Recorder(tmp_path)
    threading.Thread(target=recorder.listen, daemon=True).start()
    while not recorder.created.exists():
        pass
    return recorder


def test_the_recorder_hands_on_what_is_asked_and_said(recorder: on_spark.Recorder) -> None:
    connection = Connection(on_spark.SOCKET)
    connection.request("GET", "/version")
    assert json.loads(connection.getresponse().read()) == {"Version": "1"}
    assert on_spark.SOCKET.stat().st_mode & 0o777 == 0o660
    assert recorder.created.read_text() == ""


def test_the_recorder_keeps_what_creates_a_container_also_in_pieces(recorder: on_spark.Recorder) -> None:
    body = json.dumps({"Image": "one", "Env": ["A=" + "b" * 100_000]})
    connection = Connection(on_spark.SOCKET)
    connection.request("POST", "/v1.44/containers/create?name=server", body)
    connection.getresponse()
    assert [json.loads(line) for line in recorder.created.read_text().splitlines()] == [
        {"name": "server", "body": json.loads(body)}
    ]


def test_only_what_was_written_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "NOT_OURS", (str(tmp_path / "left"),))
    monkeypatch.setattr(on_spark, "paths", lambda: walk(tmp_path))
    (tmp_path / "old").write_text("old")
    (tmp_path / "group").write_text("root\ndocker:\n")
    (tmp_path / "same").write_text("same")
    monkeypatch.setattr(on_spark, "SYSTEM", str(tmp_path))
    before = on_spark.state()
    (tmp_path / "group").write_text("root\ndocker:spark\n")
    (tmp_path / "same").write_text("same")
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").chmod(0o600)
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "link").symlink_to("old")
    shown = {Path(path).name: look for path, look in on_spark.changed(before)}
    assert set(shown) == {"new", "binary", "link", "group"}
    assert shown["group"]["changed"] == ["-docker:", "+docker:spark"]
    assert (shown["new"]["mode"], shown["new"]["text"]) == ("0600", "new")
    assert shown["binary"]["bytes"] == 1
    assert shown["link"] == {"link": "old"}
    (tmp_path / "old").chmod(0o600)
    assert "old" in {Path(path).name for path, _ in on_spark.changed(before)}


def walk(place: Path) -> t.Iterator[tuple[str, os.stat_result]]:
    for path in place.iterdir():
        yield str(path), path.lstat()


def look(text: str, mode: str = "0644") -> dict[str, t.Any]:
    return {"mode": mode, "owner": "spark", "text": text}


def test_what_differs_between_two_runs_has_one_name() -> None:
    def said(digest: str, at: int, speed: float) -> str:
        record = {"at": at, "image": f"sha256:{digest * 64}", "measurements": {"speed": speed}, "draft_length": 5}
        return normal.document(normal.files({"/home/spark/x/record.json": look(json.dumps(record))}))

    assert said("a", 1795374033, 1.5) == said("b", 1795384033, 2.5)
    assert "draft_length: 5" in said("a", 1795374033, 1.5)


def test_what_a_file_says_is_said_once() -> None:
    script = "exec server\n" * 30
    program = (normal.ROOT / "roles/speculative_serve/files/server/cluster.py").read_text(encoding="utf-8")
    found = {
        "/home/spark/x/serve.sh": look(script, "0755"),
        "/home/spark/x/server/cluster.py": look(program),
        "/home/spark/x/record.json": look(json.dumps({"files": {"serve.sh": script, "server/cluster.py": program}})),
    }
    files = normal.files(found)
    assert files["~/x/server/cluster.py"] == {"mode": "0644", "owner": "spark", "as shipped": "cluster.py"}
    assert files["~/x/serve.sh"]["text"] == script
    assert files["~/x/record.json"]["json"] == {
        "files": {"serve.sh": "<as in ~/x/serve.sh>", "server/cluster.py": "<as shipped: cluster.py>"}
    }


ON_DISK = {"serve.sh": "exec server\n", "server/a.py": "pass\n"}


@pytest.mark.parametrize(
    ("recorded", "same"),
    [
        (ON_DISK, True),
        (ON_DISK | {"serve.sh": "exec other\n"}, False),
        (ON_DISK | {"more.sh": ""}, False),
        ({"serve.sh": ON_DISK["serve.sh"]}, False),
    ],
)
def test_the_files_of_a_record_are_those_of_its_container(recorded: dict[str, str], same: bool) -> None:
    mounts = [{"source": "/home/spark/x/generations/2", "target": "/deployment"}]
    found = {
        **{f"/home/spark/x/generations/2/{name}": look(said) for name, said in ON_DISK.items()},
        # Those of another generation do not count.
        "/home/spark/x/generations/1/serve.sh": look("exec other\n"),
        "/home/spark/x/record.json": look(json.dumps({"container": {"mounts": mounts}, "files": recorded})),
    }
    said = normal.files(found)["~/x/record.json"]["json"]["files"]
    assert said == ("<as on disk>" if same else recorded)


def test_a_mode_and_an_owner_are_kept_also_of_what_lives() -> None:
    files = normal.files({"/home/spark/x/state/server.log": look("12:00 hello", "0600")})
    assert files == {"~/x/state/server.log": {"mode": "0600", "owner": "spark"}}


def test_the_number_of_a_process_is_no_difference() -> None:
    def said(process: int) -> dict[str, t.Any]:
        text = f"spark-1:{process}:{process} [0] NCCL INFO Using network IB"
        return normal.files({f"/home/spark/x/state/nccl.spark-1.{process}": look(text)})

    assert said(43) == said(49) == {"~/x/state/nccl.spark-1.<process>": {"mode": "0644", "owner": "spark"}}
