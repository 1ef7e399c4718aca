# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the machine does between two cuts: look at all places, finish what was cut, and write until the next cut.

Its first process. The kernel's command line names the place (POWER_PLACE), the places to finish (POWER_REPAIR), and
whether the disk is full or read-only meanwhile (POWER_DISK). It says on the console, one JSON object a line, what it
does.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import termios
import time
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway import keys
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import watched_job

from tests.power.places import PLACES, Place, RefusedError, look, write_all_the_time

ROOT = Path("/")
FILLER = ROOT / "power.filler"
DISKS = ("writable", "full", "read-only")


def say(**message: t.Any) -> None:
    """Write a line that the other side of the console knows."""
    sys.stdout.write(f"POWER {json.dumps(message)}\n")
    sys.stdout.flush()
    # What is still on its way to the other side was not said.
    with contextlib.suppress(termios.error):
        termios.tcdrain(sys.stdout.fileno())


def place_of(name: str) -> Place:
    return next(kind for kind in PLACES if kind.name == name)(ROOT)


def next_version(seen: dict[str, dict[str, t.Any]], name: str) -> int:
    return int(seen[name].get("version") or 0) + 1


def attempt(place: Place, number: int) -> str:
    """Write a version; return why that was refused, or nothing."""
    try:
        place.write(number)
    except (RefusedError, keys.KeysError, watched_job.WatchedJobError) as error:
        return str(error)
    except OSError as error:
        return f"{error.strerror} ({error.filename})"
    return ""


def fill() -> None:
    """Leave no room on the disk."""
    with FILLER.open("wb") as file:
        for size in (1 << 30, 1 << 20, 1 << 12):
            while True:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break
        os.fsync(file.fileno())


def remount(how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", "/"], check=True)


def main() -> None:
    name, disk = os.environ["POWER_PLACE"], os.environ.get("POWER_DISK", DISKS[0])
    if os.environ.get("POWER_UNFLUSHED"):
        for name in ("fsync", "fdatasync"):
            setattr(os, name, lambda _file: None)
    # Only root may still write to the last blocks of a disk, and this is root.
    FILLER.unlink(missing_ok=True)
    seen = look(ROOT)
    say(looked=seen, free=shutil.disk_usage(ROOT).free)
    for one in filter(None, os.environ.get("POWER_REPAIR", "").split(",")):
        # The same run again finishes, whatever the cut has left.
        number = next_version(seen, one)
        say(begun=number, place=one, repair=True)
        say(repaired=one, version=number, refused=attempt(place_of(one), number))
    seen = look(ROOT)
    say(looked=seen, repaired_all=True)
    place = place_of(name)
    begin = next_version(seen, name)
    if disk == "read-only":
        remount("ro")
        say(disk=disk, refused=attempt(place, begin), looked_then=look(ROOT)[name])
        remount("rw")
    if disk == "full":
        fill()
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            say(begun=begin, place=name)
            refused = attempt(place, begin)
            say(disk=disk, refused=refused, looked_then=look(ROOT)[name])
            if not refused:
                say(done=begin, place=name)
                begin += 1
        return
    write_all_the_time(place, begin, lambda **message: say(place=name, **message))


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        say(failed=f"{type(error).__name__}: {error}")
        raise
    finally:
        # The first process must not end.
        while True:
            time.sleep(60)
