# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests do with a running twin: watch and disturb its internet, look into its Sparks."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
import urllib.error
import urllib.request

from tests.twin import engine
from tests.twin.names import CONTROL_URL, TwinError, spark_address, spark_name

Fault = dict[str, t.Any]


class Internet:
    """The control interface of the twin's internet."""

    def __init__(self, url: str = CONTROL_URL) -> None:
        self.url = url

    def _call(self, method: str, path: str, body: t.Any = None) -> t.Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        # A proxy that the machine uses for the world knows nothing of the twin.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                reason = json.loads(error.read()).get("error", "")
            raise TwinError(f"The twin's internet refused {method} {path}: {reason}") from None
        except OSError as error:
            raise TwinError(f"The twin's internet does not answer at {self.url}: {error}") from None

    def counters(self) -> dict[str, t.Any]:
        """All requests and the bytes sent since the last reset, by client and by `host/path`."""
        return t.cast("dict[str, t.Any]", self._call("GET", "/counters"))

    def reset_counters(self) -> None:
        """Forget all requests and bytes."""
        self._call("POST", "/counters/reset")

    def requests(self, host: str = "", path: str = "") -> list[dict[str, t.Any]]:
        """The requests for this host whose path starts so, oldest first."""
        return [
            request
            for request in self.counters()["requests"]
            if host in ("", request["host"]) and request["path"].startswith(path)
        ]

    def bytes_to(self, client: str, prefix: str = "") -> int:
        """The bytes of content sent to this address for all `host/path` that start with the prefix."""
        sent = self.counters()["bytes"].get(client, {})
        return sum(count for name, count in sent.items() if name.startswith(prefix))

    def faults(self) -> list[Fault]:
        """The faults in force; `times` says how often each will strike yet."""
        return t.cast("list[Fault]", self._call("GET", "/faults"))

    def set_faults(self, faults: list[Fault]) -> None:
        """Replace all faults."""
        self._call("POST", "/faults", faults)

    def clear_faults(self) -> None:
        """Behave well again."""
        self.set_faults([])


class Spark:
    """One Spark of the twin, seen from this machine and past any connection of Ansible's."""

    def __init__(self, number: int = 1) -> None:
        self.container = spark_name(number)
        self.address = spark_address(number)

    def exec(
        self, command: str | list[str], user: str = "root", timeout: float | None = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command, or a program with its arguments, in the home of a user."""
        arguments = ["sh", "-c", command] if isinstance(command, str) else command
        home = "/root" if user == "root" else f"/home/{user}"
        options = ("--user", user, "--workdir", home, "--env", f"HOME={home}", "--env", f"USER={user}")
        return engine.attempt("exec", *options, self.container, *arguments, timeout=timeout)

    def read_file(self, path: str) -> str:
        """The text of a file."""
        result = self.exec(["cat", path])
        if result.returncode:
            raise TwinError(f"{self.container} cannot read {path}: {result.stderr.strip()}")
        return result.stdout

    def write_file(self, path: str, text: str, user: str = "root") -> None:
        """Write a file as this user, with the directories it needs."""
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1"'
        result = engine.attempt("exec", "-i", "--user", user, self.container, "sh", "-c", script, "-", path, text=text)
        if result.returncode:
            raise TwinError(f"{self.container} cannot write {path}: {result.stderr.strip()}")

    def wait(self, seconds: float = 60) -> None:
        """Wait until systemd says that the Spark runs."""
        deadline = time.monotonic() + seconds
        state = ""
        while time.monotonic() < deadline:
            state = engine.attempt("exec", self.container, "systemctl", "is-system-running").stdout.strip()
            if state == "running":
                return
            if state == "degraded":
                failed = self.exec(["systemctl", "--failed", "--plain", "--no-legend"]).stdout.split("\n")
                units = ", ".join(line.split()[0] for line in failed if line)
                raise TwinError(f"{self.container} has started without these units: {units}.")
            time.sleep(0.2)
        logs = engine.attempt("logs", "--tail", "5", self.container)
        raise TwinError(
            f"{self.container} did not start within {seconds:g} s (state {state or 'unknown'}): "
            f"{engine.last_line(logs.stdout + logs.stderr) or 'it logged nothing'}"
        )

    def restart(self) -> None:
        """Turn the Spark off and on again."""
        engine.docker("restart", self.container)
        self.wait()
