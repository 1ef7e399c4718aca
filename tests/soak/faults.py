# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong: each fault begins where its context does, and is over where that ends."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import typing as t
from pathlib import Path

from tests import playbook as playbooks
from tests import slot
from tests.soak import secrets
from tests.soak.promises import LEASE_ENDS_S, PROMISES
from tests.twin import cables, engine
from tests.twin.control import Internet, Spark
from tests.twin.names import TwinError

SLOT = "dgx-spark-speculative"
HOME = "/home/spark/.local/share/dgx-spark-speculative"
HOG = "soak-hog"
AHEAD = "/opt/ahead"
AHEAD_CLOCK = "import time\n_now = time.time\ntime.time = lambda: _now() + 10800\n"
# In the container alone, where a mount from outside is not seen.
# With its processes: umount looks for its own in /proc.
INSIDE = f"nsenter --mount --pid --target $(docker inspect --format '{{{{.State.Pid}}}}' {SLOT})"
# No shell that is told to look for them is one of them.
NAME_OF_ENGINE = "[t]rtllm-serve|[m]gmn_worker_node"
JOBS = "[d]gx-spark-speculative/jobs/"
# How long the lock's process is asked, and how long it is waited for after its run was killed.
ASK_LEASE = """import json, socket
one = socket.socket(socket.AF_UNIX)
one.settimeout(5)
one.connect("\\0dgx-spark-speculative")
one.sendall(b'{"do": "ask"}\\n')
said = json.loads(one.makefile().readline())
print(said["holder"]["for_s"] if said["state"] == "held" else "")"""
FREED_WITHIN_S = LEASE_ENDS_S + 45
LOSE = "OUTPUT -o en+ -m statistic --mode random --probability 0.1 -j DROP"
# Command lines and environments of all processes, and what Docker tells of all containers.
LIVE = """cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'
docker inspect $(docker ps --all --quiet) 2>/dev/null"""
# Text of errors, as Hub and registry give them when they are down.
DOWN = [{"host": "*", "path": "*", "action": "status", "status": 503}]


@dataclasses.dataclass(frozen=True)
class Controller:
    """What the runs have of this machine: a home of their own, so that all that they leave is seen, and a password."""

    home: Path
    password: str

    @property
    def arguments(self) -> list[str]:
        return ["-e", f"@{self.home.with_suffix('.secrets.json')}"]

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "TMPDIR": str(self.home / "tmp")}

    def prepare(self) -> None:
        (self.home / "tmp").mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.home.with_suffix(".secrets.json")
        path.touch(mode=0o600)
        path.write_text(json.dumps({"ansible_become_password": self.password}), encoding="utf-8")


