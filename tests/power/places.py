# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the collection writes on a Spark: each place has versions, written by the collection's own modules and jobs.

A place is written with a number, and read again as a number. This runs in the virtual machine, without any package.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import threading
import time
import types
import typing as t
from pathlib import Path

from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import records
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import undo
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway import keys
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models import disk
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import watched_job
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_files
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import fetch_models, receive, sweep

from tests.unit.hub_server import HubServer, running
from tests.unit.hub_server import Model as HubModel

Version = t.Optional[int]

STATE = Path("home/spark/.local/share/dgx-spark-speculative")
# As long as a real record, which has the deployment's files.
RECORD_LENGTH = 60_000
GENERATION_FILES = 12
KEY_LENGTH = 53
BLOB_BYTES = 3_000_000
# More than a download writes between two flushes.
DOWNLOAD_BYTES = 20_000_000


class HalfError(Exception):
    """A place has something that no writer wrote: half a file, or two versions at once."""


class RefusedError(Exception):
    """A module reports that it could not write. The text is its message."""


def call(module: types.ModuleType, **arguments: t.Any) -> None:
    """Run a module as Ansible does. Raises RefusedError."""
    said = io.StringIO()
    with patch_module_args(arguments), contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        module.main()
    result = json.loads(said.getvalue())
    if result.get("failed"):
        raise RefusedError(result["msg"])


