# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Measure a deployment with several draft lengths: a program for the module watched_job.

The deployment's own configuration is never changed. For each point the engine options are written beside it, with a
lease that is renewed all the time. The container's entrypoint serves them while the lease is valid, and the
deployment's own options when it is released or, if this program dies, has expired.

Standard input is the task, a JSON object (see Task); the argument differs for another task. It prints one JSON object a
line: progress, and at the end a result, which names the file of the figures, or an error. Finished points are kept and
not measured again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import traceback
import typing as t
from pathlib import Path

from ...module_utils._data.files import read_object, read_tail, read_text
from ...module_utils._data.moments import moment_text
from ...module_utils._data.text import amount, clause, duration, elapsed
from ...module_utils._server import completions
from ...module_utils._server.client import ProbeError, Refused
from ...module_utils._server.decoding import Decoding, rounded
from ...module_utils._spark.lock import since_boot
from ...module_utils._spark.machine import parse_meminfo
from ...module_utils._spark.whole import write_whole
from .progress import emit, log

POLL_S = 0.2
# The entrypoint gives a server half a minute to end; its memory needs some more time.
HEED_S = 180.0
# The entrypoint notices the end of a server within a second. After this silence the container is gone.
SILENT_S = 30.0
# After a broken answer: how long the server may take to show whether it is still there.
SETTLE_S = 60.0
GPU_EVERY_S = 1.0
GPU_QUERY = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits"]
GPU_FIELDS = ("clock_mhz", "power_w", "temperature_c")
# As the container has it.
LONGEST_LEASE_S = 900.0
LONGEST_S = {
    "speculative_benchmark_lease_s": LONGEST_LEASE_S,
    "speculative_benchmark_ready_timeout": 24 * 3600.0,
    "speculative_benchmark_answer_timeout": 24 * 3600.0,
}
ROOM_BYTES = 50_000_000
# Not among the prompts that are measured: their prefixes must not be in the server's cache yet.
WARM_UP = "This is warm-up number {}. Tell the story of a lighthouse keeper who finds a letter in a bottle.\n\n"
START_AGAIN = "start it with start.yml and run the same again, which keeps the finished points."
STOPPED = "The benchmark was stopped: the deployment's own options are served again soon, and finished points are kept."

# Without these a point that was kept cannot be judged.
POINT_KEYS = {"id", "draft_length", "seconds", "loading_s", "error", "samples", "lengths"}
SAMPLE_KEYS = {"prompt", "category", "repetition", "tokens", "ttft_s", "first_tokens", "decode_s", "text"}

Json = dict[str, t.Any]


class SweepError(Exception):
    """The sweep failed. The text is one sentence for the user."""


class NothingToRestore(SweepError):
    """The sweep failed, and no server will return."""


class PointError(Exception):
    """One point cannot be measured; the others may."""


class RequestRejected(Exception):
    """The server does not take the question."""


class Broken(Exception):
    """No whole answer came."""


class Terminated(BaseException):
    """SIGTERM: no error, so that nothing on the way takes it for one."""


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A prompt. An optional one is left out if it is too long."""

    id: str
    category: str
    prompt: str
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class Point:
    """A draft length, the engine options for it, and what the result depends on; 0 is without speculation."""

    id: str
    draft_length: int
    options: str
    fingerprint: str
    always: bool = True

    @property
    def title(self) -> str:
        return f"draft length {self.draft_length}" if self.draft_length else "without speculation"


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of the sweep. `deployment` and `results` are directories."""

    title: str
    deployment: Path
    results: Path
    url: str
    model: str
    points: list[Point]
    prompts: list[Prompt]
    max_tokens: int
    repetitions: int
    warmup: int
    prompt_lengths: list[int]
    lease_s: float
    ready_timeout: float
    answer_timeout: float
    seconds_a_load: float | None = None

    @classmethod
    def read(cls, text: str) -> Task:
        try:
            data = json.loads(text)
            data["deployment"], data["results"] = Path(data["deployment"]), Path(data["results"])
            data["points"] = [Point(**point) for point in data["points"]]
            data["prompts"] = [Prompt(**prompt) for prompt in data["prompts"]]
            task = cls(**data)
        except (ValueError, TypeError, KeyError) as e:
            raise SweepError(f"The task of the benchmark cannot be read ({e}); run the playbook again.") from e
        wrong = [point.id for point in task.points if not re.fullmatch(r"[A-Za-z0-9_.-]+", point.id)]
        if wrong:
            raise SweepError(f"The id {wrong[0]!r} of a point cannot be the name of a file.")
        for name, longest in LONGEST_S.items():
            given = getattr(task, name[len("speculative_benchmark_") :])
            if not 0 < given <= longest:
                raise SweepError(f"{name} is {given}, but must be above 0, and {longest:.0f} at most.")
        return task


