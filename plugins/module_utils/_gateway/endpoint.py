# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Test an endpoint with and without a key, and report the results."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
import typing as t

from .._server.client import Expired, HttpClient, ProbeError

WRONG_KEY = "sk-spark-a-key-that-was-never-made-0123456789"
# Requests that would reach what the proxy does not offer, if it tidied up paths before or after it judged them.
TRICKS = (
    "//update_weights",
    "/v1/models/../../update_weights",
    "/v1/%2e%2e/update_weights",
    "/v1%2f..%2fupdate_weights",
    "/v1/models/",
    "/V1/Models",
    "/v1/models;/../update_weights",
    "/UPDATE_WEIGHTS",
)
# Of the end of a stream.
_LAST_BYTES = 1 << 20
_SMALL_S = 30.0
# Pieces that come closer together than this left the server as one.
_APART_S = 0.001


class CheckError(Exception):
    """The endpoint cannot be asked at all; the text is one sentence for the user."""


class Row(t.NamedTuple):
    """One request: what had to come, and what came. None for ok means that it could not be seen."""

    request: str
    expected: str
    got: str
    ok: bool | None


class Endpoint(HttpClient):
    """An endpoint at a URL."""

    def __init__(self, url: str, connect_to: str | None = None, ca_path: str | None = None) -> None:
        try:
            super().__init__(url, None, connect_to, ca_path)
        except ValueError as e:
            raise CheckError(str(e)) from e.__cause__

    def wait(self, seconds: float) -> None:
        """Wait until it takes connections."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.connect(5).close()
                return
            except ssl.SSLCertVerificationError as e:
                # One that is being made just now is there in a moment.
                error = CheckError(
                    f"The certificate of {self.host} port {self.port} is not accepted ({e.verify_message}); a "
                    "certificate that others make has to name the Spark, and the clocks have to be right."
                )
            except ssl.SSLError as e:
                error = CheckError(f"{self.address} port {self.port} does not speak TLS as it should ({e}).")
            except socket.timeout:
                error = CheckError(
                    f"Nothing answers on {self.address} port {self.port}: a firewall drops what is sent there. With "
                    f"ufw on the Spark, run 'sudo ufw allow {self.port}/tcp' there."
                )
            except OSError as e:
                error = CheckError(f"{self.address} port {self.port} cannot be reached ({e.strerror or e}).")
            if time.monotonic() >= end:
                raise error
            time.sleep(0.3)

    def status(self, method: str, path: str, key: str | None = None, body: t.Any = None) -> tuple[int | None, bytes]:
        """Return the status of one request and its body. The status is None if the connection broke or ended."""
        try:
            reply = self.get(path, _SMALL_S, key) if method == "GET" else self.post(path, body, _SMALL_S, key)
        except ProbeError:
            return None, b""
        return reply.status, reply.body

    def arrivals(self, path: str, key: str, body: t.Any, seconds: float) -> tuple[int, list[float], bool]:
        """Return the status of a stream, when its pieces came, and whether it ended as a stream ends."""
        times: list[float] = []
        text = b""
        with self.exchange("POST", path, body, seconds, key, silence=True) as response:
            while piece := response.read1(65536):
                times.append(time.monotonic())
                text = (text + piece)[-_LAST_BYTES:]
            return response.status, times, b"data: [DONE]" in text


def separate(times: t.Sequence[float]) -> int:
    """Return the number of chunks that arrived separately."""
    return 1 + sum(after - before >= _APART_S for before, after in zip(times, times[1:])) if times else 0


class Check:
    """All questions to one endpoint."""

    def __init__(self, endpoint: Endpoint, key: str, stream_seconds: float) -> None:
        self._endpoint = endpoint
        self._key = key
        self._stream_seconds = stream_seconds

    def rows(self) -> list[Row]:
        """Ask everything."""
        rows = [Row("TLS handshake", "a certificate that is trusted", "trusted", True)] if self._endpoint.tls else []
        chat = {"model": "any", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
        rows += [
            self._row("GET", "/health", None, (200,), "GET /health without a key"),
            self._row("GET", "/v1/models", None, (401,), "GET /v1/models without a key"),
            self._row("GET", "/v1/models", WRONG_KEY, (401,), "GET /v1/models with a wrong key"),
            self._row("POST", "/v1/chat/completions", None, (401,), "POST /v1/chat/completions without a key", chat),
            self._row("POST", "/update_weights", self._key, (403,), "POST /update_weights with a key", {}),
            self._row("GET", "/metrics", self._key, (403,), "GET /metrics with a key"),
        ]
        # Refused either way: by what it seems to be, or by what it is.
        rows += [self._row("POST", path, self._key, (400, 401, 403), f"POST {path} with a key", {}) for path in TRICKS]
        status, body = self._endpoint.status("GET", "/v1/models", self._key)
        rows.append(Row("GET /v1/models with a key", "200", str(status or "no answer"), status == 200))
        rows.append(
            self._stream(model_of(body)) if status == 200 else Row("stream", "2 pieces or more", "not asked", None)
        )
        return rows

    def _row(
        self, method: str, path: str, key: str | None, expected: tuple[int, ...], request: str, body: t.Any = None
    ) -> Row:
        status, _body = self._endpoint.status(method, path, key, body)
        wanted = " or ".join(map(str, expected))
        return Row(request, wanted, str(status or "no answer"), status in expected)

    def _stream(self, model: str | None) -> Row:
        expected = "2 pieces or more, one by one"
        if model is None:
            return Row("a stream", expected, "no model is listed", False)
        ask = {"model": model, "max_tokens": 48, "temperature": 0, "stream": True}
        prompt = "Count from one to twenty in words."
        bodies = {
            "/v1/chat/completions": {**ask, "messages": [{"role": "user", "content": prompt}]},
            # A model without a chat template knows only this.
            "/v1/completions": {**ask, "prompt": prompt},
        }
        got: tuple[str, bool | None] = ("", False)
        for path, body in bodies.items():
            try:
                status, times, whole = self._endpoint.arrivals(path, self._key, body, self._stream_seconds)
            except Expired:
                # With one request at a time, another client's answer may take that long.
                return Row(f"a stream from {path}", expected, f"nothing within {self._stream_seconds:g} s: busy", None)
            except ProbeError as e:
                return Row(f"a stream from {path}", expected, f"the connection broke ({e})", False)
            pieces = separate(times)
            got = (f"{pieces} pieces" if status == 200 else f"status {status}", status == 200 and pieces >= 2 and whole)
            if status == 200:
                return Row(f"a stream from {path}", expected, got[0] + ("" if whole else ", without an end"), got[1])
        return Row("a stream", expected, *got)


def model_of(body: bytes) -> str | None:
    """Return the first model in a list of models."""
    with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
        return str(json.loads(body)["data"][0]["id"])
    return None


def remedy(wrong: t.Sequence[Row]) -> str:
    """Return the fix for rows that are wrong."""
    if any(row.expected[:1] == "4" and row.got[:1] == "2" for row in wrong):
        return "The proxy accepts requests it must refuse. Stop it, for example with -e speculative_serve_expose=local."
    if any(row.got in ("502", "503", "504") for row in wrong):
        return "The model server behind the proxy does not answer. Run diagnose.yml for the cause."
    return "Read the proxy's log with 'docker logs' on its host."


def table(rows: t.Sequence[Row]) -> list[str]:
    """Return the rows for people."""
    lines = [("request", "expected", "got")] + [(row.request, row.expected, row.got) for row in rows]
    first, second = (max(len(line[n]) for line in lines) for n in (0, 1))
    return [f"{a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in lines]
