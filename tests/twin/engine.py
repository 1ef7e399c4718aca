# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use the machine's Docker Engine through its command line."""

from __future__ import annotations

import json
import pathlib
import subprocess
import typing as t

from tests.twin.names import TwinError


def attempt(*arguments: str, text: str | None = None, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run `docker` with these arguments and return the result, also a failure."""
    try:
        return subprocess.run(
            ["docker", *arguments], input=text, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise TwinError("The twin needs Docker, and there is no `docker` command on this machine.") from None


def docker(*arguments: str, text: str | None = None) -> str:
    """Run `docker` with these arguments and return its output."""
    result = attempt(*arguments, text=text)
    if result.returncode:
        raise TwinError(f"`docker {arguments[0]}` failed: {last_line(result.stderr) or f'status {result.returncode}'}")
    return result.stdout.strip()


def last_line(output: str) -> str:
    """Return the last non-blank line of an output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def logged(log: pathlib.Path, *command: str) -> None:
    """Run a long command with its output in a file; a failure names the file and the last line."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if status:
        reason = last_line(log.read_text(encoding="utf-8", errors="replace"))
        raise TwinError(f"`{' '.join(command[:2])}` failed with status {status}: {reason} (whole output: {log})")


def inspect(kind: str, name: str) -> dict[str, t.Any] | None:
    """Return the facts of a `container`, `image`, `network` or `volume`; None if it does not exist."""
    result = attempt(kind, "inspect", name)
    if result.returncode == 0:
        return t.cast("dict[str, t.Any]", json.loads(result.stdout)[0])
    if "no such" in result.stderr.lower() or "not found" in result.stderr.lower():
        return None
    raise TwinError(f"Docker could not say whether the {kind} {name} exists: {last_line(result.stderr)}")


def image_id(name: str) -> str | None:
    """Return the id of an image on this machine, or None."""
    image = inspect("image", name)
    return str(image["Id"]) if image else None


def image_label(name: str, label: str) -> str | None:
    """Return a label of an image on this machine, or None."""
    image = inspect("image", name)
    return ((image or {}).get("Config", {}).get("Labels") or {}).get(label)


def cgroup_version() -> str:
    """Return the version of the machine's control groups. This also checks that the engine answers."""
    result = attempt("info", "--format", "{{.CgroupVersion}} {{.OSType}} {{.ServerErrors}}")
    version = result.stdout.split(" ", 1)[0].strip()
    if result.returncode or version not in ("1", "2"):
        raise TwinError(f"The Docker Engine does not answer: {last_line(result.stderr or result.stdout)}")
    return version
