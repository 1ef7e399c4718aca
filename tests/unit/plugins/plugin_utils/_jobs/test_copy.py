# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sender and the receiver of a pair's copies, against each other through real processes and pipes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tarfile
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import (
    CachedRepository,
    ModelSpec,
    is_unchanged,
    read_receipt,
    receipt_covers,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._cluster.nodes import sshd_config
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import (
    incoming,
    load_image,
    receive,
    send,
    serve_copies,
    wire,
)

from tests.twin.spark.meminfo import resident_bytes
from tests.unit.programs import module, standalone
from tests.unit.waiting import WITHIN_S

COMMIT = "0123456789abcdef0123456789abcdef01234567"
F_GETPIPE_SZ = 1032

# Runs the receiver as ssh would, cuts the connection after so many bytes, and changes a byte on the way.
CONNECTION = """
import json, os, subprocess, sys, threading
plan = json.loads(open(sys.argv[1]).read())
number = sum(1 for name in os.listdir(os.path.dirname(sys.argv[1])) if name.startswith("connection"))
open(os.path.join(os.path.dirname(sys.argv[1]), "connection%d" % number), "w").close()
fault = plan["faults"][number] if number < len(plan["faults"]) else {}
if "refuse" in fault:
    print(fault["refuse"], file=sys.stderr)
    sys.exit(255)
if "greeting" in fault:
    print(fault["greeting"], flush=True)
receiver = subprocess.Popen([sys.executable, *plan["receiver"]], stdin=subprocess.PIPE)
left, position = fault.get("cut", 1 << 60), 0


def watch():
    code = receiver.wait()
    os._exit(255 if left == 0 else code)


watcher = threading.Thread(target=watch)
watcher.start()
while left > 0:
    data = os.read(0, min(65536, left))
    if not data:
        break
    at = fault.get("flip", -1) - position
    if 0 <= at < len(data):
        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
    position += len(data)
    left -= len(data)
    try:
        receiver.stdin.write(data)
        receiver.stdin.flush()
    except BrokenPipeError:
        break
try:
    receiver.stdin.close()
except BrokenPipeError:
    pass
watcher.join()
"""


class Pair:
    """Two Sparks in two directories."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.head, self.worker = root / "head", root / "worker"
        self.head.mkdir()
        self.worker.mkdir()
        self.faults: list[dict[str, t.Any]] = []
        self.asked: list[str] = []
        self.places = {name: str(self.worker / name) for name in ("cache", "receipts", "tiktoken_encodings", "spool")}
        (self.worker / "receive.json").write_text(json.dumps(self.places))
        (self.worker / "connection.py").write_text(CONNECTION)
        self.connections = root / "connections"
        self.connections.mkdir()
        self.receiver = [str(standalone("serve_copies")), "receive", str(self.worker / "receive.json")]
        monkeypatch.setattr(send, "ssh_command", self.command)
        monkeypatch.setattr(send, "FIRST_DELAY_S", 0.01)

    def command(self, _spec: t.Any, address: str) -> list[str]:
        self.asked.append(address)
        plan = self.connections / "plan.json"
        # Whole or not at all: another connection reads it meanwhile.
        draft = plan.with_name(f"{threading.get_ident()}.draft")
        draft.write_text(json.dumps({"faults": self.faults, "receiver": self.receiver}))
        draft.replace(plan)
        return [sys.executable, str(self.worker / "connection.py"), str(plan)]

    def spec(self, **more: t.Any) -> dict[str, t.Any]:
        way = {"worker": "spark-2", "user": "me", "addresses": ["10.0.0.2", "10.0.1.2"], "port": 2234}
        return {**way, "key": "key", "known_hosts": "known", "streams": 1, "patience": 5, **more}

    def model(self, files: dict[str, bytes], name: str = "org/model", git: t.Collection[str] = ()) -> dict[str, t.Any]:
        """Put a model into the head's cache, with its receipt, and say how it is asked for."""
        folder = "models--" + name.replace("/", "--")
        directory, noted = self.head / "cache" / folder, {}
        for path, data in files.items():
            sha256 = hashlib.sha256(data).hexdigest()
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() if path in git else sha256
            pointer = directory / "snapshots" / COMMIT / path
            pointer.parent.mkdir(parents=True, exist_ok=True)
            (directory / "blobs").mkdir(exist_ok=True)
            (directory / "blobs" / blob).write_bytes(data)
            pointer.symlink_to(os.path.relpath(directory / "blobs" / blob, pointer.parent))
            noted[path] = {"size": len(data), "mtime_ns": pointer.stat().st_mtime_ns, "sha256": sha256}
        receipts = self.head / "receipts"
        receipts.mkdir(exist_ok=True)
        receipt = {"id": name, "revisions": ["main"], "commit": COMMIT, "include": [], "exclude": ["*.md"]}
        (receipts / f"{folder}.json").write_text(json.dumps({**receipt, "files": noted}))
        return {"id": name, "commit": COMMIT}

    def models(self, *models: dict[str, t.Any], **more: t.Any) -> t.Any:
        places = {"cache": str(self.head / "cache"), "receipts": str(self.head / "receipts")}
        return send.Models(self.spec(**{**places, "repositories": list(models), "tiktoken_encodings": [], **more}))

    def blobs(self, name: str = "org/model") -> Path:
        return self.worker / "cache" / ("models--" + name.replace("/", "--")) / "blobs"

    def is_whole(self, files: dict[str, bytes], name: str = "org/model") -> bool:
        """Whether the worker has the model as if it had fetched it itself, by the code that later runs use."""
        receipt = read_receipt(self.worker / "receipts", name)
        assert receipt is not None
        snapshot = CachedRepository(self.worker / "cache", name).snapshot(COMMIT)
        contents = {path: (snapshot / path).read_bytes() for path in files}
        covers = receipt_covers(receipt, ModelSpec(name, "main", (), ("*.md",)))
        return contents == files and is_unchanged(receipt, snapshot) and covers


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    return Pair(tmp_path, monkeypatch)


LARGE = bytes(range(256)) * 9000
FILES_OF_MODEL = {
    "config.json": b'{"a": 1}',
    "model-1.safetensors": LARGE,
    "model-2.safetensors": LARGE[1:] + b"!",
    "tokenizer/tokens.json": b"[]",
    "empty": b"",
}


@pytest.mark.parametrize("streams", [1, 4])
def test_a_model_arrives_as_if_the_worker_had_fetched_it(pair: Pair, streams: int) -> None:
    model = pair.model(FILES_OF_MODEL, git=["config.json", "tokenizer/tokens.json"])
    result = pair.models(model, streams=streams).run()
    assert pair.is_whole(FILES_OF_MODEL)
    assert result["bytes_sent"] == result["bytes_total"] == sum(map(len, FILES_OF_MODEL.values()))
    directory = pair.blobs().parent
    assert (directory / "refs/main").read_text() == COMMIT
    pointer = directory / "snapshots" / COMMIT / "tokenizer/tokens.json"
    assert str(pointer.readlink()).startswith("../../../blobs/")
    assert stat.S_IMODE(pointer.stat().st_mode) == 0o644
    assert not list(pair.blobs().glob("*.incomplete"))
    # The rails take turns.
    assert set(pair.asked) == ({"10.0.0.2", "10.0.1.2"} if streams > 1 else {"10.0.0.2"})


def test_a_copy_leaves_no_pages_in_the_memory_of_either(pair: Pair) -> None:
    model = pair.model(FILES_OF_MODEL)
    name = hashlib.sha256(LARGE).hexdigest()
    sent = pair.head / "cache/models--org--model/blobs" / name
    with sent.open("rb") as file:
        os.fsync(file.fileno())
    assert resident_bytes(sent) > 0
    pair.models(model).run()
    assert (resident_bytes(sent), resident_bytes(pair.blobs() / name)) == (0, 0)
    # What is there already is read to be compared.
    (pair.worker / "receipts/models--org--model.json").unlink()
    (pair.blobs() / name).read_bytes()
    pair.models(model).run()
    assert resident_bytes(pair.blobs() / name) == 0


def test_what_is_there_is_not_sent_again(pair: Pair) -> None:
    model = pair.model(FILES_OF_MODEL)
    pair.models(model).run()
    assert pair.models(model).run()["bytes_sent"] == 0
    # Without a receipt the bytes themselves are compared.
    (pair.worker / "receipts/models--org--model.json").unlink()
    assert pair.models(model).run()["bytes_sent"] == 0
    assert pair.is_whole(FILES_OF_MODEL)


def test_a_file_of_the_right_size_and_the_wrong_bytes_is_sent_again(pair: Pair) -> None:
    files = {"model.safetensors": LARGE}
    model = pair.model(files)
    pair.blobs().mkdir(parents=True)
    (pair.blobs() / hashlib.sha256(LARGE).hexdigest()).write_bytes(LARGE[:-1] + b"?")
    assert pair.models(model).run()["bytes_sent"] == len(LARGE)
    assert pair.is_whole(files)


def test_what_is_to_be_verified_is_read_whatever_its_receipt_says(pair: Pair) -> None:
    files = {"model.safetensors": LARGE}
    model = pair.model(files)
    pair.models(model).run()
    blob = pair.blobs() / hashlib.sha256(LARGE).hexdigest()
    time = blob.stat().st_mtime_ns
    blob.write_bytes(LARGE[:-1] + b"?")
    os.utime(blob, ns=(time, time))
    assert pair.models(model).run()["bytes_sent"] == 0
    told = pair.models(model, verify=True).run()
    assert told["bytes_sent"] == len(LARGE)
    (warning,) = told["warnings"]
    assert warning.startswith("spark-2: model.safetensors of org/model had another checksum there ")
    assert pair.is_whole(files)
    assert "warnings" not in pair.models(model, verify=True).run()


@pytest.mark.parametrize("cut", [1, 150, 300, 70_000, 1_000_000, len(LARGE) + 100])
def test_a_connection_that_breaks_anywhere_is_continued(pair: Pair, cut: int) -> None:
    files = {"model.safetensors": LARGE}
    model = pair.model(files)
    pair.faults = [{"cut": cut}]
    copy = pair.models(model)
    copy.run()
    assert pair.is_whole(files)
    # The next connection takes the other rail.
    assert pair.asked[:2] == ["10.0.0.2", "10.0.1.2"]


@pytest.mark.parametrize("have", [0, 1, 65_536, 1_048_576, len(LARGE) - 1, len(LARGE)])
def test_a_part_is_continued_at_any_byte(pair: Pair, have: int) -> None:
    files = {"model.safetensors": LARGE}
    model = pair.model(files)
    pair.blobs().mkdir(parents=True)
    part = pair.blobs() / (hashlib.sha256(LARGE).hexdigest() + ".incomplete")
    part.write_bytes(LARGE[:have])
    assert pair.models(model).run()["bytes_sent"] == len(LARGE) - have
    assert pair.is_whole(files)


def test_a_part_that_is_too_long_or_wrong_is_begun_anew(pair: Pair) -> None:
    files = {"long": LARGE, "wrong": LARGE + b"."}
    model = pair.model(files)
    pair.blobs().mkdir(parents=True)
    (pair.blobs() / (hashlib.sha256(LARGE).hexdigest() + ".incomplete")).write_bytes(LARGE * 2)
    (pair.blobs() / (hashlib.sha256(LARGE + b".").hexdigest() + ".incomplete")).write_bytes(b"x" * 1000)
    pair.models(model).run()
    assert pair.is_whole(files)


def test_a_byte_that_changed_on_the_way_is_noticed_and_sent_again(pair: Pair) -> None:
    files = {"model.safetensors": LARGE}
    model = pair.model(files)
    pair.faults = [{"flip": 500_000}]
    copy = pair.models(model)
    copy.run()
    assert pair.is_whole(files)
    assert copy.tally.sent == 2 * len(LARGE)


def test_a_file_that_the_heads_disk_lost_is_named(pair: Pair) -> None:
    model = pair.model({"model.safetensors": LARGE})
    blob = next((pair.head / "cache/models--org--model/blobs").iterdir())
    blob.write_bytes(LARGE[:-1] + b"?")
    copy = pair.models(model)
    with pytest.raises(send.CopyError, match="arrived 2 times with another checksum"):
        copy.run()
    assert not list(pair.blobs().iterdir())
    assert read_receipt(pair.worker / "receipts", "org/model") is None


def test_gits_name_of_a_file_is_compared_too(pair: Pair) -> None:
    model = pair.model({"config.json": b"{}"}, git=["config.json"])
    folder = pair.head / "cache/models--org--model"
    blob = next((folder / "blobs").iterdir())
    other = blob.with_name("f" * 40)
    blob.rename(other)
    pointer = folder / "snapshots" / COMMIT / "config.json"
    pointer.unlink()
    pointer.symlink_to(f"../../blobs/{other.name}")
    with pytest.raises(send.CopyError, match="another checksum"):
        pair.models(model).run()


def test_nothing_gets_through(pair: Pair) -> None:
    model = pair.model({"model.safetensors": LARGE})
    pair.faults = [{"refuse": "ssh: connect to host 10.0.0.2 port 2234: No route to host"}] * 1000
    copy = pair.models(model, patience=0.5)
    with pytest.raises(send.CopyError) as caught:
        copy.run()
    message = copy.message(caught.value)
    assert message.startswith("Copying to spark-2 stopped (0 bytes of 2.3 MB are there): nothing has reached it for ")
    assert "on 10.0.0.2 and 10.0.1.2, port 2234 (ssh: connect to host 10.0.0.2 port 2234: No route to host)" in message
    assert "firewall" in message
    assert message.endswith("run again, which continues where this ended.")


def test_a_worker_that_is_up_and_takes_nothing_in_is_not_waited_for(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "REFUSED_S", 0.5)
    model = pair.model({"model.safetensors": LARGE})
    pair.faults = [{"refuse": "ssh: connect to host 10.0.0.2 port 2234: Connection refused"}] * 1000
    with pytest.raises(
        send.CopyError, match="check whether the copy was stopped there or that Spark was restarted, then run again"
    ):
        pair.models(model, patience=1000).run()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Host key verification failed.", "another host key"),
        ("me@10.0.0.2: Permission denied (publickey).", "refuses the key"),
    ],
)
def test_another_machine_and_another_key_are_not_tried_again(pair: Pair, said: str, expected: str) -> None:
    model = pair.model({"model.safetensors": LARGE})
    pair.faults = [{"refuse": said}] * 10
    with pytest.raises(send.CopyError, match=expected):
        pair.models(model).run()
    assert len(pair.asked) == 1


