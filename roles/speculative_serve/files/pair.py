# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the containers of two Sparks that serve as one do besides what entrypoint.py does for one.

The head serves: it waits for its worker, starts the server, whose second rank mpirun starts on the worker, and ends it
when the worker is lost, because a server that waits for a lost rank never ends by itself. The worker runs an sshd on
its fabric address for nobody but the head; whoever logs in gets `launch`, which starts Open MPI's daemon and nothing
else, with the environment of the worker's container: a login has none of it, and the interfaces' names are the
worker's own. Before that, `launch` ends what is left of an earlier rank, in whatever session it hides.

Run as: entrypoint.py worker | launch | health, and entrypoint.py alone on the head

Environment: DGX_SPARK_RANK              0 the head, 1 the worker
             DGX_SPARK_FABRIC_ADDRESSES  this Spark's addresses on the fabric; the first one is used for ssh
             DGX_SPARK_PEER_ADDRESSES    the other Spark's
             DGX_SPARK_SSH_PORT          where the worker's sshd listens (2233)
             DGX_SPARK_PEER_LOST_S       seconds without the worker after which it is lost (60)
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import entrypoint
import verbs

# Written by the playbook, and the login user's; ssh and sshd want files of their own user.
KEYS = Path("/pair")
RUN = Path("/run/dgx-spark-pair")
SSHD_PATH = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"

PEER_LOST_S = 60.0
# How often the head looks at its worker, and how long the worker may take to say a word.
LOOK_EVERY_S = 10.0
LOOK_TIMEOUT_S = 5.0
# How often what is missing is looked for.
RETRY_S = 2.0
# What launches the server may go on although the server has ended.
FRONT = "trtllm-serve"
FRONT_EVERY_S = 5.0
FRONT_GONE_S = 60.0
STOP_RANKS_S = 20.0


@dataclasses.dataclass(frozen=True)
class Pair:
    """Who is who, from the container's environment."""

    rank: int
    own: str
    peer: str
    port: int
    lost_s: float
    # The own addresses besides the first one, which NCCL takes, too.
    others: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: t.Mapping[str, str]) -> Pair:
        """Raises ValueError for an environment that is not one of a pair."""
        try:
            own, peer = (
                environment[name].replace(",", " ").split()
                for name in ("DGX_SPARK_FABRIC_ADDRESSES", "DGX_SPARK_PEER_ADDRESSES")
            )
            return cls(
                int(environment["DGX_SPARK_RANK"]),
                own[0],
                peer[0],
                int(environment.get("DGX_SPARK_SSH_PORT", "2233")),
                float(environment.get("DGX_SPARK_PEER_LOST_S", PEER_LOST_S)),
                tuple(own[1:]),
            )
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"the container's environment does not describe a pair ({error!r})") from error

    def gone(self) -> str | None:
        """The first of the own addresses that this Spark does not have."""
        return next((one for one in (self.own, *self.others) if not is_here(one)), None)


def is_here(address: str) -> bool:
    """Whether an address is one of this Spark's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def is_free(address: str, port: int) -> bool:
    """Whether a server could listen there; connections that have just ended are none of its business."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def knock(address: str, port: int, source: str, timeout: float = LOOK_TIMEOUT_S, greeting: bool = False) -> str | None:
    """Why nobody opens, or None; with `greeting` it must be an SSH server that says its name.

    That the port takes a connection says only that the other kernel runs and sshd was started, which is all that can
    be asked of a Spark whose memory is busy with weights.
    """
    where = f"{address} port {port}"
    try:
        with socket.create_connection((address, port), timeout, (source, 0)) as connection:
            if not greeting or connection.recv(4) == b"SSH-":
                return None
            return f"what listens at {where} is no SSH server"
    except ConnectionRefusedError:
        return f"nothing listens at {where}: its container does not run or is still starting"
    except TimeoutError:
        return (
            f"no answer from {where} within {timeout:g} s: it is switched off, or a cable or a firewall is in the way"
        )
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return f"this Spark's own fabric address {source} is gone"
        return f"no way to {where}: {error.strerror or error}"


