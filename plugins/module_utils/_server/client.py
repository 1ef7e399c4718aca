# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Send HTTP requests to a server on this Spark, or to the proxy before it, and never wait longer than asked."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import re
import socket
import ssl
import threading
import time
import typing as t
from urllib.parse import urlsplit

from .._data.text import one_line

# More than this is no answer to one question.
MOST_BYTES = 16 * 1024 * 1024
# Of each small request, such as health, version and models.
_LOOK_S = 5.0
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class ProbeError(Exception):
    """The server could not be asked."""


class Refused(ProbeError):
    """Nothing listens at the address, or behind it."""


class Unreachable(ProbeError):
    """The address cannot be reached."""


class Expired(ProbeError):
    """The deadline passed."""


class BadReply(ProbeError):
    """The other side does not speak HTTP, or cut the connection."""


def read_json(text: str | bytes) -> t.Any:
    """Parse JSON and replace half surrogate pairs by U+FFFD. Raise ValueError for invalid JSON."""
    try:
        data = json.loads(text)
        return json.loads(_LONE_SURROGATE.sub("\ufffd", json.dumps(data, ensure_ascii=False)))
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


@dataclasses.dataclass
class Reply:
    """An HTTP reply that was read to its end."""

    status: int
    body: bytes

    @property
    def json(self) -> t.Any:
        """The body as data; None when it is no JSON."""
        try:
            return read_json(self.body)
        except ValueError:
            return None

    @property
    def text(self) -> str:
        """The beginning of the body on one line."""
        return one_line(self.body.decode("utf-8", "replace"))


def read_reply(response: http.client.HTTPResponse) -> Reply:
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise BadReply("the reply is far too long")
    return Reply(response.status, body)


def trust(ca_path: str | None) -> ssl.SSLContext:
    """Return the context that accepts certificates of the system's authorities and of a file."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_path:
        try:
            context.load_verify_locations(ca_path)
        except (OSError, ssl.SSLError) as e:
            raise ValueError(f"{ca_path} holds no certificate that could be read ({e}).") from e
        # A given certificate is trusted without regard to its issuer.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class HttpClient:
    """An HTTP server at a URL, or at another address than the URL's host."""

    def __init__(
        self, url: str, api_key: str | None = None, connect_to: str | None = None, ca_path: str | None = None
    ) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ValueError(f"The URL {url!r} is not usable; write it like http://127.0.0.1:8000.")
        self.tls = trust(ca_path) if parts.scheme == "https" else None
        self.host = parts.hostname
        self.port = port or (443 if self.tls else 80)
        self.address = connect_to or self.host
        prefix = parts.path.rstrip("/")
        self._prefix = prefix[: -len("/v1")] if prefix.endswith("/v1") else prefix
        self._api_key = api_key

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        """Return an open connection. Raise OSError if there is none in time, or the certificate is not accepted."""
        connection: http.client.HTTPConnection
        if self.tls:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=seconds, context=self.tls)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            connection.sock = socket.create_connection((self.address, self.port), seconds)
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                connection.sock = self.tls.wrap_socket(connection.sock, server_hostname=self.host)
        except OSError:
            connection.close()
            raise
        return connection

    def _response(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: t.Any, api_key: str | None
    ) -> http.client.HTTPResponse:
        headers = {"Accept": "*/*", "User-Agent": "dgx_spark.speculative"}
        if api_key:
            # A key out of a file or a block of YAML ends with a line break, which http.client would quote in its error.
            headers["Authorization"] = f"Bearer {api_key.strip()}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._prefix + path, body=data, headers=headers)
            return connection.getresponse()
        except ConnectionError as exc:
            if method != "GET":
                raise
            # Docker's proxy takes connections to a published port also as long as nothing listens in the container.
            where = f"{self.address} port {self.port}"
            raise Refused(f"what listens on {where} closes connections without an answer") from exc

    @contextlib.contextmanager
    def exchange(
        self, method: str, path: str, body: t.Any, seconds: float, api_key: str | None = None, silence: bool = False
    ) -> t.Iterator[http.client.HTTPResponse]:
        """One request; after the given seconds its socket is cut, whatever the other side does.

        A socket's own timeout starts again with every byte and would let a dripping server hold us for ever. With
        `silence` it is all there is: the seconds are those without a byte.
        """
        if seconds <= 0:
            raise Expired
        end = time.monotonic() + seconds
        try:
            connection = self.connect(seconds)
        except ConnectionRefusedError as exc:
            raise Refused(f"nothing listens on {self.address} port {self.port}") from exc
        except OSError as exc:
            raise Unreachable(f"{self.address} port {self.port} cannot be reached: {exc}") from exc
        sock = connection.sock
        cut = threading.Event()

        def cut_socket() -> None:
            cut.set()
            with contextlib.suppress(OSError):
                # The plain socket's method: TLS's own would pull the session from under the reader.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

        timer = threading.Timer(max(0.0, end - time.monotonic()), cut_socket)
        timer.daemon = True
        if not silence:
            timer.start()
        try:
            yield self._response(connection, method, path, body, api_key or self._api_key)
            if cut.is_set():
                raise Expired
        except (Refused, OSError, http.client.HTTPException, ValueError) as exc:
            if cut.is_set() or isinstance(exc, socket.timeout):
                raise Expired from exc
            if isinstance(exc, Refused):
                raise
            raise BadReply(one_line(str(exc)) or type(exc).__name__) from exc
        finally:
            timer.cancel()
            connection.close()

    def get(self, path: str, seconds: float = _LOOK_S, api_key: str | None = None) -> Reply:
        """Read one small resource."""
        with self.exchange("GET", path, None, seconds, api_key) as response:
            return read_reply(response)

    def post(self, path: str, body: t.Any, seconds: float, api_key: str | None = None) -> Reply:
        """Send something and read the whole reply."""
        with self.exchange("POST", path, body, seconds, api_key) as response:
            return read_reply(response)
