# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in does when it is asked for its health and its engine is dead."""

from __future__ import annotations

import asyncio
import signal
import sys
import types
import typing as t
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
from tests.twin.trtllm.server import api
from tests.unit.entrypoint_container import Container
from tests.unit.replay_server import free_port

ROOT = Path(__file__).parents[3]
# The stand-in's routes, with an engine that is dead, served as its command line does it.
DEAD = """
import sys, types
sys.path.insert(0, sys.argv[1])
import click, uvicorn
from tests.twin.trtllm.server import api

@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
def serve(words):
    runtime, args = types.SimpleNamespace(dead=True), types.SimpleNamespace(return_perf_metrics=False)
    app = api.create(types.SimpleNamespace(runtime=runtime, args=args, harmony=False))
    uvicorn.Server(uvicorn.Config(app, port=int(words[1]), log_level="info", timeout_graceful_shutdown=1)).run()

serve()
"""


def get(app: t.Any, path: str) -> int:
    """The status that an application answers with."""
    told: list[int] = []

    async def receive() -> dict[str, t.Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, t.Any]) -> None:
        if message["type"] == "http.response.start":
            told.append(message["status"])

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "app": app}
    asyncio.run(app(scope, receive, send))
    return told[0]


@pytest.fixture(name="raised")
def fixture_raised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that it raises in itself."""
    raised: list[int] = []
    monkeypatch.setattr(api.signal, "raise_signal", raised.append)
    return raised


def application(monkeypatch: pytest.MonkeyPatch, family: str, dead: bool) -> t.Any:
    monkeypatch.setattr(api, "FAMILY", family)
    args = types.SimpleNamespace(return_perf_metrics=False)
    runtime = types.SimpleNamespace(dead=dead)
    return api.create(t.cast("t.Any", types.SimpleNamespace(runtime=runtime, args=args, harmony=False)))


def test_one_that_lives_is_healthy(monkeypatch: pytest.MonkeyPatch, raised: list[int]) -> None:
    assert (get(application(monkeypatch, "1.3", False), "/health"), raised) == (200, [])


def test_a_newer_one_ends_itself_once(monkeypatch: pytest.MonkeyPatch, raised: list[int]) -> None:
    app = application(monkeypatch, "1.3", True)
    assert [get(app, "/health") for _ in range(3)] == [503] * 3
    assert raised == [signal.SIGINT]


def test_an_older_one_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, raised: list[int]) -> None:
    assert (get(application(monkeypatch, "1.2", True), "/health"), raised) == (503, [])


def test_what_ends_a_server_is_not_what_uvicorn_says_last(tmp_path: Path) -> None:
    program, port = tmp_path / "dead.py", free_port()
    program.write_text(DEAD, encoding="utf-8")
    container = Container(tmp_path, f"exec {sys.executable} {program} {ROOT} {port}", f"http://127.0.0.1:{port}")
    try:
        ended = container.wait_until(lambda state: state.get("last_exit"))["last_exit"]
        log = container.log()
    finally:
        container.end()
    assert "Finished server process" in log
    assert ended["reason"] == (
        "Health check detected fatal engine error, initiating server shutdown: RuntimeError: the engine died on purpose"
    )
    assert (ended["by"], ended["code"]) == (None, 1)
