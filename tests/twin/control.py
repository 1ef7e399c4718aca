# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control a running twin from tests: count requests and cause faults in its internet, and access its Sparks."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import threading
import time
import typing as t
import urllib.error
import urllib.request

from tests.twin import cables, engine
from tests.twin.names import (
    CONTROL_URL,
    NEIGHBOUR,
    NEIGHBOUR_ADDRESS,
    NETWORK,
    TwinError,
    spark_address,
    spark_name,
)

Fault = dict[str, t.Any]
GPU = "/run/dgx-spark-twin/gpu.json"
MEMINFO = "/usr/bin/python3 -I -S /usr/local/lib/dgx-spark-twin/meminfo.py once"
# Exit code of a container whose first process asks the kernel for a restart: it ends by SIGHUP.
REBOOTED = 129
ENGINE_FAULTS = "/run/dgx-spark-twin/engine.json"
# Containers have copies of the twin's files for servers. This finds the copies of the running containers.
EVERY_COPY = """
for pid in $(docker ps --quiet | xargs --no-run-if-empty docker inspect --format '{{.State.Pid}}'); do
    [ ! -d "/proc/$pid/root${1%/*}" ] || echo "/proc/$pid/root$1"
done
"""
# Prints the open ports of an address. Unless packets are dropped, each answer is immediate.
SCAN = """
import socket, sys
for port in range(1, 65536):
    with socket.socket() as one:
        one.settimeout(2)
        if one.connect_ex((sys.argv[1], port)) == 0:
            print(port)
"""


class Internet:
    """The control interface of the twin's internet."""

    def __init__(self, url: str = CONTROL_URL) -> None:
        self.url = url

    def _call(self, method: str, path: str, body: t.Any = None) -> t.Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        # The machine's proxy cannot reach the twin.
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
        """Return all requests and sent bytes since the last reset, by client and by `host/path`."""
        return t.cast("dict[str, t.Any]", self._call("GET", "/counters"))

    def reset_counters(self) -> None:
        """Reset the counters of requests and bytes."""
        self._call("POST", "/counters/reset")

    def requests(self, host: str = "", path: str = "") -> list[dict[str, t.Any]]:
        """Return the requests for this host and prefix of the path, oldest first."""
        return [
            request
            for request in self.counters()["requests"]
            if host in ("", request["host"]) and request["path"].startswith(path)
        ]

    def bytes_to(self, client: str, prefix: str = "") -> int:
        """Return the bytes of content sent to this address for all `host/path` with this prefix."""
        sent = self.counters()["bytes"].get(client, {})
        return sum(count for name, count in sent.items() if name.startswith(prefix))

    def faults(self) -> list[Fault]:
        """Return the active faults. `times` is the number of remaining requests that each will hit."""
        return t.cast("list[Fault]", self._call("GET", "/faults"))

    def set_faults(self, faults: list[Fault]) -> None:
        """Replace all faults."""
        self._call("POST", "/faults", faults)

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.set_faults([])


