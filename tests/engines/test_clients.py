# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of other projects talk with the servers. clients.yml has what a server does not offer."""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.engines import conversations, packages
from tests.engines.conftest import Servers
from tools.clients import PACKAGES

HERE = Path(__file__).parent
REFUSED: dict[str, dict[str, dict[str, t.Any]]] = yaml.safe_load((HERE / "clients.yml").read_text(encoding="utf-8"))
SERVERS = ("vllm", "harmony", "parsers", "vllm-behind-proxy", "harmony-behind-proxy")
CASES = [
    pytest.param(server, client, part.__name__, id=f"{server}-{part.__name__}")
    for server in SERVERS
    for client in PACKAGES
    # TensorRT-LLM has none of its routes, so a proxy of it forwards none.
    if (server, client) != ("harmony-behind-proxy", "anthropic")
    for part in conversations.parts(client)
]

Heard = t.Callable[[str, str], dict[str, conversations.Facts]]


@pytest.fixture(name="heard", scope="module")
def fixture_heard(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """Hold a client's conversation once, and return its parts."""

    @functools.cache
    def heard(server: str, client: str) -> dict[str, conversations.Facts]:
        at, home = servers[server], tmp_path_factory.mktemp("home")
        words = (conversations.__file__, client, at.url, at.key, at.model)
        done = packages.call("python", *words, env=at.environment(home))
        assert done.returncode == 0, done.stderr[-3000:]
        return {facts.pop("part"): facts for facts in map(json.loads, done.stdout.splitlines())}

    return heard


def problems(facts: conversations.Facts) -> list[str]:
    """Return what is wrong with the facts of a part that has to succeed."""
    if "error" in facts:
        return [f"{facts['error']} ({facts['status']}): {facts['says']}"]
    wrong = {
        "an empty text": not all(facts.get("texts", ["text"])),
        "no stream": len(facts.get("pieces", [1, 2])) < 2,
        "no tokens": facts.get("tokens", 1) < 1,
        "another call": facts.get("call", conversations.TOOL) != conversations.TOOL,
        "other arguments": list(facts.get("arguments", {"country": ""})) != ["country"],
    }
    return [problem for problem, found in wrong.items() if found]


@pytest.mark.parametrize(("server", "client", "part"), CASES)
def test_conversation(heard: Heard, server: str, client: str, part: str) -> None:
    facts, refused = heard(server, client)[part], REFUSED[server].get(part)
    if refused is None:
        assert problems(facts) == []
        assert facts
    else:
        assert facts.get("status") == refused["status"], facts
        assert refused["says"] in facts["says"]


def test_all_that_is_refused_is_a_part() -> None:
    names = {part.__name__ for part in conversations.PARTS}
    assert set(REFUSED) == set(SERVERS)
    assert {part for refused in REFUSED.values() for part in refused} <= names


@pytest.mark.parametrize(
    "facts",
    [
        {"error": "NotFoundError", "status": 404, "says": ""},
        {"texts": ["Paris", ""]},
        {"pieces": ["Paris"]},
        {"texts": ["Paris"], "tokens": 0},
        {"call": "find_books", "arguments": {"country": "France"}},
        {"call": conversations.TOOL, "arguments": {"author": "France"}},
    ],
)
def test_a_wrong_answer_is_a_problem(facts: conversations.Facts) -> None:
    assert len(problems(facts)) == 1
