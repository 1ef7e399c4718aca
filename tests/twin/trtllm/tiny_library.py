# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a shared library that can do one thing: libnccl.so.2 tells its version, libcuda.so.1 starts, or fails.

Run as: tiny_library.py DIRECTORY nccl | cuda ERROR

Where there is no compiler, the one function comes as machine code, in as little of a library as a linker accepts.
"""

from __future__ import annotations

import platform
import struct
import sys
from pathlib import Path

NCCL, CUDA = "libnccl.so.2", "libcuda.so.1"
# NCCL 2.28.9, in NCCL's own spelling.
VERSION = 22809
MACHINES = {"x86_64": 62, "aarch64": 183}

_HEADER, _PROGRAM, _SYMBOL, _DYNAMIC = 64, 56, 24, 16


def nccl(machine: str, version: int = VERSION) -> bytes:
    """int ncclGetVersion(int *version): stores the number and returns 0."""
    return shared_object(machine, NCCL, "ncclGetVersion", _store(machine, version))


def cuda(machine: str, error: int = 0) -> bytes:
    """int cuInit(unsigned flags): returns the number, which is 0 where the GPU can be used."""
    if machine == "x86_64":
        code = b"\xb8" + struct.pack("<I", error) + b"\xc3"
    else:
        code = struct.pack("<2I", 0x52800000 | error << 5, 0xD65F03C0)
    return shared_object(machine, CUDA, "cuInit", code)


def _store(machine: str, version: int) -> bytes:
    if machine == "x86_64":
        return b"\xc7\x07" + struct.pack("<I", version) + b"\x31\xc0\xc3"
    low, high = version & 0xFFFF, version >> 16
    words = (0x52800001 | low << 5, 0x72A00001 | high << 5, 0xB9000001, 0x52800000, 0xD65F03C0)
    return struct.pack("<5I", *words)


def shared_object(machine: str, name: str, symbol: str, body: bytes) -> bytes:
    """The whole file, which is one segment."""
    names = b"\0" + symbol.encode() + b"\0" + name.encode() + b"\0"
    start = _HEADER + 2 * _PROGRAM
    # One bucket, two symbols; the bucket begins with the function and ends there.
    table = struct.pack("<5I", 1, 2, 1, 0, 0) + bytes(4)
    symbols = start + len(table)
    strings = symbols + 2 * _SYMBOL
    function = strings + len(names) + -len(names) % 16
    dynamic = function + len(body) + -len(body) % 16
    entries = [(4, start), (5, strings), (6, symbols), (10, len(names)), (11, _SYMBOL), (14, 2 + len(symbol)), (0, 0)]
    size = dynamic + len(entries) * _DYNAMIC
    parts = {
        0: b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHIQQQIHHHHHH", 3, MACHINES[machine], 1, 0, _HEADER, 0, 0, _HEADER, _PROGRAM, 2, 64, 0, 0),
        # All of it readable, writable and executable; and where the dynamic section is.
        _HEADER: struct.pack("<IIQQQQQQ", 1, 7, 0, 0, 0, size, size, 0x10000),
        _HEADER + _PROGRAM: struct.pack(
            "<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, size - dynamic, size - dynamic, 8
        ),
        start: table,
        symbols: bytes(_SYMBOL) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, function, len(body)),
        strings: names,
        function: body,
        dynamic: b"".join(struct.pack("<QQ", *entry) for entry in entries),
    }
    content = bytearray(size)
    for place, part in parts.items():
        content[place : place + len(part)] = part
    return bytes(content)


if __name__ == "__main__":
    if sys.argv[2] == "nccl":
        Path(sys.argv[1], NCCL).write_bytes(nccl(platform.machine()))
    else:
        Path(sys.argv[1], CUDA).write_bytes(cuda(platform.machine(), int(sys.argv[3])))
