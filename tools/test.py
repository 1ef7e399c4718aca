# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run all tests, or only those of faults.

Run as: python -m tools.test [faults]

Two lanes, each with its own twin, take stages from one queue, because a scenario keeps one core busy. If a stage fails,
the next one still runs. At the end, wall times, sums and limits are printed.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache" / "test"
# The letters of their twins. The twin without a letter may be a demo in use.
LANES = ("a", "b")
TWIN_DOWN = ("tools/twin.sh", "down")
CHECKS = ("lint", "units", "sanity", "build")
# Tests of failures that users meet on the main paths.
CORE = ("rejected/test_1_rejected.py", "secrets", "local_controller", "benchmark/test_1_measured.py")
# The longest stages first, so that the lanes end at about the same time. Stages not named here come before them.
LONGEST_FIRST = (
    *("two_sparks", "benchmark/test_1_measured.py", "single_eagle3", "day_two", "local_controller", "exposed"),
    *("rejected/test_1_rejected.py", "single_draft_target", "secrets"),
)
FAULTS_LONGEST_FIRST = (
    *(
        "two_sparks_reboots",
        "four_sparks",
        "two_sparks",
        "faults",
        "interrupted",
        "switch",
        "two_sparks_faults",
        "single_eagle3",
        "exposed",
    ),
    *("recipes", "benchmark", "existing_state", "releases", "day_two", "local_controller", "rejected"),
    *("watched_jobs", "secrets", "sudo_only"),
)
# Limits of `make test` on two cores. Exceeding them is reported, but is no failure.
MINUTES, GIGABYTES = 30, 25
# Environment variable of all processes that a run starts, also of those in other sessions.
MARK = "SPECULATIVE_TEST_RUN"


