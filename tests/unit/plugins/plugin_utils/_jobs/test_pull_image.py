# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_marks
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import pull_image

from tests.unit.docker_server import DockerServer, Handler
from tests.unit.programs import standalone
from tests.unit.waiting import WITHIN_S

IMAGE = "nvcr.io/nvidia/release:1.3"
A, B = "a" * 12, "b" * 12


def layer(name: str, status: str, current: int | None = None, total: int | None = None) -> dict[str, t.Any]:
    detail = {} if current is None else {"current": current, "total": total}
    return {"id": name, "status": status, "progressDetail": detail}


class PullHandler(Handler):
    server: Server

    def do_POST(self) -> None:
        self.server.asked = parse_qs(urlsplit(self.path).query)
        self.server.done.append("POST")
        self.server.pages.update(self.server.after_pull)
        if self.server.status == 200:
            self.tell(200, self.server.stream)
        else:
            self.reply(self.server.status, self.server.stream[0])

    def do_DELETE(self) -> None:
        assert self.path == f"/images/{IMAGE}?force=1"
        self.server.done.append("DELETE")
        self.reply(self.server.refused or 200, {"message": "conflict"} if self.server.refused else [])


class Server(DockerServer):
    """An Engine that has one image to pull."""

    handler = PullHandler

    def __init__(self, path: Path) -> None:
        self.stream: list[t.Any] = []
        self.status = 200
        self.asked: dict[str, list[str]] = {}
        self.done: list[str] = []
        self.after_pull: dict[str, t.Any] = {}
        self.refused = 0
        there = {"Id": "sha256:1", "RepoDigests": ["nvcr.io/nvidia/release@sha256:2"], "Size": 7}
        super().__init__(path, {f"/images/{IMAGE}/json": there})


@pytest.fixture(name="engine")
def fixture_engine(tmp_path: Path) -> t.Iterator[Server]:
    with Server(tmp_path / "docker.sock") as server:
        yield server


def marks(engine: Server) -> Path:
    return engine.path.with_name("marks")


def cut(engine: Server) -> None:
    """Leave what a pull in an earlier boot has left."""
    image_marks.begin(marks(engine), IMAGE)
    image_marks.mark_of(marks(engine), IMAGE).write_text("an earlier boot", encoding="ascii")


def command(engine: Server, *arguments: str) -> list[str]:
    program = [sys.executable, str(standalone("pull_image"))]
    return [*program, "--socket", str(engine.path), "--marks", str(marks(engine)), *arguments]


def run(engine: Server, stream: list[t.Any], image: str = IMAGE, stdin: str = "") -> tuple[int, list[t.Any]]:
    engine.stream = stream
    pull = command(engine, "--images", "/proc", image)
    done = subprocess.run(pull, input=stdin, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("debian", ("debian", "latest")),
        ("nvcr.io/nvidia/release:1.3", ("nvcr.io/nvidia/release", "1.3")),
        ("localhost:5000/a/b", ("localhost:5000/a/b", "latest")),
        ("localhost:5000/a/b:1", ("localhost:5000/a/b", "1")),
        ("nvcr.io/nvidia/release:1.3@sha256:ab", ("nvcr.io/nvidia/release", "sha256:ab")),
        ("nvcr.io/nvidia/release@sha256:ab", ("nvcr.io/nvidia/release", "sha256:ab")),
    ],
)
def test_split_reference(reference: str, expected: tuple[str, str]) -> None:
    assert pull_image.split_reference(reference) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("debian:12", "docker.io"), ("a/b", "docker.io"), ("localhost/a", "localhost"), ("nvcr.io/a:1", "nvcr.io")],
)
def test_registry_host(reference: str, expected: str) -> None:
    assert pull_image.registry_host(reference) == expected


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_with_known_sizes() -> None:
    clock = Clock()
    progress = pull_image.Progress({A: 1_000_000_000, B: 3_000_000_000}, clock)
    assert progress.state() is None
    progress.feed({"id": "1.3", "status": "Pulling from nvidia/release"})
    assert progress.state() is None
    for name in (A, B):
        progress.feed(layer(name, "Pulling fs layer"))
    assert progress.state() == {"percent": 0.0, "text": "pulling: 0 bytes of 4.0 GB; 0 of 2 layers done"}
    clock.now = 10
    progress.feed(layer(A, "Downloading", 1_000_000_000, 1_000_000_000))
    assert progress.state() == {
        "percent": 18.8,
        "text": "pulling: 1.0 GB of 4.0 GB, 100 MB/s, 30 s left; 0 of 2 layers done",
    }
    progress.feed(layer(A, "Download complete"))
    progress.feed(layer(A, "Pull complete"))
    clock.now = 45
    assert progress.state() == {
        "percent": 25.0,
        "text": "pulling: 1.0 GB of 4.0 GB, nothing came for 35 s; 1 of 2 layers done",
    }
    progress.feed(layer(B, "Retrying in 5 seconds"))
    assert "nothing came for 35 s, trying again" in (progress.state() or {})["text"]
    progress.feed(layer(B, "Verifying Checksum"))
    progress.feed(layer(B, "Extracting", 1_500_000_000, 3_000_000_000))
    assert progress.state() == {
        "percent": 90.6,
        "text": "pulling: 4.0 GB fetched, unpacking; 1 of 2 layers done",
    }
    progress.feed(layer(B, "Pull complete"))
    assert progress.state() == {
        "percent": 100.0,
        "text": "pulled: 4.0 GB fetched and unpacked; 2 of 2 layers done",
    }


