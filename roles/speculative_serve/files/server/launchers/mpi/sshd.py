# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run an sshd on a worker's fabric address only for the head, whose mpirun starts a rank through it.

Every login runs `launch`, and nothing else.
"""

from __future__ import annotations

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

from server import nccl
from server.cluster import KEYS, RUN, Cluster, write_private
from server.processes import Process, collect_dead, descendants, describe_exit
from server.worker import BaseWorker, StateAndReason

SSHD_PATH = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"
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


class SshWorker(BaseWorker):
    """Runs sshd for the head's mpirun."""

    sshd: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self.sshd.pid if self.sshd is not None else None

    def prepare(self) -> None:
        signal.signal(signal.SIGUSR1, self.on_word)
        signal.signal(signal.SIGUSR2, self.on_login)
        save_environment(self.deployment)

    def open(self) -> StateAndReason | None:
        program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{SSHD_PATH}")
        if program is None:
            return "failed", "there is no sshd in this image; run the playbook again, which builds the cluster image"
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

    def stay(self) -> StateAndReason | None:
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
                if self.is_guarded():
                    return self.apply_guard_verdict()
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

    def close(self) -> None:
        if self.sshd is None:
            return
        self.sshd.kill()
        self.sshd.wait()
        if self.sshd.stdout is not None:
            self.sshd.stdout.close()
        self.sshd = None

    def ranks(self) -> dict[int, Process]:
        """Return the processes in the worker's container besides sshd."""
        family = descendants(os.getpid())
        return {pid: process for pid, process in family.items() if not process.name.startswith("sshd")}

    def end(self) -> None:
        """No new login, then the ranks."""
        if self.sshd is not None:
            self.sshd.terminate()
        super().end()

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
