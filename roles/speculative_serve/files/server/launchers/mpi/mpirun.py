# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start the ranks by Open MPI's mpirun, which reaches the workers through their sshd."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import typing as t
from pathlib import Path

from server.cluster import KEYS, RUN, is_here, write_private
from server.launchers.launcher import ITSELF, Facts, Plan, Problem, show_command
from server.processes import descendants
from server.rank import MARK, from_output

MPIRUN_TIMEOUT_S = 60.0


def mpirun_version() -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, timeout=20, check=False)
        match = re.search(r"Open ?MPI\)?\s+v?(\d+\.\d+\S*)", result.stdout)
        return match[1] if match else None
    return None


def write_files(plan: Plan, run: Path) -> tuple[Path, Path]:
    """Write the hostfile and the configuration of ssh, which ignores the user's own."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    hostfile = run / "hostfile"
    write_private(hostfile, "".join(f"{address} slots=1\n" for address in (plan.head, *plan.workers)))
    settings = {
        "Port": plan.port,
        "User": "root",
        "AddressFamily": "inet",
        "BindAddress": plan.head,
        "IdentityFile": KEYS / "id_ed25519",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": KEYS / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "UpdateHostKeys": "no",
        "BatchMode": "yes",
        "PreferredAuthentications": "publickey",
        "ConnectTimeout": 10,
        "ControlPath": "none",
        "LogLevel": "ERROR",
    }
    configuration = run / "ssh_config"
    write_private(configuration, "".join(f"{name} {value}\n" for name, value in settings.items()))
    return hostfile, configuration


def mpirun(plan: Plan, version: str, hostfile: Path, ssh_config: Path, interfaces: str) -> list[str]:
    """Return mpirun's command line up to the program.

    MPI only starts and numbers the ranks, over TCP on the fabric, independent of UCX. Open MPI 5 has another launcher
    with its own settings, and does not find a network by its CIDR notation (open-mpi/ompi issue 13155). So it gets
    interface names, and the worker replaces them by its own.
    """
    agent = f"ssh -F {ssh_config}"
    networks = ",".join(plan.subnets)
    if int(version.split(".")[0]) >= 5:
        launcher = ["--prtemca", "plm_ssh_agent", agent]
        if interfaces:
            launcher += ["--prtemca", "prte_if_include", interfaces.lstrip("=")]
    else:
        launcher = ["--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", networks]
    messages = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", networks]
    ranks = [
        "--hostfile",
        str(hostfile),
        "-np",
        str(1 + len(plan.workers)),
        "--map-by",
        "ppr:1:node",
        "--bind-to",
        "none",
    ]
    # Variables of serve.sh that all ranks need. A rank has all others from its own container.
    passed = [word for name in plan.passed for word in ("-x", name)]
    return ["mpirun", "--allow-run-as-root", *ranks, *launcher, *messages, *passed]


def before_mpirun(plan: Plan) -> str:
    """Return mpirun's version. Check first what mpirun would fail for after a minute, or without a message."""
    if not is_here(plan.head):
        raise Problem(
            f"{plan.head}, this Spark's fabric address, is on none of its interfaces; run the playbook "
            "again, which looks at the network"
        )
    for worker in filter(is_here, plan.workers):
        raise Problem(
            f"{worker}, configured as another Spark's address, is this Spark's own; run the playbook again, "
            "which looks at the network"
        )
    for name in ("id_ed25519", "known_hosts"):
        if not (KEYS / name).is_file():
            raise Problem(f"the cluster's {name} is missing; run the playbook again, which creates the keys")
    version = mpirun_version()
    if version is None:
        raise Problem("this image has no mpirun of Open MPI; several Sparks need an image with it")
    return version


