# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the images of the twin, and build them again if their inputs have changed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing as t

from tests.twin import engine
from tests.twin.keys import CA_CERTIFICATE, SSH_KEY
from tests.twin.names import (
    BASE_IMAGE,
    CACHE,
    INTERNET_IMAGE,
    PACKAGE,
    PREFIX,
    SIDE_IMAGES,
    TwinError,
    base_image,
    spark_image,
)
from tests.twin.trtllm.build import packages
from tests.twin.wheels import BuildError

INPUTS = f"{PREFIX}.inputs"
# Label of images with the keys of a checkout: the path of the checkout.
OWNER = f"{PREFIX}.checkout"
# Another name, because images inherit the labels of their base image.
BASE_INPUTS = f"{PREFIX}.base"
IGNORED = ("__pycache__", "*.pyc")
# Directories that Debian's slim images leave out, also for packages installed later. They would slow down every pull.
LEFT_OUT = ("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man")


def as_root(*command: str) -> list[str]:
    """Return the command with sudo if needed."""
    return list(command) if os.geteuid() == 0 else ["sudo", *command]


def ensure_base(system: str) -> None:
    """Create the Debian base image of the twin, without an image registry."""
    tag = base_image(system)
    inputs = hashlib.sha256(" ".join(LEFT_OUT).encode()).hexdigest()
    if engine.image_id(tag) and engine.image_label(tag, BASE_INPUTS) == inputs:
        return
    if not shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
        raise TwinError("The twin's first image is made with debootstrap, which is not installed on this machine.")
    print(f"Making {tag} (about a minute, once) ...", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="debian-", dir=CACHE))
    try:
        root = place / "root"
        engine.logged(
            CACHE / "log" / f"debootstrap-{system}.log",
            *as_root("debootstrap", "--variant=minbase", "--include=ca-certificates", system, str(root)),
        )
        excluded = "".join(f"path-exclude=/{directory}/*\n" for directory in LEFT_OUT)
        write = as_root("tee", str(root / "etc/dpkg/dpkg.cfg.d/slim"))
        subprocess.run(write, input=excluded, stdout=subprocess.DEVNULL, text=True, check=True)
        exclude = [f"--exclude=./{part}/*" for part in ("var/cache/apt/archives", "var/lib/apt/lists", *LEFT_OUT)]
        pack = as_root("tar", "-C", str(root), *exclude, "-c", ".")
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
            imported = subprocess.run(
                ["docker", "import", "--change", f"LABEL {BASE_INPUTS}={inputs}", "-", tag],
                stdin=tar.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if tar.returncode or imported.returncode:
            raise TwinError(f"Docker could not import {tag}: {engine.last_line(imported.stderr)}")
    finally:
        subprocess.run(as_root("rm", "-rf", str(place)), check=True)


def digest_of(*places: pathlib.Path) -> str:
    """Return a hash of these files and directories: names, modes and contents."""
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


def build(
    tag: str,
    directory: pathlib.Path,
    extra: dict[str, pathlib.Path],
    base: str = BASE_IMAGE,
    labels: t.Sequence[str] = (),
) -> str:
    """Build an image from a directory and extra files, unless it exists with the same inputs. Return its id."""
    start = engine.image_id(base) or ""
    inputs = hashlib.sha256(f"{start} {digest_of(directory, *extra.values())}".encode()).hexdigest()
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
            *("docker", "build", "--network", "host", "--build-arg", f"BASE={base}"),
            *(part for label in (f"{INPUTS}={inputs}", *labels) for part in ("--label", label)),
            *("-t", tag, str(context)),
        )
    built = engine.image_id(tag)
    if not built:
        raise TwinError(f"Docker built {tag} and does not know it.")
    return built


def build_spark(system: str) -> str:
    """Build the image of a Spark with this system."""
    extra = {"ca.crt": CA_CERTIFICATE, "authorized_keys": SSH_KEY.with_suffix(".pub")}
    extra["tiny_library.py"] = PACKAGE / "trtllm" / "tiny_library.py"
    return build(spark_image(system), PACKAGE / "spark", extra, base_image(system), [f"{OWNER}={CACHE}"])


def package_archive() -> pathlib.Path:
    """Return the archive of Debian packages that containers of the release image may install."""
    directory = CACHE / "packages"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return packages(directory)
    except BuildError as error:
        raise TwinError(str(error)) from None


def build_internet() -> str:
    """Build the image of the internet."""
    return build(INTERNET_IMAGE, PACKAGE / "internet", {"repository.tar": package_archive()})


def caddy_program() -> pathlib.Path | None:
    """Return the real proxy from the environment of the demo; None in an environment for users."""
    program = pathlib.Path(sys.executable).with_name("caddy")
    return program if program.is_file() else None


def side_tag(name: str) -> str:
    """Return this machine's tag of an image of the registry."""
    return f"{PREFIX}/{SIDE_IMAGES[name]}"


def build_side_image(name: str) -> str | None:
    """Build an image that runs beside the server; None if this machine lacks its inputs."""
    directory = SIDE_IMAGES[name]
    extra: dict[str, pathlib.Path] = {}
    if directory == "caddy":
        program = caddy_program()
        if program is None:
            print("The twin has no image of the proxy: `tools/environment.sh demo` brings its program.", flush=True)
            return None
        extra = {"caddy": program}
    return build(side_tag(name), PACKAGE / directory, extra)
