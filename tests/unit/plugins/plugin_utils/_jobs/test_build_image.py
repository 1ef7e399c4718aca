# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that has Docker make the pair's image, against an Engine on a socket."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_marks
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import build_image

from tests.unit.docker_server import DockerServer, Handler
from tests.unit.programs import standalone
from tests.unit.waiting import WITHIN_S

REFERENCE = "dgx-spark-speculative/release:1"
DOCKERFILE = "FROM base:1\nRUN apt-get update\n"
MADE = {"Id": "sha256:1", "Size": 7}
SUCCESS: list[t.Any] = [
    {"stream": "Step 1/2 : FROM base:1\n"},
    {"stream": " ---> 0123456789ab\n"},
    {"stream": "Step 2/2 : RUN apt-get update\n"},
    {"stream": "Get:1 http://mirror "},
    {"stream": "stable InRelease\n"},
    {"aux": {"ID": "sha256:1"}},
]
FAILED = {"errorDetail": {"code": 100, "message": "The command '/bin/sh -c apt-get' returned a non-zero code: 100"}}


class BuildHandler(Handler):
    server: Builder

    def do_DELETE(self) -> None:
        self.server.removed.append(self.path)
        self.reply(404, {"message": "No such image"})

    def do_POST(self) -> None:
        self.server.asked = self.path
        self.server.got = self.rfile.read(int(self.headers["Content-Length"]))
        self.tell(self.server.status, self.server.stream)


class Builder(DockerServer):
    """An Engine that builds."""

    handler = BuildHandler

    def __init__(self, path: Path) -> None:
        self.stream: list[t.Any] = SUCCESS
        self.status = 200
        self.asked = ""
        self.got = b""
        self.removed: list[str] = []
        super().__init__(path, {f"/images/{REFERENCE}/json": MADE})


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in build_image.PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def engine(tmp_path: Path) -> t.Iterator[Builder]:
    with Builder(tmp_path / "docker.sock") as server:
        yield server


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, t.Any]]]:
    options = ["--socket", str(tmp_path / "docker.sock"), "--marks", str(tmp_path / "marks")]
    code = build_image.main([*options, REFERENCE, DOCKERFILE])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code, said = run(tmp_path, capsys)
    assert code == 1
    return str(said[-1]["error"])


def test_the_engine_gets_the_dockerfile_and_nothing_else(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[str, bool]] = []
    mark = image_marks.mark_of(tmp_path / "marks", REFERENCE)
    monkeypatch.setattr(os, "sync", lambda: flushed.append((engine.asked, mark.exists())))
    code, said = run(tmp_path, capsys)
    assert (code, said[-1]) == (0, {"result": {"id": "sha256:1", "bytes": 7}})
    # An image is in memory only when Docker reports it.
    assert flushed == [(engine.asked, True)]
    assert (mark.exists(), engine.removed) == (False, [])
    address = urlsplit(engine.asked)
    assert address.path == "/build"
    assert parse_qs(address.query) == {"t": [REFERENCE], "rm": ["1"], "forcerm": ["1"], "pull": ["0"], "nocache": ["0"]}
    with tarfile.open(fileobj=io.BytesIO(engine.got)) as archive:
        assert archive.getnames() == ["Dockerfile"]
        file = archive.extractfile("Dockerfile")
        assert file is not None
        assert file.read().decode() == DOCKERFILE


