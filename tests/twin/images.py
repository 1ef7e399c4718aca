# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of the twin: built once, and again when what goes into them changed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from tests.twin import engine
from tests.twin.keys import CA_CERTIFICATE, SSH_KEY
from tests.twin.names import BASE_IMAGE, CACHE, INTERNET_IMAGE, PACKAGE, PREFIX, SPARK_IMAGE, TwinError

INPUTS = f"{PREFIX}.inputs"
IGNORED = ("__pycache__", "*.pyc")


def as_root(*command: str) -> list[str]:
    """The command as the machine's administrator."""
    return list(command) if os.geteuid() == 0 else ["sudo", *command]


def ensure_base() -> None:
    """Make the Debian that all images of the twin start from; no image registry is needed for it."""
    if engine.image_id(BASE_IMAGE):
        return
    if not shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
        raise TwinError("The twin's first image is made with debootstrap, which is not installed on this machine.")
    print(f"Making {BASE_IMAGE} (about a minute, once) ...", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="debian-", dir=CACHE))
    try:
        root = place / "root"
        engine.logged(
            CACHE / "log" / "debootstrap.log",
            *as_root("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(root)),
        )
        pack = as_root("tar", "-C", str(root), "--exclude=./var/cache/apt/archives/*.deb", "-c", ".")
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
            imported = subprocess.run(
                ["docker", "import", "-", BASE_IMAGE], stdin=tar.stdout, capture_output=True, text=True, check=False
            )
        if tar.returncode or imported.returncode:
            raise TwinError(f"Docker could not import {BASE_IMAGE}: {engine.last_line(imported.stderr)}")
    finally:
        subprocess.run(as_root("rm", "-rf", str(place)), check=True)


def digest_of(*places: pathlib.Path) -> str:
    """One hash over these files and directories: names, modes and contents."""
    result = hashlib.sha256()
    for place in places:
        files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
        for path in files:
            if "__pycache__" in path.parts:
                continue
            name = path.relative_to(place).as_posix() if place.is_dir() else path.name
            result.update(f"{name} {path.stat().st_mode & 0o111:o} ".encode())
            result.update(hashlib.sha256(path.read_bytes()).digest())
    return result.hexdigest()


def build(tag: str, directory: pathlib.Path, extra: dict[str, pathlib.Path]) -> str:
    """Build an image from a directory and extra files, unless one of exactly these exists; return its id."""
    base = engine.image_id(BASE_IMAGE) or ""
    inputs = hashlib.sha256(f"{base} {digest_of(directory, *extra.values())}".encode()).hexdigest()
    present = engine.image_id(tag)
    if present and engine.image_label(tag, INPUTS) == inputs:
        return present
    print(f"Building {tag} ...", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        context = pathlib.Path(temporary) / "context"
        shutil.copytree(directory, context, ignore=shutil.ignore_patterns(*IGNORED))
        for name, source in extra.items():
            shutil.copyfile(source, context / name)
        engine.logged(
            CACHE / "log" / f"build-{tag.rpartition('/')[2].replace(':', '-')}.log",
            *("docker", "build", "--network", "host", "--label", f"{INPUTS}={inputs}", "-t", tag, str(context)),
        )
    built = engine.image_id(tag)
    if not built:
        raise TwinError(f"Docker built {tag} and does not know it.")
    return built


def build_spark() -> str:
    """The image of a Spark."""
    extra = {"ca.crt": CA_CERTIFICATE, "authorized_keys": SSH_KEY.with_suffix(".pub")}
    return build(SPARK_IMAGE, PACKAGE / "spark", extra)


def build_internet() -> str:
    """The image of the internet."""
    return build(INTERNET_IMAGE, PACKAGE / "internet", {})
