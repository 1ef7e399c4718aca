# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Talk to a running Caddy on its administration socket."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
import typing as t
from pathlib import Path

_SECONDS = 30.0
_KEY = re.compile(r"\bsk-[A-Za-z0-9_-]+")


class CaddyError(Exception):
    """Caddy did not do as told; the text is one sentence for the user."""


class Absent(CaddyError):
    """Nobody answers on the socket."""


def same(one: t.Any, other: t.Any) -> bool:
    """Whether two configurations say the same."""
    return bool(_ordered(one) == _ordered(other))


def _ordered(config: t.Any) -> t.Any:
    """The names of certificates in order: Caddy writes them down as they come, differently each time."""
    if isinstance(config, dict):
        return {
            key: sorted(value) if key in ("subjects", "automate") else _ordered(value) for key, value in config.items()
        }
    if isinstance(config, list):
        return [_ordered(value) for value in config]
    return config


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        # A socket's address is short, and a home directory need not be.
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{directory}/{self._path.name}")
        finally:
            os.close(directory)


class Caddy:
    """A Caddy that listens on an administration socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def wait(self, seconds: float) -> None:
        """Wait until somebody answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.running()
                return
            except Absent:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.2)

    def running(self) -> t.Any:
        """The configuration that is in force."""
        return self._json("GET", "/config/")

    def adapt(self, caddyfile: str) -> t.Any:
        """What Caddy makes of a Caddyfile, which it also finds the mistakes in."""
        return self._json("POST", "/adapt", caddyfile.encode(), "text/caddyfile")["result"]

    def load(self, config: t.Any) -> None:
        """Put a configuration in force. Requests that are under way are answered by the former one."""
        self._json("POST", "/load", json.dumps(config).encode(), "application/json")

    def authority(self, name: str) -> str:
        """The certificate of one of Caddy's own authorities."""
        return str(self._json("GET", f"/pki/ca/{name}")["root_certificate"])

    def _json(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> t.Any:
        connection = _Connection(self._path)
        try:
            connection.request(method, path, body=body, headers={"Content-Type": kind} if kind else {})
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "strerror", None) or str(e) or type(e).__name__
            raise Absent(f"Caddy does not answer on {self._path} ({reason}).") from e
        finally:
            connection.close()
        try:
            data = json.loads(text) if text.strip() else None
        except ValueError:
            data = None
        if response.status != 200:
            # What Caddy says of a configuration may quote a line of it, also one of an imported file that is damaged.
            reason = _KEY.sub("sk-...", str(data.get("error") or "")) if isinstance(data, dict) else None
            raise CaddyError(f"Caddy refuses {path} with status {response.status}: {reason or 'no reason given'}.")
        return data
