# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a worker: an sshd on its fabric address only for the head, whose mpirun starts a rank through it.

Every login runs `launch`, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from server import nccl, rdma
from server.cluster import KEYS, RETRY_S, RUN, Cluster, is_free, is_here, knock, no_address, write_private
from server.guard import Verdict
from server.loading import TAKEN, EngineLock, PageCache, memory_is_short
from server.processes import Process, collect_dead, descendants, describe_exit, end_descendants
from server.sampler import Sampler
from server.state import Log, State

SSHD_PATH = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"
STOP_RANKS_S = 20.0
GUARDED = "the memory guard has ended the rank"
SSHD_CONFIG = """\
# Written by entrypoint.py, only for the head's mpirun.
ListenAddress {address}
Port {port}
AddressFamily inet
HostKey {run}/ssh_host_ed25519_key
AuthorizedKeysFile {run}/authorized_keys
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
HostbasedAuthentication no
PermitRootLogin forced-commands-only
AllowUsers root
ForceCommand {python} {entrypoint} launch {run}/worker.json
StrictModes yes
UsePAM no
DisableForwarding yes
PermitTunnel no
PermitTTY no
PermitUserEnvironment no
PermitUserRC no
PrintMotd no
PrintLastLog no
UseDNS no
LoginGraceTime 20
MaxSessions 1
PidFile none
LogLevel INFO
"""
# A port check, which the head repeats all the time. A login has three lines more.
NO_NEWS = re.compile(
    r"(kex_exchange_identification: .*|banner exchange: .*"
    r"|Connection (closed|reset) by \S+ port \d+( \[preauth\])?"
    r"|Root login accepted for forced command\..*|Received disconnect from .*|Disconnected from .*)\s*$"
)


