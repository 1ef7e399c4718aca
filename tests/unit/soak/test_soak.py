# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a soak is made of, without a twin."""

from __future__ import annotations

import ast
import base64
import contextlib
import gzip
import html
import json
import subprocess
import typing as t
import urllib.parse
from pathlib import Path

import pytest

from tests.playbook import ROOT
from tests.soak import answers, client, judge, look, promises, secrets
from tests.soak import run as soaks
from tests.soak.faults import FAULTS, Scene
from tests.soak.run import History, Soak
from tests.twin.names import TwinError
from tests.twin.trtllm.server import engine
from tests.unit import web


def test_each_promise_has_its_fault() -> None:
    assert set(FAULTS) == set(promises.PROMISES)


@pytest.mark.parametrize(
    "action", sorted({promise.by for promise in promises.PROMISES.values()} - {promises.NO_ACTION})
)
def test_what_mends_a_fault_is_a_playbook(action: str) -> None:
    assert (ROOT / "playbooks" / f"{soaks.playbook_of([action], 'single_eagle3')}.yml").exists()


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


EVENTS: list[dict[str, t.Any]] = [
    {"choices": [{"text": "a", "finish_reason": None}]},
    {"choices": [{"text": "b", "finish_reason": "stop"}]},
]
STREAM = "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS).encode()


class Handler(web.Handler):
    """Sends what the test says, in one chunk, and ends the connection in order or not."""

    protocol_version = "HTTP/1.1"
    body = b""
    ends = True

    def do_POST(self) -> None:
        self.read()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(self.body), self.body))
        self.wfile.write(b"0\r\n\r\n" if self.ends else b"")
        self.close_connection = True


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
    with web.Server(Handler) as server:
        answer = client.ask(server.server_port, {"stream": True}, 5)
    assert {name: answer[name] for name in found} == found


def test_a_client_says_when_nobody_is_there() -> None:
    with web.Server(Handler) as server:
        port = server.server_port
    assert client.ask(port, {"stream": True}, 5)["ended"] == "refused"


def test_what_one_looks_at_is_what_is_judged() -> None:
    text = Path("tests/soak/look.py").read_text(encoding="utf-8")
    assert [name for name in judge.LOOKED_AT if f'"{name}": ' not in text] == []


CHAT = [
    {"choices": [{"delta": {"role": "assistant"}, "finish_reason": None}]},
    {"choices": [{"delta": {"reasoning": "Hm."}}]},
    {"choices": [{"delta": {"content": "Yes", "tool_calls": []}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "get", "arguments": "{}"}}]}}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {}},
]


def test_a_client_reads_a_chat() -> None:
    wanted = {"text": "Yes", "thinking": "Hm.", "calls": [["get", "{}"]], "finish": "stop", "model": None}
    found: dict[str, t.Any] = {"text": "", "thinking": "", "calls": [], "finish": None}
    client.read(
        found,
        "".join(f"data: {json.dumps(event)}\n\n" for event in [*CHAT, "[DONE]"]).replace('"[DONE]"', "[DONE]"),
        True,
    )
    assert found == wanted
    found = {"text": "", "thinking": "", "calls": [], "finish": None}
    calls = [{"id": "1", "function": {"name": "get", "arguments": "{}"}}]
    message = {"content": "Yes", "reasoning": None, "reasoning_content": "Hm.", "tool_calls": calls}
    client.read(found, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}), False)
    assert found == wanted


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_knows_which_model_has_answered(stream: bool) -> None:
    found: dict[str, t.Any] = {"text": "", "thinking": "", "finish": None}
    event = json.dumps({**EVENTS[1], "model": "another"})
    client.read(found, f"data: {event}\n\ndata: [DONE]" if stream else event, stream)
    assert (found["model"], found["finish"]) == ("another", "stop")


def test_clients_that_go_on_are_others_than_before(tmp_path: Path) -> None:
    """Else two questions would have one name."""
    history = History(tmp_path / "history.jsonl")
    assert history.lives("a") == 0
    for name, life in (("a", 1), ("a", 2), ("b", 5)):
        history.tell("asked", client=name, life=life, id=0)
    assert History(history.path).lives("a") == 2


SECRET = 'pa"s/s&word+1'


@pytest.mark.parametrize(
    "text",
    [
        f"x{SECRET}y",
        urllib.parse.quote(f"https://a?b={SECRET}", safe=""),
        json.dumps({"a": SECRET}),
        html.escape(f"<{SECRET}>"),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        *(SECRET.encode(code).decode(errors="replace") for code in ("utf-16", "utf-16-be")),
        *(base64.b64encode(b"abc"[:before] + SECRET.encode() + b"defg").decode() for before in range(4)),
    ],
)
def test_a_secret_is_found_in_any_spelling(text: str) -> None:
    spelled = secrets.spelled({"the password": SECRET, "the token": "hf_another"})
    assert [one.partition(" as ")[0] for one in secrets.seen(text, spelled)] == ["the password"]


def test_a_secret_is_found_at_the_end_of_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "large"
    path.parent.mkdir()
    path.write_text("x" * 6_000_000 + SECRET, encoding="utf-8")
    assert secrets.seen_in(tmp_path.rglob("*"), secrets.spelled({"it": SECRET})) == [f"it as plain in {path}"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.gz", gzip.compress(b"x" * 6_000_000 + SECRET.encode())),
        ("hf_another", b""),
        ("notes", "hf_another".encode("utf-16")),
    ],
)
def test_a_secret_is_found_in_a_packed_file_in_a_name_and_in_wide_letters(
    name: str, content: bytes, tmp_path: Path
) -> None:
    """On the controller as on a Spark."""
    path = tmp_path / "machine" / "srv" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    spelled = secrets.spelled({"it": SECRET, "the token": "hf_another"})
    assert secrets.seen_in(path.parent.rglob("*"), spelled)
    assert look.leaks_in_files(spelled, str(tmp_path / "machine"), str(tmp_path / "patterns"))
    path.unlink()
    # No file that only begins so, and no link that leads nowhere.
    path.with_name("cut.gz").write_bytes(gzip.compress(b"much of it")[:12])
    path.with_name("link").symlink_to("nowhere")
    assert secrets.seen_in(path.parent.rglob("*"), spelled) == []
    assert look.leaks_in_files(spelled, str(tmp_path / "machine"), str(tmp_path / "patterns")) == []