def test_a_receiver_that_does_not_run_is_not_tried_again(pair: Pair) -> None:
    model = pair.model({"model.safetensors": LARGE})
    (pair.worker / "receive.json").write_text("{} no JSON")
    with pytest.raises(send.CopyError, match=r"does not run \(json.decoder.JSONDecodeError"):
        pair.models(model).run()
    assert len(pair.asked) == 1


def test_what_a_login_shell_prints_is_no_harm(pair: Pair) -> None:
    files = {"model.safetensors": LARGE}
    model = pair.model(files)
    pair.faults = [{"greeting": 'Welcome!\n{"error": "no"}'}]
    pair.models(model).run()
    assert pair.is_whole(files)


def test_a_full_disk_is_named(pair: Pair) -> None:
    program = (pair.worker / "full.py").resolve()
    # A limit on a file's size stands in for the end of the disk; the error is another one.
    program.write_text(
        f"{module('incoming')}import errno\n"
        "def write(file, buffer, count):\n"
        "    raise OSError(errno.ENOSPC, 'No space left on device', file.name)\n"
        f"module.write = write\n{module('receive')}sys.exit(module.main({pair.places}))\n"
    )
    pair.receiver[:] = [str(program)]
    model = pair.model({"model.safetensors": LARGE})
    copy = pair.models(model, streams=3)
    with pytest.raises(send.CopyError) as caught:
        copy.run()
    message = copy.message(caught.value)
    assert "The disk under" in message
    assert "is full (" in message
    assert message.endswith("Free space there, then run again; the copy continues.")


