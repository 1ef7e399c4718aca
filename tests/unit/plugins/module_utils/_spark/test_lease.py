# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lease, lock
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.lease import Lease, Lock, LockError

from tests.unit.waiting import until

ALICE = {"run": "a", "owner": "alice@laptop", "activity": "two_sparks.yml"}
BOB = {"run": "b", "owner": "bob@desk", "activity": "stop.yml"}


WAIT = {"state": "wait"}


def asked(holder: Lease, do: str, now: float, run: t.Mapping[str, t.Any] = ALICE, **more: t.Any) -> t.Any:
    return holder.answer({**run, "do": do, **more}, now)


@pytest.fixture(name="of_alice")
def fixture_of_alice() -> Lease:
    return Lease(ALICE, 1000.0)


def test_one_run_has_it_and_the_others_are_told_who(of_alice: Lease) -> None:
    refusal = asked(of_alice, "take", 1030.0, BOB)
    assert refusal == {
        "state": "refused",
        "holder": {"owner": "alice@laptop", "activity": "two_sparks.yml", "for_s": 30},
        "words": "alice@laptop has been running two_sparks.yml for 30 s",
    }
    assert lease.describe_holder({**refusal["holder"], "for_s": 185.0}).endswith("for 3 min")
    assert asked(of_alice, "ask", 1030.0)["state"] == "held"
    assert asked(of_alice, "take", 1031.0) == {"state": "held"}


def test_what_was_not_renewed_for_45_seconds_is_free(of_alice: Lease) -> None:
    assert asked(of_alice, "renew", 1040.0) == {"state": "held"}
    assert asked(of_alice, "take", 1085.0, BOB)["state"] == "refused"
    assert asked(of_alice, "ask", 1085.1) == {"state": "free"}
    assert asked(of_alice, "take", 1085.1, BOB) == {"state": "held"}
    lost = asked(of_alice, "renew", 1090.0)
    assert (lost["state"], lost["words"]) == ("lost", "bob@desk has been running stop.yml for 5 s")


def test_who_was_away_has_it_again_if_nobody_came(of_alice: Lease) -> None:
    assert not of_alice.is_over(1600.0)
    assert asked(of_alice, "renew", 1600.0) == {"state": "held"}
    assert asked(of_alice, "take", 1640.0, BOB)["state"] == "refused"
    assert not of_alice.is_over(1600.0 + lease.LINGER_S)
    assert of_alice.is_over(1601.0 + lease.LINGER_S)


def test_who_was_away_does_not_get_it_back_from_who_acts_on_that(of_alice: Lease) -> None:
    assert asked(of_alice, "ask", 1040.0, BOB, ends=True)["state"] == "held"
    assert not of_alice.is_over(1040.0)
    assert asked(of_alice, "ask", 1046.0, BOB, ends=True) == {"state": "free"}
    assert of_alice.is_over(1046.0)


def test_a_lease_without_a_renewer_lasts_longer(of_alice: Lease) -> None:
    asked(of_alice, "renew", 1000.0, ttl=900)
    assert asked(of_alice, "take", 1899.0, BOB)["state"] == "refused"
    assert asked(of_alice, "take", 1901.0, BOB)["state"] == "held"


def test_who_takes_over_waits_for_nothing_but_what_is_being_changed(of_alice: Lease) -> None:
    of_alice.begin("module", "a", 1004.0)
    assert asked(of_alice, "take", 1005.0, BOB, take_over=True) == WAIT
    # Meanwhile it is Bob's, for everybody.
    assert asked(of_alice, "ask", 1005.0)["holder"]["owner"] == "bob@desk"
    assert asked(of_alice, "renew", 1010.0)["state"] == "lost"
    # What had not begun does not begin any more.
    assert asked(of_alice, "change", 1010.0)["state"] == "lost"
    # It is waited for beyond 45 s, and nobody else comes in between.
    for now in range(1025, 1070, 5):
        assert asked(of_alice, "take", now, BOB, take_over=True) == WAIT
    assert asked(of_alice, "take", 1070.0, {**BOB, "run": "c"})["state"] == "refused"
    of_alice.end("module")
    assert asked(of_alice, "take", 1071.0, BOB, take_over=True) == {"state": "held"}


def test_who_takes_over_what_is_not_being_changed_has_it_at_once(of_alice: Lease) -> None:
    assert asked(of_alice, "take", 1001.0, BOB, take_over=True) == {"state": "held"}