def test_a_layer_that_is_begun_anew_begins_a_new_pace() -> None:
    clock = Clock()
    progress = pull_image.Progress({A: 4_000_000_000}, clock)
    texts = []
    for clock.now, fetched in ((0, 0), (10, 1_000_000_000), (11, 100_000_000), (12, 200_000_000)):
        progress.feed(layer(A, "Downloading", fetched, 4_000_000_000))
        texts.append((progress.state() or {}).get("text"))
    assert texts[2:] == [
        "pulling: 100 MB of 4.0 GB; 0 of 1 layers done",
        "pulling: 200 MB of 4.0 GB, 100 MB/s, 38 s left; 0 of 1 layers done",
    ]


def test_progress_without_sizes_has_no_percent_at_first() -> None:
    progress = pull_image.Progress({}, Clock())
    progress.feed(layer(A, "Downloading", 2_000_000, 4_000_000))
    progress.feed(layer(B, "Pulling fs layer"))
    assert progress.state() == {"percent": None, "text": "pulling: 2.0 MB fetched; 0 of 2 layers done"}
    progress.feed(layer(B, "Downloading", 0, 4_000_000))
    assert progress.state() == {"percent": 18.8, "text": "pulling: 2.0 MB of 8.0 MB; 0 of 2 layers done"}


def test_layers_that_exist_count_nothing() -> None:
    progress = pull_image.Progress({A: 1_000_000}, Clock())
    progress.feed(layer(A, "Already exists"))
    assert progress.state() == {"percent": 100.0, "text": "pulled: 0 bytes fetched and unpacked; 1 of 1 layers done"}


def test_units_of_the_containerd_store_do_not_confuse() -> None:
    progress = pull_image.Progress({}, Clock())
    progress.feed(layer(A, "Downloading", 4_000_000, 4_000_000))
    progress.feed({"id": A, "status": "Extracting", "progressDetail": {"current": 3, "units": "s"}})
    assert progress.state() == {"percent": 75.0, "text": "pulling: 4.0 MB fetched, unpacking; 0 of 1 layers done"}


def test_a_pull(engine: Server) -> None:
    hint = {"layers": [{"digest": f"sha256:{A}{A}", "size": 8_000_000}]}
    stream = [
        {"id": "1.3", "status": "Pulling from nvidia/release"},
        layer(A, "Pulling fs layer"),
        layer(A, "Downloading", 2_000_000, 8_000_000),
        1.5,
        layer(A, "Pull complete"),
        {"status": "Status: Downloaded newer image"},
    ]
    code, lines = run(engine, stream, stdin=json.dumps(hint))
    assert code == 0
    assert engine.asked == {"fromImage": ["nvcr.io/nvidia/release"], "tag": ["1.3"]}
    assert lines == [
        {"progress": {"percent": 18.8, "text": "pulling: 2.0 MB of 8.0 MB; 0 of 1 layers done"}},
        {"progress": {"percent": 100.0, "text": "pulled: 8.0 MB fetched and unpacked; 1 of 1 layers done"}},
        {"result": {"id": "sha256:1", "repo_digests": ["nvcr.io/nvidia/release@sha256:2"], "bytes": 7}},
    ]


@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "manifest for x not found: manifest unknown",
            f"There is no image {IMAGE} (manifest for x not found: manifest unknown); check the name and the tag.",
        ),
        (
            "pull access denied for x, repository does not exist or may require 'docker login'",
            f"The registry does not hand out {IMAGE} (pull access denied for x, repository does not exist or may "
            "require 'docker login'); check the name, and run 'docker login nvcr.io' and 'docker pull' by hand "
            "if the image is not public.",
        ),
        (
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            f"The image {IMAGE} is not offered for this machine's architecture "
            "(no matching manifest for linux/arm64/v8 in the manifest list entries).",
        ),
        (
            'Get "https://nvcr.io/v2/": dial tcp: lookup nvcr.io: no such host',
            f"Pulling {IMAGE} failed because nvcr.io could not be reached well enough "
            '(Get "https://nvcr.io/v2/": dial tcp: lookup nvcr.io: no such host); run it again.',
        ),
        (
            "toomanyrequests: slow down.",
            f"The registry refuses {IMAGE} for now because of too many requests (toomanyrequests: slow down); "
            "wait and run it again.",
        ),
        # moby issue 52411, with containerd's store.
        (
            "failed to extract layer sha256:4: content digest sha256:5: not found",
            f"Pulling {IMAGE} failed: failed to extract layer sha256:4: content digest sha256:5: not found.",
        ),
        ("it is haunted", f"Pulling {IMAGE} failed: it is haunted."),
    ],
)
def test_what_the_engine_says_is_explained(engine: Server, message: str, expected: str, in_stream: bool) -> None:
    engine.status = 200 if in_stream else 500
    stream = [{"errorDetail": {"message": message}, "error": message} if in_stream else {"message": message}]
    assert run(engine, stream) == (1, [{"error": expected}])


