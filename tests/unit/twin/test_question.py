# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A question to the server on the twin: the stream, the figures of the answer, and a server that is not there."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from tests.twin import question
from tests.twin.names import TwinError

# What `docker exec SPARK curl ... URL` says, by the end of the URL; the counters move with each look at them.
DOCKER = """#!/usr/bin/python3
import json, pathlib, sys
said = json.loads(pathlib.Path(__file__).with_name("said.json").read_text())
url = next(word for word in sys.argv if word.startswith("http"))
if url.endswith("/metrics"):
    looks = pathlib.Path(__file__).with_name("looks")
    number = int(looks.read_text()) if looks.exists() else 0
    looks.write_text(str(number + 1))
    for name, step in (("draft", 8), ("accepted", 6)):
        print(f'vllm:spec_decode_num_{name}_tokens_total{{engine="0"}} {100.0 + step * number}')
elif url.endswith("/models"):
    print(json.dumps({"data": [{"id": "m"}]}))
else:
    pathlib.Path(__file__).with_name("asked.json").write_text(sys.argv[-1])
    print(said["stream"])
sys.exit(said["code"])
"""
STREAM = "\n\n".join(
    [
        'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}',
        'data: {"choices": [{"delta": {"content": "red, "}}]}',
        'data: {"choices": [{"delta": {"content": "green"}}]}',
        ": a comment",
        'data: {"choices": [], "usage": {"completion_tokens": 5}}',
        "data: [DONE]",
    ]
)


@pytest.fixture(name="docker")
def fixture_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Path]:
    def docker(code: int = 0) -> Path:
        (tmp_path / "said.json").write_text(json.dumps({"stream": STREAM, "code": code}), encoding="utf-8")
        return tmp_path

    program = tmp_path / "docker"
    program.write_text(DOCKER, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return docker


def test_an_answer_comes_in_pieces_and_with_the_engines_own_counts(docker: t.Callable[..., Path]) -> None:
    place, pieces = docker(), list[str]()
    answer = question.ask("Which colours?", pieces.append)
    assert pieces == ["red, ", "green"]
    assert (answer.tokens, answer.drafted, answer.accepted) == (5, 8, 6)
    assert "The engine drafted 8 and accepted 6." in str(answer)
    asked = json.loads((place / "asked.json").read_text(encoding="utf-8"))
    assert (asked["model"], asked["messages"][0]["content"]) == ("m", "Which colours?")


def test_without_drafts_nothing_is_said_of_them() -> None:
    assert str(question.Answer(tokens=1)) == "1 token."
    assert str(question.Answer(tokens=5, seconds=2.0)) == "5 tokens, 2 a second."


def test_no_server_is_told_with_the_command_that_starts_one(docker: t.Callable[..., Path]) -> None:
    docker(code=7)
    with pytest.raises(TwinError, match="make demo"):
        question.ask("Which colours?", print)


def test_only_the_two_questions_are_followed_by_what_they_show(
    docker: t.Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    docker()
    question.show(("Which colours?",))
    assert "They pay where a text repeats itself" not in capsys.readouterr().out
    question.show(question.QUESTIONS)
    assert "They pay where a text repeats itself" in capsys.readouterr().out