def test_a_cache_that_cannot_be_written_is_named() -> None:
    receiver = receive.Receiver({"cache": "/c", "receipts": "/r", "tiktoken_encodings": "/v", "spool": "/s"})
    text = receiver.explain(PermissionError(13, "Permission denied", "/c/blobs"))
    assert text.startswith("/c/blobs cannot be written (Permission denied). Give it to")


def test_a_vocabulary_comes_along(pair: Pair) -> None:
    model = pair.model({"config.json": b"{}"})
    path = pair.head / "o200k_base.tiktoken"
    path.write_bytes(b"tokens")
    sha256 = hashlib.sha256(b"tokens").hexdigest()
    pair.models(model, tiktoken_encodings=[{"path": str(path), "sha256": sha256}]).run()
    assert (pair.worker / "tiktoken_encodings/o200k_base.tiktoken").read_bytes() == b"tokens"


def test_a_cache_without_links_is_copied_too(pair: Pair) -> None:
    model = pair.model({"model.safetensors": LARGE})
    pointer = pair.head / "cache/models--org--model/snapshots" / COMMIT / "model.safetensors"
    data = pointer.read_bytes()
    pointer.unlink()
    pointer.write_bytes(data)
    pair.models(model).run()
    assert pair.is_whole({"model.safetensors": LARGE})