# Messages of mpirun or ssh, and their causes. The first match is the cause: mpirun adds guesses.
MEANINGS: tuple[tuple[str, str], ...] = (
    (r"\[launch\] (?P<said>.+)", "the worker's container refuses: {said}"),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key is known for",
        "the worker's host key is not the one that the playbook recorded: another machine answers at {worker}, "
        "or the worker has new keys; in that case run the playbook again",
    ),
    (
        r"Permission denied \(publickey",
        "the worker rejects the head's key; run the playbook again, which writes the keys to all Sparks",
    ),
    (
        r"Connection refused",
        "nothing listens at {worker} port {port}; see the log of the worker's container, which runs sshd there",
    ),
    (
        r"Connection timed out|No route to host|Network is unreachable|Connection closed by remote host",
        "the worker does not answer at {worker} port {port}; check the cable, the other Spark and its firewall",
    ),
    (r"Could not resolve hostname", "{worker} is not an address; run the playbook again"),
    (
        r"not enough slots",
        "mpirun found both addresses on one Spark; check that {head} and {worker} are on different Sparks",
    ),
    (
        r"(?P<said>could not find an executable|unable to find the specified executable|cannot be run on the worker).*",
        "a program is missing in one of the containers; run the playbook again, which copies the same image to both",
    ),
    (
        r"failed to report back|before communicating back to mpirun|No OOB path|unable to connect to the remote daemon",
        "mpirun's daemon on the worker could not connect back to the head at {head}; a firewall on the head must "
        "accept connections from {worker}",
    ),
    (
        r"lost communication with a remote daemon|ORTE daemon has unexpectedly failed|one or more daemons",
        "mpirun's daemon on the worker has ended; both containers have to run the same image, and the log of the "
        "worker's one says more",
    ),
)


def explain(output: str, code: int | None, plan: Plan) -> str:
    """Return why mpirun failed; without an exit code it did not end in time."""
    named = [worker for worker in plan.workers if worker in output]
    known = {"head": plan.head, "worker": " and ".join(named or plan.workers), "port": plan.port}
    for pattern, meaning in MEANINGS:
        match = re.search(pattern, output)
        if match:
            return meaning.format(**known, **match.groupdict())
    if code is None:
        return (
            f"mpirun has not ended within {MPIRUN_TIMEOUT_S:g} s; check that {plan.head} and {known['worker']} "
            "are the addresses on the Sparks' fabric interfaces, and that no firewall is between them"
        )
    return f"mpirun ended with exit code {code}: {main_line(output)}"


def main_line(output: str) -> str:
    """Return the first line between Open MPI's dashes, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line, following in zip(lines, lines[1:]):
        if not line.strip("-") and following.strip("-"):
            return following
    return lines[-1] if lines else "it printed nothing"


def ask_ranks(plan: Plan, command: t.Sequence[str]) -> Facts:
    """Return the facts of all ranks. Other output of mpirun goes to the log."""
    process = subprocess.Popen(
        [*command, *show_command(plan.paths, plan.passed)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    timed_out = False
    try:
        output = process.communicate(timeout=MPIRUN_TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        timed_out = True
        output = end_mpirun(process)
    text = "\n".join(line for line in output.splitlines() if MARK not in line)
    if text.strip():
        print(text, flush=True)
    if timed_out or process.returncode != 0:
        raise Problem(explain(text, None if timed_out else process.returncode, plan))
    return from_output(output)


def end_mpirun(process: subprocess.Popen[str]) -> str:
    """End it with all that it has started, first in a way that lets it end the other rank."""
    family = {process.pid, *descendants(process.pid)}
    process.terminate()
    try:
        return process.communicate(timeout=5)[0]
    except subprocess.TimeoutExpired:
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return process.communicate()[0]


class MpiStart:
    """The ranks by one command line of mpirun."""

    def __init__(self, plan: Plan, command: t.Sequence[str]) -> None:
        self.plan = plan
        self.command = command

    def ask(self) -> Facts:
        return ask_ranks(self.plan, self.command)

    def run(self, command: t.Sequence[str]) -> int:
        link = ["--link", *self.plan.link] if self.plan.link else []
        line = [*self.command, *ITSELF, "rank", *link, "--", *command]
        os.execvp(line[0], line)


def prepare(plan: Plan) -> MpiStart:
    """Check what mpirun needs, and write its files. Raises Problem."""
    version = before_mpirun(plan)
    try:
        hostfile, ssh_config = write_files(plan, RUN)
    except OSError as error:
        raise Problem(f"{error.filename or RUN} cannot be written ({error.strerror}); is the disk full?") from error
    command = mpirun(plan, version, hostfile, ssh_config, os.environ.get("NCCL_SOCKET_IFNAME", ""))
    print(f"[ranks] {shlex.join(command)}", flush=True)
    return MpiStart(plan, command)
