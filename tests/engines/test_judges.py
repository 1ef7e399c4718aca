# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of other projects judge the servers: llm-comply the answers, Schemathesis the reaction to odd requests."""

from __future__ import annotations

import collections
import json
import ssl
import typing as t
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.engine import VLLM

from tests.engines import packages
from tests.engines.conftest import Servers
from tests.engines.deviations import Complaint, Deviation, unexplained
from tests.engines.served import Served

DEVIATIONS = yaml.safe_load(Path(__file__).with_name("llm_comply.yml").read_text(encoding="utf-8"))
JUDGED = [(server, format_) for server, formats in DEVIATIONS.items() for format_ in formats]
# Routes that clients use, with their method. Others change the engine.
ROUTES = {
    "/health": "get",
    "/version": "get",
    "/v1/models": "get",
    "/tokenize": "post",
    "/v1/completions": "post",
    "/v1/chat/completions": "post",
    "/v1/responses": "post",
    "/v1/messages": "post",
    "/v1/messages/count_tokens": "post",
}
# What servers want of a field beyond its schema.
LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
LENGTH = {"type": "integer", "minimum": 1, "maximum": 64}
PART = {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}
MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["user", "assistant"]},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {**PART, "required": ["type", "text"]}}]},
    },
    "required": ["role", "content"],
}
# Of a tool, as OpenAI documents it.
NAME = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
FIELDS: dict[str, dict[str, t.Any]] = {
    "messages": {"type": "array", "items": MESSAGE, "minItems": 1},
    "prompt": {"type": "string", "minLength": 1},
    "name": NAME,
    **dict.fromkeys(LENGTHS, LENGTH),
}
OPTIONAL = (*LENGTHS, "name")
SEED, EXAMPLES = 7, 20
# What the proxy forwards. It refuses the others with this status.
FORWARDED, NOT_OFFERED = {"/health", "/v1/models", *VLLM.routes}, 403
# Each server with the seconds of its requests, ten minutes in all, and the 5xx that it may answer.
ASKED: tuple[tuple[str, int, set[int]], ...] = (
    ("vllm", 200, set()),
    ("vllm-behind-proxy", 200, set()),
    ("harmony", 100, {501}),
    ("parsers", 100, {501}),
)


def complaints(report: t.Mapping[str, t.Any]) -> list[Complaint]:
    """Return all errors of a report. What it skips has a reason, but is no error."""
    failed = [result for result in report["results"] if result["status"] == "failed"]
    return [Complaint(result["id"], error) for result in failed for error in result["errors"]]


@pytest.mark.parametrize(("server", "format_"), JUDGED)
def test_answers_comply_but_for_known_deviations(servers: Servers, tmp_path: Path, server: str, format_: str) -> None:
    at, known = servers[server], DEVIATIONS[server][format_]
    words = ("--base-url", f"{at.url}/v1", "--api-key", at.key, "--model", at.model, "--format", format_)
    done = packages.call("llm-comply", *words, "--timeout", "300", "--json", env=at.environment(tmp_path))
    report = json.loads(done.stdout)
    assert report["summary"]["total"] > 5
    assert unexplained(complaints(report), known) == ([], [])


def ordinary(schema: dict[str, t.Any], model: str) -> dict[str, t.Any]:
    """Return the schema of requests that reach the model: its name, messages of text, and short answers."""
    paths = {path: {ROUTES[path]: schema["paths"][path][ROUTES[path]]} for path in ROUTES if path in schema["paths"]}
    fields = {**FIELDS, "model": {"const": model}}
    for part in schema["components"]["schemas"].values():
        properties = part.get("properties", {})
        narrowed = {name: field for name, field in fields.items() if name in properties}
        if "input" in properties:
            # Of a response, the prompt is a template.
            narrowed.pop("prompt", None)
        properties.update(narrowed)
        part["required"] = sorted({*part.get("required", []), *(set(narrowed) - set(OPTIONAL))})
    return {**schema, "paths": paths}


def statuses(archive: t.Mapping[str, t.Any]) -> dict[str, collections.Counter[int]]:
    """Return how often each route answered with each status."""
    counts: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for entry in archive["log"]["entries"]:
        counts[urllib.parse.urlsplit(entry["request"]["url"]).path][entry["response"]["status"]] += 1
    return counts


def completion(at: Served) -> str:
    """Return the text of a completion."""
    body = {"model": at.model, "prompt": "1, 2, 3, 4, 5, 6, 7, 8,", "max_tokens": 8}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {at.key}"}
    request = urllib.request.Request(f"{at.url}/v1/completions", json.dumps(body).encode(), headers)
    trust = ssl.create_default_context(cafile=at.ca) if at.ca else None
    with urllib.request.urlopen(request, timeout=120, context=trust) as answer:
        return str(json.load(answer)["choices"][0]["text"])


@pytest.mark.parametrize(("server", "seconds", "allowed"), ASKED, ids=[row[0] for row in ASKED])
def test_odd_requests_do_not_break_a_server(
    servers: Servers, tmp_path: Path, server: str, seconds: int, allowed: set[int]
) -> None:
    at, schema, archive = servers[server], tmp_path / "openapi.json", tmp_path / "requests.har"
    schema.write_text(json.dumps(ordinary(at.openapi(), at.model)), encoding="utf-8")
    done = packages.call(
        *("schemathesis", "run", str(schema), "--url", at.url, "--seed", str(SEED), "--max-examples", str(EXAMPLES)),
        *("--max-time", str(seconds), "--header", f"Authorization: Bearer {at.key}"),
        *(("--tls-verify", str(at.ca)) if at.ca else ()),
        *("--phases", "fuzzing", "--mode", "positive", "--checks", "not_a_server_error", "--no-shrink"),
        *("--continue-on-failure", "--request-timeout", "120", "--no-color"),
        *("--report", "har", "--report-har-path", str(archive)),
        cwd=tmp_path,
        env=at.environment(tmp_path),
    )
    counts = statuses(json.loads(archive.read_text(encoding="utf-8")))
    assert set(counts) == set(json.loads(schema.read_text(encoding="utf-8"))["paths"]), done.stdout[-3000:]
    print(json.dumps(counts))
    assert {path: dict(count) for path, count in counts.items() if set(count) - set(range(500)) - allowed} == {}
    # A route that refuses all of them has not been tried.
    closed = set(counts) - FORWARDED if at.ca else set()
    assert {path for path, count in counts.items() if not count[200]} == closed
    assert {path for path, count in counts.items() if set(count) == {NOT_OFFERED}} == closed
    assert completion(at)


def test_a_deviation_explains_its_own_errors_only() -> None:
    complaint = Complaint("chat-image-input", "HTTP 400 (expected [200])")
    assert complaint.matches({"test": "chat-image-input", "error": "HTTP 400"})
    assert not complaint.matches({"test": "chat-streaming-.*", "error": "HTTP 400"})
    assert not complaint.matches({"error": "HTTP 500"})


def test_only_a_deviation_of_the_setup_may_be_absent() -> None:
    known: list[Deviation] = [{"error": "HTTP 400"}, {"error": "HTTP 500", "setup": True}, {"error": "HTTP 501"}]
    assert unexplained([Complaint("chat", "HTTP 400")], known) == ([], known[2:])