class Peer(threading.Thread):
    """The head's eye on its worker. A short loss is none: a server may well go on generating meanwhile."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(name="peer", daemon=True)
        self.pair = pair
        self.every = min(LOOK_EVERY_S, pair.lost_s / 6)
        self.reason: str | None = None
        self.lost_for = 0.0
        self.changed_at = time.time()
        self.unwanted = threading.Event()

    def run(self) -> None:
        before = time.monotonic()
        while not self.unwanted.wait(self.every):
            reason = knock(self.pair.peer, self.pair.port, self.pair.own, min(LOOK_TIMEOUT_S, self.every))
            now = time.monotonic()
            # A container that was paused has not looked: of a long silence only the longest usual step is counted.
            step = min(now - before, 2 * self.every + 1)
            before = now
            if (reason is None) != (self.reason is None):
                self.changed_at = time.time()
            # The first look in vain begins the loss.
            self.lost_for = 0.0 if reason is None or self.reason is None else self.lost_for + step
            self.reason = reason

    def stop(self) -> None:
        self.unwanted.set()

    def describe(self) -> dict[str, t.Any]:
        """For state.json."""
        return {
            "address": self.pair.peer,
            "reachable": self.reason is None,
            "since": round(self.changed_at, 3),
            "reason": self.reason,
        }


class Head(entrypoint.Supervisor):
    """Serves with a second rank on the worker."""

    def __init__(self, deployment: Path, url: str, pair: Pair) -> None:
        super().__init__(deployment, url)
        self.pair = pair
        self.peer: Peer | None = None
        self.peer_lost = False
        self.alone = False
        self.front_seen_at: float | None = None
        self.front_look_at = 0.0
        self.meter = entrypoint.Meter(entrypoint.Http(url))
        self.meter_at = 0.0
        self.verbs = verbs.Gate(os.environ)
        self.state.values["peer"] = {"address": pair.peer, "reachable": None, "since": None, "reason": None}

    @property
    def ended_as(self) -> str:
        if self.peer_lost:
            return "peer lost"
        return "waiting for the worker" if self.alone else super().ended_as

    @property
    def evidence(self) -> str:
        # A cable that is pulled often must not cost what an engine that hung looked like.
        return "peer-lost.log" if self.peer_lost else super().evidence

    def last_exit(self, code: int) -> dict[str, t.Any]:
        """Says with it whether it was for want of the worker, which is looked for before a word is written."""
        self.alone = self.peer_lost or self.missing() is not None
        return {**super().last_exit(code), "excused": self.alone}

    def make_ready(self) -> None:
        """Wait for the fabric and the worker, for as long as that takes: neither is the server's fault."""
        if self.peer is not None:
            self.peer.stop()
            self.peer = None
        waited = False
        while self.stop_signal is None:
            reason = self.missing()
            if reason is None:
                break
            if not waited or reason != self.state.values["reason"]:
                self.wait_on(reason)
            waited = True
            if self.verbs.too_early:
                sys.exit(verbs.AGAIN)
            self.idle(RETRY_S)
        if self.stop_signal is not None:
            return
        if waited:
            self.log.say(f"the worker answers at {self.pair.peer} port {self.pair.port}")
        self.peer_lost = False
        self.front_seen_at = None
        self.peer = Peer(self.pair)
        self.state.values["peer"] = self.peer.describe()
        self.peer.start()

    def wait_on(self, reason: str) -> None:
        """Write down what the server waits for."""
        name = "peer lost" if self.peer_lost else "waiting for the worker"
        self.log.say(f"{name}: {reason}")
        since = round(time.time(), 3)
        self.state.values["peer"] = {**self.state.values["peer"], "reachable": False, "since": since, "reason": reason}
        if self.state.values["state"] == name:
            self.state.note(reason=reason)
        else:
            self.state.write(name, pid=None, verdict=None, verdict_at=None, reason=reason)

    def missing(self) -> str | None:
        """What the server cannot start without, and does not have."""
        gone = self.pair.gone()
        if gone is not None:
            return no_address(gone)
        return self.verbs.problem() or knock(self.pair.peer, self.pair.port, self.pair.own, greeting=True)

    def look_round(self) -> None:
        self.look_at_peer()
        self.look_for_front()

    def look_at_peer(self) -> None:
        peer = self.peer
        if peer is None:
            return
        seen = peer.describe()
        if seen["reachable"] != self.state.values["peer"]["reachable"]:
            self.log.say(f"the worker answers again at {self.pair.peer}" if seen["reachable"] else seen["reason"])
            self.state.note(peer=seen)
        if peer.lost_for < self.pair.lost_s or self.gets_on():
            return
        reason = f"the worker has not answered for {self.pair.lost_s:g} s ({seen['reason']})"
        self.peer_lost = True
        self.condemned = f"peer lost: {reason}"
        self.state.write("peer lost", verdict=None, reason=reason)
        self.log.say(f"{reason}; the server is ended, and started again when the worker is back")

    def gets_on(self) -> bool:
        """Whether the engine generates though its worker does not answer: busy is not dead."""
        now = time.monotonic()
        if now < self.meter_at:
            return True
        self.meter_at = now + entrypoint.METER_EVERY_S
        # What is compared with may be old, or nothing: the second sample tells.
        return self.meter.moved()

    def look_for_front(self) -> None:
        """The launcher of the ranks may outlive the server's front process, also while it loads."""
        now = time.monotonic()
        if self.server is None or now < self.front_look_at:
            return
        self.front_look_at = now + FRONT_EVERY_S
        if any(runs(pid, FRONT) for pid in entrypoint.descendants(self.server.pid)):
            self.front_seen_at = now
        elif self.front_seen_at is not None and now - self.front_seen_at > FRONT_GONE_S:
            self.condemned = f"unhealthy: {FRONT} has ended, but mpirun goes on: {self.log.last_line()}"
            self.log.say(f"{FRONT} has ended, but what launched it goes on; it is ended, too")

    def at_fault(self) -> bool:
        """A server that ends because its worker is gone is not to blame."""
        return not self.alone


