# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests do with a running twin: watch and disturb its internet, look into its Sparks."""

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
# How the first process of a container ends when it asks the kernel for a restart: by SIGHUP.
REBOOTED = 129
ENGINE_FAULTS = "/run/dgx-spark-twin/engine.json"
# Containers have copies of what the twin tells its servers; these are those of the running ones.
EVERY_COPY = """
for pid in $(docker ps --quiet | xargs --no-run-if-empty docker inspect --format '{{.State.Pid}}'); do
    [ ! -d "/proc/$pid/root${1%/*}" ] || echo "/proc/$pid/root$1"
done
"""
# Prints the ports of an address that accept a connection. Where nothing drops packets, the answer comes at once.
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

    def mounted(self, container: str = "dgx-spark-speculative") -> str:
        """Where a container has its deployment's files from."""
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
        """Turn the Spark off and on again; its cable is as it was."""
        engine.docker("restart", self.container)
        self._start()

    def power_cut(self) -> None:
        """Take the power away in the middle of whatever happens, and give it back."""
        engine.docker("kill", "--signal", "KILL", self.container)
        self.switch_on()

    def switch_off(self) -> None:
        """Shut the Spark down, as somebody does who needs only the other one."""
        engine.docker("stop", self.container)

    def switch_on(self) -> None:
        """Start a Spark that is off, and wait for it."""
        engine.docker("start", self.container)
        self._start()

    @contextlib.contextmanager
    def powered(self) -> t.Iterator[None]:
        """Let the Spark reboot itself meanwhile: a kernel that restarts leaves a container that has ended."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                state = (engine.inspect("container", self.container) or {}).get("State", {})
                # Switched off, it ends otherwise, and stays off.
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
        # The cable has two ends: with both Sparks off, whoever starts last has it.
        cables.connect()
        self.wait()

    @contextlib.contextmanager
    def fault(self, **faults: t.Any) -> t.Iterator[None]:
        """Have the stand-in servers misbehave, those that run and those that start; afterwards all is as it was."""
        before = self.exec(["cat", ENGINE_FAULTS])
        self.set_faults(json.dumps(faults))
        try:
            yield
        finally:
            self.set_faults(before.stdout if before.returncode == 0 else None)

    def set_faults(self, content: str | None) -> None:
        """Replace the file with the faults of the servers, also in the containers that run; None removes it."""
        copies = self.exec(["sh", "-c", EVERY_COPY, "-", ENGINE_FAULTS]).stdout.split()
        for path in (ENGINE_FAULTS, *copies):
            if content is None:
                self.exec(["rm", "-f", path])
            else:
                self.write_file(path, content)

    @contextlib.contextmanager
    def gpu(self, **values: float | str) -> t.Iterator[None]:
        """Have servers that start from now on find another simulated GPU; afterwards all is as it was.

        Its memory is the Spark's: with other `memory_bytes` this is a larger or smaller Spark at once, and with another
        `driver_version` its driver is that one at once. With `driver_fault` nvidia-smi says at once that its library is
        another one's (`mismatch`), or nothing at all (`hang`).
        """
        before = self.read_file(GPU)
        self._set_gpu(json.dumps({**json.loads(before), **values}))
        try:
            yield
        finally:
            self._set_gpu(before)

    def _set_gpu(self, content: str) -> None:
        self.write_file(GPU, content)
        # The service that keeps the Spark's /proc/meminfo would do it a moment later.
        self.exec(MEMINFO)

    def memory(self, name: str = "MemAvailable") -> int:
        """A figure of the Spark's /proc/meminfo, in bytes."""
        self.exec(MEMINFO)
        lines = self.read_file("/proc/meminfo").splitlines()
        values = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return values[name]

    @contextlib.contextmanager
    def listener(self, port: int, address: str = "::") -> t.Iterator[None]:
        """A program of the login user's that has a port."""
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
        """A running container of somebody else that holds GPU memory, and a port of the Spark if one is given."""
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
    """A third host on the network, somebody else's: it has Python and curl, and no key to anything.

    As a context it is there for a while.
    """

    address = NEIGHBOUR_ADDRESS

    def __enter__(self) -> Neighbour:
        engine.attempt("rm", "--force", NEIGHBOUR)
        # The image of a Spark has what it needs; nothing of a Spark is started in it.
        image = engine.docker("container", "inspect", "--format", "{{.Config.Image}}", spark_name(1))
        options = ("--network", NETWORK, "--ip", self.address, "--hostname", "neighbour", "--entrypoint", "sleep")
        engine.docker("run", "--detach", "--init", "--name", NEIGHBOUR, *options, image, "infinity")
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

    def open_ports(self, address: str) -> set[int]:
        """The TCP ports of this address that accept a connection, each of the 65535 tried."""
        result = self.exec(["python3", "-c", SCAN, address])
        if result.returncode:
            raise TwinError(f"{NEIGHBOUR} cannot look for open ports: {engine.last_line(result.stderr)}")
        return {int(port) for port in result.stdout.split()}
