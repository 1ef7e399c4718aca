# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Send models or an image to the other Spark, over the link between the two: a program for the module watched_job.

The only argument is a JSON object. It always has worker (its name for messages), user, addresses, port, key and
known_hosts (for the connection), streams, and patience (seconds without a byte until the copy fails).
For models: cache, receipts, repositories (id and commit), tiktoken_encodings (path and sha256), and verify if the
other Spark must ignore its receipts.
For an image: reference, fingerprint and bytes.

receive.py runs at the other end of each connection, and documents the protocol.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import tarfile
import threading
import time
import traceback
import typing as t
from pathlib import Path
from urllib.parse import quote

from ...module_utils._data.text import amount, duration
from ...module_utils._models.disk import CachedRepository, drop_page_cache, read_receipt
from .engine import Engine, EngineError
from .progress import Message, Rate, Reports, emit, log, pace, share
from .wire import CHUNK, GREETING, TUNABLES, widen

SSH_FAILED = 255
SSH = "ssh"
# Ciphers with hardware support on a Spark come first.
CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
FIRST_DELAY_S = 1.0
MOST_DELAY_S = 15.0
REPORT_EVERY_S = 2.0
RATE_WINDOW_S = 15.0
# A file that arrived wrong is sent once more, from its beginning.
TRIES = 2
MOST_GREETING_LINES = 1000
# Docker first writes the whole image to its own files, without output: longer than on a slow disk.
SILENCE_S = 900.0
# Seconds until the copy service must accept connections.
REFUSED_S = 30.0
# Members of an image that are no larger are always compared by their checksum.
SMALL = CHUNK


class CopyError(Exception):
    """The copy failed. The text is one sentence with the fix."""


class LinkError(Exception):
    """The connection ended; another one may do better."""


class Stopped(Exception):
    """There is nothing left to do for this stream."""


class TransferCounter:
    """The bytes of each item at the other end."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._there: dict[str, int] = {}
        self._lock = threading.Lock()
        self.sent = 0
        self.last_progress = time.monotonic()

    def found(self, name: str, count: int) -> None:
        """So many bytes of it are there, wherever they come from."""
        with self._lock:
            # An answer alone is no progress, or a connection that breaks again and again would be one.
            if count > self._there.get(name, 0):
                self.last_progress = time.monotonic()
            self._there[name] = count

    def add(self, name: str, count: int) -> None:
        with self._lock:
            self._there[name] = self._there.get(name, 0) + count
            self.sent += count
            self.last_progress = time.monotonic()

    def there(self) -> int:
        with self._lock:
            return sum(self._there.values())

    def idle(self) -> float:
        with self._lock:
            return time.monotonic() - self.last_progress


class Progress(Reports):
    """The progress of the copy."""

    def __init__(self, worker: str, tally: TransferCounter) -> None:
        super().__init__(self.state, REPORT_EVERY_S)
        self._worker = worker
        self._tally = tally
        self._rate = Rate(RATE_WINDOW_S)
        # Said while nothing moves: what is being waited for.
        self.note = ""

    def state(self) -> Message:
        done, total = min(self._tally.there(), self._tally.total), self._tally.total
        rate = self._rate.at(time.monotonic(), self._tally.sent)
        text = f"to {self._worker}: {share(done, total)}{pace(rate, total - done)}"
        if self.note and self._tally.idle() > REPORT_EVERY_S:
            text += f", {self.note}"
        return {"percent": round(100 * done / total, 1) if total else 100.0, "text": text}


def ssh_command(spec: Message, address: str) -> list[str]:
    """Nothing of the user's own keys, agents and settings is asked, and only the pinned key is answered to."""
    options = {
        "BatchMode": "yes",
        "Ciphers": CIPHERS,
        "Compression": "no",
        "ConnectTimeout": "10",
        "ControlPath": "none",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlgorithms": "ssh-ed25519",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "IPQoS": "throughput",
        "LogLevel": "ERROR",
        "PreferredAuthentications": "publickey",
        "ServerAliveCountMax": "3",
        "ServerAliveInterval": "5",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "UserKnownHostsFile": spec["known_hosts"],
    }
    settings = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    place = ("-p", str(spec["port"]), "-l", spec["user"], address)
    return [SSH, "-F", "none", "-T", "-x", "-a", "-i", spec["key"], *settings, *place, "receive"]


