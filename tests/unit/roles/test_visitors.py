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
from server.visitors import Visitors

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
def test_who_asked_before_and_who_after(family: int, address: str) -> None:
    with connections(family, address, 2) as (waits, own):
        others = Visitors(port(waits.server), {port(own.client)})
        waits.client.send(b"?")
        own.client.send(b"?")
        asked = time.monotonic()
        time.sleep(MOMENT_S)
        (here,) = others.here()
        assert here.port == port(waits.client)
        assert MOMENT_S <= here.asked_ago < 2 * MOMENT_S
        assert others.served_before(asked + 0.1)
        assert not others.served_before(asked - 0.1)


def test_a_stream_without_its_first_word_is_waited_for() -> None:
    """Its headers came at once; and one whose reader has stopped gets nothing more."""
    with connections(socket.AF_INET, "127.0.0.1", 1) as (stream,):
        others = Visitors(port(stream.server), set())
        stream.client.send(b"?")
        asked = time.monotonic()
        time.sleep(0.05)
        stream.server.send(b"HTTP/1.1 200 OK")
        time.sleep(MOMENT_S)
        assert others.served_before(asked + 0.1)


def test_who_has_asked_nothing_waits_for_nothing() -> None:
    """As a proxy's spare connection, or a browser's."""
    with connections(socket.AF_INET, "127.0.0.1", 1) as (spare,):
        others = Visitors(port(spare.server), set())
        time.sleep(0.05)
        assert [one.has_asked for one in others.here()] == [False]
        spare.client.send(b"?")
        time.sleep(0.05)
        assert [one.has_asked for one in others.here()] == [True]


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
