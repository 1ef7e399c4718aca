# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Send requests to the lock of a Spark.

This file imports nothing else of the collection. Modules and jobs import it, and the controller runs its text on a
Spark as a program: `python3 -c TEXT QUESTION [FAILURES COMMAND...]`. Without a command the program prints the answer.
With one it runs the command, but only if the lock answers that the run has the lease.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import socket
import struct
import sys
import time
import typing as t

NAME = "dgx-spark-speculative"
# Environment variable with the run's id, for its modules and the jobs that they start.
RUN = "DGX_SPARK_SPECULATIVE_RUN"
# The lease ends this long after the last renewal.
TTL_S = 45.0
LONGEST = 4096
ANSWER_S = 5.0
# Their members can become root.
GROUPS = {"docker", "sudo", "admin", "wheel"}

# Valid states by request. All other requests are about a run's own lease.
ANSWERS = {"ask": ("free", "held", "denied"), "take": ("held", "refused", "wait", "denied")}

Said = dict[str, t.Any]


class LockError(Exception):
    """The lock gave no usable answer. The text is one sentence for the user, without its full stop."""


class NoRights(LockError):
    """The process with the lock's name belongs to a user who may not change the Spark. So there is no lock."""


class Silence(LockError):
    """The process with the lock's name does not answer."""

    def __init__(self, text: str, pid: int) -> None:
        super().__init__(text)
        self.pid = pid


def since_boot() -> float:
    """Return the seconds since the Spark was started, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return PID and user of the process at the other end. The PID is 0 if it is in another PID namespace."""
    pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def user_name(uid: int) -> str:
    """Return the name of a user, or the number if there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def has_rights(uid: int) -> bool:
    """Return whether a user may change this Spark: root, the user of this process, and members of GROUPS.

    If this process runs as root through sudo, the user who called sudo may, too. Perhaps only sudoers names this user.
    """
    own = os.geteuid()
    if uid in (0, own) or (own == 0 and os.environ.get("SUDO_UID") == str(uid)):
        return True
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    for number in os.getgrouplist(user.pw_name, user.pw_gid):
        with contextlib.suppress(KeyError):
            if grp.getgrgid(number).gr_name in GROUPS:
                return True
    return False


def _owner(connection: socket.socket) -> tuple[str, str, int]:
    """Return a description of the process with the lock's name, how to end it, and its PID."""
    try:
        pid, uid = peer(connection)
    except OSError:
        pid, uid = 0, -1
    if not pid:
        return "A process in a container with the host's network", f"'ss -xlp src @{NAME}' finds it", 0
    return f"The process {pid} of user {user_name(uid)}", f"'sudo kill -9 {pid}' ends it", pid


def _is_answer(answer: t.Any, do: t.Any) -> bool:
    if not isinstance(answer, dict) or answer.get("state") not in ANSWERS.get(do, ("held", "lost", "denied")):
        return False
    holder = answer.get("holder")
    if holder is None:
        return not (answer["state"] in ("refused", "lost") or (do == "ask" and answer["state"] == "held"))
    return (
        isinstance(holder, dict)
        and all(isinstance(holder.get(key), str) for key in ("owner", "activity"))
        and isinstance(holder.get("for_s"), (int, float))
        # Neither infinite nor NaN.
        and abs(holder["for_s"]) < 1e12
    )


def connect(question: Said, timeout: float | None = None) -> tuple[socket.socket, Said]:
    """Return the open connection and the answer of the lock. The state is `none` if there is no lock."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout or ANSWER_S)
    try:
        return connection, _answer(connection, question)
    except BaseException:
        connection.close()
        raise


def _answer(connection: socket.socket, question: Said) -> Said:
    try:
        connection.connect(f"\0{NAME}")
        if not has_rights(peer(connection)[1]):
            owner, how, _pid = _owner(connection)
            raise NoRights(f"{owner} has the socket @{NAME}, but may not change this Spark. {how}; then run again")
        connection.sendall(json.dumps(question).encode() + b"\n")
        with connection.makefile("rb") as file:
            text = file.readline(LONGEST)
        if not text:
            return {"state": "none"}
        answer = json.loads(text)
    except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
        return {"state": "none"}
    except BlockingIOError:
        raise LockError(
            f"Too many programs wait for an answer of the socket @{NAME}. 'ss -xp dst @{NAME}' shows them; end them, "
            "then run again"
        ) from None
    except socket.timeout:
        owner, how, pid = _owner(connection)
        raise Silence(f"{owner} has the socket @{NAME} and does not answer. {how}; then run again", pid) from None
    except (OSError, ValueError, RecursionError):
        answer = None
    if _is_answer(answer, question.get("do")):
        return dict(answer)
    owner, how, _pid = _owner(connection)
    raise LockError(
        f"{owner} has the socket @{NAME} and does not answer as this collection does. {how}; then run again"
    )


def ask(question: Said, timeout: float | None = None) -> Said:
    """Return the answer of the lock."""
    connection, answer = connect(question, timeout)
    connection.close()
    return answer


def main(question: str, failures: str = "", *command: str) -> None:
    """Print the answer, or run a command if the run has the lease.

    The command inherits the socket, so the lock notices its end. FAILURES are error messages by state, in JSON.
    """
    request = json.loads(question)
    try:
        # A Spark with little free memory may answer slowly.
        connection, answer = connect(request, 2 * ANSWER_S)
    except LockError as error:
        answer = {"state": "silent", "words": str(error)}
    if not command:
        sys.stdout.write(f"{json.dumps(answer)}\n")
        return
    if answer["state"] == "held":
        connection.setblocking(True)
        connection.set_inheritable(True)
        os.environ[RUN] = request["run"]
        os.execvp(command[0], command)
    sentences = json.loads(failures)
    message = sentences.get(answer["state"]) or sentences["silent"]
    # The output of a failed module.
    result = {"failed": True, "changed": False, "msg": message.replace("<words>", answer.get("words", ""))}
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