class Link:
    """One connection to receive.py."""

    def __init__(self, command: t.Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "GLIBC_TUNABLES": TUNABLES},
        )
        if self._process.stdin is None or self._process.stdout is None or self._process.stderr is None:
            raise ValueError("the connection has to be made with pipes")
        self._in, self._err = self._process.stdin.fileno(), self._process.stderr
        self._out = self._process.stdout
        self._rest = b""
        self._open = True
        widen(self._in)
        self._words: collections.deque[str] = collections.deque(maxlen=20)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._greet()

    def _listen(self) -> None:
        for line in self._err:
            text = line.decode(errors="replace").strip()
            if text:
                log(f"ssh: {text}")
                self._words.append(text)

    def _greet(self) -> None:
        """Skip what a login shell prints before the program runs."""
        try:
            for _number in range(MOST_GREETING_LINES):
                if self._line().decode(errors="replace").strip() == GREETING:
                    return
        except LinkError as e:
            # 255 is ssh's own; anything else is what became of the program at the other end.
            if self._process.returncode > 0 and self._process.returncode != SSH_FAILED:
                raise CopyError(f"the program that takes it in there does not run ({e})") from None
            raise
        raise CopyError("what answers on the port of the copy service is not what this run started there")

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            data = os.read(self._out.fileno(), 65536)
            if not data or len(self._rest) > 64 * CHUNK:
                self._open = False
                raise self.lost()
            self._rest += data
        line, _newline, self._rest = self._rest.partition(b"\n")
        return line

    def lost(self) -> Exception:
        """Return why the connection ended."""
        self.close()
        self._listener.join(5)
        words = list(self._words)
        text = " ".join(words)
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text or "Host key verification failed" in text:
            return CopyError(
                "it shows another host key than the one that this run has put there, so it is not the Spark of the "
                "inventory: look at the cable and the addresses, and run again"
            )
        if "Permission denied" in text or "UNPROTECTED PRIVATE KEY" in text:
            return CopyError(
                "its copy service refuses the key of this deployment: another run has replaced it; run again"
            )
        return LinkError(words[-1] if words else "the connection was closed")

    def close(self) -> None:
        # At the end of its output it has ended or is about to.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if self._process.poll() is None and self._open else 2)
        self._process.kill()
        self._process.wait()

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._in, view) :]
        except OSError:
            raise self._broken() from None

    def _broken(self) -> Exception:
        """Return why the other side went away, in its own words if it sent some."""
        with contextlib.suppress(ValueError):
            try:
                while True:
                    self._answer(json.loads(self._line()))
            except (LinkError, CopyError) as e:
                return e
        return self.lost()

    @staticmethod
    def _answer(message: t.Any) -> Message:
        if not isinstance(message, dict):
            raise LinkError("the answer was no answer")
        if message.get("error"):
            raise CopyError(str(message["error"]))
        return message

    def read_line(self) -> Message:
        line = self._line()
        try:
            message = json.loads(line)
        except ValueError:
            raise LinkError("the answer was no answer") from None
        return self._answer(message)

    def say(self, **message: t.Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def ask(self, **message: t.Any) -> Message:
        self.say(**message)
        return self.read_line()

    def send_file(self, file: t.BinaryIO, offset: int, size: int, told: t.Callable[[int], None]) -> None:
        """Send a file with sendfile: the kernel moves the bytes, and Python sees none of them."""
        while offset < size:
            try:
                count = os.sendfile(self._in, file.fileno(), offset, min(size - offset, 4 * CHUNK))
            except OSError as e:
                if isinstance(e, BrokenPipeError):
                    raise self._broken() from None
                raise CopyError(f"{file.name} cannot be read ({e.strerror}): look at this Spark's disk") from e
            if not count:
                raise CopyError(f"{file.name} became shorter while it was copied; run the same again")
            offset += count
            told(count)


class Item(t.NamedTuple):
    """A file to send."""

    # For messages, and to count it.
    name: str
    path: Path
    size: int
    sha256: str
    # The messages of receive.py.
    put: Message


class Plan:
    """The items that are still to be sent, by any free stream."""

    def __init__(self, items: t.Iterable[Item]) -> None:
        # Large ones first, so that the streams end at about the same time.
        self._waiting = collections.deque(sorted(items, key=lambda item: item.size, reverse=True))
        self._under_way = 0
        self._tries: collections.Counter[str] = collections.Counter()
        self._changed = threading.Condition()
        self.failure: Exception | None = None

    def next_item(self) -> Item:
        with self._changed:
            while True:
                if self.failure or (not self._waiting and not self._under_way):
                    raise Stopped
                if self._waiting:
                    self._under_way += 1
                    return self._waiting.popleft()
                # Another stream may lose its connection and give its file back.
                self._changed.wait()

    def done(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def return_item(self, item: Item) -> None:
        with self._changed:
            self._under_way -= 1
            self._waiting.appendleft(item)
            self._changed.notify_all()

    def was_wrong(self, item: Item) -> int:
        with self._changed:
            self._tries[item.name] += 1
            return self._tries[item.name]

    def fail(self, error: Exception) -> None:
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait, unless it is all over."""
        with self._changed:
            self._changed.wait_for(lambda: self.failure is not None, seconds)


class Copy:
    """The common part of both kinds of copy: connections, and patience."""

    def __init__(self, spec: Message, total: int) -> None:
        self.spec = spec
        self.worker = spec["worker"]
        self.tally = TransferCounter(total)
        self.progress = Progress(self.worker, self.tally)
        self.reason = ""

    def link(self, number: int) -> Link:
        """Return a connection. The rails take turns, and after a broken connection the next one is tried."""
        addresses = self.spec["addresses"]
        return Link(ssh_command(self.spec, addresses[number % len(addresses)]))

    def lost(self, error: LinkError) -> None:
        """Raise CopyError when there has been no progress for too long."""
        self.reason = str(error).rstrip(".")
        log(f"{self.worker}: {self.reason}")
        self.progress.note = f"the connection failed ({self.reason}), trying again"
        # A service that runs but refuses the copy does not change before the next run.
        refused = "refused" in self.reason and self.tally.idle() > REFUSED_S
        if refused or self.tally.idle() > self.spec["patience"]:
            where = " and ".join(self.spec["addresses"])
            raise CopyError(
                f"nothing has reached it for {round(self.tally.idle())} s on {where}, port {self.spec['port']} "
                f"({self.reason}): {advice(self.reason)}, then run again, which continues where this ended"
            )

    def persist(self, action: t.Callable[[Link], None], number: int = 0) -> None:
        """Do it again with another connection when one is lost."""
        delay = FIRST_DELAY_S
        while True:
            sent = self.tally.sent
            try:
                link = self.link(number)
                try:
                    return action(link)
                finally:
                    link.close()
            except LinkError as e:
                self.lost(e)
            delay = FIRST_DELAY_S if self.tally.sent > sent else min(delay * 2, MOST_DELAY_S)
            number += 1
            self.pause(delay)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def message(self, error: Exception) -> str:
        """Return an error in one sentence with how far it was."""
        how_far = f"{amount(self.tally.there())} of {amount(self.tally.total)} are there"
        return f"Copying to {self.worker} stopped ({how_far}): {str(error).rstrip('.')}."


def advice(reason: str) -> str:
    """Return what to check when nothing arrives."""
    if "refused" in reason:
        return "check whether the copy was stopped there or that Spark was restarted"
    if "timed out" in reason or "No route" in reason or "unreachable" in reason:
        return "check the cable, and the firewall between the two Sparks ('sudo ufw status' on both)"
    return "check the cable between the two Sparks"


def replaced_text(worker: str, wrong: t.Sequence[str]) -> str:
    """Return the sentence about files that were sent again."""
    return (
        f"{worker}: {' and '.join(wrong)} had another checksum there than it was sent with, so it was deleted and sent "
        "again. A server that has loaded it before answers with the wrong bytes: stop.yml and then start.yml load it "
        "again. If this happens again, the memory or the disk of that Spark is faulty."
    )


class Models(Copy):
    """Files of models, in several streams."""

    def __init__(self, spec: Message) -> None:
        self.cache, self.receipts = Path(spec["cache"]), Path(spec["receipts"])
        self.verify = bool(spec.get("verify"))
        # Files with another checksum at the other end.
        self.replaced: set[str] = set()
        self.models = [self.read(repository) for repository in spec["repositories"]]
        items = {item.name: item for model in self.models for item in self.items(model)}
        items.update({item.name: item for item in map(self.tiktoken_encoding, spec["tiktoken_encodings"])})
        self.plan = Plan(items.values())
        super().__init__(spec, sum(item.size for item in items.values()))

    def read(self, repository: Message) -> Message:
        """Return a model as its receipt describes it."""
        receipt = read_receipt(self.receipts, repository["id"])
        if receipt is None or receipt["commit"] != repository["commit"]:
            raise CopyError(f"The receipt of {repository['id']} on this Spark is not this run's: run the same again")
        cached = CachedRepository(self.cache, repository["id"])
        files = {
            path: {
                "size": noted["size"],
                "sha256": noted["sha256"],
                "blob": cached.blob(receipt["commit"], path, noted["sha256"]),
            }
            for path, noted in receipt["files"].items()
        }
        return {
            "repository": repository["id"],
            "commit": receipt["commit"],
            "revisions": receipt["revisions"],
            "include": receipt.get("include") or [],
            "exclude": receipt.get("exclude") or [],
            "files": files,
        }

    def items(self, model: Message) -> t.Iterator[Item]:
        cached = CachedRepository(self.cache, model["repository"])
        for path, file in model["files"].items():
            put = {"put": "blob", "repository": model["repository"], "verify": self.verify, **file}
            where = cached.snapshot(model["commit"]) / path
            # Files with the same bytes are one blob.
            yield Item(f"{cached.directory.name}/{file['blob']}", where, file["size"], file["sha256"], put)

    @staticmethod
    def tiktoken_encoding(file: Message) -> Item:
        path = Path(file["path"])
        try:
            size = path.stat().st_size
        except OSError as e:
            raise CopyError(f"{path} is not on this Spark ({e.strerror}): run the same again") from e
        put = {"put": "tiktoken_encoding", "name": path.name, "size": size, "sha256": file["sha256"]}
        return Item(path.name, path, size, file["sha256"], put)

    def run(self) -> Message:
        begin = time.monotonic()
        streams = [
            threading.Thread(target=self.stream, args=(number,), daemon=True) for number in range(self.spec["streams"])
        ]
        with self.progress:
            for stream in streams:
                stream.start()
            for stream in streams:
                stream.join()
            if self.plan.failure:
                raise self.plan.failure
            self.progress.note = "noting what has come"
            self.persist(self.finish)
        seconds = time.monotonic() - begin
        told = {"bytes_sent": self.tally.sent, "bytes_total": self.tally.total, "seconds": round(seconds, 2)}
        return {**told, **({"warnings": [replaced_text(self.worker, sorted(self.replaced))]} if self.replaced else {})}

    def stream(self, number: int) -> None:
        """One connection after the other, until there is nothing left to send."""
        try:
            self.persist(self.send_items, number)
        except Stopped:
            pass
        except Exception as e:
            self.plan.fail(e)

    def pause(self, seconds: float) -> None:
        self.plan.wait(seconds)
        if self.plan.failure:
            raise Stopped

    def send_items(self, link: Link) -> None:
        while True:
            item = self.plan.next_item()
            try:
                self.send(link, item)
            except BaseException:
                self.plan.return_item(item)
                raise
            self.plan.done()

    def send(self, link: Link, item: Item) -> None:
        """Send one file; what is there already is left out."""
        while True:
            answer = link.ask(**item.put)
            self.tally.found(item.name, answer["have"])
            if answer["complete"]:
                return
            if answer.get("wrong"):
                self.replaced.add(f"{item.path.name} of {item.put.get('repository', 'the vocabularies')}")
            try:
                with item.path.open("rb") as file:
                    if os.fstat(file.fileno()).st_size != item.size:
                        raise CopyError(f"{item.path} on this Spark changed; run the same again")
                    link.send_file(file, answer["have"], item.size, lambda count: self.tally.add(item.name, count))
            except FileNotFoundError as e:
                raise CopyError(f"{item.path} vanished from this Spark; run the same again") from e
            if link.ask(sha256=item.sha256).get("stored"):
                with contextlib.suppress(OSError), item.path.open("rb") as file:
                    # No pipe uses its pages any more.
                    drop_page_cache(file.fileno())
                return
            self.tally.found(item.name, 0)
            log(f"{item.path} arrived with another checksum")
            if self.plan.was_wrong(item) >= TRIES:
                raise CopyError(
                    f"{item.path} arrived {TRIES} times with another checksum than it had when it was downloaded. "
                    "Either it has changed on this Spark's disk since: compare 'sha256sum' with its name, and if "
                    "they differ remove it and run again. Or memory or disk of the other one is bad"
                )

    def finish(self, link: Link) -> None:
        for model in self.models:
            link.ask(finish=model)


def silent() -> CopyError:
    """Docker hangs."""
    return CopyError(
        f"the Docker Engine of this Spark has said nothing for {duration(SILENCE_S)} while it packed the image, "
        "so it hangs: see 'journalctl --unit docker', restart it with 'sudo systemctl restart docker', and run again"
    )


def save(engine: Engine, reference: str) -> http.client.HTTPResponse:
    """Have the Engine pack an image."""
    try:
        response = engine.request("GET", f"/images/{quote(reference, safe='/:@')}/get", SILENCE_S)
    except socket.timeout as e:
        raise silent() from e
    except EngineError as e:
        words = str(e).replace("the Docker Engine", "the Docker Engine of this Spark").partition(";")[0]
        raise CopyError(words) from e
    if response.status != 200:
        text = " ".join(response.read().decode(errors="replace").split())
        room = ": make room where Docker keeps its data, then run again" if "no space left" in text else ""
        raise CopyError(f"the Docker Engine of this Spark does not hand out {reference} ({text}){room}")
    return response


class Pieces(threading.Thread):
    """Reads a member of the image ahead of the connection."""

    def __init__(self, source: t.IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._ready: queue.Queue[bytes | Exception] = queue.Queue(16)

    def run(self) -> None:
        try:
            while data := self._source.read(CHUNK):
                self._ready.put(data)
            self._ready.put(b"")
        except Exception as e:
            self._ready.put(e)

    def __iter__(self) -> t.Iterator[bytes]:
        while piece := self._ready.get():
            if isinstance(piece, Exception):
                raise piece
            yield piece


class Image(Copy):
    """An image as the Engine saves it, member by member: those that are there already are left out."""

    def __init__(self, spec: Message, engine: Engine | None = None) -> None:
        super().__init__(spec, spec["bytes"])
        self.fingerprint = spec["fingerprint"]
        self.engine = engine or Engine()
        self._wrong: collections.Counter[str] = collections.Counter()

    def run(self) -> Message:
        begin = time.monotonic()
        with self.progress:
            self.persist(self.send)
            self.tally.total = self.tally.there() or self.tally.total
        return {"bytes_sent": self.tally.sent, "seconds": round(time.monotonic() - begin, 2)}

    def send(self, link: Link) -> None:
        if link.ask(indexed=self.fingerprint)["indexed"]:
            return
        self.progress.note = "Docker is packing the image"
        response = save(self.engine, self.spec["reference"])
        try:
            with tarfile.open(fileobj=response, mode="r|", bufsize=CHUNK) as archive:
                members = [self.send_member(link, archive, member) for member in archive]
        except socket.timeout as e:
            raise silent() from e
        except (tarfile.TarError, http.client.HTTPException, OSError) as e:
            raise CopyError(f"the Docker Engine of this Spark went away while it packed the image ({e!r})") from e
        finally:
            response.close()
        if not members:
            raise CopyError("the Docker Engine of this Spark packed nothing into the image; run the same again")
        link.ask(index={"fingerprint": self.fingerprint, "members": members})

    def send_member(self, link: Link, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Message:
        """Send one member, and say what is to be noted of it."""
        source = archive.extractfile(member) if member.isreg() else None
        if source is not None:
            put: Message = {"put": "member", "fingerprint": self.fingerprint, "name": member.name, "size": member.size}
            if member.size <= SMALL:
                data = source.read()
                self.send_pieces(link, {**put, "sha256": hashlib.sha256(data).hexdigest()}, [data])
            else:
                pieces = Pieces(source)
                pieces.start()
                self.send_pieces(link, put, pieces)
        return {
            "name": member.name,
            "size": member.size,
            "mode": member.mode,
            "mtime": member.mtime,
            "type": member.type.decode("ascii"),
            "link": member.linkname,
            "data": source is not None,
        }

    def send_pieces(self, link: Link, put: Message, pieces: t.Iterable[bytes]) -> None:
        answer = link.ask(**put)
        skip, name = answer["have"], put["name"]
        self.tally.found(name, skip)
        if answer["complete"]:
            # The Engine's stream must be read to its end.
            collections.deque(pieces, maxlen=0)
            return
        sum_ = hashlib.sha256()
        for piece in pieces:
            sum_.update(piece)
            wanted = memoryview(piece)[skip:]
            skip = max(0, skip - len(piece))
            if wanted:
                link.write(wanted)
                self.tally.add(name, len(wanted))
        if not link.ask(sha256=sum_.hexdigest()).get("stored"):
            self.tally.found(name, 0)
            self._wrong[name] += 1
            if self._wrong[name] >= TRIES:
                raise CopyError(
                    f"{name} of the image arrived {TRIES} times with another checksum than it was sent with: memory or "
                    "disk of one of the two Sparks is bad, or of its network card"
                )
            raise LinkError(f"{name} of the image arrived with another checksum")


def main() -> int:
    spec = json.loads(sys.argv[1])
    copy: Models | Image | None = None
    try:
        copy = Models(spec) if "repositories" in spec else Image(spec)
        emit({"result": copy.run()})
    except CopyError as e:
        log(traceback.format_exc())
        emit({"error": copy.message(e) if copy else f"{str(e).rstrip('.')}."})
        return 1
    except Exception as e:
        log(traceback.format_exc())
        emit({"error": f"Copying to {spec['worker']} failed unexpectedly ({e!r})."})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
