# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate Open WebUI: health, configuration, login, and the models of its backend.

As in the real one, URLs and keys of backends come from the environment at start, and the first account becomes the
administrator. Without a login, only the health and the public configuration are accessible.
"""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import secrets
import typing as t
import urllib.request

VERSION = "0.6.36"
PAGE = "<!doctype html><title>Open WebUI</title><p>Test double of Open WebUI: it has no chat.</p>"
Json = dict[str, t.Any]


def switched_on(name: str, default: str, environment: t.Mapping[str, str] = os.environ) -> bool:
    return environment.get(name, default).lower() == "true"


class Interface:
    """The accounts in the data directory, and the client of the backend."""

    def __init__(self, data: pathlib.Path, environment: t.Mapping[str, str] = os.environ) -> None:
        self._database = data / "webui.db"
        self._base_url = environment.get("OPENAI_API_BASE_URL", "").rstrip("/")
        self._key = environment.get("OPENAI_API_KEY", "")
        self.login = switched_on("WEBUI_AUTH", "true", environment)
        self.ollama = switched_on("ENABLE_OLLAMA_API", "true", environment)
        self._tokens: dict[str, str] = {}
        data.mkdir(parents=True, exist_ok=True)
        if not self._database.exists():
            self._write([])

    @property
    def users(self) -> list[Json]:
        return t.cast("list[Json]", json.loads(self._database.read_text(encoding="utf-8"))["users"])

    def _write(self, users: list[Json]) -> None:
        self._database.write_text(json.dumps({"users": users}), encoding="utf-8")

    def configuration(self) -> Json:
        features = {"auth": self.login, "enable_signup": not self.users, "enable_login_form": True}
        onboarding = {} if self.users else {"onboarding": True}
        return {"status": True, "name": "Open WebUI", "version": VERSION, **onboarding, "features": features}

    def sign_up(self, account: Json) -> tuple[int, Json]:
        """Create an account. The first one becomes the administrator and disables further sign-ups."""
        users = self.users
        if users:
            return 403, {"detail": "You do not have permission to access this resource."}
        user = {key: account[key] for key in ("name", "email", "password")}
        self._write([*users, user])
        return self.sign_in(account)

    def sign_in(self, account: Json) -> tuple[int, Json]:
        for position, user in enumerate(self.users):
            if (user["email"], user["password"]) == (account.get("email"), account.get("password")):
                token = secrets.token_hex(16)
                self._tokens[token] = user["email"]
                role = "user" if position else "admin"
                return 200, {"token": token, "token_type": "Bearer", "email": user["email"], "role": role}
        return 400, {"detail": "The email or password provided is incorrect."}

    def knows(self, authorization: str) -> bool:
        return not self.login or authorization.partition(" ")[2] in self._tokens

    def models(self) -> Json:
        """Return the models of the backend; none if it does not answer."""
        request = urllib.request.Request(f"{self._base_url}/models", headers={"Authorization": f"Bearer {self._key}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return {"data": json.load(response).get("data", [])}
        except (OSError, ValueError) as error:
            print(f"ERROR | Connection error: {error}", flush=True)
            return {"data": []}


class Handler(http.server.BaseHTTPRequestHandler):
    interface: Interface

    def log_message(self, format: str, *arguments: t.Any) -> None:
        print(f"INFO | {self.client_address[0]} - {format % arguments}", flush=True)

    def reply(self, status: int, body: Json | str) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/health":
            self.reply(200, {"status": True})
        elif self.path == "/api/config":
            self.reply(200, self.interface.configuration())
        elif self.path == "/api/version":
            self.reply(200, {"version": VERSION})
        elif self.path.startswith("/api/"):
            if not self.interface.knows(self.headers.get("Authorization") or ""):
                self.reply(401, {"detail": "Not authenticated"})
            elif self.path == "/api/models":
                self.reply(200, self.interface.models())
            else:
                self.reply(404, {"detail": "Not Found"})
        else:
            self.reply(200, PAGE)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        actions = {
            "/api/v1/auths/signup": self.interface.sign_up,
            "/api/v1/auths/signin": self.interface.sign_in,
        }
        if self.path in actions:
            self.reply(*actions[self.path](json.loads(body or b"{}")))
        else:
            self.reply(405, {"detail": "Method Not Allowed"})


def serve(address: tuple[str, int], interface: Interface) -> http.server.ThreadingHTTPServer:
    return http.server.ThreadingHTTPServer(address, type("Bound", (Handler,), {"interface": interface}))


def main() -> None:
    interface = Interface(pathlib.Path("data"))
    print(f"This is a test double of Open WebUI {VERSION}: it has no chat.", flush=True)
    server = serve((os.environ.get("HOST", ""), int(os.environ.get("PORT") or 8080)), interface)
    server.serve_forever()


if __name__ == "__main__":
    main()
