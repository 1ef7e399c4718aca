# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark's trials: the entrypoint with real processes, and who else reads a lease."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import jinja2
import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import records
from server import health
from server.processes import descendants
from server.supervisor import leased_trial

from tests.unit import web
from tests.unit.entrypoint_container import FILES, SAY_OPTIONS, Benchmark, Container, lease_until
from tests.unit.waiting import until

OWN_BACK = "switching back to the deployment's own options"
SERVE = f"{SAY_OPTIONS}; exec sleep 60"
# What dies of a trial's options, and serves with the deployment's own.
FAILS = f"{SAY_OPTIONS}; case $DGX_SPARK_OPTIONS in */trial/*) echo too long; ENDING;; esac; exec sleep 60"
TEMPLATES = FILES.parent / "templates"


class Handler(web.Handler):
    """Answers every look; the server is told what was asked for."""

    def do_GET(self) -> None:
        self.told.append(self.path.partition("?")[0])
        self.reply(200, {"data": [{"id": "m"}], "choices": [{}]})

    def do_POST(self) -> None:
        self.read()
        self.do_GET()


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[web.Server]:
    with web.Server(Handler, []) as server:
        yield server


@pytest.fixture(name="benchmark")
def fixture_benchmark(tmp_path: Path) -> Benchmark:
    return Benchmark(tmp_path)


Start = t.Callable[..., Container]


@pytest.fixture(name="start")
def fixture_start(tmp_path: Path, server: web.Server) -> t.Iterator[Start]:
    started: list[Container] = []

    def start(script: str = SERVE, **options: t.Any) -> Container:
        started.append(Container(tmp_path, script, server.url, **options))
        return started[-1]

    yield start
    for container in started:
        container.end()


def wait_for(container: Container, state: str, trial: dict[str, str] | None, **values: t.Any) -> dict[str, t.Any]:
    """The state of a server that was started with a trial, or without."""
    wanted = {"state": state, "trial": trial, **values}
    return container.wait_until(lambda found: {name: found.get(name) for name in wanted} == wanted)


def lease(**changes: t.Any) -> str:
    return json.dumps({"id": "draft-3", "title": "draft length 3", **lease_until(60), **changes})


@pytest.mark.parametrize(
    ("make", "valid"),
    [
        (lambda: lease(), True),
        (lambda: lease(until=int(lease_until(800)["until"])), True),
        (lambda: lease(more=1), True),
        (lambda: lease(**lease_until(-1)), False),
        # As one from before a reboot looks, and one by the time of day.
        (lambda: lease(**lease_until(1000)), False),
        (lambda: lease(until=time.time() + 60), False),
        (lambda: lease(until=10**400), False),
        (lambda: lease(until=float("nan")), False),
        (lambda: lease(until=True), False),
        (lambda: lease(until="1790000000"), False),
        (lambda: lease(id=3), False),
        (lambda: lease(title=None), False),
        (lambda: lease(title="two\nlines"), False),
        (lambda: lease(title="\ud800"), False),
        (lambda: "{", False),
        (lambda: "[]", False),
        (lambda: "[" * 100_000, False),
    ],
)
def test_whoever_reads_a_lease_takes_the_same_for_valid(
    tmp_path: Path, benchmark: Benchmark, make: t.Callable[[], str], valid: bool
) -> None:
    text = make()
    benchmark.write(text)
    obeyed, told = leased_trial(tmp_path / "trial"), records.leased_trial(tmp_path)
    assert (obeyed is not None, told is not None) == (valid, valid)
    if obeyed is not None:
        assert obeyed._asdict() == {"id": "draft-3", "title": "draft length 3"}
        assert told == {**obeyed._asdict(), "until": json.loads(text)["until"]}


