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
from server import client_connections
from server.client_connections import ClientConnection, ClientConnections

from tests.unit.waiting import until

ADDRESSES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
MOMENT_S = 0.3
# In such steps the kernel counts, at most.
TICK_S = 0.02


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


def end_of(client: socket.socket) -> client_connections.End:
    address, number = client.getsockname()[:2]
    return address, number


@pytest.mark.parametrize(("family", "address"), ADDRESSES)
def test_who_asked_before_and_who_after(family: int, address: str) -> None:
    with connections(family, address, 2) as (waits, own):
        others = ClientConnections(port(waits.server), {end_of(own.client)})
        before = time.monotonic()
        waits.client.send(b"?")
        own.client.send(b"?")
        asked = time.monotonic()
        time.sleep(MOMENT_S)
        (here,) = others.here()
        assert here.end == end_of(waits.client)
        assert here.asked_ago is not None
        assert MOMENT_S <= here.asked_ago <= time.monotonic() - before + TICK_S
        assert others.older_client(asked + TICK_S) == client_connections.OTHERS
        # However long this machine takes between two lines.
        assert not others.older_client(asked - 60)


def test_a_stream_without_its_first_word_is_waited_for() -> None:
    """Its headers came at once; and one whose reader has stopped gets nothing more."""
    with connections(socket.AF_INET, "127.0.0.1", 1) as (stream,):
        others = ClientConnections(port(stream.server), set())
        stream.client.send(b"?")
        asked = time.monotonic()
        time.sleep(0.05)
        stream.server.send(b"HTTP/1.1 200 OK")
        time.sleep(MOMENT_S)
        assert others.older_client(asked + TICK_S)


def test_who_has_asked_nothing_waits_for_nothing() -> None:
    """As a proxy's spare connection, or a browser's."""
    with connections(socket.AF_INET, "127.0.0.1", 1) as (spare,):
        others = ClientConnections(port(spare.server), set())
        assert [one.has_asked for one in others.here()] == [False]
        spare.client.send(b"?")
        until(lambda: [one.has_asked for one in others.here()] == [True])


def test_a_kernel_that_does_not_tell_leaves_everybody_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without the diagnosis of sockets refuses the question."""
    monkeypatch.setattr(client_connections, "SOCK_DIAG_BY_FAMILY", 1000)
    others = ClientConnections(1, set())
    with pytest.raises(OSError, match="the kernel does not tell of connections"):
        others.here()
    assert others.older_client(0) == client_connections.UNKNOWN


def test_one_of_whom_the_kernel_does_not_tell_may_have_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with connections(socket.AF_INET, "127.0.0.1", 1) as (stream,):
        others = ClientConnections(port(stream.server), set())
        stream.client.send(b"?")
        monkeypatch.setattr(client_connections, "INET_DIAG_INFO", 4)
        assert others.here() == [ClientConnection(end_of(stream.client), None)]
        assert others.older_client(0) == client_connections.UNKNOWN


def test_a_kernel_that_says_too_little_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    with connections(socket.AF_INET, "127.0.0.1", 1) as (stream,):
        monkeypatch.setattr(client_connections, "split", lambda _header, _data, _align: iter([(20, b"")]))
        assert ClientConnections(port(stream.server), set()).older_client(0) == client_connections.UNKNOWN


def test_whose_port_is_as_an_own_one_at_another_address_is_somebody_else() -> None:
    """And one of IPv4 is known again at a server that listens to both."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
        own = stack.enter_context(socket.create_connection(("127.0.0.1", port(listener))))
        other = stack.enter_context(
            socket.create_connection(("127.0.0.1", port(listener)), source_address=("127.0.0.2", port(own)))
        )
        ends = [end_of(own), end_of(other)]
        assert [one.end for one in ClientConnections(port(listener), {ends[0]}).here()] == [ends[1]]


def test_nobody_is_there() -> None:
    with connections(socket.AF_INET, "127.0.0.1", 0) as none:
        assert none == []
    assert ClientConnections(1, set()).here() == []