def test_another_commit_than_that_of_the_run_is_refused(pair: Pair) -> None:
    model = pair.model({"config.json": b"{}"})
    with pytest.raises(send.CopyError, match="receipt of org/model"):
        pair.models({**model, "commit": "f" * 40})


def test_two_streams_do_not_write_one_file_at_once(pair: Pair) -> None:
    lock, entered = pair.worker / "lock", threading.Event()

    def enter() -> None:
        with incoming.locked(lock):
            entered.set()

    with incoming.locked(lock):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.3)
    thread.join(WITHIN_S)
    assert entered.is_set()


@pytest.mark.parametrize(
    "message",
    [
        {"put": "blob", "repository": "../../etc", "blob": "a" * 64, "size": 1, "sha256": "a" * 64},
        {"put": "blob", "repository": "org/model", "blob": "../x", "size": 1, "sha256": "a" * 64},
        {"put": "blob", "repository": "org/model", "blob": "a" * 64, "size": -1, "sha256": "a" * 64},
        {"put": "tiktoken_encoding", "name": "../../.ssh/authorized_keys", "size": 1, "sha256": "a" * 64},
        {"put": "member", "fingerprint": "../x", "name": "layer", "size": 1},
        {"put": "member", "fingerprint": "a" * 64, "name": "/etc/passwd", "size": 1},
        {"finish": {"repository": "org/model", "commit": "../../x", "files": {}, "revisions": []}},
        {"finish": {"repository": "org/model", "commit": COMMIT, "files": {}, "revisions": ["../../x"]}},
        {"index": {"fingerprint": "a", "members": []}},
        {"run": "id"},
    ],
)
def test_nothing_is_written_where_it_does_not_belong(pair: Pair, message: dict[str, t.Any]) -> None:
    before = sorted(pair.worker.rglob("*"))
    ran = subprocess.run(
        [sys.executable, *pair.receiver], input=json.dumps(message) + "\n", capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "error" in json.loads(ran.stdout.splitlines()[-1])
    assert sorted(pair.worker.rglob("*")) == before


# Images.


def saved(members: dict[str, bytes]) -> bytes:
    """An image as the Engine saves it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        folder = tarfile.TarInfo("blobs")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1700000000
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("same/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../blobs/1"
        archive.addfile(link)
    return file.getvalue()


class Engine:
    """Hands out one image, as often as it is asked."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked = 0

    def request(self, _method: str, _path: str, _silence_s: float) -> t.Any:
        self.asked += 1
        return Answer(self.data)


class Answer(io.BytesIO):
    """The image, as the Engine hands it out."""

    status = 200


FINGERPRINT = "ab" * 32
MEMBERS = {"manifest.json": b"[{}]", "blobs/1": LARGE, "blobs/2": LARGE[5:]}


def image(pair: Pair, engine: Engine, **more: t.Any) -> t.Any:
    spec = {"reference": "pair:1", "fingerprint": FINGERPRINT, "bytes": len(engine.data)}
    return send.Image(pair.spec(**{**spec, **more}), t.cast(send.Engine, engine))


def received(pair: Pair) -> dict[str, bytes | None]:
    """What Docker would be handed, by the program that does."""
    archive = load_image.Archive("pair:1", pair.worker / "spool" / FINGERPRINT)
    with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as opened:
        found = {info.name: (opened.extractfile(info) if info.isreg() else None) for info in opened}
        return {name: file.read() if file else None for name, file in found.items()}


def test_an_image_arrives_member_by_member(pair: Pair) -> None:
    engine = Engine(saved(MEMBERS))
    result = image(pair, engine).run()
    assert result["bytes_sent"] == sum(map(len, MEMBERS.values()))
    assert received(pair) == {**MEMBERS, "blobs": None, "same/layer.tar": None}
    # What Docker has got is gone, so that it does not take its room twice.
    assert sorted(path.suffix for path in (pair.worker / "spool" / FINGERPRINT).iterdir()) == [".lock"] * 3


def test_an_image_that_has_come_is_not_asked_for_again(pair: Pair) -> None:
    engine = Engine(saved(MEMBERS))
    image(pair, engine).run()
    assert image(pair, engine).run()["bytes_sent"] == 0
    assert engine.asked == 1


@pytest.mark.parametrize("cut", [100, 400, 1_000_000, len(LARGE) + 2000, 2 * len(LARGE) + 100])
def test_an_image_is_continued_where_the_connection_broke(pair: Pair, cut: int) -> None:
    engine = Engine(saved(MEMBERS))
    pair.faults = [{"cut": cut}]
    copy = image(pair, engine)
    copy.run()
    assert received(pair) == {**MEMBERS, "blobs": None, "same/layer.tar": None}
    there = sum(map(len, MEMBERS.values()))
    # What was in the pipe when it broke is sent twice; whole members are not.
    assert there <= copy.tally.sent <= there + len(LARGE)


def test_a_layer_that_changed_on_the_way_is_sent_again(pair: Pair) -> None:
    pair.faults = [{"flip": 500_000}]
    image(pair, Engine(saved(MEMBERS))).run()
    assert received(pair) == {**MEMBERS, "blobs": None, "same/layer.tar": None}


def test_a_layer_that_never_arrives_right_is_an_error(pair: Pair) -> None:
    pair.faults = [{"flip": 500_000}] * 10
    with pytest.raises(send.CopyError, match="blobs/1 of the image arrived 2 times"):
        image(pair, Engine(saved(MEMBERS))).run()


def test_an_image_that_docker_packed_in_half_is_an_error(pair: Pair) -> None:
    with pytest.raises(send.CopyError, match="went away while it packed"):
        image(pair, Engine(saved(MEMBERS)[:1_000_000])).run()
    with pytest.raises(load_image.LoadError, match="has not come whole"):
        received(pair)


def test_the_engine_says_why_it_hands_out_nothing(tmp_path: Path) -> None:
    with pytest.raises(send.CopyError, match="Docker Engine of this Spark does not answer"):
        send.save(send.Engine(str(tmp_path / "no.sock")), "pair:1")


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n" + saved(MEMBERS)[:1_000_000]],
    ids=["before it answers", "before the image", "in the middle of the image"],
)
def test_an_engine_that_hangs_is_an_error(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(send, "SILENCE_S", 0.3)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(tmp_path / "docker.sock"))
        door.listen()
        asked: list[socket.socket] = []

        def hang() -> None:
            asked.append(door.accept()[0])
            # On a busy machine the client's patience may be over by now, and nobody reads.
            asked[0].settimeout(5)
            with contextlib.suppress(OSError):
                asked[0].recv(65536)
                asked[0].sendall(answer)

        thread = threading.Thread(target=hang)
        thread.start()
        copy = send.Image(
            pair.spec(reference="pair:1", fingerprint=FINGERPRINT, bytes=1), send.Engine(str(tmp_path / "docker.sock"))
        )
        with pytest.raises(send.CopyError, match=r"has said nothing for .* while it packed the image") as caught:
            copy.run()
        thread.join()
        asked[0].close()
    assert copy.message(caught.value).endswith("'sudo systemctl restart docker', and run again.")