# Files


def write_object(path: Path, data: Json) -> None:
    """Replace a JSON file in one step."""
    write_whole(path, json.dumps(data) + "\n")


def not_written(error: OSError, directory: Path) -> SweepError:
    """Return the error for a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SweepError(
            f"The disk under {directory} is full: make room and run the same again, which keeps the finished points."
        )
    reason = error.strerror or type(error).__name__
    return SweepError(f"{error.filename or directory} cannot be written ({reason}): give it back to the login user.")


def make_room(directory: Path, needed: int = ROOM_BYTES) -> None:
    """Refuse a disk that is full, or not ours, before the first restart and not after the last."""
    try:
        (directory / "points").mkdir(parents=True, exist_ok=True)
        probe = directory / "points" / ".probe"
        probe.write_bytes(b"\0" * 4096)
        probe.unlink()
        free = shutil.disk_usage(directory).free
    except OSError as e:
        raise not_written(e, directory) from e
    if free < needed:
        raise SweepError(
            f"Only {amount(free)} are free under {directory} and a benchmark needs {amount(needed)}: make "
            "room and run the same again."
        )


def finished_point(path: Path, fingerprint: str) -> Json | None:
    """Return a point that was measured before under the same conditions."""
    result = read_object(path) or {}
    # A point with an error has no samples.
    if result.get("fingerprint") != fingerprint or not result.get("samples") or not is_whole(result):
        return None
    return result


def is_whole(point: Json) -> bool:
    """Return whether a point has all its keys; false if its file is damaged or from another version."""
    samples = point["samples"]
    if not point.keys() >= POINT_KEYS or not isinstance(samples, list):
        return False
    return all(isinstance(sample, dict) and sample.keys() >= SAMPLE_KEYS for sample in samples)


# Figures


def sample_of(answer: completions.Answer, prompt: Prompt, repetition: int) -> Json:
    """Return the sample of an answer."""
    return {
        "prompt": prompt.id,
        "category": prompt.category,
        "repetition": repetition,
        "prompt_tokens": answer.usage.get("prompt_tokens"),
        **vars(answer.decoding()),
        "text": answer.text if repetition == 0 else None,
        "finish_reason": answer.finish_reason,
    }


def speeds(samples: t.Iterable[Json]) -> dict[tuple[str, int], float]:
    """Return the speeds by prompt and repetition, where there are any."""
    pairs = ((sample["prompt"], sample["repetition"], Decoding.of(sample).speed) for sample in samples)
    return {(prompt, repetition): speed for prompt, repetition, speed in pairs if speed is not None}


def gain(later: Json, earlier: Json) -> float | None:
    """Return the speed-up of a point over another one, as the geometric mean over their common prompts."""
    fast, slow = speeds(later["samples"]), speeds(earlier["samples"])
    logs = [math.log(fast[key] / slow[key]) for key in fast if key in slow]
    return math.exp(statistics.fmean(logs)) if logs else None


def natural_text(prompts: t.Sequence[Prompt], asked_tokens: int, tokens_per_character: float) -> str:
    """Return a text of about so many tokens with a unique beginning, so that no cache has it."""
    head = f"A collection of texts, about {asked_tokens} tokens long.\n\n"
    source = "\n\n".join(prompt.prompt for prompt in prompts) + "\n\n"
    size = max(1, round(asked_tokens / tokens_per_character) - len(head))
    text = source * (size // len(source) + 1)
    return head + (text[:size].rpartition(" ")[0] or text[:size])


def mean_or_none(values: t.Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def with_time(text: str, left: float | None, to_come: t.Sequence[Point]) -> str:
    """Return a progress after the time left, which a narrow terminal shows too; optional points may fall away."""
    if left is None:
        return text
    return f"{'' if all(point.always for point in to_come) else 'up to '}about {duration(left)} left; {text}"


class Outlook:
    """The remaining seconds of the sweep, by the times of the finished points."""

    def __init__(self, seconds_a_load: float | None) -> None:
        self._hint = seconds_a_load
        self._loads: list[float] = []
        self._measured: list[float] = []

    def learn(self, point: Json) -> None:
        if point["error"] is None and point["loading_s"] is not None:
            self._loads.append(point["loading_s"])
            self._measured.append(point["seconds"] - point["loading_s"])

    @property
    def load_s(self) -> float | None:
        known = mean_or_none(self._loads)
        return self._hint if known is None else known

    def seconds_left(self, loading: float | None, measuring: float, share: float, points: int) -> float | None:
        """Seconds to the end: either loading for so long, or measuring, of which this share is done; points to come."""
        load_s, measure_s = self.load_s, mean_or_none(self._measured)
        pace = measuring / share if share > 0 else measure_s
        measure_s = pace if measure_s is None else measure_s
        if load_s is None or measure_s is None or pace is None:
            return None
        rest = pace * (1 - share) if loading is None else max(0.0, load_s - loading) + measure_s
        return rest + points * (load_s + measure_s) + load_s


# The machine


def gpu_figures() -> tuple[float | None, ...] | None:
    """Clock, power and temperature now; None where nvidia-smi is not there or fails."""
    try:
        done = subprocess.run(GPU_QUERY, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values: list[float | None] = []
    for field in done.stdout.strip().partition("\n")[0].split(","):
        # Unknown values are [N/A] or [Not Supported].
        try:
            values.append(float(field))
        except ValueError:
            values.append(None)
    return tuple(values) if len(values) == len(GPU_FIELDS) else None


class GpuWatch(threading.Thread):
    """Looks at the GPU once a second while it is measured."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._rows: list[tuple[float | None, ...]] = []
        self._over = threading.Event()

    def run(self) -> None:
        while (row := gpu_figures()) is not None:
            self._rows.append(row)
            if self._over.wait(GPU_EVERY_S):
                return

    def __enter__(self) -> GpuWatch:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()

    def summary(self) -> Json | None:
        columns = [[row[index] for row in self._rows] for index in range(len(GPU_FIELDS))]
        known = [[value for value in column if value is not None] for column in columns]
        if not any(known):
            return None
        figures: Json = {
            name: {"mean": rounded(statistics.fmean(values)), "low": min(values), "high": max(values)}
            if values
            else None
            for name, values in zip(GPU_FIELDS, known)
        }
        return {**figures, "samples": len(self._rows)}