def test_of_a_private_key_its_secret_part_is_looked_for(tmp_path: Path) -> None:
    """What a public key has as well is none."""
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    body = base64.b64decode("".join(key.read_text().splitlines()[1:-1]))
    public = base64.b64decode(Path(f"{key}.pub").read_text().split()[1])[-32:]
    # The private part stands before the second copy of the public one.
    seed = body[body.rindex(public) - 32 : body.rindex(public)]
    text = "".join(key.read_text().splitlines()[1:-1])
    line = secrets.of_a_key(key.read_text())
    begin = text.index(line)
    # Of whole groups of four.
    inside = text[begin + -begin % 4 : (begin + len(line)) // 4 * 4]
    assert seed[:24] in base64.b64decode(inside)


def test_the_server_is_told_from_what_starts_and_watches_it() -> None:
    serve = ["/usr/bin/python3", "/opt/tensorrt_llm/bin/trtllm-serve", "model", "--config", "/deployment/options.yml"]
    assert look.is_engine(serve)
    assert look.is_engine(["python3", "-m", "tensorrt_llm.llmapi.mgmn_worker_node"])
    assert not look.is_engine(["python3", "/deployment/entrypoint.py", "--", *serve[1:]])
    assert not look.is_engine(["mpirun", *serve])
    assert not look.is_engine([])


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_other_bytes_of_the_same_size_are_another_model(tmp_path: Path) -> None:
    path = write(tmp_path / "blobs" / "a", "1234")
    before = look.models(tmp_path)
    path.write_text("1243", encoding="utf-8")
    assert look.models(tmp_path) != before


@pytest.mark.parametrize(
    "top", ["home/spark/.local/share", "home/spark/.cache", "var/lib", "var", "srv", "root", "etc"]
)
def test_a_file_of_others_is_missed_wherever_it_was(top: str, tmp_path: Path) -> None:
    ours = write(tmp_path / "home/spark/.local/share/dgx-spark-speculative/single_eagle3/record.json", "{}")
    path = write(tmp_path / top / "mine" / "notes", "mine")
    before = look.foreign(str(tmp_path))
    ours.unlink()
    assert look.foreign(str(tmp_path)) == before
    path.write_text("else", encoding="utf-8")
    assert look.foreign(str(tmp_path)) != before
    path.unlink()
    assert [line for line in before if line.startswith(f"{path} ")]
    assert not [line for line in look.foreign(str(tmp_path)) if line.startswith(f"{path} ")]


def test_what_apt_keeps_of_packages_is_watched_but_not_what_it_fetches(tmp_path: Path) -> None:
    for name in ("lists/main", "periodic/update-success-stamp", "daily_lock"):
        path = write(tmp_path / "var/lib/apt" / name, "1")
    kept = write(tmp_path / "var/lib/apt/extended_states", "Package: python3-requests")
    before = look.foreign(str(tmp_path))
    path.unlink()
    write(tmp_path / "var/lib/apt/lists/main", "2")
    assert look.foreign(str(tmp_path)) == before
    kept.write_text("", encoding="utf-8")
    assert look.foreign(str(tmp_path)) != before


@pytest.mark.parametrize("top", ["root", "etc", "run/user", "tmp", "var/tmp", "var/log", "home/spark/.ansible", "srv"])
def test_a_secret_is_found_in_any_place_of_a_spark(top: str, tmp_path: Path) -> None:
    root = tmp_path / "machine"
    text = "x" * 6_000_000 + base64.b64encode(f"token={SECRET}".encode()).decode()
    path = write(root / top / "notes", text)
    # Where it belongs.
    write(root / "home/spark/.local/share/dgx-spark-speculative/cluster/id_ed25519", SECRET)
    spelled = secrets.spelled({"it": SECRET})
    (found,) = look.leaks_in_files(spelled, str(root), str(tmp_path / "patterns"))
    assert found == f"it as base64 (0) in {path}"
    path.unlink()
    assert look.leaks_in_files(spelled, str(root), str(tmp_path / "patterns")) == []


@pytest.mark.parametrize(
    ("amid", "misses", "struck"), [([], 0, True), ([], 1, False), (["containerd killed"], 3, True)]
)
def test_a_fault_on_top_of_another_is_tried_until_it_hits(
    amid: list[str], misses: int, struck: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first is in the way of for a moment."""
    tried: list[str] = []

    @contextlib.contextmanager
    def inflict(_scene: Scene) -> t.Iterator[None]:
        tried.append("memory taken")
        if len(tried) <= misses:
            raise TwinError("no daemon")
        yield

    monkeypatch.setitem(FAULTS, "memory taken", inflict)
    monkeypatch.setattr(soaks.time, "sleep", lambda _seconds: None)
    soak = Soak(1, 1, tmp_path)
    assert bool(soak.begun("memory taken", amid)) is struck
    assert [line["amid"] for line in soak.history.lines if line["kind"] == "missed"] == ([] if struck else [amid])
    assert not [line for line in soak.history.lines if line["kind"] == "harness"]
