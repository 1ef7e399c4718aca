# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import socket
import threading
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lease
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.lease import Lease, LeaseError

ALICE = {"run": "a", "who": "alice@laptop", "doing": "two_sparks.yml"}
BOB = {"run": "b", "who": "bob@desk", "doing": "stop.yml"}


def asked(holder: Lease, do: str, now: float, run: t.Mapping[str, t.Any] = ALICE, **more: t.Any) -> t.Any:
    return holder.answer({**run, "do": do, **more}, now)


@pytest.fixture(name="of_alice")
def fixture_of_alice() -> Lease:
    return Lease(ALICE, 1000.0)


def test_one_run_has_it_and_the_others_are_told_who(of_alice: Lease) -> None:
    refusal = asked(of_alice, "take", 1030.0, BOB)
    assert refusal == {"state": "refused", "holder": {"who": "alice@laptop", "doing": "two_sparks.yml", "for_s": 30}}
    assert lease.in_words(refusal["holder"]) == "alice@laptop has been running two_sparks.yml for 30 s"
    assert lease.in_words({**refusal["holder"], "for_s": 185.0}).endswith("for 3 min")
    assert asked(of_alice, "ask", 1030.0)["state"] == "held"
    assert asked(of_alice, "take", 1031.0) == {"state": "held"}


def test_what_was_not_renewed_for_45_seconds_is_free(of_alice: Lease) -> None:
    assert asked(of_alice, "renew", 1040.0) == {"state": "held"}
    assert asked(of_alice, "take", 1085.0, BOB)["state"] == "refused"
    assert asked(of_alice, "ask", 1085.1) == {"state": "free"}
    assert asked(of_alice, "take", 1085.1, BOB) == {"state": "held"}
    lost = asked(of_alice, "renew", 1090.0)
    assert lost == {"state": "lost", "holder": {"who": "bob@desk", "doing": "stop.yml", "for_s": 5}}


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


def test_a_lease_without_a_keeper_lasts_longer(of_alice: Lease) -> None:
    asked(of_alice, "renew", 1000.0, ttl=900)
    assert asked(of_alice, "take", 1899.0, BOB)["state"] == "refused"
    assert asked(of_alice, "take", 1901.0, BOB)["state"] == "held"


def test_who_takes_over_waits_until_the_other_has_let_go(of_alice: Lease) -> None:
    over = {"take_over": True}
    assert asked(of_alice, "take", 1005.0, BOB, **over) is None
    # Meanwhile it is Bob's, for everybody.
    assert asked(of_alice, "ask", 1005.0)["holder"]["who"] == "bob@desk"
    assert asked(of_alice, "renew", 1010.0)["state"] == "lost"
    assert asked(of_alice, "take", 1024.0, BOB, **over) is None
    # It is waited for beyond 45 s, and nobody else comes in between.
    for now in range(1025, 1070, 5):
        asked(of_alice, "renew", now)
        assert asked(of_alice, "take", now, BOB, **over) is None
    assert asked(of_alice, "take", 1070.0, {**BOB, "run": "c"})["state"] == "refused"
    assert asked(of_alice, "gone", 1070.5)["state"] == "lost"
    assert asked(of_alice, "take", 1071.0, BOB, **over) == {"state": "held"}


def test_one_that_says_nothing_any_more_is_waited_for_no_longer_than_it_acts(of_alice: Lease) -> None:
    over = {"take_over": True}
    assert asked(of_alice, "take", 1000.0 + lease.ACTS_S, BOB, **over) is None
    assert asked(of_alice, "take", 1000.1 + lease.ACTS_S, BOB, **over) == {"state": "held"}


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
    monkeypatch.setattr(lease, "NAME", f"dgx-spark-speculative-test-{os.getpid()}")
    yield
    for run in (ALICE, BOB):
        with contextlib.suppress(LeaseError):
            lease.ask({**run, "do": "release"})


@pytest.mark.usefixtures("spark")
def test_it_outlives_who_took_it_and_is_gone_when_given_back() -> None:
    assert lease.ask({"do": "ask"}) == {"state": "none"}
    assert lease.take(ALICE) == {"state": "held"}
    assert lease.take(BOB)["holder"]["who"] == "alice@laptop"
    # What asks nothing, or nothing that is understood, keeps nobody from being answered.
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as odd:
        silent.connect(f"\0{lease.NAME}")
        odd.connect(f"\0{lease.NAME}")
        odd.sendall(b"[[[\n")
        assert lease.ask({**BOB, "do": "take", "take_over": True, "ttl": "long"}) == {"state": "none"}
        assert lease.ask({"do": "ask"})["holder"]["who"] == "alice@laptop"
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


@pytest.mark.usefixtures("spark")
def test_somebody_elses_program_at_that_name_is_named() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{lease.NAME}")
        listener.listen()

        def answer() -> None:
            connection, _address = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"hello\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(LeaseError, match=f"^The process {os.getpid()} has the socket @"):
            lease.take(ALICE)
        thread.join()