def memory_available() -> int | None:
    return parse_meminfo(read_text(Path("/proc/meminfo")) or "").get("MemAvailable")


# The server


class Server:
    """The server as the collection's client asks it."""

    def __init__(self, url: str, model: str, seconds: float) -> None:
        self._client = completions.Client(url)
        self._model = model
        self._seconds = seconds

    def health(self) -> bool | None:
        """Return whether the server reports that it is ready; None if the port is closed."""
        try:
            return bool(self._client.get("/health").status == 200)
        except Refused:
            return None
        except ProbeError:
            return False

    def version(self) -> str | None:
        try:
            return self._client.version()
        except ProbeError:
            return None

    def ask(self, text: str, max_tokens: int, stream: bool = True) -> completions.Answer:
        """Return a whole answer with its count of tokens."""
        question = completions.Question("completion", self._model, text, max_tokens, stream=stream)
        try:
            answer = self._client.ask(question, self._seconds)
        except ProbeError as e:
            raise Broken(str(e) or "the server cannot be reached") from e
        if 400 <= answer.status < 500:
            raise RequestRejected(clause(answer.error or f"status {answer.status}"))
        if answer.expired:
            raise Broken(f"no whole answer came within {duration(self._seconds)}")
        if not answer.complete:
            raise Broken(clause(answer.error or f"the server answered status {answer.status}"))
        if answer.tokens is None:
            raise Broken("the server does not say how many tokens an answer has")
        return answer


class Container:
    """The server's state, as the container's entrypoint writes it."""

    def __init__(self, deployment: Path) -> None:
        self._directory = deployment / "state"

    def state(self) -> Json:
        return read_object(self._directory / "state.json") or {}

    def last_words(self) -> str:
        """Return the server's last line in its log that is more than an answered request."""
        lines = read_tail(self._directory / "server.log").splitlines()
        words = [line.strip() for line in lines if not line.startswith("[entrypoint]") and '" 200' not in line]
        return next((line for line in reversed(words) if line), "")[:300]


