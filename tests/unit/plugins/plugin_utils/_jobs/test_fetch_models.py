# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import fcntl
import json
import os
import ssl
import subprocess
import sys
import threading
import types
import typing as t
import urllib.error
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import RemoteFile
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.limits import WINDOW_S, limited_s
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import (
    fetch_models,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs.hub_files import LimitedError

from tests.twin.spark.meminfo import resident_bytes
from tests.unit import waiting
from tests.unit.hub_server import ACCEPTED, COMMIT, UNACCEPTED, Fault, HubServer, Model, running
from tests.unit.programs import module
from tests.unit.waiting import WITHIN_S

MODEL = "lab/small"
RECEIPT = "models--lab--small.json"
LIMITED, AGAIN = "the Hub limits requests: continues in 1 s", "the connection failed, trying again (1 of 4)"


FILES = {"config.json": b"{}", "weights-1.bin": os.urandom(3_000_000), "original/weights.bin": b"b" * 2000}
LARGE = {"weights-1.bin", "original/weights.bin"}
# The wanted files, as the Hub lists them.
LISTED = {
    MODEL: [
        {"path": path, "size": len(data), "blob": Model(FILES, large=LARGE).blob(path)}
        for path, data in FILES.items()
        if not path.startswith("original/")
    ]
}


@pytest.fixture
def model() -> Model:
    return Model(dict(FILES), large=LARGE)


@pytest.fixture
def server(model: Model) -> t.Iterator[HubServer]:
    with running(HubServer({MODEL: model})) as server:
        yield server


def specification(tmp_path: Path, endpoint: str = "https://hub", **changes: t.Any) -> dict[str, t.Any]:
    repository = {"id": MODEL, "revision": "main", "commit": COMMIT, "include": [], "exclude": ["original/*"]}
    return {
        "endpoint": endpoint,
        "cache": str(tmp_path / "hub"),
        "receipts": str(tmp_path / "models"),
        "repositories": [{**repository, **changes}],
    }


def prepared(tmp_path: Path, endpoint: str = "https://hub") -> t.Any:
    """A fetch whose files were already listed."""
    return fetch_models.Fetch(specification(tmp_path, endpoint), "", LISTED)


def store(tmp_path: Path, model: Model, path: str, data: bytes | None = None) -> Path:
    """Put a file into the cache as huggingface_hub does; its blob."""
    folder = tmp_path / "hub" / "models--lab--small"
    blob = folder / "blobs" / model.blob(path)
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(model.files[path] if data is None else data)
    pointer = folder / "snapshots" / COMMIT / path
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    return blob


def download(fetch: t.Any, path: str = "weights-1.bin") -> t.Any:
    """The download of one file, which takes no time to wait."""
    repository = fetch.repositories[0]
    file = next(file for file in repository.files if file.path == path)
    return fetch_models.Download(fetch.hub, repository, [file], threading.Event())


@pytest.mark.parametrize("said", ["\xb2", "9" * 400, "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_limit_without_a_plain_number_lasts_a_window(said: str) -> None:
    assert limited_s({"Retry-After": said}) == WINDOW_S


def test_a_limit_of_no_seconds_ends_after_the_longest_that_is_waited(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = download(prepared(tmp_path))
    now, waited = [0.0], []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        now[0] += seconds
        return False

    monkeypatch.setattr(one.stopped, "wait", wait)
    monkeypatch.setattr(fetch_models, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    tries = []

    def refused() -> None:
        tries.append(now[0])
        raise LimitedError(limited_s({"Retry-After": "0"}))

    with pytest.raises(fetch_models.FetchError, match="does not get on for 60 min"):
        one.persist(refused)
    # A request a second, and no more than for the longest limit.
    assert set(waited) == {1.0}
    assert len(tries) == fetch_models.LONGEST_LIMIT_S + 1


def test_bytes_there_counts_files_parts_and_shared_blobs_once(tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path)
    assert fetch.bytes_there() == 0
    store(tmp_path, model, "config.json")
    blobs = fetch.repositories[0].blobs
    (blobs / f"{model.blob('weights-1.bin')}.incomplete").write_bytes(b"x" * 1000)
    assert fetch.bytes_there() == 1002
    fetch.repositories[0].files.append(RemoteFile("copy.json", 2, model.blob("config.json")))
    assert fetch.bytes_there() == 1002
    assert fetch.bytes_wanted() == 3_000_002


def test_a_good_cache_gets_a_receipt_and_a_ref(tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path)
    blob = store(tmp_path, model, "config.json")
    store(tmp_path, model, "weights-1.bin")
    fetch.complete()
    receipt = json.loads((tmp_path / "models" / RECEIPT).read_text())
    assert (receipt["id"], receipt["revisions"], receipt["commit"]) == (MODEL, ["main"], COMMIT)
    assert (receipt["include"], receipt["exclude"]) == ([], ["original/*"])
    assert receipt["files"]["config.json"] == {
        "size": 2,
        "mtime_ns": blob.stat().st_mtime_ns,
        "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    }
    assert (tmp_path / "hub" / "models--lab--small" / "refs" / "main").read_text() == COMMIT


def test_a_part_of_a_model_is_checked_but_not_noted(tmp_path: Path, model: Model) -> None:
    fetch = fetch_models.Fetch(specification(tmp_path, exclude=["original/*", "*.bin"]), "", LISTED)
    blob = store(tmp_path, model, "config.json")
    # Of the weights, which the next download continues.
    part = fetch.repositories[0].blobs / f"{model.blob('weights-1.bin')}.incomplete"
    part.write_bytes(b"x")
    assert [file.path for file in fetch.repositories[0].files] == ["config.json"]
    assert fetch.complete() == []
    assert fetch_models.remove_orphans(fetch.repositories[0]) == 0
    assert part.exists()
    assert not (tmp_path / "models").exists()
    assert not (tmp_path / "hub" / "models--lab--small" / "refs").exists()
    blob.write_bytes(b"[]")
    later = fetch_models.Fetch(specification(tmp_path, exclude=["original/*", "*.bin"]), "", LISTED)
    assert later.compare(later.noted()) == ["config.json of lab/small"]


def test_what_was_checked_holds_no_memory(tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path)
    store(tmp_path, model, "config.json")
    blob = store(tmp_path, model, "weights-1.bin")
    assert resident_bytes(blob) > 0
    fetch.complete()
    assert resident_bytes(blob) == 0


def bad(tmp_path: Path, model: Model, path: str, endpoint: str) -> t.Any:
    """A fetch of which a file has other bytes than the Hub's."""
    fetch = prepared(tmp_path, endpoint)
    for name in ("config.json", "weights-1.bin"):
        store(tmp_path, model, name, bytes(len(model.files[name])) if name == path else None)
    return fetch


@pytest.mark.parametrize("path", ["config.json", "weights-1.bin"])
def test_a_wrong_checksum_is_named_and_its_file_fetched_again(
    server: HubServer, tmp_path: Path, model: Model, path: str
) -> None:
    fetch = bad(tmp_path, model, path, server.endpoint)
    assert fetch.complete() == [f"{path} of lab/small"]
    assert fetch.fetched == len(model.files[path])
    assert json.loads((tmp_path / "models" / RECEIPT).read_text())["files"].keys() == {"config.json", "weights-1.bin"}
    text = fetch_models.replaced_text([f"{path} of lab/small"])
    assert text.startswith(
        f"The checksum of {path} of lab/small was not the Hub's, so it was deleted and fetched again. "
    )


@pytest.mark.parametrize("path", ["config.json", "weights-1.bin"])
def test_what_stays_wrong_ends_it(server: HubServer, tmp_path: Path, model: Model, path: str) -> None:
    server.faults = [Fault(f"/*/resolve/*/{path}", corrupt=True)]
    fetch = bad(tmp_path, model, path, server.endpoint)
    with pytest.raises(fetch_models.FetchError) as caught:
        fetch.complete()
    assert str(caught.value).startswith(
        f"The checksum of {path} of lab/small is not the Hub's, though it was fetched again, so it was deleted: "
    )
    # A wrong byte may be the line's: it is asked for twice.
    assert server.sent[path] == 2 * len(model.files[path])
    assert [file.path for file in fetch.repositories[0].missing()] == [path]
    assert not (tmp_path / "models" / RECEIPT).exists()


def test_unchanged_large_files_are_not_read_again(tmp_path: Path, model: Model) -> None:
    store(tmp_path, model, "config.json")
    blob = store(tmp_path, model, "weights-1.bin")
    prepared(tmp_path).complete()
    # Other bytes under the same size and time prove that the file is not read.
    time = blob.stat().st_mtime_ns
    blob.write_bytes(bytes(3_000_000))
    os.utime(blob, ns=(time, time))
    again = fetch_models.Fetch(specification(tmp_path, revision=COMMIT), "", LISTED)
    again.complete()
    assert json.loads((tmp_path / "models" / RECEIPT).read_text())["revisions"] == [COMMIT, "main"]


def test_a_file_of_the_same_size_that_was_written_since_is_read_again(tmp_path: Path, model: Model) -> None:
    store(tmp_path, model, "config.json")
    blob = store(tmp_path, model, "weights-1.bin")
    prepared(tmp_path).complete()
    time = blob.stat().st_mtime_ns
    blob.write_bytes(bytes(blob.stat().st_size))
    os.utime(blob, ns=(time, time + 1))
    again = prepared(tmp_path)
    assert again.compare(again.noted()) == ["weights-1.bin of lab/small"]


def test_unusable_files_are_discarded(tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path)
    short = store(tmp_path, model, "config.json", b"{")
    fetch_models.discard_unusable(fetch.repositories[0])
    assert not short.exists()


def test_orphans_are_removed_but_not_what_is_awaited_or_in_use(tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path)
    blobs = store(tmp_path, model, "config.json").parent
    weights, other, locked = model.blob("weights-1.bin"), "a" * 64, "b" * 64
    names = [f"{weights}.incomplete", f"{weights}.1a2b.incomplete", f"{other}.incomplete", f"{locked}.incomplete"]
    for name in names:
        (blobs / name).write_bytes(b"x" * 10)
    locks = tmp_path / "hub" / ".locks" / "models--lab--small"
    locks.mkdir(parents=True)
    with (locks / f"{locked}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert fetch_models.remove_orphans(fetch.repositories[0]) == 20
    assert sorted(path.name for path in blobs.glob("*.incomplete")) == sorted([names[0], names[3]])


def test_a_part_that_is_too_large_is_fetched_anew(server: HubServer, tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path, server.endpoint)
    fetch.repositories[0].blobs.mkdir(parents=True)
    (fetch.repositories[0].blobs / f"{model.blob('weights-1.bin')}.incomplete").write_bytes(bytes(3_000_001))
    fetch.complete()
    assert fetch.repositories[0].missing() == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/cache/blobs/x"),
            r"The Hugging Face cache {cache} cannot be written \(Permission denied: /cache/blobs/x\): give it "
            r"back to the login user with 'sudo chown -R', then run again",
        ),
        (
            # Its number is that of EPERM.
            urllib.error.URLError(ssl.SSLCertVerificationError(1, "certificate verify failed")),
            r"What answers for https://hub has a certificate that is not trusted here \(certificate verify failed\), "
            r"as a proxy has that reads along: use a network without one, or add its certificate to those of this host "
            r"with 'sudo update-ca-certificates', then run again",
        ),
    ],
)
def test_errors_that_no_other_try_mends(tmp_path: Path, model: Model, error: OSError, message: str) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(fetch_models.FetchError, match=f"^{message.format(cache=tmp_path / 'hub')}$"):
        download(prepared(tmp_path)).persist(fail)


def test_tries_that_brought_nothing_are_counted(tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_models, "FIRST_DELAY_S", 0.0)
    one = download(prepared(tmp_path))
    blobs = store(tmp_path, model, "config.json").parent
    calls = []

    def fail() -> None:
        calls.append(1)
        if len(calls) == 4:
            (blobs / f"{model.blob('weights-1.bin')}.incomplete").write_bytes(b"x")
        raise urllib.error.URLError(ConnectionResetError(104, "reset by peer"))

    with pytest.raises(fetch_models.FetchError) as caught:
        one.persist(fail)
    assert len(calls) == 4 + 4
    assert str(caught.value) == (
        "Downloading lab/small from https://hub failed 5 times in a row ([Errno 104] reset by peer): check this host's "
        "network, then run again, which continues where this ended; or fetch it into the same cache with "
        f"'hf download lab/small --revision {COMMIT} --cache-dir {tmp_path}/hub'"
    )


def test_a_file_that_another_program_brings_is_waited_for(server: HubServer, tmp_path: Path, model: Model) -> None:
    fetch = prepared(tmp_path, server.endpoint)
    path = fetch.repositories[0].cached.lock(model.blob("weights-1.bin"))
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runner = threading.Thread(target=fetch.complete)
        runner.start()
        # The other file is not waited with.
        waiting.until(lambda: server.sent.get("config.json") is not None)
        blob = fetch.repositories[0].blobs / model.blob("weights-1.bin")
        blob.write_bytes(model.files["weights-1.bin"])
    runner.join()
    assert fetch.repositories[0].missing() == []
    assert "weights-1.bin" not in server.sent


# What the program is told to wait is said, and passes nearly at once.
CLOCK = """
import time
import threading
class Clock:
    passed = 0.0
    def monotonic(self):
        return time.monotonic() + self.passed
clock = Clock()
class Waiting(threading.Event):
    def wait(self, seconds):
        clock.passed += seconds
        return super().wait(0.05)
"""


def started(specification: dict[str, t.Any], token: str = "", delay: str = "0.01") -> subprocess.Popen[str]:
    code = CLOCK + (
        f"{module('fetch_models')}import types\n"
        f"module.FIRST_DELAY_S, module.REPORT_EVERY_S, module.time = {delay}, 0.01, clock\n"
        "module.threading = types.SimpleNamespace(Event=Waiting)\n"
        "sys.exit(module.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(specification)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )
    assert process.stdin is not None
    json.dump({"token": token, "files": LISTED}, process.stdin)
    process.stdin.close()
    process.stdin = None
    return process


def run_program(
    specification: dict[str, t.Any], token: str = "", delay: str = "0.01"
) -> tuple[list[dict[str, t.Any]], str]:
    """Run the whole program; its lines and its log."""
    process = started(specification, token, delay)
    out, log = process.communicate(timeout=WITHIN_S)
    lines = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == (0 if "result" in lines[-1] else 1), log
    return lines, log


class TestProgram:
    def test_download_check_and_second_run(self, server: HubServer, tmp_path: Path) -> None:
        spec = specification(tmp_path, server.endpoint)
        lines, _log = run_program(spec)
        assert lines[-1] == {
            "result": {
                "bytes_fetched": 3_000_002,
                "bytes_freed": 0,
                "repositories": [{"id": MODEL, "commit": COMMIT, "bytes": 3_000_002}],
            }
        }
        assert lines[-2] == {"progress": {"percent": 100.0, "text": "checking 2 of 2 files"}}
        assert "original/weights.bin" not in server.sent
        snapshot = tmp_path / "hub" / "models--lab--small" / "snapshots" / COMMIT
        assert sorted(path.name for path in snapshot.iterdir()) == ["config.json", "weights-1.bin"]
        assert (tmp_path / "hub" / "models--lab--small" / "refs" / "main").read_text() == COMMIT
        server.sent.clear()
        lines, _log = run_program(spec)
        assert lines[-1]["result"]["bytes_fetched"] == 0
        assert server.sent == {}

    def test_a_cut_connection_is_continued(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*/weights-1.bin", cut_after=1_400_000, times=2)]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["result"]["bytes_fetched"] == 3_000_002
        assert server.sent["weights-1.bin"] == 3_000_000

    def test_a_hub_that_is_down_for_a_while(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("*/weights-1.bin", status=503, times=3)]
        lines, log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["result"]["bytes_fetched"] == 3_000_002
        assert "503" in log

    def test_a_hub_that_limits_requests_is_waited_for(self, server: HubServer, tmp_path: Path) -> None:
        limit = [Fault("/*/resolve/*", status=429, headers={"Retry-After": "1"}, times=7)]
        server.faults = [
            *limit,
            Fault("/*/resolve/*", status=429, headers={"RateLimit": '"resolvers";r=0;t=1'}, times=1),
        ]
        lines, log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["result"]["bytes_fetched"] == 3_000_002
        assert {"progress": {"percent": 0.0, "text": f"0.0 of 3.0 MB, {LIMITED}"}} in lines
        assert "waiting 1 s" in log

    def test_a_hub_that_limits_requests_for_too_long(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*", status=429, headers={"Retry-After": "4000"})]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["error"] == (
            f"The Hub {server.endpoint} limits the requests of this network, so that lab/small does not get on for "
            "67 min: run again later, which continues where this ended, or give a token"
        )

    def test_a_hub_that_stays_down(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*", status=503)]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        error = lines[-1]["error"]
        assert error.startswith(f"Downloading lab/small from {server.endpoint} failed 5 times in a row (127.0.0.1:")
        assert {"progress": {"percent": 0.0, "text": f"0.0 of 3.0 MB, {AGAIN}"}} in lines

    def test_a_corrupted_file(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*/weights-1.bin", corrupt=True)]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["error"].startswith("The checksum of weights-1.bin of lab/small is not the Hub's")
        server.faults = []
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["result"]["bytes_fetched"] == 3_000_000

    def test_what_is_to_be_verified_is_read_and_fetched_again(self, server: HubServer, tmp_path: Path) -> None:
        spec = specification(tmp_path, server.endpoint)
        run_program(spec)
        blob = (tmp_path / "hub/models--lab--small/snapshots" / COMMIT / "weights-1.bin").resolve()
        whole, time = blob.read_bytes(), blob.stat().st_mtime_ns
        blob.write_bytes(b"?" + whole[1:])
        os.utime(blob, ns=(time, time))
        lines, _log = run_program(spec)
        assert lines[-1]["result"]["bytes_fetched"] == 0
        lines, _log = run_program(specification(tmp_path, server.endpoint, verify=True))
        assert lines[-1]["result"]["bytes_fetched"] == 3_000_000
        (warning,) = lines[-1]["result"]["warnings"]
        assert warning.startswith("The checksum of weights-1.bin of lab/small was not the Hub's")
        assert blob.read_bytes() == whole

    def test_a_file_that_the_hub_lists_and_does_not_have(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*/weights-1.bin", status=404, code="EntryNotFound")]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["error"] == (
            f"The Hub's model lab/small lacks weights-1.bin of its revision '{COMMIT}': compare it with "
            f"{server.endpoint}/lab/small/tree/{COMMIT}, or give another revision"
        )
        # It is asked for once, not five times.
        assert len([request for request in server.requests if request.endswith("weights-1.bin")]) == 1
        self.finishes(server, tmp_path)

    def test_a_cut_that_never_ends_loses_nothing(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*/weights-1.bin", cut_after=0)]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert f"Downloading lab/small from {server.endpoint} failed 5 times in a row" in lines[-1]["error"]
        self.finishes(server, tmp_path)

    def test_a_slow_hub_is_waited_for(self, server: HubServer, tmp_path: Path) -> None:
        server.faults = [Fault("/*/resolve/*/weights-1.bin", bytes_per_second=1_500_000)]
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["result"]["bytes_fetched"] == 3_000_002

    def test_a_full_disk(self, server: HubServer, tmp_path: Path, model: Model) -> None:
        blobs = tmp_path / "hub" / "models--lab--small" / "blobs"
        blobs.mkdir(parents=True)
        # Whatever is written there finds the disk full.
        part = blobs / f"{model.blob('weights-1.bin')}.incomplete"
        part.symlink_to("/dev/full")
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert lines[-1]["error"].startswith(
            f"The disk under {tmp_path}/hub is full: 3.0 MB are still to be downloaded"
        )
        part.unlink()
        self.finishes(server, tmp_path)

    @staticmethod
    def finishes(server: HubServer, tmp_path: Path) -> None:
        """Another run without the fault ends well, fetches no finished file again and leaves no part behind."""
        snapshot = tmp_path / "hub/models--lab--small/snapshots" / COMMIT
        finished = {path.name for path in snapshot.glob("*")}
        server.faults = []
        server.sent.clear()
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert "result" in lines[-1]
        assert finished.isdisjoint(server.sent)
        assert list((tmp_path / "hub").rglob("*.incomplete")) == []

    def test_a_kill_loses_what_was_in_flight(self, server: HubServer, tmp_path: Path, model: Model) -> None:
        server.faults = [Fault("/*/resolve/*/weights-1.bin", bytes_per_second=1_500_000)]
        process = started(specification(tmp_path, server.endpoint))
        part = tmp_path / "hub/models--lab--small/blobs" / f"{model.blob('weights-1.bin')}.incomplete"
        waiting.until(lambda: part.exists() and part.stat().st_size)
        process.kill()
        process.wait()
        there = part.stat().st_size
        server.faults = []
        server.sent.clear()
        lines, _log = run_program(specification(tmp_path, server.endpoint))
        assert "result" in lines[-1]
        assert server.sent["weights-1.bin"] == 3_000_000 - there

    @pytest.mark.parametrize(
        ("token", "expected"),
        [
            (ACCEPTED, ""),
            ("", "The model lab/small is gated and no token was found: "),
            (UNACCEPTED, "The token is valid but its owner may not download lab/small: "),
            ("hf_mistyped", "The Hub {} refuses the token as invalid (asked for lab/small): "),
        ],
    )
    def test_a_gated_model(self, server: HubServer, tmp_path: Path, token: str, expected: str) -> None:
        server.models[MODEL].gated = True
        lines, log = run_program(specification(tmp_path, server.endpoint), token)
        assert lines[-1].get("error", "").startswith(expected.format(server.endpoint))
        assert ("result" in lines[-1]) == (not expected)
        if token:
            assert token not in json.dumps(lines) + log