def text_of(number: int, length: int) -> str:
    """Return a text that its first line describes, so that half of it is known as such."""
    line = f"{number} {length}\n"
    return (line * (length // len(line) + 1))[:length]


def number_of(text: str, length: int) -> int:
    """Return the number of a text. Raises HalfError."""
    first = text.partition(" ")[0]
    if not first.isdecimal() or text != text_of(int(first), length):
        raise HalfError(f"{len(text)} characters, which begin with {text[:20]!r}")
    return int(first)


def read(path: Path) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


class Place:
    """Something that is written."""

    name = ""
    # Whether other users must not read its files, drafts included.
    private: tuple[str, ...] = ()

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / STATE

    def write(self, number: int) -> None:
        """Write a version."""
        raise NotImplementedError

    def read(self) -> Version:
        """Return the version that is there. Raises HalfError."""
        raise NotImplementedError

    def open_files(self) -> list[str]:
        """Return the private files that other users may read."""
        return [
            str(path)
            for pattern in self.private
            for path in self.root.glob(pattern)
            if path.is_file() and not path.is_symlink() and self.is_open(path)
        ]

    def is_open(self, path: Path) -> bool:
        """Return whether another user may read a file."""
        above = [parent for parent in path.parents if self.root in parent.parents]
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o044) and all(
            stat.S_IMODE(parent.stat().st_mode) & 0o011 for parent in above
        )


class Record(Place):
    """The record of a deployment, for which space is reserved before a switchover."""

    name = "record"
    private = (f"{STATE}/single/*",)

    def write(self, number: int) -> None:
        directory = str(self.state / "single")
        file = {"name": "record.json", "mode": "0600"}
        call(deployment_files, directory=directory, files=[{**file, "reserve": RECORD_LENGTH + 1000}])
        content = json.dumps({"deployment": "single", "title": text_of(number, RECORD_LENGTH)})
        call(deployment_files, directory=directory, files=[{**file, "content": content}])

    def read(self) -> Version:
        path = self.state / "single/record.json"
        if not path.exists():
            return None
        record = records.read_record(path)
        if record is None:
            raise HalfError(f"a record of {path.stat().st_size} bytes cannot be read")
        return number_of(record["title"], RECORD_LENGTH)


class Generation(Place):
    """The directory that a container mounts."""

    name = "generation"

    def files(self, number: int) -> dict[str, str]:
        return {f"server/part{part}.py": text_of(number, 4000 + part) for part in range(GENERATION_FILES)}

    def write(self, number: int) -> None:
        files = [{"name": name, "content": text} for name, text in self.files(number).items()]
        directory, name = self.state / "single", f"{number:012d}"
        mounted = [str(directory / records.GENERATIONS / name)]
        call(deployment_files, directory=str(directory), generation=name, files=files, prune=True, mounted=mounted)

    def read(self) -> Version:
        numbers = []
        for directory in (self.state / "single" / records.GENERATIONS).glob("[0-9]*"):
            number = int(directory.name)
            there = {path.relative_to(directory).as_posix(): read(path) for path in directory.rglob("*.py")}
            if there != self.files(number):
                raise HalfError(f"generation {number} is not complete")
            numbers.append(number)
        return max(numbers, default=None)


class Keys(Place):
    """The API keys, of which each version has another one."""

    name = "keys"
    private = (f"{STATE}/proxy/keys/*",)

    def write(self, number: int) -> None:
        keys.Keys(self.state / "proxy/keys").ensure([f"version{number}"], "power")

    def read(self) -> Version:
        directory = self.state / "proxy/keys"
        store = keys.Keys(directory)
        try:
            names = list(store.owners())
            # Reads every key, and changes nothing.
            store.ensure(names, "power", dry=True)
        except keys.KeysError as error:
            raise HalfError(str(error)) from None
        short = [name for name in names if len(read(directory / name) or "") != KEY_LENGTH]
        if short:
            raise HalfError(f"the keys {short} are not complete")
        accepted = read(directory / keys.ACCEPTED)
        if accepted is not None and not accepted.endswith("}\n"):
            raise HalfError(f"the accepted keys are {accepted!r}")
        return max((int(name.removeprefix("version")) for name in names), default=None)


class Unit(Place):
    """A unit of systemd, which the next boot loads."""

    name = "unit"
    path = "etc/systemd/system/dgx-spark-speculative-power.service"

    def write(self, number: int) -> None:
        path = self.root / self.path
        content = f"[Unit]\nDescription=Version {number}\n\n[Service]\nExecStart=/bin/true\n"
        file = {"name": path.name, "content": content, "mode": "0644"}
        call(deployment_files, directory=str(path.parent), mode="0755", files=[file])

    def read(self) -> Version:
        text = read(self.root / self.path)
        if text is None:
            return None
        lines = text.splitlines()
        if len(lines) != 5 or lines[-1] != "ExecStart=/bin/true":
            raise HalfError(f"the unit is {text!r}")
        return int(lines[1].rpartition(" ")[2])


class Netplan(Place):
    """The netplan file, of a change that was confirmed. Its watching program is the real one, netplan itself is not."""

    name = "netplan"
    private = ("etc/netplan/*speculative*",)
    path = "etc/netplan/40-dgx-spark-speculative.yaml"

    def write(self, number: int) -> None:
        directory = self.root / "run/dgx-spark-speculative"
        trial = self.root / "run/netplan/40-dgx-spark-speculative.yaml"
        content = f"# Written by dgx_spark.speculative.\n{text_of(number, 3000)}"
        request = {
            **{"id": str(number), "action": "present", "timeout": 1, "content": content, "trial_content": content},
            **{"file": str(self.root / self.path), "trial_file": str(trial), "forward": {}, "back": {}},
        }
        undo.write_whole(directory / "network.request", json.dumps(request), 0o600)
        undo.write_whole(trial, content, 0o600)
        undo.Change(directory).keep()

    def read(self) -> Version:
        text = read(self.root / self.path)
        return None if text is None else number_of(text.partition("\n")[2], 3000)


class Cached(Place):
    """A model in the cache: its parts, its files, its links and its receipt."""

    repository = ""
    size = 0

    def places(self) -> dict[str, str]:
        hub = self.root / "home/spark/.cache/huggingface/hub"
        return {"cache": str(hub), "receipts": str(self.state / "models"), "spool": str(self.state / "spool")}

    def content(self, number: int) -> bytes:
        return text_of(number, self.size).encode()

    def read(self) -> Version:
        receipts, cache = Path(self.places()["receipts"]), Path(self.places()["cache"])
        path = disk.receipt_file(receipts, self.repository)
        receipt = disk.read_receipt(receipts, self.repository)
        if receipt is None:
            if path.exists():
                raise HalfError(f"a receipt of {path.stat().st_size} bytes cannot be read")
            return None
        repository = disk.CachedRepository(cache, self.repository)
        number = int(receipt["commit"])
        snapshot = repository.snapshot(receipt["commit"])
        if not disk.is_unchanged(receipt, snapshot):
            raise HalfError(f"version {number} has a receipt, and other files than it says")
        if (snapshot / "a/b.bin").read_bytes() != self.content(number):
            raise HalfError(f"version {number} has a receipt, and its file has another content")
        return number


class Copy(Cached):
    """A model that another Spark sends."""

    name = "model"
    repository = "power/model"
    size = BLOB_BYTES

    def write(self, number: int) -> None:
        content = self.content(number)
        sha256, commit = hashlib.sha256(content).hexdigest(), f"{number:040d}"
        blob = Path(self.places()["cache"]) / disk.folder_name(self.repository) / "blobs" / sha256
        have = (disk.size_of(blob.with_name(f"{sha256}.incomplete")) or 0) if not blob.exists() else len(content)
        put = {"put": "blob", "repository": self.repository, "blob": sha256, "size": len(content), "sha256": sha256}
        file = {"blob": sha256, "size": len(content), "sha256": sha256}
        finish = {"repository": self.repository, "commit": commit, "files": {"a/b.bin": file}, "revisions": ["main"]}
        lines = [json.dumps({**put, "verify": True}).encode() + b"\n"]
        if have < len(content) or not blob.exists():
            lines += [content[have:], json.dumps({"sha256": sha256}).encode() + b"\n"]
        lines.append(json.dumps({"finish": {**finish, "include": [], "exclude": []}}).encode() + b"\n")
        source, sink = os.pipe()
        sender = threading.Thread(target=self.send, args=(sink, lines), daemon=True)
        sender.start()
        said = io.StringIO()
        try:
            receive.Receiver(self.places(), source, said).run()
        finally:
            os.close(source)
        sender.join()
        if '"finished": true' not in said.getvalue():
            raise RefusedError(said.getvalue())

    @staticmethod
    def send(sink: int, lines: t.Sequence[bytes]) -> None:
        """Write all of it, and close the stream."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(sink, "wb") as stream:
            for line in lines:
                stream.write(line)


class Download(Cached):
    """A model from the Hub, which runs beside it."""

    name = "download"
    repository = "power/download"
    size = DOWNLOAD_BYTES

    def write(self, number: int) -> None:
        content, commit = self.content(number), f"{number:040d}"
        hub = HubModel({"a/b.bin": content}, {"a/b.bin"}, commit)
        wanted = {"id": self.repository, "revision": "main", "commit": commit, "include": [], "exclude": []}
        files = {self.repository: [{"path": "a/b.bin", "size": len(content), "blob": hub.blob("a/b.bin")}]}
        with running(HubServer({self.repository: hub})) as server, contextlib.redirect_stdout(io.StringIO()):
            places = {name: self.places()[name] for name in ("cache", "receipts")}
            spec = {"endpoint": server.endpoint, **places, "repositories": [wanted]}
            try:
                fetch_models.Fetch(spec, "", files).run()
            except fetch_models.FetchError as error:
                raise RefusedError(str(error)) from None


class Job(Place):
    """A job that outlives its run, and its result."""

    name = "job"
    private = (f"{STATE}/jobs/power/*",)
    PROGRAM = b"import json, sys\nprint(json.dumps({'result': {'version': int(sys.argv[1])}}))\n"

    def job(self) -> watched_job.Job:
        return watched_job.Job(self.state / "jobs", "power")

    def write(self, number: int) -> None:
        job = self.job()
        with job.locked():
            state = job.start(str(number), self.PROGRAM, [str(number)], b"", job.read())
        state, _running = job.wait(state["id"], 120)  # type: ignore[assignment]
        if not state or not state["finished"] or state["error"]:
            raise RefusedError(f"the job did not end: {state}")

    def read(self) -> Version:
        path = self.state / "jobs/power/job.json"
        state = self.job().read()
        if state is None:
            if path.exists():
                raise HalfError(f"a state of {path.stat().st_size} bytes cannot be read")
            return None
        if not state["finished"]:
            # The next run starts it again.
            return int(state["key"]) - 1
        return int(state["result"]["version"])


class Trial(Place):
    """A benchmark's lease of the server, and its points."""

    name = "benchmark"

    def write(self, number: int) -> None:
        for file in ("trial/lease.json", "points/1.json"):
            sweep.write_object(self.state / "benchmark" / file, {"id": text_of(number, 2000)})

    def read(self) -> Version:
        numbers = []
        for file in ("trial/lease.json", "points/1.json"):
            text = read(self.state / "benchmark" / file)
            if text is not None:
                try:
                    numbers.append(number_of(json.loads(text)["id"], 2000))
                except ValueError:
                    raise HalfError(f"{file} is {text[:40]!r}") from None
        return min(numbers) if len(numbers) == 2 else None


PLACES: tuple[type[Place], ...] = (Record, Generation, Keys, Unit, Netplan, Copy, Download, Job, Trial)


def look(root: Path) -> dict[str, dict[str, t.Any]]:
    """Return the version of each place, or what is wrong there."""
    result: dict[str, dict[str, t.Any]] = {}
    for kind in PLACES:
        place = kind(root)
        try:
            result[kind.name] = {"version": place.read()}
        except (HalfError, OSError, ValueError) as error:
            result[kind.name] = {"half": f"{type(error).__name__}: {error}"}
        result[kind.name]["open"] = place.open_files()
    return result


def write_all_the_time(place: Place, begin: int, say: t.Callable[..., None]) -> None:
    """Write one version after the other, and say so before and after it, until the power is cut."""
    for number in range(begin, begin + 1_000_000):
        say(begun=number)
        place.write(number)
        say(done=number)
        # As between two runs: what was written may still be in memory.
        time.sleep(0.05)
