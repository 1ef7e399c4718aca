# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes it go wrong for so many minutes, and writes the history of it, a line of JSON for each thing that happened."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import subprocess
import tempfile
import threading
import time
import typing as t
from pathlib import Path

from tests import playbook
from tests.deployed import SLOT
from tests.soak import answers, client, look, secrets
from tests.soak.faults import FAULTS, HOME, Controller, Scene, has_traceback, heal
from tests.soak.judge import HOLD_S, Span, came_back, is_served, question
from tests.soak.promises import NO_ACTION, PROMISES, SAME, Inputs, bound
from tests.twin import engine
from tests.twin.control import Spark
from tests.twin.names import NAME, PASSWORD, TwinError

# Short, so that a quarter of an hour holds many of them; now and then a round has the inputs that users have.
WATCHED = {
    "speculative_serve_probe_interval_s": 3,
    "speculative_serve_stall_timeout_s": 15,
    "speculative_serve_worker_timeout_s": 10,
}
DEFAULTS = {"interval_s": 60.0, "stall_timeout_s": 300.0, "worker_timeout_s": 60.0}
DEFAULTS_EACH = 6
KINDS = {
    1: ("single_eagle3", "single_eagle3", 8000, "gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3-long-context"),
    2: ("two_sparks", "qwen3_235b_a22b_eagle3", 8355, "Qwen3-235B-A22B-FP4", "nvidia/Qwen3-235B-A22B-Eagle3"),
}
# The token that the twin's Hub knows, and the password of the login user for the time of a soak.
CANARY = "hf_twin_valid"
SUDO = 'So&ak/pa"ss=4711+word'
# How long one on top of another fault is tried, which the first may be in the way of for a moment.
STRIKES_FOR_S = 20.0
# One who asks again soon, and one who waits for longer than the watchdog does.
PATIENCE_S = {"a": 8.0, "b": 40.0}
# A run that was killed has the Spark for a while yet.
WAITING = ("-e", "wait_minutes=10")
# Between two rounds, when nobody may notice anything.
PEACE_S = 4.0
MAX_RESTARTS = 3
# What is somebody else's on a Spark: it is there all the time, and nobody may touch it.
MINE = """for top in ~spark ~spark/.local/share ~spark/.cache /srv /var/lib /root; do
    mkdir -p $top/mine && echo mine >$top/mine/notes
done; chown -R spark: ~spark/mine ~spark/.local/share/mine ~spark/.cache/mine"""


def playbook_of(actions: t.Collection[str], own: str) -> str:
    """Return the playbook that mends what the faults of a round broke."""
    return own if SAME in actions else "start"


class SoakError(Exception):
    """It cannot go on; the text says why."""


