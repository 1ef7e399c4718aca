# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a minimal shared library: libnccl.so.2 returns its version, and libcuda.so.1 initializes or fails.

Run as: tiny_library.py DIRECTORY nccl | cuda ERROR FREE TOTAL

There may be no compiler, so the functions are machine code in the smallest library that a linker accepts.
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
    """Return a library with int ncclGetVersion(int *version), which stores the number and returns 0."""
    return shared_object(machine, NCCL, {"ncclGetVersion": _store(machine, version)})


def cuda(machine: str, error: int = 0, free: int = 0, total: int = 0) -> bytes:
    """Return a library that reports the free memory. Its cuInit returns the error, 0 for a usable GPU."""
    done = _return(machine, 0)
    functions = {
        "cuInit": _return(machine, error),
        "cuDeviceGet": done,
        "cuDevicePrimaryCtxRetain": done,
        "cuCtxSetCurrent": done,
        "cuMemGetInfo_v2": _store_sizes(machine, free, total),
        "cuDevicePrimaryCtxRelease_v2": done,
    }
    return shared_object(machine, CUDA, functions)


def _return(machine: str, number: int) -> bytes:
    if machine == "x86_64":
        return b"\xb8" + struct.pack("<I", number) + b"\xc3"
    return struct.pack("<2I", 0x52800000 | number << 5, 0xD65F03C0)


def _store(machine: str, version: int) -> bytes:
    if machine == "x86_64":
        return b"\xc7\x07" + struct.pack("<I", version) + b"\x31\xc0\xc3"
    low, high = version & 0xFFFF, version >> 16
    words = (0x52800001 | low << 5, 0x72A00001 | high << 5, 0xB9000001, 0x52800000, 0xD65F03C0)
    return struct.pack("<5I", *words)


def _store_sizes(machine: str, *sizes: int) -> bytes:
    """Return int f(size_t *first, size_t *second), which stores the numbers and returns 0."""
    code = b""
    for register, size in enumerate(sizes):
        if machine == "x86_64":
            # mov rax, size; mov [rdi] or [rsi], rax
            code += b"\x48\xb8" + struct.pack("<Q", size) + (b"\x48\x89\x07", b"\x48\x89\x06")[register]
        else:
            # movz and three movk to x2; str x2, [x0] or [x1]
            bases = (0xD2800002, 0xF2A00002, 0xF2C00002, 0xF2E00002)
            moves = (base | (size >> 16 * part & 0xFFFF) << 5 for part, base in enumerate(bases))
            code += struct.pack("<5I", *moves, 0xF9000002 | register << 5)
    return code + _return(machine, 0)


def shared_object(machine: str, name: str, functions: dict[str, bytes]) -> bytes:
    """Return the whole file, which has one segment of code and data."""
    symbols_named = "\0".join(functions).encode()
    names = b"\0" + symbols_named + b"\0" + name.encode() + b"\0"
    count = len(functions)
    start = _HEADER + 2 * _PROGRAM
    # One bucket that begins with the first function; each leads to the next, and the last one to nothing.
    table = struct.pack(f"<{3 + count + 1}I", 1, count + 1, 1, 0, *range(2, count + 1), 0)
    table += bytes(-len(table) % 8)
    symbols = start + len(table)
    strings = symbols + (count + 1) * _SYMBOL
    code = strings + len(names) + -len(names) % 16
    places, bodies = {}, b""
    for function, body in functions.items():
        places[function] = code + len(bodies)
        bodies += body + bytes(-len(body) % 16)
    dynamic = code + len(bodies)
    called = 2 + len(symbols_named)
    entries = [(4, start), (5, strings), (6, symbols), (10, len(names)), (11, _SYMBOL), (14, called), (0, 0)]
    size = dynamic + len(entries) * _DYNAMIC
    entry = bytes(_SYMBOL) + b"".join(
        struct.pack("<IBBHQQ", names.index(b"\0" + one.encode() + b"\0") + 1, 0x12, 0, 1, places[one], len(body))
        for one, body in functions.items()
    )
    parts = {
        0: b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHIQQQIHHHHHH", 3, MACHINES[machine], 1, 0, _HEADER, 0, 0, _HEADER, _PROGRAM, 2, 64, 0, 0),
        # All of it readable, writable and executable; and where the dynamic section is.
        _HEADER: struct.pack("<IIQQQQQQ", 1, 7, 0, 0, 0, size, size, 0x10000),
        _HEADER + _PROGRAM: struct.pack(
            "<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, size - dynamic, size - dynamic, 8
        ),
        start: table,
        symbols: entry,
        strings: names,
        code: bodies,
        dynamic: b"".join(struct.pack("<QQ", *one) for one in entries),
    }
    content = bytearray(size)
    for place, part in parts.items():
        content[place : place + len(part)] = part
    return bytes(content)


if __name__ == "__main__":
    if sys.argv[2] == "nccl":
        Path(sys.argv[1], NCCL).write_bytes(nccl(platform.machine()))
    else:
        Path(sys.argv[1], CUDA).write_bytes(cuda(platform.machine(), *map(int, sys.argv[3:])))
