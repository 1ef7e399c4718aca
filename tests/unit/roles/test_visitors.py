# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is served before whom, by real connections of this machine."""

from __future__ import annotations

import contextlib
import socket
import time
import typing as t

import pytest
from server import visitors
from server.visitors import Visitor, Visitors

ADDRESSES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
# The kernel counts in milliseconds, and a busy machine is late.
MOMENT_S = 0.3


class Connected(t.NamedTuple):
    """Both ends of a connection."""

    client: socket.socket
    server: socket.socket


@contextlib.contextmanager
def connections(family: int, address: str, number: int) -> t.Iterator[list[Connected]]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((address, 0), family=family))
        pairs = []
        for _ in range(number):
            client = stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
            pairs.append(Connected(client, stack.enter_context(listener.accept()[0])))
        yield pairs


def port(end: socket.socket) -> int:
    return int(end.getsockname()[1])


@pytest.mark.parametrize(("family", "address"), ADDRESSES)
def test_who_waits_and_who_was_answered(family: int, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "FLOWS_S", MOMENT_S)
    with connections(family, address, 3) as (waits, idles, own):
        others = Visitors(port(waits.server), {port(own.client)})
        idles.client.send(b"?")
        time.sleep(0.05)
        idles.server.send(b"!")
        time.sleep(MOMENT_S)
        waits.client.send(b"?")
        asked = time.monotonic()
        time.sleep(MOMENT_S)
        here = {one.port: one for one in others.here()}
        assert set(here) == {port(waits.client), port(idles.client)}
        assert here[port(waits.client)].is_served
        assert not here[port(idles.client)].is_served
        assert MOMENT_S <= here[port(waits.client)].asked_ago < 2 * MOMENT_S < here[port(idles.client)].asked_ago
        assert others.served_before(asked + 0.1)
        assert not others.served_before(asked - 0.1)
        # Somebody in the middle of a stream is served, whenever that began.
        idles.server.send(b"!")
        assert others.served_before(asked - 0.1)


def test_who_has_asked_nothing_waits_for_nothing() -> None:
    """As a proxy's spare connection, or a browser's."""
    with connections(socket.AF_INET, "127.0.0.1", 1) as (spare,):
        others = Visitors(port(spare.server), set())
        time.sleep(0.05)
        assert [one.is_served for one in others.here()] == [False]
        spare.client.send(b"?")
        time.sleep(0.05)
        assert [one.is_served for one in others.here()] == [True]


def test_an_answer_that_stands_still_is_as_good_as_over() -> None:
    assert Visitor(1, asked_ago=300, answered_ago=1).is_served
    assert Visitor(1, asked_ago=300, answered_ago=300).is_served
    assert not Visitor(1, asked_ago=300, answered_ago=299).is_served


def test_a_kernel_that_does_not_tell_leaves_everybody_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without the diagnosis of sockets refuses the question."""
    monkeypatch.setattr(visitors, "SOCK_DIAG_BY_FAMILY", 1000)
    others = Visitors(1, set())
    with pytest.raises(OSError, match="the kernel does not tell of connections"):
        others.here()
    assert others.served_before(0)


def test_nobody_is_there() -> None:
    with connections(socket.AF_INET, "127.0.0.1", 0) as none:
        assert none == []
    assert Visitors(1, set()).here() == []
