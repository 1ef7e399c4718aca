# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start a server as a rank on each of several Sparks, after comparing the ranks.

A login at the worker lacks its container's environment. Open MPI binds each of two ranks to one core by default. A
start on the wrong interface only shows as a slow server. So each rank first reports its host, environment, cores,
libraries and files. They are compared, and a difference that matters is an error that names it.

Run as: entrypoint.py ranks serve OPTIONS -- COMMAND   check, then become mpirun with COMMAND on all ranks
                            check OPTIONS              only check; writes ranks.json; exit 0, 3 for a difference, 4 for
                                                       mpirun
                            show --path ...            print the facts of a rank, as a line for check
                            rank --link ... -- COMMAND run by mpirun: create the link, become COMMAND
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from server.cluster import KEYS, RUN, is_here, write_private
from server.comparison import Difference, compare, table
from server.processes import descendants
from server.rank import MARK, TIKTOKEN_ENCODINGS, as_line, from_output, mpirun_version, show
from server.state import give_to_owner

ITSELF = (sys.executable, str(Path(__file__).resolve().parents[1] / "entrypoint.py"), "ranks")
STATE = Path("/deployment/state")
MPIRUN_TIMEOUT_S = 60.0
DIFFERENT = 3
NOT_STARTED = 4


class Problem(Exception):
    """The ranks cannot be started. The text has the reason and the fix."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The nodes by their fabric addresses, and their connection."""

    head: str
    workers: tuple[str, ...]
    port: int
    subnets: tuple[str, ...]
    paths: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


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
        raise Problem("this image has no mpirun of Open MPI; several Sparks need an image of TensorRT-LLM")
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


def ask_ranks(plan: Plan, command: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return the facts of all ranks. Other output of mpirun goes to the log."""
    paths = [word for path in plan.paths for word in ("--path", path)]
    variables = [word for name in plan.passed for word in ("--variable", name)]
    process = subprocess.Popen(
        [*command, *ITSELF, "show", *paths, *variables],
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


def check(plan: Plan, state: Path, run: Path) -> list[str]:
    """Compare the ranks; returns mpirun's command line. Raises Problem, exits for a difference."""
    version = before_mpirun(plan)
    try:
        hostfile, ssh_config = write_files(plan, run)
    except OSError as error:
        raise Problem(f"{error.filename or run} cannot be written ({error.strerror}); is the disk full?") from error
    command = mpirun(plan, version, hostfile, ssh_config, os.environ.get("NCCL_SOCKET_IFNAME", ""))
    print(f"[ranks] {shlex.join(command)}", flush=True)
    result = ask_ranks(plan, command)
    differences = compare(result, plan.workers, plan.paths)
    write_report(state, result, differences)
    if len(result) > 1:
        print(f"[ranks] comparison of the ranks:\n{table(result)}", flush=True)
    errors = [difference for difference in differences if difference.severity == "error"]
    for difference in differences:
        if difference.severity == "warning":
            print(f"[ranks] warning: {difference.message}", flush=True)
    # The last line is what state.json gives as the reason.
    for difference in reversed(errors):
        print(f"[ranks] {difference.message}", flush=True)
    if errors:
        sys.exit(DIFFERENT)
    return command


def write_report(
    state: Path, ranks: t.Sequence[dict[str, t.Any]], differences: t.Sequence[Difference], problem: str | None = None
) -> None:
    """ranks.json, for status and diagnosis."""
    path = state / "ranks.json"
    report = {
        "at": round(time.time(), 3),
        "ranks": list(ranks),
        "differences": [difference._asdict() for difference in differences],
        "problem": problem,
    }
    # A full disk is no reason not to serve.
    with contextlib.suppress(OSError):
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        give_to_owner(draft)
        draft.replace(path)


def link_model(target: str, name: str) -> None:
    """Link the model under its API name, at the same path on all ranks."""
    place = Path(name)
    if place.is_symlink() and str(place.readlink()) == target:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        place.unlink()
    place.symlink_to(target)


def parse(arguments: t.Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the command after '--'."""
    own = list(arguments)
    command: list[str] = []
    if "--" in own:
        command = own[own.index("--") + 1 :]
        own = own[: own.index("--")]
    parser = argparse.ArgumentParser(prog="entrypoint.py ranks")
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("serve", "check"):
        sub = actions.add_parser(name)
        sub.add_argument("--head", required=True)
        sub.add_argument("--worker", action="append", required=True)
        sub.add_argument("--port", type=int, default=2233)
        sub.add_argument("--subnet", action="append", required=True)
        sub.add_argument("--path", action="append", default=[])
        sub.add_argument("--pass", action="append", default=[], dest="passed")
        sub.add_argument("--link", nargs=2, default=[])
    sub = actions.add_parser("show")
    sub.add_argument("--path", action="append", default=[])
    sub.add_argument("--variable", action="append", default=[])
    sub = actions.add_parser("rank")
    sub.add_argument("--link", nargs=2, default=[])
    return parser.parse_args(own), command


def plan_of(options: argparse.Namespace) -> Plan:
    tiktoken_encodings = [str(TIKTOKEN_ENCODINGS)] if TIKTOKEN_ENCODINGS.is_dir() else []
    return Plan(
        options.head,
        tuple(options.worker),
        options.port,
        tuple(options.subnet),
        (*options.path, *tiktoken_encodings),
        tuple(options.passed),
        tuple(options.link),
    )


def main(arguments: t.Sequence[str]) -> int:
    options, command = parse(arguments)
    if options.action == "show":
        # In one write, so that lines of two ranks are not mixed.
        os.write(1, (as_line(show(options.path, options.variable)) + "\n").encode())
        return 0
    if options.action == "rank":
        if options.link:
            link_model(*options.link)
        return become(command)
    plan = plan_of(options)
    try:
        start = check(plan, STATE, RUN)
    except Problem as problem:
        write_report(STATE, [], [], str(problem))
        print(f"[ranks] the ranks cannot be started: {problem}", flush=True)
        return NOT_STARTED
    if options.action == "check":
        return 0
    link = ["--link", *plan.link] if plan.link else []
    return become([*start, *ITSELF, "rank", *link, "--", *command])


def become(command: t.Sequence[str]) -> t.NoReturn:
    os.execvp(command[0], list(command))