class History:
    """What has happened, in order, as it is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[dict[str, t.Any]] = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                # One that was cut off is none.
                with contextlib.suppress(ValueError):
                    self.lines.append(json.loads(line))
            path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines), encoding="utf-8")
        self._one = threading.Lock()

    def tell(self, kind: str, **values: t.Any) -> None:
        line = {"at": round(time.time(), 3), "kind": kind, **values}
        with self._one:
            self.lines.append(line)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def last(self, kind: str) -> dict[str, t.Any] | None:
        return next((line for line in reversed(self.lines) if line["kind"] == kind), None)

    def lives(self, client: str) -> int:
        """How often a client has been begun until now; each time it counts its questions anew."""
        return max((line["life"] for line in self.lines if line.get("client") == client), default=0)

    def answered_since(self, moment: float) -> float | None:
        """Since when whoever asks gets a whole answer, of those who asked after this moment."""
        begin = len(self.lines)
        while begin and self.lines[begin - 1]["at"] >= moment:
            begin -= 1
        asked: dict[tuple[t.Any, ...], float] = {}
        served: list[Span] = []
        refused: list[Span] = []
        for line in self.lines[begin:]:
            if line["kind"] == "asked":
                asked[question(line)] = line["at"]
            elif line["kind"] == "answered" and question(line) in asked:
                (served if is_served(line) else refused).append((asked[question(line)], float(line["at"])))
        return came_back(served, refused, moment)


class Clients(threading.Thread):
    """One client that asks all the time, from the Spark that has the API: begun anew when that has lost its power."""

    def __init__(self, scene: Scene, history: History, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.scene, self.history = scene, history
        self.done = threading.Event()
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        program = Path(client.__file__).read_text(encoding="utf-8")
        prompts = {"completions": answers.PROMPTS, "chat": answers.PROMPTS, "tools": (answers.ASKS_FOR_A_CALL,)}
        asked = json.dumps({route: prompts[route] for route in self.scene.routes})
        life = self.history.lives(self.name)
        while not self.done.is_set():
            life += 1
            seed = f"{self.name} {time.time()}"
            patience = str(PATIENCE_S[self.name])
            given = [str(self.scene.port), self.scene.model, seed, patience, asked, json.dumps(answers.TOOLS)]
            command = ["docker", "exec", self.scene.head.container, "python3", "-I", "-c", program, *given]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for text in self.process.stdout or ():
                with contextlib.suppress(ValueError):
                    line = json.loads(text)
                    self.history.tell(line.pop("kind"), client=self.name, life=life, **line)
            self.process.wait()
            self.done.wait(0.5)

    def stop(self) -> None:
        self.done.set()
        if self.process:
            self.process.kill()


class Observer(threading.Thread):
    """Somebody who asks for the status now and then."""

    def __init__(self, scene: Scene, luck: random.Random, directory: Path) -> None:
        super().__init__(name="observer", daemon=True)
        self.scene, self.luck, self.path = scene, luck, directory / "status.json"
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(self.luck.uniform(5, 25)):
            try:
                with self.scene.looking:
                    self.ask()
            # Whatever it is: without it nobody would ask any more.
            except Exception as error:
                self.scene.tell("harness", fault="status", error=f"{type(error).__name__}: {error}"[:500])

    def ask(self) -> None:
        self.path.unlink(missing_ok=True)
        begun = time.time()
        outcome = self.scene.play("status", variables={"json": str(self.path)})
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else "{}"
        states = {host: {"state": one.get("state"), "why": one.get("reason")} for host, one in json.loads(text).items()}
        leaks = secrets.seen(outcome.output + text, self.scene.secrets)
        traceback = has_traceback(outcome.output)
        said = outcome.message[-500:] if outcome.code else ""
        told = {"hosts": states, "code": outcome.code, "said": said, "leaks": leaks, "traceback": traceback}
        self.scene.tell("status", begun=begun, **told)

    def stop(self) -> None:
        self.done.set()


class Soak:
    """One soak: a twin, a seed, a history."""

    def __init__(self, sparks: int, seed: int, directory: Path) -> None:
        self.history = History(directory / "history.jsonl")
        begin = self.history.last("begin")
        name, deployment, port, model, gated = KINDS[sparks]
        self.directory = directory
        self.seed = seed
        self.scene = Scene(
            sparks=[Spark(number) for number in range(1, sparks + 1)],
            playbook=name,
            deployment=deployment,
            port=port,
            model=model,
            gated=gated,
            wishes=dict(WATCHED),
            # The recipe of two has no tools.
            routes=answers.ROUTES if sparks == 1 else answers.ROUTES[:2],
            canary=CANARY,
            controller=Controller(Path(tempfile.gettempdir(), f"soak-{NAME}"), SUDO),
            luck=random.Random(seed),
            tell=self.history.tell,
        )
        self.inputs = Inputs(**begin["inputs"]) if begin else None

    # The beginning

    def begin(self) -> Inputs:
        """A new twin that serves, and what it takes to do so."""
        scene = self.scene
        command = ["tools/twin.sh", "up", "--fresh", "--sparks", str(len(scene.sparks))]
        subprocess.run(command, cwd=playbook.ROOT, check=True)
        scene.internet_is_well()
        self.prepare()
        if scene.run(scene.playbook).code:
            raise SoakError("The playbook fails though nothing is wrong yet.")
        image = scene.do(f"docker inspect --format '{{{{.Image}}}}' {SLOT}")
        for spark in scene.sparks:
            spark.exec(MINE)
        scene.do(f"docker run --detach --restart always --name mine {image} sleep infinity")
        # The shorter of two: in one of them the machine may have been busy with something else.
        load = min(self.timed(f"docker restart --time 5 {SLOT}") for _ in range(2))
        begun = time.monotonic()
        scene.head.power_cut()
        boot = self.until_it_answers(begun) - load
        interval, stall, peer = map(float, WATCHED.values())
        inputs = Inputs(load, max(boot, 1.0), interval, stall, peer, max(PATIENCE_S.values()))
        if scene.run(scene.playbook).changed:
            raise SoakError("A second run changes something though nothing is wrong yet.")
        self.know_secrets()
        known = json.loads(scene.do(f"cat {scene.directory}/record.json"))
        self.history.tell(
            "begin",
            sparks=len(scene.sparks),
            seed=self.seed,
            inputs=vars(inputs),
            playbook=scene.playbook,
            draft_length=known["draft_length"],
            routes=scene.routes,
            model=scene.model,
        )
        self.look("baseline")
        return inputs

    def prepare(self) -> None:
        """Give the login user the password of the soak, and the runs what they need for it."""
        self.scene.controller.prepare()
        self.set_password(SUDO)
        self.know_secrets()

    def set_password(self, password: str) -> None:
        for spark in self.scene.sparks:
            engine.attempt("exec", "-i", spark.container, "chpasswd", text=f"spark:{password}\n")

    def know_secrets(self) -> None:
        """All that may turn up nowhere, with what the Sparks have made themselves."""
        known = {"the token": CANARY, "the sudo password": SUDO}
        for number, spark in enumerate(self.scene.sparks, start=1):
            for path in self.scene.do(f"grep -l 'PRIVATE KEY' {HOME}/cluster/*", spark).split():
                name = f"the private key {Path(path).name} of spark-{number}"
                known[name] = secrets.of_a_key(self.scene.do(f"cat {path}", spark))
            for path in self.scene.do(f"ls {HOME}/proxy/keys/*", spark).split():
                known[f"the API key {Path(path).name}"] = self.scene.do(f"cat {path}", spark)
        self.scene.secrets = secrets.spelled(known)

    def timed(self, command: str) -> float:
        begun = time.monotonic()
        self.scene.do(command)
        return self.until_it_answers(begun)

    def until_it_answers(self, begun: float, most: float = 300) -> float:
        question = json.dumps({"model": self.scene.model, "prompt": "1, 2,", "max_tokens": 2})
        url = f"http://127.0.0.1:{self.scene.port}/v1/completions"
        ask = ["curl", "-sf", "--max-time", "5", "-H", "Content-Type: application/json", "-d", question, url]
        while self.scene.head.exec(ask).returncode:
            if time.monotonic() > begun + most:
                raise SoakError(f"It does not answer within {most:g} s though nothing is wrong.")
            time.sleep(0.2)
        return time.monotonic() - begun

    # The rounds

    def go_on(self, minutes: float) -> None:
        """Rounds of faults until so many minutes of them are in the history."""
        if self.inputs:
            # Wherever the last one was cut off.
            self.history.tell("goes on")
            self.prepare()
            heal(self.scene)
        self.inputs = self.inputs or self.begin()
        luck = random.Random(f"{self.seed} observer {time.time()}")
        helpers: list[Clients | Observer] = [Clients(self.scene, self.history, name) for name in PATIENCE_S]
        helpers.append(Observer(self.scene, luck, self.directory))
        for helper in helpers:
            helper.start()
        try:
            number = sum(line["kind"] == "round" for line in self.history.lines)
            spent = sum(line["seconds"] for line in self.history.lines if line["kind"] == "rounded")
            if number:
                self.repair()
            while spent < minutes * 60:
                number += 1
                spent += self.round(number)
                time.sleep(PEACE_S)
        finally:
            for helper in helpers:
                helper.stop()
            self.set_password(PASSWORD)
        self.history.tell("end", rounds=number, seconds=spent)

    def round(self, number: int) -> float:
        """One combination of faults, and how it ends; a round is a function of seed and number."""
        scene, luck = self.scene, random.Random(f"{self.seed} {number}")
        scene.luck = luck
        possible = [name for name, promise in PROMISES.items() if len(scene.sparks) in promise.sparks]
        names = luck.sample(possible, luck.choice((1, 1, 2, 2, 3)))
        by_default = number % DEFAULTS_EACH == random.Random(f"{self.seed} inputs").randrange(DEFAULTS_EACH)
        begun = time.time()
        with self.deployed_by_default() if by_default else contextlib.nullcontext():
            self.renew(names)
            self.history.tell("round", number=number, faults=names)
            self.inflict(names, luck)
            kinds = {PROMISES[name].by for name in names}
            over = time.time()
            if kinds != {NO_ACTION}:
                scene.run(playbook_of(kinds, scene.playbook), *WAITING)
                over = time.time()
            came = self.wait(over, names)
            self.history.tell("back", number=number, faults=names, over=over, came=came)
            if came is not None and any("lease" in PROMISES[name].terms for name in names):
                self.settle(over, names)
            self.look("back", number=number, faults=names)
            if any(PROMISES[name].leaves for name in names) or came is None:
                self.repair()
                self.look("repaired", number=number)
            while scene.waiting:
                scene.waiting.pop().join()
            self.history.tell("rounded", number=number, seconds=round(time.time() - begun, 1))
        return time.time() - begun

    @contextlib.contextmanager
    def deployed_by_default(self) -> t.Iterator[None]:
        """Have it deployed with the inputs that users have for the time of a round."""
        scene = self.scene
        assert self.inputs
        short, known = dict(scene.wishes), self.inputs
        self.redeploy({}, dict(DEFAULTS))
        self.inputs = dataclasses.replace(known, **DEFAULTS)
        yield
        self.inputs = known
        self.redeploy(short, {name: getattr(known, name) for name in DEFAULTS})

    def redeploy(self, wishes: dict[str, t.Any], watched: dict[str, float]) -> None:
        """Other inputs, and how it looks with them."""
        self.history.tell("changing")
        self.scene.wishes = wishes
        self.repair()
        self.history.tell("changed", watched=watched)
        self.look("baseline")

    def settle(self, over: float, names: t.Sequence[str]) -> None:
        """Give a switch that a run has left its promised time to end; the judge tells whether it did."""
        assert self.inputs
        baseline = next(line["sparks"] for line in self.history.lines if line.get("what") == "baseline")
        wanted = [sorted(spark["containers"]) for spark in baseline]
        deadline = over + bound(names, self.inputs)
        while time.time() < deadline:
            found = [
                sorted(self.scene.do("docker ps --all --format '{{.Names}}'", one).split()) for one in self.scene.sparks
            ]
            if found == wanted and self.scene.lease() is None:
                break
            time.sleep(1)

    def inflict(self, names: t.Sequence[str], luck: random.Random) -> None:
        """All of them, one on top of the other, and away again in another order."""
        active: list[tuple[str, t.ContextManager[None]]] = []
        for name in names:
            if active:
                time.sleep(luck.uniform(0, 8))
            self.phase(name, "begins")
            one = self.begun(name, amid=list(names[: names.index(name)]))
            if one:
                active.append((name, one))
            else:
                self.phase(name, "ends")
        time.sleep(luck.uniform(2, 20))
        for name, one in luck.sample(active, len(active)):
            try:
                one.__exit__(None, None, None)
            except Exception as error:
                self.broken(name, error)
            self.phase(name, "ends")

    def phase(self, name: str, phase: str) -> None:
        self.history.tell("fault", name=name, phase=phase)

    def begun(self, name: str, amid: list[str]) -> t.ContextManager[None] | None:
        """Begin a fault. One on top of others is tried for a while, since those may be in its way."""
        deadline = time.monotonic() + (STRIKES_FOR_S if amid else 0)
        while True:
            one = FAULTS[name](self.scene)
            try:
                one.__enter__()
                return one
            except TwinError as error:
                if time.monotonic() > deadline:
                    self.history.tell("missed", fault=name, error=str(error)[:500], amid=amid)
                    return None
            except Exception as error:
                self.broken(name, error)
                return None
            time.sleep(0.5)

    def broken(self, name: str, error: Exception) -> None:
        """All that no fault explains is the soak's failure."""
        self.history.tell("harness", fault=name, error=f"{type(error).__name__}: {error}"[:500])

    def wait(self, over: float, names: t.Sequence[str]) -> float | None:
        """Since when it has answered whoever asked; None if it does not even long after it should."""
        assert self.inputs
        deadline = over + bound(names, self.inputs) + 60
        while time.time() < deadline:
            came = self.history.answered_since(over)
            if came and time.time() > came + HOLD_S:
                return came
            time.sleep(0.3)
        return None

    def renew(self, names: t.Sequence[str]) -> None:
        """A server that ends by itself a fourth time within an hour stays down, as it should: begin to count anew."""
        ends = sum(PROMISES[name].ends_engine for name in names)
        text = self.scene.do(f"cat {self.scene.directory}/state/state.json")
        counted = json.loads(text).get("restarts", 0) if text else 0
        if ends and counted + ends > MAX_RESTARTS:
            self.history.tell("renewed", restarts=counted)
            assert self.inputs
            begun = time.time()
            self.scene.do(f"docker restart --time 5 {SLOT}")
            while not self.history.answered_since(begun) and time.time() < begun + 120:
                time.sleep(0.3)

    def repair(self) -> None:
        """The same playbook, until it serves: without that nothing that follows says anything."""
        outcome = self.scene.run(self.scene.playbook, *WAITING)
        over = time.time()
        assert self.inputs
        deadline = over + bound(["container restarted"], self.inputs, pace=4)
        while not self.history.answered_since(over):
            if time.time() > deadline:
                self.history.tell("lost", code=outcome.code)
                raise SoakError(f"Nothing serves after the same playbook has run: {outcome.output[-2000:]}")
            time.sleep(0.3)

    def look(self, what: str, **values: t.Any) -> None:
        program = Path(look.__file__).read_text(encoding="utf-8")
        sparks = []
        with self.scene.looking:
            for spark in self.scene.sparks:
                command = ["exec", "-i", spark.container, "python3", "-I", "-c", program, HOME, self.scene.deployment]
                done = engine.attempt(*command, text=json.dumps(self.scene.secrets), timeout=300)
                sparks.append(json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-500:]})
            left = runs_here()
        leaks = secrets.seen_in([*self.scene.controller.home.rglob("*"), *written_here()], self.scene.secrets)
        self.history.tell("look", what=what, sparks=sparks, runs=left, leaks=leaks, **values)


def written_here() -> list[Path]:
    """What runs may have left in the checkout, from where they are started."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=playbook.ROOT, capture_output=True, text=True, check=False).stdout
    return [playbook.ROOT / line for line in found.splitlines()]


def runs_here() -> list[str]:
    """The processes of runs against this twin that stay; what gives a lock back has a moment for it."""
    left: list[str] = []
    for _ in range(10):
        found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
        left = [line for line in found if f"-i {playbook.INVENTORY}" in line]
        if not left:
            break
        time.sleep(0.5)
    return left