@dataclasses.dataclass
class Scene:
    """What there is to disturb."""

    sparks: list[Spark]
    playbook: str
    deployment: str
    port: int
    model: str
    # A repository of the Hub that only the canary opens.
    gated: str
    # What the deployment is told beside its recipe.
    wishes: dict[str, t.Any]
    # The token that every run is given, what the runs have of the controller, and what may turn up nowhere.
    canary: str
    controller: Controller
    # By which of the routes clients ask.
    routes: tuple[str, ...]
    luck: random.Random
    # Writes a line of the history.
    tell: t.Callable[..., None]
    # Held by who looks at the status: what that has running on a Spark is nothing that was left there.
    looking: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    secrets: secrets.Spelled = dataclasses.field(default_factory=dict)
    # They wait for the end of a lease.
    waiting: list[threading.Thread] = dataclasses.field(default_factory=list)

    @property
    def head(self) -> Spark:
        return self.sparks[0]

    @property
    def worker(self) -> Spark:
        return self.sparks[-1]

    @property
    def directory(self) -> str:
        return f"{HOME}/{self.deployment}"

    def do(self, command: str, spark: Spark | None = None) -> str:
        """Have root do this, whatever comes of it: what another fault has changed may be in the way."""
        return (spark or self.head).exec(command).stdout.strip()

    def strike(self, command: str, spark: Spark | None = None) -> str:
        """Have root do this, without which the fault is none."""
        done = (spark or self.head).exec(command)
        if done.returncode:
            raise TwinError(f"{command} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def run(self, name: str, *arguments: str, **wishes: t.Any) -> playbooks.Outcome:
        """Run a playbook as its user does, and write down how that ended."""
        begun = time.time()
        given = {**self.wishes, **wishes} if name == self.playbook else wishes
        outcome = self.play(name, *arguments, variables=given)
        self.tell(
            "run",
            playbook=name,
            wishes=wishes,
            code=outcome.code,
            changed=outcome.changed,
            begun=begun,
            leaks=secrets.seen(outcome.output, self.secrets),
            traceback=has_traceback(outcome.output),
            said=outcome.message[-1500:] if outcome.code else "",
        )
        return outcome

    def play(self, name: str, *arguments: str, variables: t.Mapping[str, t.Any]) -> playbooks.Outcome:
        """Run a playbook with the secrets that it needs."""
        given = (*self.controller.arguments, *arguments)
        return playbooks.run(name, *given, variables=variables, HF_TOKEN=self.canary, **self.controller.environment)

    @contextlib.contextmanager
    def replacing(self, switched_off: bool = False) -> t.Iterator[playbooks.Background]:
        """Have a run under way that replaces what serves, and end it the hard way if it is not over by then.

        If its machine is switched off, nothing of it can give back the lease.
        """
        wishes = {"speculative_serve_draft_length": self.luck.choice((1, 2, 4))}
        begun, killed = time.time(), False
        with tempfile.TemporaryDirectory() as directory:
            given = ["-e", json.dumps({**self.wishes, **wishes}), *self.controller.arguments]
            path, known = Path(directory, "log"), self.controller.environment
            run = playbooks.Background(path, self.playbook, *given, HF_TOKEN=self.canary, **known)
            try:
                yield run
            finally:
                if run.process.poll() is None:
                    killed = True
                    renewers = orphans(run.process.pid) if switched_off else []
                    run.kill()
                    for pid in renewers:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    self.watch_lease()
                output = run.log.read_text(encoding="utf-8")
                self.tell(
                    "background",
                    playbook=self.playbook,
                    wishes=wishes,
                    code=run.process.returncode,
                    killed=killed,
                    begun=begun,
                    # Of its last line: what else the fault does takes longer.
                    ended=run.log.stat().st_mtime,
                    leaks=secrets.seen(output, self.secrets),
                    traceback=has_traceback(output),
                    said=output[-1500:],
                )

    def lease(self, spark: Spark | None = None) -> float | None:
        """Return for how long a run has had a Spark, as its lock says; None where no run has it."""
        text = (spark or self.head).exec(["python3", "-I", "-c", ASK_LEASE]).stdout.strip()
        return float(text) if text else None

    def watch_lease(self) -> None:
        """Write down when the Spark that a run had is free, or another run's, after this moment."""
        killed = time.time()
        if self.lease() is None:
            return

        def watch() -> None:
            after = None
            while after is None and time.time() < killed + FREED_WITHIN_S:
                has = self.lease()
                if has is None or has < time.time() - killed - 2:
                    after = time.time() - killed
                time.sleep(1)
            self.tell("freed", killed=killed, after=after)

        self.waiting.append(threading.Thread(target=watch, daemon=True))
        self.waiting[-1].start()

    def until(self, run: playbooks.Background, condition: t.Callable[[], object], seconds: float = 240) -> None:
        """Wait for something that a run does."""
        deadline = time.monotonic() + seconds
        while not condition():
            if run.process.poll() is not None or time.monotonic() > deadline:
                raise TwinError("The run was over before what was waited for.")
            time.sleep(0.1)

    def some_moment(self, run: playbooks.Background) -> None:
        """Wait until a run is in the middle of its tasks, or of the switch, from which what served has to come back."""
        if self.luck.random() < 0.4:
            number = self.luck.randint(8, 70)
            self.until(run, lambda: run.log.read_text(encoding="utf-8").count("\nTASK [") >= number)
        else:
            self.until(run, lambda: slot.has_standby(self.head))
            time.sleep(self.luck.uniform(0, 10))
        self.tell("struck", standby=slot.has_standby(self.head))

    @contextlib.contextmanager
    def spied_on(self) -> t.Iterator[None]:
        """Have somebody look for the secret in what processes and containers show, all the time."""
        over, looks = threading.Event(), [secrets.seen(self.do(LIVE), self.secrets)]

        def spy() -> None:
            while not over.is_set():
                looks.append(secrets.seen(self.do(LIVE), self.secrets))

        thread = threading.Thread(target=spy, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.tell("spied", looks=len(looks), leaks=sorted({one for found in looks for one in found}))

    def internet_is_well(self) -> None:
        """But for what only the canary opens."""
        Internet().set_faults([{"host": "huggingface.co", "action": "gate", "repository": self.gated}])


def has_traceback(output: str) -> bool:
    return "Traceback (most" in output or "result deserialization failed" in output


Fault = t.Callable[[Scene], t.ContextManager[None]]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> t.Callable[[t.Callable[[Scene], t.Iterator[None]]], Fault]:
    """Have a fault of the promises inflicted by this."""
    assert name in PROMISES, name

    def keep(inflict: t.Callable[[Scene], t.Iterator[None]]) -> Fault:
        FAULTS[name] = contextlib.contextmanager(inflict)
        return FAULTS[name]

    return keep


def momentary(name: str, command: str, of_worker: bool = False) -> None:
    """A fault that is over as soon as this was done on a Spark."""

    @fault(name)
    def inflict(scene: Scene) -> t.Iterator[None]:
        scene.strike(command, scene.worker if of_worker else scene.head)
        yield


MAIN_PROCESS = f"kill -9 $(docker inspect --format '{{{{.State.Pid}}}}' {SLOT})"
momentary("engine killed", f"pkill -9 -f '{NAME_OF_ENGINE}'")
momentary("supervisor killed", MAIN_PROCESS)
momentary("container restarted", f"docker restart --time 5 {SLOT}")
momentary("container removed", f"docker rm --force {SLOT}")
momentary("docker killed", "pkill -9 dockerd")
momentary("containerd killed", "pkill -9 -x containerd")
momentary("docker restarted", "systemctl restart docker")
momentary("launcher killed", "pkill -9 mpirun")
momentary("worker's sshd killed", "pkill -9 -f '[s]shd.*dgx-spark-cluster'", of_worker=True)
momentary("worker's rank killed", "pkill -9 -f '[m]gmn_worker_node'", of_worker=True)
momentary("worker's supervisor killed", MAIN_PROCESS, of_worker=True)
momentary("worker's container restarted", f"docker restart --time 5 {SLOT}", of_worker=True)


def engine_pid(scene: Scene) -> str:
    return scene.strike(f"pgrep -o -f '{NAME_OF_ENGINE}'")


@fault("engine stopped")
def engine_stopped(scene: Scene) -> t.Iterator[None]:
    scene.strike(f"kill -STOP {engine_pid(scene)}")
    yield


@fault("engine hangs")
def engine_hangs(scene: Scene) -> t.Iterator[None]:
    """This one, and not the one that is started in its place, however soon that is."""
    pid = engine_pid(scene)

    def until_it_ends() -> None:
        # A Spark that was switched off has forgotten it.
        with contextlib.suppress(TwinError), scene.head.fault(hang_after_requests=0):
            deadline = time.monotonic() + 300
            while scene.do(f"kill -0 {pid} && echo there") and time.monotonic() < deadline:
                time.sleep(0.5)

    threading.Thread(target=until_it_ends, daemon=True).start()
    yield


@fault("container paused")
def container_paused(scene: Scene) -> t.Iterator[None]:
    scene.strike(f"docker pause {SLOT}")
    yield
    scene.do(f"docker unpause {SLOT}")


@fault("worker's container paused")
def workers_container_paused(scene: Scene) -> t.Iterator[None]:
    scene.strike(f"docker pause {SLOT}", scene.worker)
    time.sleep(scene.luck.uniform(0, 30))
    yield
    scene.do(f"docker unpause {SLOT}", scene.worker)


@fault("power cut")
def power_cut(scene: Scene) -> t.Iterator[None]:
    scene.head.power_cut()
    yield


@fault("worker's power cut")
def workers_power_cut(scene: Scene) -> t.Iterator[None]:
    scene.worker.power_cut()
    yield


@fault("both powers cut")
def both_powers_cut(scene: Scene) -> t.Iterator[None]:
    for spark in scene.sparks:
        engine.docker("kill", "--signal", "KILL", spark.container)
    engine.docker("start", *(spark.container for spark in scene.sparks))
    cables.connect()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(Spark.wait, scene.sparks))
    yield


@fault("stopped and started")
def stopped_and_started(scene: Scene) -> t.Iterator[None]:
    if scene.run("stop").code:
        raise TwinError("stop.yml has not stopped it.")
    yield


@fault("memory taken")
def memory_taken(scene: Scene) -> t.Iterator[None]:
    image = scene.strike(f"docker inspect --format '{{{{.Image}}}}' {SLOT}")
    with scene.head.stranger(image, int(8e9), name=HOG):
        yield


@fault("disk full")
def disk_full(scene: Scene) -> t.Iterator[None]:
    """As the container sees it, whose life ends this if it ends before."""
    full = "mount -t tmpfs -o size=4k tmpfs /deployment/state && head -c 8192 /dev/zero >/deployment/state/full"
    scene.strike(f"{INSIDE} sh -c '{full}' || {INSIDE} mountpoint /deployment/state")
    yield
    is_full = "grep --quiet ' /deployment/state .* - tmpfs ' /proc/self/mountinfo"
    scene.do(f'{INSIDE} sh -c "while {is_full}; do umount --lazy /deployment/state; done"')


@fault("internet fails")
def internet_fails(scene: Scene) -> t.Iterator[None]:
    Internet().set_faults(DOWN)
    try:
        scene.run(scene.playbook)
        yield
    finally:
        scene.internet_is_well()


@fault("clock stepped")
def clock_stepped(scene: Scene) -> t.Iterator[None]:
    """For what runs on the Spark in a run: the kernel's clock is the machine's."""
    python = f"{AHEAD}/python3"
    scene.head.write_file(python, f'#!/bin/sh\nPYTHONPATH={AHEAD} exec /usr/bin/python3 "$@"\n')
    scene.head.write_file(f"{AHEAD}/sitecustomize.py", AHEAD_CLOCK)
    scene.strike(f"chmod 755 {python}")
    scene.run(scene.playbook, "-e", f"ansible_python_interpreter={python}")
    yield
    scene.do(f"rm -r {AHEAD}")


@fault("files edited")
def files_edited(scene: Scene) -> t.Iterator[None]:
    scene.strike(f"chmod 600 {scene.directory}/generations/*/options.yml")
    scene.strike(f"sed -i '$ a # mine' {scene.directory}/generations/*/entrypoint.py")
    yield


@fault("files deleted")
def files_deleted(scene: Scene) -> t.Iterator[None]:
    scene.strike(f"rm {scene.directory}/record.json {scene.directory}/generations/*/server/guard.py")
    yield


@fault("weights deleted")
def weights_deleted(scene: Scene) -> t.Iterator[None]:
    """Those of a model that the Hub gives only for a token, which nobody may see on its way."""
    blobs = f"~spark/.cache/huggingface/hub/models--{scene.gated.replace('/', '--')}/blobs"
    scene.strike(f"find {blobs} -type f -size +100k | sort | head --lines 1 | xargs rm")
    Internet().reset_counters()
    with scene.spied_on():
        outcome = scene.run(scene.playbook)
    fetched = [one for one in Internet().requests("huggingface.co") if scene.gated in one["path"]]
    if outcome.code == 0 and not any(one["authorized"] for one in fetched):
        raise TwinError("Nobody has needed the token.")
    yield


@fault("two controllers")
def two_controllers(scene: Scene) -> t.Iterator[None]:
    with scene.replacing() as first:
        time.sleep(scene.luck.uniform(0, 6))
        scene.run(scene.playbook, "-e", "wait_minutes=10")
        over(first)
    yield


@fault("controller killed")
def controller_killed(scene: Scene) -> t.Iterator[None]:
    with scene.replacing(switched_off=scene.luck.random() < 0.5) as run:
        scene.some_moment(run)
    yield


@fault("controller killed early")
def controller_killed_early(scene: Scene) -> t.Iterator[None]:
    """Before what renews the lease has had its first turn."""
    with scene.replacing(switched_off=True) as run:
        scene.until(run, lambda: scene.lease() is not None)
        time.sleep(scene.luck.uniform(0, 7))
        scene.tell("struck", standby=slot.has_standby(scene.head))
    yield


@fault("lock killed")
def lock_killed(scene: Scene) -> t.Iterator[None]:
    with scene.replacing() as run:
        scene.some_moment(run)
        scene.strike("kill -9 $(ss -xlpH src '@dgx-spark-speculative' | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p')")
        over(run)
    yield


@fault("renewal killed")
def renewal_killed(scene: Scene) -> t.Iterator[None]:
    """On this machine: of the run's processes those that outlive their tasks, one for each Spark."""
    with scene.replacing() as run:
        scene.some_moment(run)
        renewers = orphans(run.process.pid)
        if not renewers:
            raise TwinError("Nothing renews a lock.")
        for pid in renewers:
            os.kill(pid, signal.SIGKILL)
        over(run)
    yield


def orphans(pid: int) -> list[int]:
    """Processes with the command line of this one that are no children of it."""
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        # They come and go.
        with contextlib.suppress(OSError):
            if (path / "cmdline").read_bytes() == line:
                found[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    return [one for one, parent in found.items() if one != pid and parent not in found]


@fault("work killed")
def work_killed(scene: Scene) -> t.Iterator[None]:
    """Also that which waits to restore the container on standby."""
    with scene.replacing() as run:
        scene.until(run, lambda: scene.do(f"pgrep -f '{JOBS}'"))
        time.sleep(scene.luck.uniform(0, 8))
        scene.strike(f"pkill -9 -f '{JOBS}'")
        over(run)
    yield


def over(run: playbooks.Background) -> None:
    """Leave it its time to end by itself."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.process.wait(timeout=300)


@fault("cable out")
def cable_out(_scene: Scene) -> t.Iterator[None]:
    with cables.changed(rails=()):
        yield


@fault("one rail out")
def one_rail_out(_scene: Scene) -> t.Iterator[None]:
    with cables.changed(rails=(0,)):
        yield


@fault("cable slow")
def cable_slow(_scene: Scene) -> t.Iterator[None]:
    with cables.changed(mbit=50):
        yield


@fault("cable loses packets")
def cable_loses_packets(scene: Scene) -> t.Iterator[None]:
    for spark in scene.sparks:
        scene.strike(f"iptables -I {LOSE}", spark)
    yield
    for spark in scene.sparks:
        # It is gone with a Spark that was restarted.
        scene.do(f"iptables -D {LOSE}", spark)


def heal(scene: Scene) -> None:
    """Take away what a soak that was cut off has left."""
    scene.internet_is_well()
    if len(scene.sparks) > 1:
        cables.plug()
    for spark in scene.sparks:
        scene.do(f"while iptables -D {LOSE}; do :; done; rm -rf {AHEAD}; docker rm --force {HOG}", spark)
        spark.set_faults(None)
        scene.do(f"docker unpause {SLOT}; docker restart --time 5 {SLOT}", spark)