def test_ssh_asks_nobody_and_trusts_nobody_else() -> None:
    spec = {"known_hosts": "/cluster/known_hosts", "port": 2234, "user": "me", "key": "/cluster/id"}
    command = send.ssh_command(spec, "10.0.0.2")
    for option in ("StrictHostKeyChecking=yes", "UserKnownHostsFile=/cluster/known_hosts", "BatchMode=yes"):
        assert option in command
    assert "GlobalKnownHostsFile=/dev/null" in command
    assert command[1:3] == ["-F", "none"]
    assert "IdentityAgent=none" in command


def test_ssh_prefers_what_the_chip_does_and_has_something_else_where_it_does_not() -> None:
    ciphers = send.CIPHERS.split(",")
    assert [name.startswith("aes") for name in ciphers] == [True, True, False]
    assert "chacha20-poly1305@openssh.com" in ciphers
    command = send.ssh_command({"known_hosts": "k", "port": 2234, "user": "me", "key": "i"}, "10.0.0.2")
    assert f"Ciphers={send.CIPHERS}" in command
    # What the other end offers, from the same list.
    assert f"Ciphers {send.CIPHERS}\n" in sshd_config("/cluster", ["10.0.0.2"], 2234, "me")
    assert "Compression=no" in command


ENVIRONMENT = "import os; print(os.environ['GLIBC_TUNABLES'], os.environ['KEPT'])"


