# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import threading
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import neighbours

F0, F1 = "enp1s0f0np0", "enp1s0f1np1"
OWN, PEER, STRANGER, TWIN = (bytes.fromhex(f"4cbb470000{last:02x}") for last in (1, 2, 3, 4))
ADDRESS, OTHER = "192.168.100.10", "192.168.100.11"


class Raw:
    """One end of a wire, where a thread may play whoever is at the other."""

    def __init__(self, mac: bytes) -> None:
        self.mac = mac
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.far.settimeout(0.05)

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self.near, name)

    def getsockname(self) -> tuple[t.Any, ...]:
        return ("", 0, 0, 1, self.mac)


Answer = t.Callable[[str, bytes], "list[bytes]"]


def ask(answer: Answer, greet: bool, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.2) -> dict[str, t.Any]:
    """What is found where somebody answers so to the frames that leave by an interface."""
    wires: list[tuple[str, Raw]] = []
    ended = threading.Event()

    def play() -> None:
        while not ended.is_set():
            for name, wire in list(wires):
                try:
                    packets = answer(name, wire.far.recv(2048))
                    for packet in packets:
                        wire.far.send(packet)
                except OSError:
                    continue

    def raw(name: str, kind: int) -> Raw:
        wires.append((name, Raw({F0: OWN, F1: TWIN}[name])))
        return wires[-1][1]

    for name, value in {"raw": raw, "EVERY_S": 0.02, "LINGER_S": 0.1}.items():
        monkeypatch.setattr(neighbours, name, value)
    player = threading.Thread(target=play)
    player.start()
    try:
        return neighbours.neighbours({F0: [ADDRESS], F1: [ADDRESS, OTHER]}, greet, seconds)
    finally:
        ended.set()
        player.join()
        for _name, wire in wires:
            wire.far.close()


def reply(mac: bytes, address: str) -> bytes:
    packed = neighbours._ARP.pack(1, 0x0800, 6, 4, 2, mac, socket.inet_aton(address), OWN, bytes(4))
    return OWN + mac + b"\x08\x06" + packed


def test_a_probe_is_that_of_rfc_5227() -> None:
    packet = neighbours.probe(OWN, ADDRESS)
    assert packet[:14] == b"\xff" * 6 + OWN + b"\x08\x06"
    assert len(packet) == 60
    kind, proto, size, length, operation, mac, sender, target, wanted = neighbours._ARP.unpack_from(packet, 14)
    assert (kind, proto, size, length, operation, mac) == (1, 0x0800, 6, 4, 1, OWN)
    assert (sender, target, wanted) == (bytes(4), bytes(6), socket.inet_aton(ADDRESS))


@pytest.mark.parametrize(
    ("packet", "claimed"),
    [
        (reply(STRANGER, ADDRESS), (ADDRESS, "4c:bb:47:00:00:03")),
        # Who asks whether an address is free is about to take it.
        (neighbours.probe(STRANGER, ADDRESS), (ADDRESS, "4c:bb:47:00:00:03")),
        (b"\0" * 20, None),
        (b"\0" * 60, None),
    ],
)
def test_what_a_packet_claims(packet: bytes, claimed: tuple[str, str] | None) -> None:
    assert neighbours.claim(packet) == claimed


def test_who_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str, packet: bytes) -> list[bytes]:
        claimed = neighbours.claim(packet)
        assert claimed
        # Its own frames, and answers about what nobody asked for, count for nothing.
        noise = [packet, reply(STRANGER, "192.168.100.77"), b"short"]
        # On a switch, the questions of the other interface come, too.
        noise += [neighbours.probe(OWN if name == F1 else TWIN, ADDRESS)]
        taken = [reply(STRANGER, ADDRESS), reply(PEER, ADDRESS)]
        return [*taken, *noise] if (name, claimed[0]) == (F1, ADDRESS) else noise

    found = ask(answer, False, monkeypatch)
    both = ["4c:bb:47:00:00:02", "4c:bb:47:00:00:03"]
    assert found == {"heard": None, "taken": {F0: {}, F1: {ADDRESS: both}}}


def test_who_greets(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str, packet: bytes) -> list[bytes]:
        if packet[12:14] != b"\x88\xb5":
            return []
        other = neighbours.frame(STRANGER, neighbours.GREETING, b"something else")
        return [other, neighbours.frame(PEER, neighbours.GREETING, neighbours.WORD)] if name == F1 else [other]

    found = ask(answer, True, monkeypatch)
    assert found == {"heard": {F0: [], F1: ["4c:bb:47:00:00:02"]}, "taken": {F0: {}, F1: {}}}


def test_its_own_greetings_do_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def answer(name: str, packet: bytes) -> list[bytes]:
        if packet[12:14] != b"\x88\xb5":
            return []
        heard.append(name)
        echo = neighbours.frame(OWN if name == F1 else TWIN, neighbours.GREETING, neighbours.WORD)
        late = heard.count(name) > 15
        return [echo, *([neighbours.frame(PEER, neighbours.GREETING, neighbours.WORD)] if late else [])]

    found = ask(answer, True, monkeypatch, seconds=20)
    assert found["heard"] == {F0: ["4c:bb:47:00:00:02"], F1: ["4c:bb:47:00:00:02"]}


def test_a_socket_hears_nothing_before_it_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[t.Any, ...]] = []

    class Recorded:
        def __init__(self, *arguments: t.Any) -> None:
            calls.append(arguments)

        def bind(self, address: tuple[str, int]) -> None:
            calls.append(address)

    monkeypatch.setattr(neighbours.socket, "socket", Recorded)
    neighbours.raw(F0, neighbours.ARP)
    assert calls == [(socket.AF_PACKET, socket.SOCK_RAW, 0), (F0, neighbours.ARP)]


def test_an_interface_that_does_not_exist() -> None:
    with pytest.raises(OSError, match=r"No such device|Operation not permitted") as raised:
        neighbours.neighbours({"no-such-one": []}, False, 0.1)
    assert raised.value.filename == "no-such-one"
