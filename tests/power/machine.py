# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A virtual machine without hardware support, whose power can be cut.

SIGKILL of QEMU loses what the guest had in its memory and in the write cache of its disk, which is a qcow2 file:
what the guest flushed is in the file.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
import typing as t

from tests.power.build import INITRD, KERNEL, PROGRAMS, SYSTEM

Message = dict[str, t.Any]
MARK = b"POWER "
KERNEL_OPTIONS = "root=/dev/vda rw console=ttyS0 net.ifnames=0 init=/sbin/power-init quiet loglevel=1 mitigations=off"
POLL_S = 0.01


class MachineError(Exception):
    """The machine does not do what it should; one sentence."""


def messages(console: bytes) -> list[Message]:
    """Return what the guest has said so far, in whole lines."""
    lines = console.split(b"\n")[:-1]
    return [json.loads(line[line.index(MARK) + len(MARK) :]) for line in lines if MARK in line]


class Machine:
    """The machine of a directory, with the disk that it has there."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.disk, self.console, self.log = (directory / name for name in ("disk.qcow2", "console", "qemu.log"))
        self._process: subprocess.Popen[bytes] | None = None

    def renew(self) -> None:
        """Give it the disk of a machine that was never started."""
        self.disk.unlink(missing_ok=True)
        backing = ("-b", str(SYSTEM), "-F", "raw")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(self.disk)], check=True)

    def start(self, **settings: str) -> None:
        """Switch it on."""
        self.console.write_bytes(b"")
        options = " ".join([KERNEL_OPTIONS, *(f"POWER_{name.upper()}={value}" for name, value in settings.items())])
        disks = (
            *("-drive", f"if=none,id=d0,file={self.disk},format=qcow2,cache=writeback"),
            *("-drive", f"if=none,id=d1,file={PROGRAMS},format=raw,readonly=on"),
            *(part for number in (0, 1) for part in ("-device", f"virtio-blk-pci,drive=d{number}")),
        )
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("nice", "-n", "19", "ionice", "-c", "3", "qemu-system-x86_64", "-M", "q35", "-cpu", "max"),
                    *("-smp", "1", "-m", "768", "-accel", "tcg,tb-size=256", "-display", "none", "-nodefaults"),
                    *("-serial", f"file:{self.console}", "-kernel", str(KERNEL), "-initrd", str(INITRD)),
                    *("-append", options, *disks, "-device", "virtio-rng-pci"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def cut(self) -> None:
        """Cut the power."""
        if self._process is not None:
            # nice and ionice have become QEMU.
            self._process.kill()
            self._process.wait()
            self._process = None

    def said(self) -> list[Message]:
        """Return what the guest has said since it was started."""
        return messages(self.console.read_bytes())

    def wait(self, seen: t.Callable[[list[Message]], bool], seconds: float) -> list[Message]:
        """Wait until the guest has said something. Raises MachineError."""
        deadline = time.monotonic() + seconds
        while True:
            said = self.said()
            if seen(said):
                return said
            if self._process is None or self._process.poll() is not None:
                raise MachineError(f"QEMU ended: {self.log.read_text(errors='replace').strip()[-300:]}")
            if time.monotonic() > deadline:
                end = self.console.read_bytes()[-300:].decode(errors="replace")
                raise MachineError(f"it did not get there within {seconds:.0f} s; its console ends with {end!r}")
            time.sleep(POLL_S)