class Spark:
    """A Spark of the twin, accessed through Docker and not through Ansible."""

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
        """Return the text of a file."""
        result = self.exec(["cat", path])
        if result.returncode:
            raise TwinError(f"{self.container} cannot read {path}: {result.stderr.strip()}")
        return result.stdout

    def mounted(self, container: str = "dgx-spark-speculative") -> str:
        """Return the directory from which a container mounts its deployment's files."""
        found = self.exec(["docker", "inspect", "--format", "{{json .Mounts}}", container])
        if found.returncode:
            raise TwinError(f"{self.container} has no container {container}: {found.stderr.strip()}")
        return next(mount["Source"] for mount in json.loads(found.stdout) if mount["Destination"] == "/deployment")

    def write_file(self, path: str, content: str | bytes, user: str = "root") -> None:
        """Write a file as this user, with the directories it needs."""
        script = 'mkdir -p "$(dirname "$1")" && base64 -d >"$1"'
        text = base64.b64encode(content.encode() if isinstance(content, str) else content).decode()
        result = engine.attempt("exec", "-i", "--user", user, self.container, "sh", "-c", script, "-", path, text=text)
        if result.returncode:
            raise TwinError(f"{self.container} cannot write {path}: {result.stderr.strip()}")

    def wait(self, seconds: float = 60) -> None:
        """Wait until systemd reports that the Spark runs."""
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
        """Restart the Spark. Its cable is unchanged."""
        engine.docker("restart", self.container)
        self._start()

    def power_cut(self) -> None:
        """Cut the power without a shutdown, and restore it."""
        engine.docker("kill", "--signal", "KILL", self.container)
        self.switch_on()

    def switch_off(self) -> None:
        """Shut the Spark down, as a user does who needs only the other one."""
        engine.docker("stop", self.container)

    def switch_on(self) -> None:
        """Start a Spark that is off, and wait for it."""
        engine.docker("start", self.container)
        self._start()

    @contextlib.contextmanager
    def powered(self) -> t.Iterator[None]:
        """Let the Spark reboot itself: a kernel restart ends the container, so start it again."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                state = (engine.inspect("container", self.container) or {}).get("State", {})
                # After a shutdown the exit code is another one, and the Spark stays off.
                if state.get("Status") == "exited" and state.get("ExitCode") == REBOOTED:
                    self.switch_on()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()

    def _start(self) -> None:
        # A cable needs both Sparks, so the one that starts last connects it.
        cables.connect()
        self.wait()

    @contextlib.contextmanager
    def fault(self, **faults: t.Any) -> t.Iterator[None]:
        """Cause faults in the stand-in servers, running and new ones, for the time of a context."""
        before = self.exec(["cat", ENGINE_FAULTS])
        self.set_faults(json.dumps(faults))
        try:
            yield
        finally:
            self.set_faults(before.stdout if before.returncode == 0 else None)

    def set_faults(self, content: str | None) -> None:
        """Replace the servers' file of faults, also in running containers. None removes it."""
        copies = self.exec(["sh", "-c", EVERY_COPY, "-", ENGINE_FAULTS]).stdout.split()
        for path in (ENGINE_FAULTS, *copies):
            if content is None:
                self.exec(["rm", "-f", path])
            else:
                self.write_file(path, content)

    @contextlib.contextmanager
    def gpu(self, **values: float | str) -> t.Iterator[None]:
        """Change the simulated GPU for new servers, for the time of a context.

        GPU and Spark share their memory, so `memory_bytes` changes the Spark at once, as does `driver_version`. With
        `driver_fault`, nvidia-smi at once reports a library of another version (`mismatch`), or hangs (`hang`).
        """
        before = self.read_file(GPU)
        self._set_gpu(json.dumps({**json.loads(before), **values}))
        try:
            yield
        finally:
            self._set_gpu(before)

    def _set_gpu(self, content: str) -> None:
        self.write_file(GPU, content)
        # The service that updates the Spark's /proc/meminfo would do this a moment later.
        self.exec(MEMINFO)

    def memory(self, name: str = "MemAvailable") -> int:
        """Return a value of the Spark's /proc/meminfo, in bytes."""
        self.exec(MEMINFO)
        lines = self.read_file("/proc/meminfo").splitlines()
        values = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return values[name]

    @contextlib.contextmanager
    def listener(self, port: int, address: str = "::") -> t.Iterator[None]:
        """Run a program of the login user that listens on a port."""
        command = f"http.server {port} --bind {address} --directory /srv"
        self.exec(f"setsid python3 -m {command} >/dev/null 2>&1 &", user="spark")
        self._wait_for(f"ss -ltn | grep -q :{port}")
        try:
            yield
        finally:
            self.exec(f"pkill -f '{command}'")
            self._wait_for(f"! ss -ltn | grep -q :{port}")

    @contextlib.contextmanager
    def stranger(self, image: str, size: int, name: str = "vllm", port: int | None = None) -> t.Iterator[None]:
        """Run a container of another user that uses GPU memory, and a port if given."""
        command = ["standin-hold", "--bytes", str(size), *(["--port", str(port)] if port else [])]
        started = self.exec(["docker", "run", "--detach", "--network", "host", "--name", name, image, *command])
        if started.returncode:
            raise TwinError(f"{self.container} cannot start the container {name}: {engine.last_line(started.stderr)}")
        try:
            self._wait_for(f"nvidia-smi --query-compute-apps=used_gpu_memory --format=csv,noheader | grep {size >> 20}")
            if port:
                self._wait_for(f"ss -ltn | grep :{port}")
            yield
        finally:
            self.exec(["docker", "rm", "--force", name])

    def _wait_for(self, condition: str) -> None:
        if self.exec(f"for i in $(seq 100); do {condition} && exit; sleep 0.1; done; exit 1").returncode:
            raise TwinError(f"{self.container} waited 10 s in vain for: {condition}")


class Neighbour:
    """Another host on the network, with Python and curl, but without keys.

    It exists for the time of a context.
    """

    address = NEIGHBOUR_ADDRESS

    def __enter__(self) -> Neighbour:
        engine.attempt("rm", "--force", NEIGHBOUR)
        # The image of a Spark has all programs that it needs. No services of a Spark are started.
        image = engine.docker("container", "inspect", "--format", "{{.Config.Image}}", spark_name(1))
        options = ("--network", NETWORK, "--ip", self.address, "--hostname", "neighbour", "--entrypoint", "sleep")
        rights = ("--cap-add", "NET_ADMIN")
        engine.docker("run", "--detach", "--init", "--name", NEIGHBOUR, *rights, *options, image, "infinity")
        return self

    def __exit__(self, *_details: object) -> None:
        engine.attempt("rm", "--force", NEIGHBOUR)

    def exec(
        self, command: str | list[str], text: str | None = None, timeout: float | None = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command, or a program with its arguments, as an ordinary user."""
        arguments = ["sh", "-c", command] if isinstance(command, str) else command
        options = ("--interactive", "--user", "member", "--workdir", "/tmp")
        return engine.attempt("exec", *options, NEIGHBOUR, *arguments, text=text, timeout=timeout)

    def write_file(self, path: str, text: str) -> None:
        """Write a file."""
        result = self.exec(["sh", "-c", 'cat >"$1"', "-", path], text)
        if result.returncode:
            raise TwinError(f"{NEIGHBOUR} cannot write {path}: {result.stderr.strip()}")

    def route(self, network: str, gateway: str) -> None:
        """Send packets for this network to this gateway."""
        engine.docker("exec", NEIGHBOUR, "ip", "route", "add", network, "via", gateway)

    def open_ports(self, address: str) -> set[int]:
        """Return the open TCP ports of this address, of all 65535."""
        result = self.exec(["python3", "-c", SCAN, address])
        if result.returncode:
            raise TwinError(f"{NEIGHBOUR} cannot look for open ports: {engine.last_line(result.stderr)}")
        return {int(port) for port in result.stdout.split()}