def runs(pid: int, program: str) -> bool:
    """Whether a process is a program, as itself or by its interpreter."""
    command = entrypoint.read_or(Path(f"/proc/{pid}/cmdline"), "").split("\0")
    return any(os.path.basename(word) == program for word in command[:2])  # noqa: PTH119 (no path that is used)


SSHD_CONFIG = """\
# Written by pair.py; for the head's mpirun and nobody else.
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

# Somebody looked whether the port is open; the head does so all the time. A login is told of in three lines more.
NO_NEWS = re.compile(
    r"(kex_exchange_identification: .*|banner exchange: .*"
    r"|Connection (closed|reset) by \S+ port \d+( \[preauth\])?"
    r"|Root login accepted for forced command\..*|Received disconnect from .*|Disconnected from .*)\s*$"
)


class Worker:
    """Runs sshd for the head's mpirun, and knows whether a rank runs."""

    def __init__(self, deployment: Path, pair: Pair) -> None:
        self.pair = pair
        self.deployment = deployment
        self.state = entrypoint.State(deployment / "state")
        self.log = entrypoint.Log(deployment / "state")
        self.stop_signal: int | None = None
        self.sshd: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.verbs = verbs.Gate(os.environ)
        self.pages = entrypoint.PageCache()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        self.state.write("starting")
        save_environment(self.deployment)
        while self.stop_signal is None and not self.verbs.too_early:
            problem = self.start()
            if problem is None:
                problem = self.attend()
            if problem is not None:
                self.enter(*problem)
                # An sshd that goes on dying is not started all the time.
                self.idle(min(RETRY_S * 2**self.failures, 30))
        self.end()
        if self.stop_signal is None:
            return verbs.AGAIN
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
        own, port = self.pair.own, self.pair.port
        gone = self.pair.gone()
        if gone is not None:
            return "waiting for the fabric", no_address(gone)
        lacking = self.verbs.problem()
        if lacking is not None:
            return "waiting for the fabric", lacking
        program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{SSHD_PATH}")
        if program is None:
            return "failed", "there is no sshd in this image; run the playbook again, which makes the pair's image"
        if not is_free(own, port):
            return "failed", (
                f"port {port} of {own} is taken by another program of this Spark; "
                f"'sudo ss -ltnp sport = :{port}' shows which one"
            )
        try:
            configuration = write_sshd_files(self.pair, self.deployment)
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

    def attend(self) -> tuple[str, str] | None:
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
            readable = select.select([output], [], [], 0.25)[0]
            ended = sshd.poll() is not None
            data = os.read(output, 65536) if readable else b""
            if readable and not data:
                time.sleep(0.25)
            rest = self.pass_on(rest + data)
            entrypoint.collect_dead(but=sshd.pid)
            if time.monotonic() >= look_at and not ended:
                self.look()
                look_at = time.monotonic() + 0.5
        if not ended:
            return None
        if rest:
            self.pass_on(rest + b"\n")
        sshd.stdout.close()
        self.sshd = None
        self.failures = self.failures + 1 if time.monotonic() - begun < 60 else 0
        code = entrypoint.describe_exit(sshd.returncode)
        return "failed", f"sshd ended with {code}: {self.log.last_line()}"

    def pass_on(self, data: bytes) -> bytes:
        """Log whole lines, but not that somebody looked in; returns what is no whole line yet."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            if not NO_NEWS.match(line.decode("utf-8", "replace")):
                self.log.write(line.rstrip(b"\r") + b"\n")
        return rest

    def look(self) -> None:
        if not is_here(self.pair.own):
            self.enter("waiting for the fabric", no_address(self.pair.own))
        elif ranks(os.getpid()):
            self.enter("serving", None)
            # The log that says when all has been read is the head's.
            if self.pages.due() and entrypoint.memory_is_short():
                self.pages.give_back()
        elif (lacking := self.verbs.problem()) is not None:
            self.enter("waiting for the fabric", lacking)
        elif self.state.values["state"] == "ready" or knock(self.pair.own, self.pair.port, self.pair.own) is None:
            self.failures = 0
            self.enter("ready", None)

    def end(self) -> None:
        """No new login, then the ranks."""
        if self.sshd is not None:
            self.sshd.terminate()
        until = time.monotonic() + STOP_RANKS_S
        for pid in entrypoint.descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while time.monotonic() < until and entrypoint.descendants(os.getpid()):
            entrypoint.collect_dead()
            time.sleep(0.1)
        entrypoint.end_descendants()

    def idle(self, seconds: float) -> None:
        """Wait, but not past the order to stop."""
        until = time.monotonic() + seconds
        while self.stop_signal is None and time.monotonic() < until:
            entrypoint.collect_dead()
            time.sleep(0.1)

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_signal = number


def no_address(address: str) -> str:
    return f"this Spark does not have its fabric address {address}: is the cable in, and does 'ip address' show it?"


def write_sshd_files(pair: Pair, deployment: Path) -> Path:
    """The keys and the configuration, root's own: sshd refuses files of another user's."""
    for name in ("ssh_host_ed25519_key", "authorized_keys"):
        write_private(RUN / name, (KEYS / name).read_text(encoding="utf-8"))
    if os.geteuid() == 0:
        # Where sshd shuts in the process that talks to whoever has not logged in yet.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    configuration = RUN / "sshd_config"
    text = SSHD_CONFIG.format(
        address=pair.own,
        port=pair.port,
        run=RUN,
        python=sys.executable,
        entrypoint=deployment / "entrypoint.py",
    )
    write_private(configuration, text)
    return configuration


def write_private(path: Path, text: str) -> None:
    """A file that only its owner may read, from its first byte on. One that is as it has to be needs no disk."""
    with contextlib.suppress(OSError):
        if path.read_text(encoding="utf-8") == text and stat.S_IMODE(path.stat().st_mode) == 0o600:
            return
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text, encoding="utf-8")


def save_environment(deployment: Path) -> None:
    """What a rank is started with: a login has nothing of the container's environment."""
    RUN.mkdir(parents=True, exist_ok=True)
    RUN.chmod(0o700)
    worker = {"pid": os.getpid(), "log": str(deployment / "state" / "server.log"), "environment": dict(os.environ)}
    write_private(RUN / "worker.json", json.dumps(worker))