class Worker:
    """Runs sshd for the head's mpirun, and knows whether a rank runs."""

    def __init__(self, deployment: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        self.deployment = deployment
        self.state = State(deployment / "state")
        self.log = Log(deployment / "state")
        self.stop_signal: int | None = None
        self.sshd: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.verbs = rdma.RdmaReadiness(os.environ)
        self.pages = PageCache()
        self.guard = Sampler(deployment / "state", os.environ, self.end_ranks)
        # For what it has ended a rank last, and whether it was the last one.
        self.heeded: Verdict | None = None
        self.given_up = False
        # The head has reported that the running rank is ready.
        self.ready = False
        # A new rank replaces it; the Spark may never have been seen without one.
        self.replaced = False
        self.turn = EngineLock()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        signal.signal(signal.SIGUSR1, self.on_word)
        signal.signal(signal.SIGUSR2, self.on_login)
        self.state.write("starting")
        save_environment(self.deployment)
        self.guard.begin()
        while self.stop_signal is None and not self.verbs.too_early:
            problem = self.start()
            if problem is None:
                problem = self.run_sshd()
            if problem is not None:
                self.enter(*problem)
                if not ranks(os.getpid()):
                    self.turn.give_back()
                # Pause before an sshd that keeps ending is started again.
                self.idle(min(RETRY_S * 2**self.failures, 30))
        self.end()
        self.guard.stop()
        if self.stop_signal is None:
            return rdma.AGAIN
        self.state.write("stopped", pid=None, reason=None)
        return 0

    def enter(self, state: str, reason: str | None) -> None:
        """Write a state down when it is a new one."""
        if (state, reason) == (self.state.values["state"], self.state.values["reason"]):
            return
        if reason is not None:
            self.log.say(f"{state}: {reason}")
        pid = self.sshd.pid if self.sshd is not None else None
        self.state.write(state, pid=pid, reason=reason)

    def start(self) -> tuple[str, str] | None:
        """Start sshd; returns the state and the reason if that is not possible."""
        short = self.lacks_memory()
        if short is not None:
            return "failed", short
        own, port = self.cluster.own, self.cluster.port
        gone = self.cluster.gone()
        if gone is not None:
            return "waiting for the fabric", no_address(gone)
        lacking = self.verbs.problem()
        if lacking is not None:
            return "waiting for the fabric", lacking
        # Before that there is no login, and the head waits. The other container may still have the port.
        if self.turn.is_taken():
            return "starting", TAKEN
        program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{SSHD_PATH}")
        if program is None:
            return "failed", "there is no sshd in this image; run the playbook again, which builds the cluster image"
        if not is_free(own, port):
            return "failed", (
                f"port {port} of {own} is taken by another program of this Spark; "
                f"'sudo ss -ltnp sport = :{port}' shows which one"
            )
        try:
            configuration = write_sshd_files(self.cluster, self.deployment)
        except OSError as error:
            return "failed", f"{error.filename or RUN} cannot be used ({error.strerror}); run the playbook again"
        self.sshd = subprocess.Popen(
            [program, "-D", "-e", "-f", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return None

    def run_sshd(self) -> tuple[str, str] | None:
        """Stay with sshd until it ends or must."""
        sshd = self.sshd
        assert sshd is not None
        assert sshd.stdout is not None
        output = sshd.stdout.fileno()
        os.set_blocking(output, False)
        begun = look_at = time.monotonic()
        rest = b""
        ended = False
        while self.stop_signal is None and not ended and not self.verbs.too_early:
            # Asked before it is read: what it said last is in the pipe by then.
            ended = sshd.poll() is not None
            readable = select.select([output], [], [], 0.25)[0]
            data = os.read(output, 65536) if readable else b""
            if readable and not data:
                time.sleep(0.25)
            rest = self.pass_on(rest + data)
            collect_dead(but=sshd.pid)
            if time.monotonic() >= look_at and not ended:
                self.look()
                look_at = time.monotonic() + 0.5
                if self.guard.verdict is not self.heeded and not self.guard.runs:
                    return self.apply_guard_verdict(sshd)
        if not ended:
            return None
        if rest:
            self.pass_on(rest + b"\n")
        sshd.stdout.close()
        self.sshd = None
        self.failures = self.failures + 1 if time.monotonic() - begun < 60 else 0
        code = describe_exit(sshd.returncode)
        return "failed", f"sshd ended with {code}: {self.log.last_line()}"

    def pass_on(self, data: bytes) -> bytes:
        """Log complete lines without those of port checks. Return the incomplete rest."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            if not NO_NEWS.match(line.decode("utf-8", "replace")):
                self.log.write(line.rstrip(b"\r") + b"\n")
        return rest

    def look(self) -> None:
        self.state.keep()
        if not is_here(self.cluster.own):
            self.enter("waiting for the fabric", no_address(self.cluster.own))
            return
        if ranks(os.getpid()):
            self.enter("rank_runs", None)
            if self.replaced:
                self.no_rank()
            if not self.guard.runs:
                self.guard.loads()
                self.heeded = None
            if self.ready and not self.guard.ready:
                self.guard.is_ready()
            if self.guard.summary() != self.state.values["guard"]:
                self.state.note(guard=self.guard.summary())
            # The line that all weights are read is in the head's log.
            if self.pages.due() and memory_is_short():
                self.pages.give_back()
            return
        self.no_rank()
        if (lacking := self.verbs.problem()) is not None:
            self.enter("waiting for the fabric", lacking)
        elif (
            self.state.values["state"] == "ready"
            or knock(self.cluster.own, self.cluster.port, self.cluster.own) is None
        ):
            self.failures = 0
            self.enter("ready", None)

    def no_rank(self) -> None:
        """Clear the facts of the last rank, which do not apply to the next one."""
        self.replaced = self.ready = False
        self.guard.is_over()

    def end_ranks(self, number: int) -> None:
        """End the ranks for the memory guard. The head sees that its rank is gone, and ends the others."""
        for pid in ranks(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def apply_guard_verdict(self, sshd: subprocess.Popen[bytes]) -> tuple[str, str]:
        """Accept no login after the guard has ended the rank, until there is memory for another one."""
        self.heeded = self.guard.verdict
        self.given_up = self.guard.count()
        sshd.kill()
        sshd.wait()
        if sshd.stdout is not None:
            sshd.stdout.close()
        self.sshd = None
        return "failed", self.lacks_memory() or f"{GUARDED}: {self.heeded and self.heeded.reason}"

    def lacks_memory(self) -> str | None:
        """Return why the memory guard forbids a new rank after it has ended one; None if it does not."""
        if self.heeded is None:
            return None
        reason = f"{GUARDED}: {self.heeded.reason}"
        if self.given_up:
            return f"{reason}, for the second time within an hour; no rank is started until this container restarts"
        return None if self.guard.is_back() else f"{reason}; its memory is not free yet"

    def end(self) -> None:
        """No new login, then the ranks."""
        if self.sshd is not None:
            self.sshd.terminate()
        until = time.monotonic() + STOP_RANKS_S
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while time.monotonic() < until and descendants(os.getpid()):
            collect_dead()
            time.sleep(0.1)
        end_descendants()

    def idle(self, seconds: float) -> None:
        """Wait, but not past the order to stop."""
        until = time.monotonic() + seconds
        while self.stop_signal is None and time.monotonic() < until:
            collect_dead()
            time.sleep(0.1)

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_signal = number

    def on_word(self, _number: int, _frame: object) -> None:
        self.ready = True

    def on_login(self, _number: int, _frame: object) -> None:
        self.replaced = True


def write_sshd_files(cluster: Cluster, deployment: Path) -> Path:
    """Write the keys and the configuration as root: sshd rejects files of another user."""
    for name in ("ssh_host_ed25519_key", "authorized_keys"):
        write_private(RUN / name, (KEYS / name).read_text(encoding="utf-8"))
    if os.geteuid() == 0:
        # The chroot of sshd's process before a login.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    configuration = RUN / "sshd_config"
    text = SSHD_CONFIG.format(
        address=cluster.own,
        port=cluster.port,
        run=RUN,
        python=sys.executable,
        entrypoint=deployment / "entrypoint.py",
    )
    write_private(configuration, text)
    return configuration


def save_environment(deployment: Path) -> None:
    """Save the environment for ranks: a login has none of the container's variables."""
    RUN.mkdir(parents=True, exist_ok=True)
    RUN.chmod(0o700)
    state = deployment / "state"
    environment = {**os.environ, **nccl.settings(state, os.environ)}
    worker = {"pid": os.getpid(), "log": str(state / "server.log"), "environment": environment}
    write_private(RUN / "worker.json", json.dumps(worker))


def ranks(worker: int) -> dict[int, Process]:
    """Return the processes in the worker's container besides sshd."""
    family = descendants(worker)
    return {pid: process for pid, process in family.items() if not process.name.startswith("sshd")}