def trial_of(state: Json) -> str | None:
    trial = state.get("trial")
    return str(trial.get("id")) if isinstance(trial, dict) else None


def reason_of(state: Json) -> str:
    last_exit = state.get("last_exit")
    said = last_exit.get("reason") if isinstance(last_exit, dict) else None
    return clause(str(said or state.get("reason") or "it did not say why"))


def lease_end(path: Path) -> float | None:
    """Until when a lease is valid; None if it is none, or not any more."""
    lease = read_object(path) or {}
    until, now = lease.get("until"), since_boot()
    valid = isinstance(until, (int, float)) and now < until < now + LONGEST_LEASE_S
    return until if valid else None


class Lease:
    """Has the container serve with other options for as long as this program lives."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self._directory = directory
        self._file = directory / "lease.json"
        self._seconds = seconds
        self._halt = threading.Event()
        self._keeper: threading.Thread | None = None
        self._problem: SweepError | None = None
        self.granted: str | None = None

    def grant(self, point: Point) -> str:
        """Start the trial of a point. Its id is never used again."""
        self._stop_keeping()
        trial, self._problem = f"draft-{point.id}-{secrets.token_hex(3)}", None
        try:
            self._directory.mkdir(exist_ok=True)
            write_whole(self._directory / "options.yml", point.options)
            self.granted = trial
            self._write(trial, point.title)
        except OSError as e:
            raise not_written(e, self._directory) from e
        self._halt = threading.Event()
        self._keeper = threading.Thread(target=self._keep, args=(self._halt, trial, point.title), daemon=True)
        self._keeper.start()
        return trial

    def check(self) -> None:
        """Raise what makes the lease worthless."""
        if self._problem is not None:
            raise self._problem

    def release(self) -> None:
        """Take the lease back, if it is still ours."""
        self._stop_keeping()
        self._problem = None
        if self.granted is not None and self._owner() in (self.granted, None):
            with contextlib.suppress(OSError):
                self._file.unlink()
            # The directory stays: the container has it mounted.
            with contextlib.suppress(OSError):
                for left in self._directory.iterdir():
                    remove = shutil.rmtree if left.is_dir() else Path.unlink
                    remove(left)

    def _owner(self) -> str | None:
        return (read_object(self._file) or {}).get("id")

    def _write(self, trial: str, title: str) -> None:
        until = round(since_boot() + self._seconds, 3)
        write_object(self._file, {"id": trial, "title": title, "until": until})

    def _keep(self, halt: threading.Event, trial: str, title: str) -> None:
        while not halt.wait(self._seconds / 4):
            if self._owner() != trial:
                self._problem = NothingToRestore(
                    f"The trial of {title} was ended from outside, so the benchmark ends as well; finished points are "
                    "kept."
                )
                return
            try:
                self._write(trial, title)
                self._problem = None
            except OSError as e:
                self._problem = not_written(e, self._directory)

    def _stop_keeping(self) -> None:
        self._halt.set()
        if self._keeper is not None:
            # A signal may come before it has started. It ends then at its first look.
            with contextlib.suppress(RuntimeError):
                self._keeper.join()
            self._keeper = None


# The sweep


class Sweep:
    """The whole job."""

    def __init__(self, task: Task, tell: t.Callable[[Json], None] = emit) -> None:
        self.task = task
        self.server = Server(task.url, task.model, task.answer_timeout)
        self.container = Container(task.deployment)
        self.lease = Lease(task.deployment / "trial", task.lease_s)
        self.outlook = Outlook(task.seconds_a_load)
        self.prompts: list[Prompt] = []
        self.lengths: list[tuple[int, str]] = []
        self.left_out: list[dict[str, str]] = []
        self.skipped: list[dict[str, str]] = []
        self.points: list[Json] = []
        self._tell = tell
        self._told: Json = {}
        self._started = time.monotonic()

    def run(self) -> Json:
        started_at = moment_text(time.time())
        self.prepare()
        try:
            self.measure_points()
        except NothingToRestore:
            raise
        except SweepError as e:
            not_restored = self.restore()
            raise SweepError(f"{str(e).rstrip('.')}; {not_restored}" if not_restored else str(e)) from e
        not_restored = self.restore()
        results = {
            "schema": 1,
            "started_at": started_at,
            "finished_at": moment_text(time.time()),
            "version": self.server.version(),
            "left_out": self.left_out,
            "skipped": self.skipped,
            "points": self.points,
            "restored": not_restored is None,
            "not_restored": not_restored,
        }
        path = self.task.results / "results.json"
        self.write(path, results)
        return {"results": str(path), "restored": not_restored is None, "not_restored": not_restored}

    def write(self, path: Path, data: Json) -> None:
        try:
            write_object(path, data)
        except OSError as e:
            raise not_written(e, path.parent) from e

    def progress(self, text: str, left: float | None = None) -> None:
        """Print the progress if it has changed."""
        passed = time.monotonic() - self._started
        percent = self._told.get("percent") if left is None else round(100 * passed / (passed + left), 1)
        progress = {"percent": percent, "text": text}
        if text != self._told.get("text"):
            self._tell({"progress": progress})
            self._told = progress

    # Before the first restart

    def prepare(self) -> None:
        """Refuse everything that would end the sweep later."""
        make_room(self.task.results)
        self.await_others()
        if "trial" not in self.container.state():
            raise SweepError(
                f"{self.task.deployment} cannot be benchmarked: its container is stopped or does not support trials. "
                "Run start.yml, or deploy it again."
            )
        try:
            self.wait_for(None, self.task.ready_timeout, lambda passed: f"waiting for the server, {passed}")
        except PointError as e:
            raise SweepError(f"The deployment does not serve, so it cannot be measured: {e}.") from e
        try:
            self.try_prompts()
        except Broken as e:
            raise SweepError(f"The server does not answer as it serves now: {e}.") from e

    def await_others(self) -> None:
        """Refuse to disturb another sweep; what a dead one has left behind runs out by itself."""
        path = self.task.deployment / "trial" / "lease.json"
        first, give_up = lease_end(path), time.monotonic() + 2 * self.task.lease_s
        while (until := lease_end(path)) is not None:
            if until != first or time.monotonic() > give_up:
                raise SweepError(
                    f"Another benchmark is measuring this deployment ({path} is being renewed): wait until it has "
                    "finished, or stop it."
                )
            self.progress("waiting until the lease of an interrupted benchmark has run out")
            time.sleep(POLL_S)

    def try_prompts(self) -> None:
        """Ask everything for one token, and the longest for a whole answer, which has to have room as well."""
        counts: dict[str, int] = {}
        for number, prompt in enumerate(self.task.prompts, 1):
            self.progress(f"trying prompt {number} of {len(self.task.prompts)}")
            answer = self.try_prompt(prompt, 1)
            if answer is not None:
                self.prompts.append(prompt)
                counts[prompt.id] = answer.usage.get("prompt_tokens") or 0
        for prompt in sorted(self.prompts, key=lambda prompt: counts[prompt.id], reverse=True):
            if self.try_prompt(prompt, self.task.max_tokens) is not None:
                break
            self.prompts.remove(prompt)
        if not self.prompts:
            raise SweepError("All prompts are too long for this deployment: give shorter ones.")
        density = sum(counts[prompt.id] for prompt in self.prompts) / sum(len(prompt.prompt) for prompt in self.prompts)
        for asked in self.task.prompt_lengths:
            self.try_length(asked, density)

    def try_prompt(self, prompt: Prompt, max_tokens: int) -> completions.Answer | None:
        """Return the answer; None for an optional prompt that the server does not take."""
        try:
            return self.server.ask(prompt.prompt, max_tokens, stream=max_tokens > 1)
        except RequestRejected as e:
            if not prompt.optional:
                raise SweepError(
                    f"The server does not take the prompt {prompt.id} ({e}): shorten it, mark it as optional, or leave "
                    "it out."
                ) from e
            self.left_out.append({"prompt": prompt.id, "reason": str(e)})
            return None

    def try_length(self, asked: int, density: float) -> None:
        if not density:
            self.left_out.append({"prompt": f"{asked} tokens", "reason": "the server does not count prompts"})
            return
        text = natural_text(self.prompts, asked, density)
        self.progress(f"trying a prompt of {asked} tokens")
        try:
            self.server.ask(text, 1, stream=False)
        except RequestRejected as e:
            self.left_out.append({"prompt": f"{asked} tokens", "reason": str(e)})
        else:
            self.lengths.append((asked, text))

    # The points

    def measure_points(self) -> None:
        kept = {point.id: finished_point(self.file_of(point), point.fingerprint) for point in self.task.points}
        for before in kept.values():
            if before is not None:
                self.outlook.learn(before)
        for number, point in enumerate(self.task.points, 1):
            before = kept[point.id]
            if before is not None:
                self.progress(f"{point.title} (point {number} of {len(self.task.points)}): measured before")
                self.points.append(before)
                continue
            reason = self.reason_to_skip(point)
            if reason is not None:
                self.skipped.append({"id": point.id, "reason": reason})
                continue
            to_come = [later for later in self.task.points[number:] if kept[later.id] is None]
            measured = self.measure(point, number, to_come)
            self.outlook.learn(measured)
            self.points.append(measured)
            self.write(self.file_of(point), measured)

    def file_of(self, point: Point) -> Path:
        return self.task.results / "points" / f"{point.id}.json"

    def reason_to_skip(self, point: Point) -> str | None:
        """Longer drafts are tried only while they gain: None to measure a point."""
        if point.always:
            return None
        if self.skipped:
            return self.skipped[-1]["reason"]
        good = [measured for measured in self.points if measured["error"] is None]
        step = gain(good[-1], good[-2]) if len(good) > 1 else None
        if step is None:
            return "there are no figures of shorter drafts that it could be judged by"
        if step > 1:
            return None
        fast, slow = (
            f"draft length {measured['draft_length']}" if measured["draft_length"] else "no speculation"
            for measured in good[:-3:-1]
        )
        return f"{fast} was no faster than {slow} ({step:.2f} times)"

    def measure(self, point: Point, number: int, to_come: t.Sequence[Point]) -> Json:
        """Serve a point and measure it; what goes wrong with it is part of the result."""
        started = time.monotonic()
        result: Json = {
            "id": point.id,
            "draft_length": point.draft_length,
            "fingerprint": point.fingerprint,
            "measured_at": moment_text(time.time()),
            "seconds": None,
            "loading_s": None,
            "error": None,
            "samples": [],
            "lengths": [],
            "gpu": None,
            "memory_available": None,
        }
        place = f"{number} of {len(self.task.points)}"

        def loading(passed: str) -> str:
            return f"{point.title} (point {place}): loading, {passed}"

        try:
            trial = self.lease.grant(point)
            self.wait_for(trial, self.task.ready_timeout, loading, to_come)
            result["loading_s"] = rounded(time.monotonic() - started)
            for count in range(self.task.warmup):
                self.progress(f"{point.title} ({place}): warming up")
                self.ask(trial, WARM_UP.format(count + 1), self.task.max_tokens)
            result["lengths"] = [self.time_to_first_token(trial, asked, text) for asked, text in self.lengths]
            with GpuWatch() as gpu:
                result["samples"] = self.sample_all(trial, point, place, to_come)
            result["gpu"], result["memory_available"] = gpu.summary(), memory_available()
        except PointError as e:
            log(f"{point.title}: {e}")
            result["error"] = str(e)
        result["seconds"] = rounded(time.monotonic() - started)
        return result

    def sample_all(self, trial: str, point: Point, place: str, to_come: t.Sequence[Point]) -> list[Json]:
        """Each prompt once, and all of that again: what changes slowly meets all prompts alike."""
        started = time.monotonic()
        samples: list[Json] = []
        rounds = [(repetition, prompt) for repetition in range(self.task.repetitions) for prompt in self.prompts]
        for done, (repetition, prompt) in enumerate(rounds):
            left = self.outlook.seconds_left(None, time.monotonic() - started, done / len(rounds), len(to_come))
            text = f"{point.title} ({place}): prompt {done + 1} of {len(rounds)}{self.so_far(samples)}"
            self.progress(with_time(text, left, to_come), left)
            samples.append(sample_of(self.ask(trial, prompt.prompt, self.task.max_tokens), prompt, repetition))
        return samples

    def so_far(self, samples: t.Sequence[Json]) -> str:
        """Return the speed until now, beside that without speculation for the same prompts."""
        now = speeds(samples)
        if not now:
            return ""
        text = f", {statistics.fmean(now.values()):.1f} tokens/s so far"
        off = next((p for p in self.points if p["draft_length"] == 0 and p["error"] is None), None)
        without = [speed for key, speed in speeds(off["samples"]).items() if key in now] if off else []
        return text + (f", without speculation {statistics.fmean(without):.1f}" if without else "")

    def time_to_first_token(self, trial: str, asked: int, text: str) -> Json:
        answer = self.ask(trial, text, 1)
        steps = answer.steps()
        prompt_tokens = answer.usage.get("prompt_tokens")
        first = rounded(steps[0].at) if steps else None
        return {"asked_tokens": asked, "prompt_tokens": prompt_tokens, "ttft_s": first}

    def ask(self, trial: str, text: str, max_tokens: int, again: bool = True) -> completions.Answer:
        """Return an answer of this trial's server; what breaks once is tried again."""
        self.lease.check()
        state = self.container.state()
        if state.get("state") != "running" or trial_of(state) != trial:
            self.settle(trial)
        try:
            return self.server.ask(text, max_tokens)
        except RequestRejected as e:
            raise PointError(f"the server takes only with other options what it was asked ({e})") from e
        except Broken as e:
            log(f"no whole answer: {e}")
            # If the server has ended, its own words say more than a broken connection.
            self.settle(trial)
            if not again:
                raise PointError(f"the server did not answer in two tries: {e}") from e
        return self.ask(trial, text, max_tokens, again=False)

    def settle(self, trial: str) -> None:
        """Continue after a broken connection, if this trial's server is still the one that answers."""
        self.wait_for(trial, SETTLE_S, lambda passed: f"an answer broke off, waiting for the server, {passed}")

    def wait_for(
        self,
        trial: str | None,
        seconds: float,
        describe: t.Callable[[str], str],
        to_come: t.Sequence[Point] | None = None,
    ) -> None:
        """Wait until the server answers with a trial's options, or with its own without one."""
        started = time.monotonic()
        silent_since: float | None = None
        while True:
            self.lease.check()
            passed = time.monotonic() - started
            state = self.container.state()
            name, is_wanted = state.get("state"), trial_of(state) == trial
            if name == "stopped":
                raise NothingToRestore(f"The container was stopped: {START_AGAIN}")
            if is_wanted and name in ("trial failed", "failed"):
                raise PointError(f"the server ended: {reason_of(state)}")
            if is_wanted and name == "running":
                health = self.server.health()
                if health:
                    return
                silent_since = None if health is False else silent_since or time.monotonic()
                if silent_since is not None and time.monotonic() - silent_since > SILENT_S:
                    raise NothingToRestore(
                        f"Nothing listens at {self.task.url} although the container did not say that its server ended, "
                        f"so it is gone: {START_AGAIN}"
                    )
            elif not is_wanted and name in (None, "running", "loading", "trial failed") and passed > HEED_S:
                raise SweepError(
                    "The container does not follow: it should have changed its engine options "
                    f"{duration(passed)} ago; restart it with stop.yml and start.yml and run the same again."
                )
            if passed > seconds:
                words = self.container.last_words()
                text = f"; it said last: {words}" if words else ""
                raise PointError(f"the server was not ready within {duration(seconds)}{text}")
            left = None if to_come is None else self.outlook.seconds_left(passed, 0.0, 0.0, len(to_come))
            self.progress(with_time(describe(elapsed(passed)), left, to_come or []), left)
            time.sleep(POLL_S)

    def restore(self) -> str | None:
        """Have the deployment's own options served again; why they are not, if they are not."""
        self.lease.release()
        if self.lease.granted is None:
            return None
        self.progress("going back to the deployment's own options")
        try:
            self.wait_for(
                None, self.task.ready_timeout, lambda passed: f"loading with the deployment's own options, {passed}"
            )
            self.server.ask(self.prompts[0].prompt, 1, stream=False)
        except (SweepError, PointError, Broken, RequestRejected) as e:
            return (
                f"the deployment does not serve with its own options again ({str(e).rstrip('.')}): look at it with "
                "status.yml, and restart it with stop.yml and start.yml"
            )
        return None


def ignore_signals() -> None:
    """Ignore signals while a trial is being undone."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def on_signal(_number: int, _frame: object) -> None:
    ignore_signals()
    raise Terminated


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    sweep: Sweep | None = None
    try:
        sweep = Sweep(Task.read(sys.stdin.read()))
        emit({"result": sweep.run()})
        return 0
    except Terminated:
        error = STOPPED if sweep is not None and sweep.lease.granted else "The benchmark was stopped before it began."
    except SweepError as e:
        error = str(e)
    except Exception as e:
        traceback.print_exc()
        error = f"The benchmark failed unexpectedly ({type(e).__name__}: {e}); finished points are kept."
    finally:
        ignore_signals()
        if sweep is not None:
            sweep.lease.release()
    emit({"error": error})
    return 1


if __name__ == "__main__":
    sys.exit(main())