def ranks(worker: int) -> dict[int, entrypoint.Process]:
    """What runs in the worker's container besides sshd."""
    family = entrypoint.descendants(worker)
    return {pid: process for pid, process in family.items() if not process.name.startswith("sshd")}


class Refused(Exception):
    """A command that is not one of mpirun's."""


DAEMONS = ("orted", "prted")
# What mpirun sets for its daemon, to find itself.
SETTABLE = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX")
VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::[-+](?P<colon>:?))?\}|(?P<plain>\w+))")


def daemon_command(line: str, environment: t.Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What mpirun asks for: its daemon's command line, and the environment with what it sets before.

    No shell sees the line. It is 'NAME=value; export NAME; ... /path/orted -mca ...', where a value may hold on to
    the variable's old one; anything else is refused.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()`\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    result = dict(environment)
    try:
        words = list(lexer)
    except ValueError as error:
        raise Refused(str(error)) from error
    statements: list[list[str]] = [[]]
    for word in words:
        if word == ";":
            statements.append([])
        else:
            statements[-1].append(word)
    *settings, command = [statement for statement in statements if statement] or [[]]
    for setting in settings:
        name, equals, value = setting[0].partition("=")
        if len(setting) == 1 and equals and name in SETTABLE:
            result[name] = expand(value, result)
        elif len(setting) != 2 or setting[0] != "export" or setting[1] not in SETTABLE:
            raise Refused(f"'{' '.join(setting)[:80]}' is nothing that mpirun asks for")
    if not command or os.path.basename(command[0]) not in DAEMONS:  # noqa: PTH119 (a command)
        raise Refused(f"'{' '.join(command)[:80]}' is not mpirun's daemon")
    for word in command:
        if set(word) & set("`$\n") or word[:1] in tuple("&|<>()"):
            raise Refused(f"'{word[:80]}' is nothing that mpirun passes to its daemon")
    return command, result


def expand(value: str, environment: t.Mapping[str, str]) -> str:
    """$NAME, ${NAME}, ${NAME:-} and ${NAME:+:}, which is all that mpirun writes."""

    def replace(match: re.Match[str]) -> str:
        known = environment.get(match["braced"] or match["plain"], "")
        return match["colon"] if match["colon"] and known else known

    if set(VARIABLE.sub("", value)) & set("$`"):
        raise Refused(f"'{value[:80]}' is no value that mpirun sets")
    return VARIABLE.sub(replace, value)


def with_own_interfaces(command: list[str], environment: t.Mapping[str, str]) -> list[str]:
    """The daemon's command with this Spark's names of the interfaces: mpirun knows the head's only."""
    own = environment.get("NCCL_SOCKET_IFNAME", "").lstrip("=")
    result = list(command)
    for index in range(1, len(result)):
        if own and result[index - 1] == "prte_if_include":
            result[index] = own
    return result


def launch(worker_file: Path) -> int:
    """What sshd runs instead of what it was asked for; returns only if it refuses."""
    try:
        worker = json.loads(worker_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return refuse(None, f"the worker's main process is not ready ({error})")
    try:
        command, environment = daemon_command(os.environ.get("SSH_ORIGINAL_COMMAND", ""), worker["environment"])
    except Refused as error:
        return refuse(worker["log"], f"only mpirun may log in here: {error}")
    left = end_ranks(worker)
    if left:
        numbers = " ".join(map(str, sorted(left)))
        return refuse(worker["log"], f"an earlier rank on the worker cannot be ended (processes {numbers}); reboot it")
    command = with_own_interfaces(command, environment)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        return refuse(
            worker["log"], f"{command[0]} cannot be run on the worker ({error.strerror}): is it another image?"
        )


def end_ranks(worker: dict[str, t.Any]) -> set[int]:
    """End what is left of earlier ranks, whatever session it is in; returns what cannot be ended."""
    until = time.monotonic() + entrypoint.KILL_WITHIN_S
    told = False
    while True:
        known = entrypoint.processes()
        spared = {os.getpid()}
        # sshd listens for the next one, and the login that this is belongs to it.
        pid = os.getpid()
        while pid in known and pid != worker["pid"]:
            spared.add(pid)
            pid = known[pid].parent
        family = entrypoint.descendants(worker["pid"], known)
        left = {pid for pid in set(family) - spared if not is_listener(family[pid], worker["pid"])}
        old = {pid for pid in left if not family[pid].name.startswith("sshd")}
        if old and not told:
            told = True
            names = ", ".join(f"{family[pid].name} ({pid})" for pid in sorted(old))
            note(worker["log"], f"ending what is left of an earlier rank: {names}")
        if not left or time.monotonic() > until:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_listener(process: entrypoint.Process, worker: int) -> bool:
    return process.parent == worker and process.name == "sshd"


def refuse(log: str | None, reason: str) -> int:
    """Say why both here and, through ssh, in the head's log."""
    print(f"[launch] {reason}", file=sys.stderr, flush=True)
    if log is not None:
        note(log, f"launch: {reason}")
    return 126


def note(log: str, text: str) -> None:
    """A line for the worker's log, which the main process keeps."""
    with contextlib.suppress(OSError), Path(log).open("a", encoding="utf-8") as file:
        file.write(f"[entrypoint] {text}\n")


def worker_health(deployment: Path, pair: Pair) -> int:
    """Say how the worker is; healthy with sshd up on the fabric, with a rank or without."""
    try:
        state = json.loads((deployment / "state" / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"no state: {error}")
        return 1
    name, reason = state["state"], state.get("reason")
    text = f"{name}: {reason}" if reason else name
    problem = None
    if name in ("ready", "serving"):
        problem = knock(pair.own, pair.port, pair.own, greeting=True)
    print(f"{text}, but {problem}" if problem else text)
    return 0 if name in ("ready", "serving") and problem is None else 1


def main(arguments: list[str], deployment: Path, url: str) -> int:
    if arguments[:1] == ["launch"]:
        return launch(Path(arguments[1]) if len(arguments) > 1 else RUN / "worker.json")
    try:
        pair = Pair.from_environment(os.environ)
    except ValueError as error:
        if arguments == ["health"]:
            print(error)
            return 1
        supervisor = entrypoint.Supervisor(deployment, url)
        supervisor.take_signals()
        return supervisor.refuse(f"{error}; run the playbook again")
    if arguments == ["health"]:
        return worker_health(deployment, pair) if pair.rank else entrypoint.health(deployment, url)
    if arguments == ["worker"]:
        return Worker(deployment, pair).run()
    return Head(deployment, url, pair).run()
