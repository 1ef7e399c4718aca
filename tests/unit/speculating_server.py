# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real HTTP server that decodes like trtllm-serve with drafts, and a container's entrypoint that obeys leases.

What the server does is known: how many drafts each pass accepts, and when its chunks really left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
import typing as t
from pathlib import Path

from tests.unit import web
from tests.unit.entrypoint_container import lease_until

WORDS = ["the", "keeper", "of", "the", "light", "went", "up", "and", "saw", "that", "the", "sea", "had", "gone", "away"]


@dataclasses.dataclass
class Engine:
    """How the server decodes; accepted drafts go round and round."""

    draft_length: int = 0
    pass_s: float = 0.004
    accepts: tuple[int, ...] = (2, 0, 3, 1)
    context: int = 100_000
    first_s: float = 0.0
    counts_chunks: bool = True
    # So many answers break off in the middle.
    cuts: int = 0
    # How loading goes.
    load_s: float = 0.0
    fails: str = ""

    def passes(self, tokens: int) -> list[int]:
        """The tokens of each pass, the prompt's own among them."""
        made = [1]
        while sum(made) < tokens:
            accepted = min(self.draft_length, self.accepts[(len(made) - 1) % len(self.accepts)])
            made.append(min(1 + accepted, tokens - sum(made)))
        return made


class Answered(t.NamedTuple):
    """What the server knows of an answer of its own."""

    draft_length: int
    prompt: str
    max_tokens: int
    passes: list[int]
    seconds: float


class SpeculatingServer:
    """It is not healthy without an engine."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.answered: list[Answered] = []
        self.http = web.Server(Handler, self)
        self.url = self.http.url

    def close(self) -> None:
        self.http.server_close()


class Handler(web.Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        pages = {"/health": {}, "/version": {"version": "1.3.0rc12"}, "/v1/models": {"data": [{"id": "gpt-oss-120b"}]}}
        path = self.path.partition("?")[0]
        status = 200 if path in pages else 404
        self.reply(status if self.told.engine else 503, pages.get(path, {}))

    def do_POST(self) -> None:
        body = json.loads(self.read())
        engine = self.told.engine
        if engine is None:
            self.reply(503, {"error": "the engine is not there"})
            return
        # Four characters a token, as of English text.
        prompt_tokens = len(body["prompt"]) // 4
        if prompt_tokens + body["max_tokens"] > engine.context:
            self.reply(400, {"error": {"message": f"{prompt_tokens} tokens are more than max_seq_len."}})
            return
        if not body.get("stream"):
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": body["max_tokens"]}
            self.reply(200, {"choices": [{"text": "the", "finish_reason": "length"}], "usage": usage})
            return
        self.stream(engine, body, prompt_tokens)

    def stream(self, engine: Engine, body: dict[str, t.Any], prompt_tokens: int) -> None:
        passes = engine.passes(body["max_tokens"])
        cut = body["max_tokens"] > 1 and engine.cuts > 0
        engine.cuts -= cut
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        time.sleep(engine.first_s)
        began = time.monotonic()
        left = began
        total = 0
        for number, made in enumerate(passes):
            if (cut and number == len(passes) // 2) or self.told.engine is not engine:
                self.close_connection = True
                return
            if number:
                # The pace does not depend on how punctually this machine wakes up.
                time.sleep(max(0.0, began + number * engine.pass_s - time.monotonic()))
            is_last = number == len(passes) - 1
            choice = {
                "text": "".join(f" {WORDS[(total + index) % len(WORDS)]}" for index in range(made)),
                "finish_reason": "length" if is_last else None,
                "avg_decoded_tokens_per_iter": body["max_tokens"] / len(passes) if is_last else None,
            }
            total += made
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": total}
            left = time.monotonic()
            self.event({"choices": [choice], "usage": usage if engine.counts_chunks else None})
        self.event({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": total}})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")
        self.told.answered.append(
            Answered(engine.draft_length, body["prompt"], body["max_tokens"], passes, left - began)
        )

    def event(self, data: dict[str, t.Any]) -> None:
        self.chunk(b"data: " + json.dumps({"object": "text_completion", **data}).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class Entrypoint(threading.Thread):
    """Gives the server the engine that a valid lease asks for (options.yml holds its fields as JSON), or its own."""

    def __init__(self, deployment: Path, server: SpeculatingServer, own: Engine) -> None:
        super().__init__(daemon=True)
        self.deployment = deployment
        self.server = server
        self.own = own
        self.obeys = True
        self.served: list[dict[str, str] | None] = []
        self.trial: dict[str, str] | None = None
        self.over = threading.Event()
        (deployment / "state").mkdir(parents=True)
        self.load(None)

    def write(self, state: str, **values: t.Any) -> None:
        path = self.deployment / "state" / "state.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps({"state": state, "trial": self.trial, "last_exit": None, "reason": None, **values}))
        draft.replace(path)

    def leased(self) -> dict[str, str] | None:
        try:
            lease = json.loads((self.deployment / "trial" / "lease.json").read_text())
        except (OSError, ValueError):
            return None
        now = lease_until(0)
        if not now["until"] < lease["until"] < now["until"] + 900:
            return None
        return {"id": lease["id"], "title": lease["title"]}

    def load(self, trial: dict[str, str] | None) -> None:
        self.server.engine, self.trial = None, trial
        self.write("restarting", reason="switching")
        engine = self.own
        if trial is not None:
            engine = Engine(**json.loads((self.deployment / "trial" / "options.yml").read_text()))
        self.served.append(trial)
        self.write("loading")
        if self.over.wait(engine.load_s):
            return
        if engine.fails:
            self.write("trial failed", last_exit={"code": 1, "reason": engine.fails}, reason=engine.fails)
            return
        self.server.engine = engine
        self.write("running")

    def run(self) -> None:
        while not self.over.wait(0.01):
            # A trial whose directory is being removed while it is read is not there any more.
            with contextlib.suppress(OSError):
                wanted = self.leased()
                if self.obeys and wanted != self.trial:
                    self.load(wanted)

    def stop(self, state: str = "stopped") -> None:
        """What docker stop does."""
        self.over.set()
        self.join()
        self.server.engine = None
        self.write(state)
