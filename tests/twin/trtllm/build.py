# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the stand-in for the TensorRT-LLM release image."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import typing as t
from pathlib import Path

from tests.twin.wheels import BuildError, inspect, install, run

HERE = Path(__file__).parent
BASE = "dgx-spark-twin/debian:bookworm"
LABEL = "dgx-spark-twin.inputs"
PACKAGES = "dgx-spark-twin/packages"
# Pack reproducibly: the same content gives the same archive.
_PACK = (
    *("tar", "-C", "/repository", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"),
    *("-cf", "/out/repository.tar", "."),
)
# Packages with compiled parts are a separate layer, so that a pull has several large layers.
NATIVE = ("hf_xet", "pydantic_core", "yaml", "_yaml")


def build(context_dir: Path, ca_certificate: Path, tag: str, release: str, label: str) -> str:
    """Build the image unless the tag already has these inputs. Return its id."""
    inputs = _inputs(ca_certificate, release)
    existing = inspect(tag)
    if existing is not None and (existing["Config"].get("Labels") or {}).get(LABEL) == inputs:
        return t.cast(str, existing["Id"])
    _prepare(context_dir, ca_certificate)
    arguments = {"BASE": BASE, "RELEASE": release, "INPUTS": inputs}
    options = [option for name, value in arguments.items() for option in ("--build-arg", f"{name}={value}")]
    run(["docker", "build", "--network", "host", "--tag", tag, "--label", label, *options, str(context_dir / "image")])
    built = inspect(tag)
    if built is None:
        raise BuildError(f"docker build left no image with the tag {tag}.")
    return t.cast(str, built["Id"])


def packages(context_dir: Path) -> Path:
    """Return an archive of a Debian repository with the packages that containers of the image may install.

    Their versions must match those in the image exactly, so a build on the same layers downloads them.
    """
    tag = f"{PACKAGES}:latest"
    place = context_dir / "packages"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("Dockerfile", "repository.py"):
        shutil.copyfile(HERE / name, place / name)
    options = ["--network", "host", "--target", "packages", "--build-arg", f"BASE={BASE}"]
    run(["docker", "build", "--tag", tag, *options, str(place)])
    built = inspect(tag)
    if built is None:
        raise BuildError(f"docker build left no image with the tag {tag}.")
    archive = context_dir / f"repository-{built['Id'].rpartition(':')[2][:16]}.tar"
    if not archive.exists():
        run(["docker", "run", "--rm", "--volume", f"{place.resolve()}:/out", tag, *_PACK])
        (place / "repository.tar").rename(archive)
        for other in context_dir.glob("repository-*.tar"):
            if other != archive:
                other.unlink()
    return archive


def _inputs(ca_certificate: Path, release: str) -> str:
    base = inspect(BASE)
    if base is None:
        raise BuildError(f"The base image {BASE} does not exist.")
    digest = hashlib.sha256(json.dumps([base["Id"], release, platform.machine()]).encode())
    digest.update(ca_certificate.read_bytes())
    for path in sorted(HERE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _prepare(context_dir: Path, ca_certificate: Path) -> None:
    packages = install(HERE / "requirements.txt", context_dir)
    image = context_dir / "image"
    shutil.rmtree(image, ignore_errors=True)
    native = image / "packages" / "native"
    pure = image / "packages" / "pure"
    for path in sorted(packages.iterdir()):
        if path.name not in ("bin", "__pycache__"):
            _copy(path, (native if path.name in NATIVE else pure) / path.name)
    _copy(HERE / "server", image / "app" / "standin")
    _copy(HERE / "tensorrt_llm", image / "app" / "tensorrt_llm")
    _copy(HERE / "bin", image / "bin")
    for command in (image / "bin").iterdir():
        command.chmod(0o755)
    shutil.copyfile(ca_certificate, image / "ca.crt")
    for name in ("Dockerfile", "repository.py", "tiny_library.py"):
        shutil.copyfile(HERE / name, image / name)


def _copy(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, destination, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, destination)
