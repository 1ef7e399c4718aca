# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a soak is made of, without a twin."""

from __future__ import annotations

import ast
import http.server
import json
import threading
import typing as t
from pathlib import Path

import pytest

from tests.soak import answers, client, judge, promises
from tests.soak.faults import FAULTS
from tests.soak.run import History
from tests.twin.trtllm.server import engine


def test_each_promise_has_its_fault() -> None:
    assert set(FAULTS) == set(promises.PROMISES)


def test_the_judge_knows_nothing_of_the_collection() -> None:
    """Neither it nor what it imports."""
    todo, seen = ["tests/soak/judge.py"], set[str]()
    while todo:
        path = todo.pop()
        seen.add(path)
        for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [f"{node.module}.{one.name}" for one in node.names] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if "ansible_collections" in name or "roles" in name], (path, names)
            found = {f"{name.replace('.', '/')}.py" for name in names if name.startswith("tests.")}
            todo += [name for name in found - seen if Path(name).exists()]
    assert "tests/twin/trtllm/server/engine.py" in seen


def test_drafts_change_no_answer() -> None:
    """So that what is expected without them is what comes with them."""
    documents = engine.read_corpus(answers.CORPUS)
    for prompt in answers.PROMPTS:
        draft = engine.DraftModel(documents).condition(engine.FINAL)
        made = engine.Generation(answers.model().condition(prompt, chat=False), draft, engine.Sampling())
        while len(made.tokens) < 40 and engine.END not in made.tokens:
            made.step(5)
        end = [*made.tokens, engine.END].index(engine.END)
        assert engine.detokenize(made.tokens[: min(end, 40)]) == answers.expected(prompt, 40).text


def test_a_history_is_gone_on_with(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.tell("begin", seed=1)
    with history.path.open("a", encoding="utf-8") as file:
        # The machine went off in the middle of a line.
        file.write('{"at": 1, "kind": "ro')
    history = History(history.path)
    history.tell("round", number=1)
    again = History(history.path)
    assert [line["kind"] for line in again.lines] == ["begin", "round"]
    assert (again.last("begin") or {})["seed"] == 1
    assert again.last("end") is None


def test_it_is_back_with_the_first_whole_answer_to_who_asked_since(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    who = {"client": "a", "life": 1}
    history.tell("asked", **who, id=1)
    moment = history.lines[-1]["at"] + 1e-4
    history.lines[-1]["at"] -= 1
    history.tell("answered", **who, id=1, status=200, ended="whole", finish="stop")
    history.tell("asked", **who, id=2)
    for line in history.lines[1:]:
        line["at"] = moment + 1
    assert history.answered_since(moment) is None
    history.tell("answered", **who, id=2, status=200, ended="broken", finish=None)
    history.lines[-1]["at"] = moment + 2
    assert history.answered_since(moment) is None
    history.tell("answered", **who, id=2, status=200, ended="whole", finish="stop")
    history.lines[-1]["at"] = moment + 3
    assert history.answered_since(moment) == moment + 3


EVENTS = [{"choices": [{"text": "a", "finish_reason": None}]}, {"choices": [{"text": "b", "finish_reason": "stop"}]}]
STREAM = "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends what the test says, in one chunk, and ends the connection in order or not."""

    protocol_version = "HTTP/1.1"
    body = b""
    ends = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(self.body), self.body))
        self.wfile.write(b"0\r\n\r\n" if self.ends else b"")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.mark.parametrize(
    ("body", "ends", "found"),
    [
        (STREAM + b"data: [DONE]\n\n", True, {"ended": "whole", "text": "ab", "finish": "stop"}),
        (STREAM, True, {"ended": "whole", "text": "ab", "finish": None}),
        (STREAM, False, {"ended": "broken", "finish": None}),
        (b'data: {"error": "no"}\n\ndata: [DONE]\n\n', True, {"ended": "garbled", "status": 200}),
    ],
)
def test_a_client_tells_a_whole_stream_from_one_that_is_cut_off(
    body: bytes, ends: bool, found: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "body", body)
    monkeypatch.setattr(Handler, "ends", ends)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        answer = client.ask(server.server_port, {"stream": True}, 5)
    assert {name: answer[name] for name in found} == found


def test_a_client_says_when_nobody_is_there() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port
    assert client.ask(port, {"stream": True}, 5)["ended"] == "refused"


def test_what_one_looks_at_is_what_is_judged() -> None:
    text = Path("tests/soak/look.py").read_text(encoding="utf-8")
    assert [name for name in judge.LOOKED_AT if f'"{name}": ' not in text] == []