def test_a_full_disk(engine: Server) -> None:
    message = "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"
    code, lines = run(engine, [{"errorDetail": {"message": message}}])
    assert code == 1
    start, _, rest = lines[-1]["error"].partition("; ")
    assert start == f"Pulling {IMAGE} failed because the disk is full ({message})"
    assert rest.endswith(
        " are free in /proc; free some space, for example with 'docker image prune', and run the same again."
    )


def test_an_engine_that_goes_away(engine: Server) -> None:
    code, lines = run(engine, [layer(A, "Downloading", 1, 2), "cut"])
    assert code == 1
    assert lines[-1] == {
        "error": f"The Docker Engine went away while it pulled {IMAGE}; when it is back, run the same again."
    }


def test_an_image_is_marked_until_it_is_on_the_disk(
    engine: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine.stream = [layer(A, "Pull complete")]
    flushed = []

    def sync() -> None:
        flushed.append(
            (image_marks.mark_of(marks(engine), IMAGE).exists(), bool(engine.asked), capsys.readouterr().out)
        )

    monkeypatch.setattr(os, "sync", sync)
    monkeypatch.setattr("sys.stdin", (tmp_path / "empty").open("w+"))
    assert pull_image.main(["--socket", str(engine.path), "--marks", str(marks(engine)), IMAGE]) == 0
    assert [(marked, pulled, "result" in said) for marked, pulled, said in flushed] == [(True, True, False)]
    assert not image_marks.mark_of(marks(engine), IMAGE).exists()
    assert engine.done == ["POST"]


def test_an_image_whose_last_pull_did_not_end_is_pulled_again(engine: Server) -> None:
    cut(engine)
    code, lines = run(engine, [layer(A, "Pull complete")])
    assert (code, engine.done) == (0, ["DELETE", "POST"])
    assert [IMAGE in warning for warning in lines[-1]["result"]["warnings"]] == [True]
    assert not image_marks.is_unfinished(marks(engine), IMAGE)


def test_layers_that_a_power_cut_left_without_their_image_are_removed_with_it(engine: Server) -> None:
    cut(engine)
    there = engine.pages.pop(f"/images/{IMAGE}/json")
    engine.after_pull = {f"/images/{IMAGE}/json": there}
    assert run(engine, [layer(A, "Already exists")])[0] == 0
    assert engine.done == ["POST", "DELETE", "POST"]


def test_a_pull_that_failed_is_no_power_cut(engine: Server) -> None:
    assert run(engine, [{"error": "toomanyrequests"}])[0] == 1
    assert list(marks(engine).iterdir()) == []


def test_an_incomplete_image_that_is_in_use_is_an_error(engine: Server) -> None:
    cut(engine)
    engine.refused = 409
    code, lines = run(engine, [])
    assert (code, engine.asked) == (1, {})
    assert lines[-1]["error"] == (
        f"The image {IMAGE} may be incomplete after a power cut, and the Docker Engine refuses to remove it "
        "(conflict); remove its containers, then run the same again."
    )
    assert image_marks.is_unfinished(marks(engine), IMAGE)


def test_an_image_that_vanishes(engine: Server) -> None:
    code, lines = run(engine, [], image="nvcr.io/other:1")
    assert (code, lines[-1]["error"]) == (
        1,
        "The Docker Engine does not know nvcr.io/other:1 after it pulled it; was it removed meanwhile?",
    )


def test_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", (tmp_path / "empty").open("w+"))
    assert pull_image.main(["--socket", f"{tmp_path}/none.sock", "--marks", str(tmp_path / "marks"), IMAGE]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "error": f"The Docker Engine does not answer on {tmp_path}/none.sock (No such file or directory); "
        "start it with 'sudo systemctl start docker', then run again."
    }


def test_the_end_of_the_program_is_quick(engine: Server) -> None:
    engine.stream = [layer(A, "Downloading", 1, 2), 30.0]
    with subprocess.Popen(command(engine, IMAGE), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(WITHIN_S) == -15
