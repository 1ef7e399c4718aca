# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in does when it is asked for its health and its engine is dead."""

from __future__ import annotations

import asyncio
import signal
import types
import typing as t

import pytest

pytest.importorskip("fastapi")
from tests.twin.trtllm.server import api


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