def test_an_image_whose_build_a_power_cut_ended_is_built_without_what_that_left(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image_marks.begin(tmp_path / "marks", REFERENCE)
    image_marks.mark_of(tmp_path / "marks", REFERENCE).write_text("an earlier boot", encoding="ascii")
    assert run(tmp_path, capsys)[0] == 0
    assert engine.removed == [f"/images/{REFERENCE}?force=1"]
    assert parse_qs(urlsplit(engine.asked).query)["nocache"] == ["1"]
    assert not image_marks.is_unfinished(tmp_path / "marks", REFERENCE)


PROXY = "http://user:pa%40ss@proxy.corp:3128"


def asked(engine: Builder) -> dict[str, t.Any]:
    """What the Engine was asked for besides the image, as it reads it."""
    query = parse_qs(urlsplit(engine.asked).query)
    found: dict[str, t.Any] = {name: query[name][0] for name in ("buildargs", "networkmode") if name in query}
    return {**found, "buildargs": json.loads(found.get("buildargs", "{}"))}


def test_the_login_users_proxies_come_before_the_engines(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.pages["/info"] = {"HttpProxy": "http://other:1", "HttpsProxy": "http://engines:2", "NoProxy": ""}
    monkeypatch.setenv("http_proxy", "http://own:3")
    run(tmp_path, capsys)
    assert asked(engine) == {
        "buildargs": {
            "HTTP_PROXY": "http://own:3",
            "http_proxy": "http://own:3",
            "HTTPS_PROXY": "http://engines:2",
            "https_proxy": "http://engines:2",
        }
    }


def test_a_login_that_the_engine_hides_is_not_handed_on(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.pages["/info"] = {"HttpProxy": "http://xxxxx:xxxxx@proxy:1", "NoProxy": "localhost,.corp"}
    run(tmp_path, capsys)
    assert asked(engine) == {"buildargs": {"NO_PROXY": "localhost,.corp", "no_proxy": "localhost,.corp"}}


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:3128", "localhost:1", "http://u:p@[::1]:8/"])
def test_a_proxy_of_this_machine_is_reached_from_its_own_network(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    run(tmp_path, capsys)
    assert asked(engine)["networkmode"] == "host"


def test_a_proxys_password_reaches_the_build_and_nobody_else(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    engine.stream = [
        *SUCCESS[:3],
        {"stream": f"Err:1 through {PROXY}\n"},
        {"stream": "E: 407 for user:pa@ss, password pa@ss\n"},
        FAILED,
    ]
    options = ["--socket", str(tmp_path / "docker.sock"), "--marks", str(tmp_path / "marks")]
    code = build_image.main([*options, REFERENCE, DOCKERFILE])
    captured = capsys.readouterr()
    assert code == 1
    assert asked(engine) == {"buildargs": {"HTTP_PROXY": PROXY, "http_proxy": PROXY}}
    assert "Err:1 through http://***@proxy.corp:3128" in captured.err
    assert json.loads(captured.out.splitlines()[-1])["error"] == "E: 407 for ***, password ***."
    with tarfile.open(fileobj=io.BytesIO(engine.got)) as archive:
        file = archive.extractfile("Dockerfile")
        assert file is not None
        assert file.read().decode() == DOCKERFILE


def test_it_tells_the_step_and_the_last_line(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_image, "REPORT_EVERY_S", 0.02)
    monkeypatch.setattr(build_image, "QUIET_S", 0.4)
    engine.stream = [0.2, *SUCCESS[:-1], 0.9, SUCCESS[-1]]
    _code, said = run(tmp_path, capsys)
    texts = [(line["progress"]["percent"], line["progress"]["text"]) for line in said[:-1]]
    assert texts[0] == (None, "making the image: Docker begins")
    there = "making the image: step 2 of 2, Get:1 http://mirror stable InRelease"
    assert (50.0, there) in texts
    assert (50.0, f"{there}, nothing more for 1 s") in texts


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            # As the Engine shows what comes from the standard error, and cut in two.
            ["Err:1 http://mirror\n", "\x1b[91mE: Unable to loc", "ate package openssh-server\n\x1b[0m", "E: more\n"],
            "E: Unable to locate package openssh-server.",
        ),
        (
            ["\x1b[91mE: Failed to fetch http://mirror/x  Could not resolve 'mirror'\x1b[0m"],
            "E: Failed to fetch http://mirror/x  Could not resolve 'mirror'.",
        ),
        (
            ["Killed\n"],
            "The command '/bin/sh -c apt-get' returned a non-zero code: 100; it ended with: Killed.",
        ),
    ],
)
def test_apt_says_why(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], printed: list[str], expected: str
) -> None:
    engine.stream = [*SUCCESS[:3], *({"stream": text} for text in printed), FAILED]
    assert error(tmp_path, capsys) == expected


@pytest.mark.parametrize(
    ("status", "stream", "expected"),
    [
        (500, [{"message": "dockerfile parse error line 1"}], "dockerfile parse error line 1."),
        (200, [{"error": "write /x: no space left on device"}], "write /x: no space left on device."),
        (200, [*SUCCESS[:3], "cut"], "the Docker Engine went away while it made the image."),
    ],
)
def test_docker_says_why(
    engine: Builder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    status: int,
    stream: list[t.Any],
    expected: str,
) -> None:
    engine.status, engine.stream = status, stream
    assert error(tmp_path, capsys) == expected


def test_an_image_that_is_not_there_in_the_end(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.pages.clear()
    assert error(tmp_path, capsys) == f"the Docker Engine does not know {REFERENCE} after it made it."


def test_an_engine_that_hangs(
    engine: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_image, "SILENCE_S", 0.3)
    engine.stream = [*SUCCESS[:3], 2.0]
    assert error(tmp_path, capsys) == "neither the build nor the Docker Engine said anything for 1 s."


def test_no_docker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error(tmp_path, capsys).startswith("the Docker Engine does not answer on ")


def test_it_ends_at_once_when_it_is_stopped(engine: Builder, tmp_path: Path) -> None:
    engine.stream = [*SUCCESS[:3], 60.0]
    command = [
        sys.executable,
        "-u",
        str(standalone("build_image")),
        "--socket",
        str(tmp_path / "docker.sock"),
        "--marks",
        str(tmp_path / "marks"),
        REFERENCE,
        DOCKERFILE,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # Docker ends a build whose connection does.
        assert process.stdout.readline()
        process.terminate()
        process.wait(WITHIN_S)