def test_ssh_keeps_its_memory_and_the_rest_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    say = f"print({wire.GREETING!r}, flush=True); {ENVIRONMENT}"
    link = send.Link([sys.executable, "-c", say])
    try:
        assert link._line().decode() == f"{wire.TUNABLES} kept"
    finally:
        link.close()


def test_sshd_keeps_its_memory_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    sshd = tmp_path / "sshd"
    sshd.write_text(f"#!{sys.executable}\nimport sys; sys.stdout = sys.stderr\n{ENVIRONMENT}\n")
    sshd.chmod(0o755)
    service = serve_copies.Service(str(sshd), "config")
    service.process.wait(WITHIN_S)
    assert service.reason() == f"{wire.TUNABLES} kept"


def test_the_receiver_has_its_pipe_hold_more(pair: Pair) -> None:
    source, sink = os.pipe()
    with os.fdopen(source, "rb") as end:
        before = fcntl.fcntl(source, wire.F_SETPIPE_SZ, 4096)
        os.write(sink, b'{"indexed": "%s"}\n' % (b"0" * 64))
        os.close(sink)
        out = io.StringIO()
        receive.Receiver(pair.places, end.fileno(), out).run()
        assert fcntl.fcntl(source, F_GETPIPE_SZ) > before
    assert out.getvalue().splitlines() == [wire.GREETING, '{"indexed": false}']


def test_the_receiver_takes_what_is_no_pipe(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(json.dumps({"indexed": "0" * 64}) + "\n")
    with (tmp_path / "said").open("rb") as file:
        out = io.StringIO()
        receive.Receiver(pair.places, file.fileno(), out).run()
    assert out.getvalue().splitlines()[-1] == '{"indexed": false}'


def test_the_program_says_its_result_or_its_error(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    model = pair.model({"config.json": b"{}"})
    spec = pair.models(model).spec
    for arguments, word, code in ((spec, "result", 0), ({**spec, "receipts": "/nowhere"}, "error", 1)):
        sys.argv = ["send.py", json.dumps(arguments)]
        assert send.main() == code
        assert word in json.loads(capsys.readouterr().out.splitlines()[-1])