def test_who_was_taken_over_from_cannot_take_it_back(of_alice: Lease) -> None:
    asked(of_alice, "take", 1005.0, BOB, take_over=True)
    assert asked(of_alice, "take", 1006.0, take_over=True)["state"] == "refused"


def test_given_back_by_its_run_it_is_over(of_alice: Lease) -> None:
    assert asked(of_alice, "release", 1001.0, BOB)["state"] == "lost"
    assert not of_alice.is_over(1001.0)
    asked(of_alice, "release", 1002.0)
    assert of_alice.is_over(1002.0)


@pytest.fixture(name="spark")
def fixture_spark(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[None]:
    """A name of its own on this machine, with nothing left behind."""
    monkeypatch.setattr(lock, "NAME", f"dgx-spark-speculative-test-{os.getpid()}")
    yield
    for run in (ALICE, BOB):
        with contextlib.suppress(LockError):
            lease.ask({**run, "do": "release"})


@pytest.mark.usefixtures("spark")
def test_it_outlives_who_took_it_and_is_gone_when_given_back() -> None:
    assert lease.ask({"do": "ask"}) == {"state": "none"}
    assert lease.take(ALICE) == {"state": "held"}
    assert lease.take(BOB)["holder"]["owner"] == "alice@laptop"
    # What asks nothing, or nothing that is understood, keeps nobody from being answered.
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as odd:
        silent.connect(f"\0{lock.NAME}")
        odd.connect(f"\0{lock.NAME}")
        odd.sendall(b"[[[\n")
        assert lease.ask({**BOB, "do": "take", "take_over": True, "ttl": "long"}) == {"state": "none"}
        assert lease.ask({"do": "ask"})["holder"]["owner"] == "alice@laptop"
    assert lease.ask({**ALICE, "do": "release"}) == {"state": "held"}
    assert lease.take(BOB) == {"state": "held"}


@pytest.mark.usefixtures("spark")
def test_many_at_once_and_one_has_it() -> None:
    answers: list[t.Any] = []
    runs = [{**ALICE, "run": "a"}, *({**BOB, "run": str(number)} for number in range(5))]
    threads = [threading.Thread(target=lambda one=one: answers.append(lease.take(one))) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["state"] for answer in answers) == ["held", *["refused"] * 5]
    for one in runs:
        lease.ask({**one, "do": "release"})


def test_nobody_gets_the_spark_while_it_is_changed(of_alice: Lease) -> None:
    assert asked(of_alice, "change", 1001.0, BOB)["state"] == "lost"
    assert asked(of_alice, "change", 1040.0) == {"state": "held"}
    of_alice.begin("module", "a", 1040.0)
    # The module goes on although its controller is gone.
    asked(of_alice, "release", 1041.0)
    assert not of_alice.is_over(1041.0)
    assert asked(of_alice, "ask", 1041.0, BOB, ends=True)["state"] == "held"
    assert asked(of_alice, "take", 1042.0, BOB) == WAIT
    assert asked(of_alice, "change", 1043.0)["words"].startswith("bob@desk")
    of_alice.end("module")
    assert asked(of_alice, "take", 1044.0, BOB) == {"state": "held"}


@pytest.mark.parametrize("over", [False, True])
def test_a_change_is_waited_for_but_not_for_ever(of_alice: Lease, over: bool) -> None:
    of_alice.begin("module", "a", 1000.0)
    begin = 1001.0 if over else 1046.0
    assert asked(of_alice, "take", begin, BOB, take_over=over) == WAIT
    for now in range(1050, 1180, 10):
        assert asked(of_alice, "take", now, BOB) == WAIT
    assert asked(of_alice, "take", 1000.1 + lease.TASK_S, BOB) == {"state": "held"}


def test_nobody_has_it_for_longer_than_a_run_without_a_keeper(of_alice: Lease) -> None:
    asked(of_alice, "renew", 1000.0, ttl=1e18)
    assert asked(of_alice, "ask", 1000.1 + lease.TTL_OF_TASKS_S) == {"state": "free"}


@contextlib.contextmanager
def serving() -> t.Iterator[socket.socket]:
    """The lock as a thread, with Alice as its holder, and somebody who is connected to it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{lock.NAME}")
        listener.listen(socket.SOMAXCONN)
        of_alice = Lease(ALICE, lease.since_boot())
        thread = threading.Thread(target=Lock(listener, of_alice).serve)
        thread.start()
        try:
            with connected() as connection:
                yield connection
        finally:
            of_alice.answer({**ALICE, "do": "take", "take_over": True}, lease.since_boot())
            of_alice._released = True
            thread.join(30)
            assert not thread.is_alive()


def connected() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"\0{lock.NAME}")
    return connection


def answered(connection: socket.socket, **question: t.Any) -> t.Any:
    connection.settimeout(20)
    connection.sendall(json.dumps(question).encode() + b"\n")
    return json.loads(connection.makefile().readline())


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("do", ["take", "renew", "change", "release"])
def test_a_user_without_rights_is_refused_by_name(do: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as connection:
        monkeypatch.setattr(lock, "has_rights", lambda _uid: False)
        answer = answered(connection, do=do, run="a", owner="admin", activity="all", take_over=True, ttl=1e18)
        name = lock.user_name(os.geteuid())
        words = "is not root, has not taken the lease, and is in none of the groups admin, docker, sudo and wheel"
        assert answer == {"state": "denied", "words": f"user {name} {words}"}


@pytest.mark.usefixtures("spark")
def test_anybody_may_ask_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as connection:
        monkeypatch.setattr(lock, "has_rights", lambda _uid: False)
        assert answered(connection, do="ask")["holder"]["owner"] == "alice@laptop"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "question", [{"run": "a"}, {"do": ["take"], "run": "a"}, {"do": "renew", "run": "a", "ttl": 10**400}]
)
def test_no_question_ends_the_lock(question: dict[str, t.Any]) -> None:
    with serving() as connection:
        connection.settimeout(20)
        connection.sendall(json.dumps(question).encode() + b"\n")
        connection.recv(1000)
        assert lock.ask({"do": "ask"})["holder"]["owner"] == "alice@laptop"


@pytest.mark.usefixtures("spark")
def test_what_was_given_up_to_who_acts_on_that_is_not_given_back_at_the_same_moment() -> None:
    # At last the lock is over in any case.
    times = itertools.chain(itertools.repeat(1046.0, 20), itertools.repeat(1e6))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{lock.NAME}")
        listener.listen()
        listener.setblocking(False)
        one = Lock(listener, Lease(ALICE, 1000.0), lambda: next(times))
        with connected() as watcher, connected() as alice:
            one._accept()
            one._accept()
            watcher.sendall(b'{"do": "ask", "ends": true}\n')
            alice.sendall(json.dumps({**ALICE, "do": "renew"}).encode() + b"\n")
            one.serve()
            assert watcher.recv(1000) == b'{"state": "free"}\n'
            alice.setblocking(False)
            with pytest.raises(BlockingIOError):
                alice.recv(1000)


@pytest.mark.usefixtures("spark")
def test_many_who_ask_nothing_keep_nobody_waiting() -> None:
    with serving(), contextlib.ExitStack() as crowd:
        for _number in range(lease.MOST - 10):
            crowd.enter_context(connected())
        assert lock.ask({"do": "ask"})["holder"]["owner"] == "alice@laptop"


@pytest.mark.usefixtures("spark")
def test_too_many_without_rights_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(), contextlib.ExitStack() as crowd:
        monkeypatch.setattr(lock, "has_rights", lambda _uid: False)
        for _number in range(lease.MOST + 50):
            crowd.enter_context(connected())
        with connected() as connection:
            assert answered(connection, do="ask")["holder"]["owner"] == "alice@laptop"


def test_who_has_become_root_by_sudo_has_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    # A user whom only a file of sudo's names has taken the lease; what root asks for that user is answered.
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not lock.has_rights(65533)
    monkeypatch.setenv("SUDO_UID", "65533")
    assert lock.has_rights(65533)
    assert not lock.has_rights(65532)
    # Of another user than root it proves nothing.
    monkeypatch.setattr(os, "geteuid", lambda: 65532)
    assert not lock.has_rights(65533)


def test_who_has_rights() -> None:
    assert lock.has_rights(0)
    assert lock.has_rights(os.geteuid())
    # As the kernel says of a user of another name space.
    assert not lock.has_rights(65533)


LIES = [
    b"hello",
    b"[]",
    b'{"state": "free"}',
    b'{"state": "refused"}',
    b'{"state": "refused", "holder": {"who": "x"}}',
    b'{"state": "refused", "holder": {"who": "x", "doing": "y", "for_s": NaN}}',
    b'{"state": ["held"]}',
]


@contextlib.contextmanager
def lying(answer: bytes) -> t.Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:

        def is_bound() -> bool:
            # The lock of a run that has just released it may still be ending.
            with contextlib.suppress(OSError):
                listener.bind(f"\0{lock.NAME}")
                return True
            return False

        until(is_bound)
        listener.listen()

        def tell() -> None:
            connection, _address = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1000)
                connection.sendall(answer + b"\n")

        thread = threading.Thread(target=tell)
        thread.start()
        yield
        thread.join()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("answer", LIES)
def test_somebody_elses_program_at_that_name_is_named(answer: bytes) -> None:
    name = lock.user_name(os.geteuid())
    with lying(answer), pytest.raises(LockError, match=f"^The process {os.getpid()} of user {name} has the socket @"):
        lease.take(ALICE)


@pytest.mark.usefixtures("spark")
def test_a_user_without_rights_at_that_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "has_rights", lambda _uid: False)
    with (
        lying(b'{"state": "held"}'),
        pytest.raises(lock.NoRights, match=r", but may not change this Spark\. 'sudo kill"),
    ):
        lease.take(ALICE)


@pytest.mark.usefixtures("spark")
def test_too_many_who_wait_are_not_taken_for_a_container() -> None:
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as crowd:
        listener.bind(f"\0{lock.NAME}")
        listener.listen(0)
        crowd.enter_context(connected())
        with pytest.raises(LockError, match=r"^Too many programs wait for an answer of the socket @"):
            lease.take(ALICE)


@pytest.fixture(name="impatient")
def fixture_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "ANSWER_S", 0.1)
    monkeypatch.setattr(lock, "TTL_S", 0.5)


def stopped() -> int:
    """The process that is the lock, which says nothing from now on."""
    with connected() as connection:
        pid = lock.peer(connection)[0]
    os.kill(pid, signal.SIGSTOP)
    return pid


@pytest.mark.usefixtures("spark")
def test_a_lock_that_is_silent_for_longer_than_a_lease_lasts_is_ended(impatient: None) -> None:
    lease.take(ALICE)
    stopped()
    assert lease.take(BOB) == {"state": "held"}
    assert lock.ask({**ALICE, "do": "renew"})["words"].startswith("bob@desk")


@pytest.mark.usefixtures("spark")
def test_a_silent_lock_that_cannot_be_ended_is_named_at_once(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lease.take(ALICE)
    pid = stopped()
    with monkeypatch.context() as patch:

        def forbidden(_pid: int, _signal: int) -> None:
            raise PermissionError

        patch.setattr(lock.os, "kill", forbidden)
        with pytest.raises(
            LockError, match=f"^The process {pid} of user .* does not answer. 'sudo kill -9 {pid}' ends"
        ):
            lease.take(BOB)
    os.kill(pid, signal.SIGCONT)


FAILURES = {"lost": "spark-1: <words> and has it.", "none": "It is gone.", "silent": "It is not known: <words>."}


def guarded(*command: str) -> subprocess.Popen[str]:
    """A command that is run for Alice."""
    program = Path(lock.__file__).read_text(encoding="utf-8").replace('"dgx-spark-speculative"', f'"{lock.NAME}"')
    question = json.dumps({"do": "change", "run": "a"})
    arguments = [sys.executable, "-c", program, question, json.dumps(FAILURES), *command]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("spark")
def test_a_command_is_run_for_a_run_that_has_the_lease_and_the_lock_sees_its_end() -> None:
    lease.take(ALICE)
    script = (
        "import os, sys; print(os.environ['DGX_SPARK_SPECULATIVE_RUN'], flush=True)\n"
        "print(sys.stdin.read()); sys.exit(3)"
    )
    process = guarded(sys.executable, "-c", script)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    lock.ask({**ALICE, "do": "release"})
    assert lock.ask({**BOB, "do": "take"}) == WAIT
    process.stdin.write("module")
    process.stdin.close()
    assert process.stdout.read() == "module\n"
    assert process.wait() == 3
    assert lease.take(BOB) == {"state": "held"}


@pytest.mark.usefixtures("spark")
def test_a_command_is_not_run_for_a_run_that_has_lost_it(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def refused() -> str:
        output, _error = guarded("touch", str(made)).communicate()
        answer = json.loads(output)
        assert answer.pop("failed")
        assert not answer.pop("changed")
        return str(answer["msg"])

    assert refused() == "It is gone."
    lease.take(BOB)
    assert refused().startswith("spark-1: bob@desk has been running stop.yml for ")
    lock.ask({**BOB, "do": "release"})
    with lying(b"hello"):
        assert refused().startswith(f"It is not known: The process {os.getpid()} of user")
    assert not made.exists()