def test_the_time_of_day_is_nothing_to_a_lease(
    tmp_path: Path, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back by an hour while a benchmark is dead, it would let its trial serve that much longer."""
    benchmark.try_out(3, seconds=-1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert leased_trial(tmp_path / "trial") is records.leased_trial(tmp_path) is None
    benchmark.try_out(3, seconds=60)
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    assert leased_trial(tmp_path / "trial") is not None
    assert records.leased_trial(tmp_path) is not None


def test_no_lease_is_none(tmp_path: Path, benchmark: Benchmark) -> None:
    assert leased_trial(tmp_path / "trial") is records.leased_trial(tmp_path) is None
    benchmark.directory.mkdir()
    (benchmark.directory / "lease.json").write_bytes(b"\xff")
    assert leased_trial(tmp_path / "trial") is records.leased_trial(tmp_path) is None


def test_a_trial_comes_and_goes(start: Start, benchmark: Benchmark) -> None:
    # A child in a session of its own, as mpirun has.
    container = start(f"setsid sleep 61 & {SERVE}")
    own = container.wait_for("running")
    assert (own["trial"], own["loading_s"] >= 0) == (None, True)

    trial = benchmark.try_out(1)
    first = wait_for(container, "running", trial)
    assert first["pid"] != own["pid"]
    # Another trial takes its place.
    second = wait_for(container, "running", benchmark.try_out(3))
    benchmark.take_back()
    last = wait_for(container, "running", None)

    assert container.options() == ["options.yml", "trial/options.yml", "trial/options.yml", "options.yml"]
    assert (last["restarts"], last["last_exit"], last["reason"]) == (0, None, None)
    assert len({own["pid"], first["pid"], second["pid"], last["pid"]}) == 4
    said = [line for line in container.log().splitlines() if "switching" in line]
    assert said == [
        "[entrypoint] switching to a trial: draft length 1",
        "[entrypoint] switching to a trial: draft length 3",
        f"[entrypoint] {OWN_BACK}",
    ]
    for ended in (own, first, second):
        assert not Path(f"/proc/{ended['pid']}").exists()
    # Nothing of theirs is left that would hold memory: only the last server's.
    family = descendants(container.process.pid)
    assert sorted(process.name for process in family.values()) == ["sleep", "sleep"]
    assert container.stop() == 0


def test_a_switch_says_what_for(start: Start, benchmark: Benchmark) -> None:
    # One that does not obey is killed after a while, and meanwhile it is no server any more.
    container = start("trap '' TERM; sleep 600 & sleep 600; wait", supervisor__SWITCH_GRACE_S=2)
    container.wait_for("running")
    trial = benchmark.try_out(3)
    state = wait_for(container, "restarting", trial)
    assert (state["reason"], state["last_exit"]) == ("switching to a trial: draft length 3", None)
    wait_for(container, "running", trial)
    benchmark.take_back()
    assert wait_for(container, "restarting", None)["reason"] == OWN_BACK
    # The order to stop comes before everything else.
    assert container.stop() == 0
    assert (container.state()["state"], container.state()["trial"]) == ("stopped", None)


def test_a_dead_benchmark_gives_the_server_back(start: Start, benchmark: Benchmark) -> None:
    trial = benchmark.try_out(3)
    container = start()
    wait_for(container, "running", trial)
    # As long as it renews the lease, nothing changes.
    benchmark.try_out(3)
    time.sleep(0.5)
    assert container.state()["trial"] == trial
    benchmark.try_out(3, seconds=0.5)
    wait_for(container, "running", None)
    assert container.options() == ["trial/options.yml", "options.yml"]


@pytest.mark.parametrize("serves_first", [False, True])
def test_a_trial_that_fails_is_not_tried_again(
    start: Start, benchmark: Benchmark, tmp_path: Path, serves_first: bool
) -> None:
    end = tmp_path / "end"
    container = start(FAILS.replace("ENDING", f"until [ -e {end} ]; do sleep 0.05; done; exit 7"))
    container.wait_for("running")
    if not serves_first:
        end.touch()
    trial = benchmark.try_out(8)
    if serves_first:
        wait_for(container, "running", trial)
        end.touch()
    state = wait_for(container, "trial failed", trial)
    assert (state["last_exit"]["code"], state["reason"], state["restarts"], state["pid"]) == (7, "too long", 0, None)
    assert health.main(container.directory, "http://127.0.0.1:1") == 1
    benchmark.try_out(8)
    time.sleep(0.5)
    assert (container.state()["state"], len(container.options())) == ("trial failed", 2)

    # The next one is another one's chance, also to fail.
    wait_for(container, "trial failed", benchmark.try_out(5))
    benchmark.take_back()
    state = wait_for(container, "running", None)
    # What a trial died of is nothing that the deployment suffers from.
    assert (state["restarts"], state["last_exit"], state["reason"]) == (0, None, None)
    assert container.options() == ["options.yml", *["trial/options.yml"] * 2, "options.yml"]


def test_a_failed_trial_whose_benchmark_is_dead(start: Start, benchmark: Benchmark) -> None:
    trial = benchmark.try_out(8)
    container = start(FAILS.replace("ENDING", "exit 7"))
    wait_for(container, "trial failed", trial)
    benchmark.try_out(8, seconds=0.5)
    wait_for(container, "running", None)


def test_a_container_that_waits_for_a_benchmark_stops(start: Start, benchmark: Benchmark) -> None:
    trial = benchmark.try_out(8)
    container = start("exit 7")
    wait_for(container, "trial failed", trial)
    assert container.stop() == 0
    assert container.state()["state"] == "stopped"


def test_the_deployments_own_faults_still_count(start: Start, benchmark: Benchmark) -> None:
    container = start()
    os.kill(container.wait_for("running")["pid"], signal.SIGKILL)
    wait_for(container, "running", None, restarts=1)
    assert wait_for(container, "running", benchmark.try_out(1), restarts=1)["last_exit"] is None
    benchmark.take_back()
    os.kill(wait_for(container, "running", None, restarts=1)["pid"], signal.SIGKILL)
    assert wait_for(container, "running", None, restarts=2)["last_exit"]["signal"] == signal.SIGKILL


def test_after_a_power_cut(start: Start, benchmark: Benchmark, tmp_path: Path) -> None:
    """The container is started again with what the benchmark has left, and with an old state."""
    trial = benchmark.try_out(3)
    (tmp_path / "state").mkdir()
    old = {"state": "running", "trial": trial, "restarts": 2}
    (tmp_path / "state" / "state.json").write_text(json.dumps(old), encoding="utf-8")
    container = start()
    wait_for(container, "running", trial, restarts=0)
    assert container.options() == ["trial/options.yml"]
    container.end()
    benchmark.try_out(3, seconds=-1)
    container = start()
    wait_for(container, "running", None, restarts=0)
    assert container.options() == ["options.yml"]


def test_nobody_else_asks_a_trials_server(start: Start, benchmark: Benchmark, server: web.Server) -> None:
    trial = benchmark.try_out(3)
    container = start(environment={"DGX_SPARK_PROBE_INTERVAL_S": "0.1"})
    wait_for(container, "running", trial)
    server.told.clear()
    # Several times as long as it takes between two questions.
    time.sleep(0.5)
    assert server.told == []
    benchmark.take_back()
    wait_for(container, "running", None)
    until(lambda: "/v1/completions" in server.told)


def test_a_trial_that_answers_is_healthy(
    start: Start, benchmark: Benchmark, server: web.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = benchmark.try_out(3)
    container = start()
    wait_for(container, "running", trial)
    assert health.main(container.directory, server.url) == 0
    assert health.main(container.directory, "http://127.0.0.1:1") == 1
    assert capsys.readouterr().out.splitlines() == [
        "a benchmark tries draft length 3",
        "running, but /health does not answer; the last word: a benchmark tries draft length 3",
    ]


def started(directory: Path, engine: str, options: str | None, workers: list[str], **values: t.Any) -> list[str]:
    """Return the command line, and after it the environment, of the program that the script of an engine becomes."""
    environment = jinja2.Environment(trim_blocks=True, loader=jinja2.FileSystemLoader(TEMPLATES))
    environment.filters.update(quote=shlex.quote, comment=lambda text: f"# {text}")
    script = environment.get_template(f"serve_{engine}.sh.j2").render(
        ansible_managed="managed",
        speculative_serve_ready_timeout=5400,
        script={
            **{"target": str(directory / "target"), "draft": "", "served": str(directory / "served")},
            **{"listen": "127.0.0.1", "head": "10.0.0.1", "workers": workers, "ranks": 1 + len(workers)},
            **{"port": 2233, "subnets": ["10.0.0.0/24"]},
            **{"api_port": "8000", "log_level": "info", "environment": {}, **values},
        },
    )
    for program in ("trtllm-serve", "vllm", "python3", "mkdir"):
        (directory / program).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nenv\n', encoding="utf-8")
        (directory / program).chmod(0o755)
    variables = {} if options is None else {"DGX_SPARK_OPTIONS": options}
    ran = subprocess.run(
        ["/bin/bash", "-c", script],
        env={"PATH": f"{directory}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize("given", [None, "/deployment/trial/options.yml"])
def test_the_script_of_vllm(tmp_path: Path, given: str | None) -> None:
    words = started(tmp_path, "vllm", given, [], log_level="verbose", environment={"VLLM_ENGINE_READY_TIMEOUT_S": "60"})
    assert words[:2] == ["serve", str(tmp_path / "target")]
    # Two words: vLLM reads no file after an equals sign.
    assert words[2:8] == [*("--config", given or "/deployment/options.yml"), "--host", "127.0.0.1", "--port", "8000"]
    assert {"VLLM_LOGGING_LEVEL=DEBUG", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1"} <= set(words)
    # A user's variable wins.
    assert "VLLM_ENGINE_READY_TIMEOUT_S=60" in words
    # vLLM loads as long as a run waits.
    assert "VLLM_ENGINE_READY_TIMEOUT_S=5400" in started(tmp_path, "vllm", given, [])


@pytest.mark.parametrize(("level", "own"), [("info", "INFO"), ("error", "ERROR"), ("internal_error", "CRITICAL")])
def test_vllm_has_other_names_for_levels(tmp_path: Path, level: str, own: str) -> None:
    assert f"VLLM_LOGGING_LEVEL={own}" in started(tmp_path, "vllm", None, [], log_level=level)


@pytest.mark.parametrize("workers", [[], ["10.0.0.2"]], ids=["one", "two"])
@pytest.mark.parametrize("given", [None, "/deployment/trial/options.yml"])
def test_the_serve_script_serves_the_options_it_is_given(tmp_path: Path, workers: list[str], given: str | None) -> None:
    words = started(tmp_path, "tensorrt_llm", given, workers)
    assert words[words.index("--extra_llm_api_options") + 1] == (given or "/deployment/options.yml")
    assert words[words.index("--tp_size") + 1] == str(1 + len(workers))
    if workers:
        # Both Sparks have it, and only the head has a trial's.
        assert words[words.index("--path") + 1] == "/deployment/options.yml"
