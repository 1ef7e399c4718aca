# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real proxy with the role's own configuration, on ports of the loopback address, without Docker."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import typing as t
from pathlib import Path

import jinja2
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.keys import Keys
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.engine import VLLM

from tests.unit.replay_server import free_port
from tests.unit.waiting import WITHIN_S, until

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("caddy")
TEMPLATES = REPOSITORY / "roles/api_proxy/templates"


class Proxy:
    """A Caddy of its own."""

    def __init__(self, directory: Path, upstream: str, **site: t.Any) -> None:
        self.directory = directory
        self.keys = Keys(directory / "keys")
        self.site: dict[str, t.Any] = {
            "host": "spark-1",
            "upstream": upstream,
            "gateway": "127.0.0.1",
            "docker_port": free_port(),
            "lan": True,
            "port": free_port(),
            "addresses": ["127.0.0.1"],
            "names": ["spark-1.local", "127.0.0.1"],
            "certificate": "",
            "max_body_mb": 1,
            "max_requests": 4,
            "routes": list(VLLM.routes),
            "refused": {},
            "debug": False,
            **site,
        }
        (directory / "config").mkdir()
        (directory / "data").mkdir()
        self._log = (directory / "log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.site['docker_port']}"

    @property
    def tls_url(self) -> str:
        return f"https://127.0.0.1:{self.site['port']}"

    @property
    def ca(self) -> Path:
        return self.directory / "data/pki/authorities/local/root.crt"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def key(self, name: str) -> str:
        return self.keys.path(name).read_text().strip()

    def variables(self) -> dict[str, t.Any]:
        """What the role has under these names."""
        inputs = ("upstream", "docker_port", "port", "addresses", "max_body_mb", "max_requests")
        return {
            **{f"api_proxy_{name}": self.site[name] for name in inputs},
            "inventory_hostname": self.site["host"],
            "__api_proxy_plan": {name: self.site[name] for name in ("names", "gateway", "certificate")},
            "__api_proxy_keys": {"scope": "lan" if self.site["lan"] else "docker"},
            "__api_proxy_api": {name: self.site[name] for name in ("routes", "refused")},
        }

    def rendered(self, name: str) -> str:
        # As Ansible renders it.
        environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
        return environment.from_string((TEMPLATES / f"{name}.j2").read_text()).render(self.variables())

    def caddyfile(self) -> str:
        text = self.rendered("Caddyfile")
        for inside, outside in (("/etc/caddy", "config"), ("/keys", "keys"), ("/data", "data")):
            text = text.replace(f"{inside}/", f"{self.directory / outside}/")
        if self.site["debug"]:
            text = text.replace("\tpersist_config off", "\tdebug\n\tpersist_config off")
        return text.replace("file_system /data", f"file_system {self.directory / 'data'}")

    def write(self) -> Path:
        """Write both files; returns the one that imports the other."""
        for name, text in (("server.caddy", self.rendered("server.caddy")), ("Caddyfile", self.caddyfile())):
            path = self.directory / "config" / name
            # In one step: a program that is just starting reads it, too.
            new = path.with_suffix(".new")
            new.write_text(text)
            new.replace(path)
        return path

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        """The program's own command (adapt, reload), as the role has it run, with the file as it is now."""
        words = [str(PROGRAM), command, "--config", str(self.write()), "--adapter", "caddyfile"]
        return subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def reload(self) -> None:
        done = self.call("reload")
        assert done.returncode == 0, done.stderr

    def adapted(self) -> t.Any:
        """The configuration that the program makes of the file."""
        return json.loads(self.call("adapt").stdout)

    def start(self) -> None:
        environment = {
            **os.environ,
            "XDG_DATA_HOME": str(self.directory / "data"),
            "HOME": str(self.directory / "data"),
        }
        command = [str(PROGRAM), "run", "--config", str(self.write()), "--adapter", "caddyfile"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        until(lambda: not self.call("reload").returncode, lambda: self.log)
        if self.site["lan"] and not self.site["certificate"]:
            self.wait_for_certificate()

    def wait_for_certificate(self) -> None:
        """It listens before it has made a certificate of its own, and breaks off whoever asks for one then."""
        anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE

        def made() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.site["port"]), 5) as plain:
                anyone.wrap_socket(plain, server_hostname="127.0.0.1").close()
                return True
            return False

        until(made, lambda: self.log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._log.close()