@dataclasses.dataclass(frozen=True)
class Stage:
    """A test: a command that succeeds or fails."""

    name: str
    command: tuple[str, ...]

    @property
    def log(self) -> pathlib.Path:
        return LOGS / f"{self.name.replace(' ', '-').replace('/', '-')}.log"


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a stage."""

    name: str
    seconds: float
    passed: bool
    said: str = ""

    def last(self, lines: int = 12) -> list[str]:
        """Return the end of the output, so that the summary shows why a stage failed."""
        return [f"           {line}" for line in self.said.strip().splitlines()[-lines:]]

    def __str__(self) -> str:
        return f"{self.seconds:6.0f} s  {'passed' if self.passed else 'FAILED'}  {self.name}"


def make(target: str) -> Stage:
    return Stage(target, ("make", "--no-print-directory", target))


def module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def scenario(name: str) -> Stage:
    return Stage(f"molecule {name}", ("tools/molecule.sh", name))


def faults(name: str) -> Stage:
    return Stage(f"faults {name}", module("pytest", "--durations", "5", f"tests/system/{name}"))


def golden() -> Stage:
    return Stage("golden files", module("pytest", "--durations", "5", "tests/golden"))


def ordered(names: t.Iterable[str], longest_first: t.Sequence[str]) -> list[str]:
    rank = {name: number for number, name in enumerate(longest_first)}
    return sorted(names, key=lambda name: (rank.get(name, -1), name))


def queue_of(scenarios: t.Collection[str], core: t.Collection[str]) -> collections.deque[Stage]:
    """Return all stages in the order in which the lanes take them.

    While the first lane builds the twins' images, the other one runs the stages that do not need them.
    """
    kinds = {**dict.fromkeys(scenarios, scenario), **dict.fromkeys(core, faults)}
    first, *rest = (kinds[name](name) for name in ordered(kinds, LONGEST_FIRST))
    return collections.deque([first, *map(make, CHECKS), *rest])


def queue_of_faults(names: t.Collection[str]) -> collections.deque[Stage]:
    """Return the stages of `faults`, the golden files first, because they take longest."""
    return collections.deque([golden(), *map(faults, ordered(names, FAULTS_LONGEST_FIRST))])


def summary(results: t.Sequence[Result], seconds: float) -> str:
    """Return the slowest stages, the failed ones, and the sums."""
    slowest = sorted(results, key=lambda result: -result.seconds)[:10]
    failed = [result for result in results if not result.passed]
    lines = [f"==> Wall times, slowest ten of {len(results)} stages in {seconds:.0f} s", *map(str, slowest), ""]
    if failed:
        lines += ["Failed:", *(line for result in failed for line in (str(result), *result.last())), ""]
    return "\n".join([*lines, f"{len(results) - len(failed)} passed, {len(failed)} failed"])


def taken(seconds: float, size: int) -> str:
    """Compare time and disk space with their limits."""
    minutes, gigabytes = seconds / 60, size / 1e9
    return (
        f"Time: {minutes:.0f} min, {'within' if minutes <= MINUTES else 'OVER'} the limit of {MINUTES} min\n"
        f"Disk: {gigabytes:.1f} GB, {'within' if gigabytes <= GIGABYTES else 'OVER'} the limit of {GIGABYTES} GB"
        " (what .venv and .cache held at first, and the most by which the file systems of this checkout and of Docker's"
        " data grew since, by any process; measured after each stage)"
    )


class Disk:
    """The disk space of a run: the space used at first, and the growth of the file systems of these paths."""

    def __init__(self, held: int, places: t.Iterable[pathlib.Path]) -> None:
        # One path for each file system.
        self._places = {place.stat().st_dev: place for place in places}.values()
        self._before = self._used() - held
        self.most = held

    def _used(self) -> int:
        return sum(shutil.disk_usage(place).used for place in self._places)

    def look(self) -> None:
        self.most = max(self.most, self._used() - self._before)


def size_of(*names: str) -> int:
    """Return the bytes that these files use on the disk, as far as they are readable."""
    command = ["du", "--summarize", "--total", "--block-size=1", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout.splitlines()[-1].split()[0])


def dockers_data() -> list[pathlib.Path]:
    """Return Docker's data directory, if it is on this machine and this user may query it."""
    command = ["docker", "info", "--format", "{{.DockerRootDir}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path = pathlib.Path(done.stdout.strip())
    return [path] if path.is_absolute() and path.is_dir() else []


def marked(mark: str) -> list[int]:
    """Return the PIDs of processes with this mark in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


class Run:
    """One run of all stages."""

    def __init__(self, stages: collections.deque[Stage]) -> None:
        self.stages = stages
        self.results: list[Result] = []
        self.disk: Disk | None = None
        self.mark = f"{MARK}={os.getpid()}"
        self.stopped = threading.Event()
        self._groups: set[int] = set()
        self._one = threading.Lock()
        self._pool = concurrent.futures.ThreadPoolExecutor(len(LANES))

    def stage(self, stage: Stage, lane: str = "") -> bool:
        """Run a stage, print its whole output at the end, and return whether it passed."""
        environment = {**os.environ, "TWIN": lane}
        if lane:
            # Without a lane there is no mark: the Docker Engine, started for all lanes, must not end with one.
            environment[MARK] = self.mark.partition("=")[2]
        started = time.monotonic()
        with stage.log.open("wb") as log:
            with self._one:
                if self.stopped.is_set():
                    return False
                print(f"==> {stage.name} ...", flush=True)
                process = subprocess.Popen(
                    stage.command,
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._groups.add(process.pid)
            code = process.wait()
        with self._one:
            self._groups.discard(process.pid)
            if self.stopped.is_set():
                return False
            said = stage.log.read_text(encoding="utf-8", errors="replace")
            result = Result(stage.name, time.monotonic() - started, code == 0, said)
            self.results.append(result)
            if self.disk:
                self.disk.look()
            print(f"\n==> {stage.name}\n{said}\n{result}\n", flush=True)
        return result.passed

    def take(self) -> Stage | None:
        with self._one:
            return self.stages.popleft() if self.stages else None

    def lane(self, letter: str) -> None:
        """Run stages until the queue is empty. A scenario starts the lane's twin if needed."""
        while not self.stopped.is_set() and (stage := self.take()):
            self.stage(stage, letter)

    def lanes(self) -> None:
        futures = [self._pool.submit(self.lane, letter) for letter in LANES]
        for future in futures:
            future.result()

    def stop(self) -> None:
        """End all processes of the run, also those that have left their process group."""
        self.stopped.set()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self._one:
                for group in self._groups:
                    with contextlib.suppress(OSError):
                        os.killpg(group, number)
            for process in marked(self.mark):
                with contextlib.suppress(OSError):
                    os.kill(process, number)
            deadline = time.monotonic() + 5
            while marked(self.mark) and time.monotonic() < deadline:
                time.sleep(0.1)


def interrupt(*_details: object) -> t.NoReturn:
    raise KeyboardInterrupt


def everything(run: Run) -> None:
    """Run all stages, and compare the machine before and after."""
    if not run.stage(make("engine")):
        return
    run.disk = Disk(size_of(".venv", ".cache"), [ROOT, *dockers_data()])
    subprocess.run(module("tests.twin.machine", "save"), cwd=ROOT, check=True)
    run.lanes()
    for letter in LANES:
        run.stage(Stage(f"twin {letter} down", TWIN_DOWN), letter)
    run.stage(Stage("machine untouched", module("tests.twin.machine", "compare", *LANES)))


def stages(asked: t.Sequence[str]) -> collections.deque[Stage]:
    if asked == ["faults"]:
        # Those of vLLM belong to `make engines`.
        names = {path.parent.name for path in ROOT.glob("tests/system/*/conftest.py")}
        return queue_of_faults({name for name in names if not name.endswith("_vllm")})
    if asked:
        sys.exit(f"There is no {' '.join(asked)} to test: python -m tools.test [faults]")
    return queue_of({path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")} - {"default"}, CORE)


def main() -> int:
    started = time.monotonic()
    run = Run(stages(sys.argv[1:]))
    LOGS.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        everything(run)
    except KeyboardInterrupt:
        print("\n==> Ending what runs, and the twins ...", flush=True)
        run.stop()
        for letter in LANES:
            subprocess.run(TWIN_DOWN, cwd=ROOT, env={**os.environ, "TWIN": letter}, check=False)
        return 130
    finally:
        subprocess.run(("tools/engine.sh", "down"), cwd=ROOT, check=False)
    seconds = time.monotonic() - started
    print(summary(run.results, seconds))
    if run.disk and not sys.argv[1:]:
        print(taken(seconds, run.disk.most))
    return 0 if all(result.passed for result in run.results) else 1


if __name__ == "__main__":
    sys.exit(main())
