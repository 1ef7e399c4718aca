# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the machine's disks: the twin's own Spark with a kernel, and the collection's programs."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile

import ansible

from tests.playbook import ROOT
from tests.twin import engine, images
from tests.twin.keys import make_keys
from tests.twin.lifecycle import BUILD_LOCK, alone
from tests.twin.names import CACHE, PREFIX, SYSTEMS, spark_image

PACKAGE = pathlib.Path(__file__).resolve().parent
DISKS = CACHE / "power"
KERNEL, INITRD, SYSTEM, PROGRAMS = (DISKS / name for name in ("vmlinuz", "initrd", "system.raw", "programs.raw"))
IMAGE = f"{PREFIX}/power:{spark_image(SYSTEMS[0]).rpartition('-')[2]}"
# As the image, of which the disk was made.
STAMP = DISKS / "image"


def run(*command: str) -> None:
    """Run a program that makes a disk."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def disk(path: pathlib.Path, directory: pathlib.Path, size: str) -> None:
    """Make a disk of a directory; what it does not use takes no room."""
    path.unlink(missing_ok=True)
    run("truncate", "-s", size, str(path))
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", str(directory), str(path))


def build_system() -> None:
    """Make the root file system, unless it is there with the same content."""
    with alone(BUILD_LOCK):
        make_keys()
        images.ensure_base(SYSTEMS[0])
        images.build_spark(SYSTEMS[0])
        image = images.build(IMAGE, PACKAGE / "machine", {}, spark_image(SYSTEMS[0]), [f"{images.OWNER}={CACHE}"])
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == image:
        return
    DISKS.mkdir(parents=True, exist_ok=True)
    STAMP.unlink(missing_ok=True)
    container = engine.docker("create", IMAGE)
    try:
        with tempfile.TemporaryDirectory(dir=DISKS) as place:
            run("sh", "-c", f"docker export {container} | tar -x --numeric-owner -C {place}")
            for target in (KERNEL, INITRD):
                shutil.copy(pathlib.Path(place) / "boot" / target.name, target)
            disk(SYSTEM, pathlib.Path(place), "16G")
    finally:
        engine.docker("rm", container)
    STAMP.write_text(image, encoding="utf-8")


def build_programs() -> None:
    """Make the disk with what the guest runs: this package, the collection, and Ansible's part of a module."""
    with tempfile.TemporaryDirectory(dir=DISKS) as place:
        root = pathlib.Path(place)
        plugins = root / "ansible_collections/dgx_spark/speculative/plugins"
        ignore = shutil.ignore_patterns(*images.IGNORED)
        for name in ("modules", "module_utils", "plugin_utils"):
            shutil.copytree(ROOT / "plugins" / name, plugins / name, ignore=ignore)
        installed = pathlib.Path(ansible.__file__).parent
        shutil.copytree(installed / "module_utils", root / "ansible/module_utils", ignore=ignore)
        shutil.copy(installed / "release.py", root / "ansible")
        shutil.copytree(PACKAGE, root / "tests/power", ignore=ignore)
        for package in (root / "ansible", root / "tests", root / "tests/unit"):
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
        for name in ("hub_server.py", "web.py"):
            shutil.copy(ROOT / "tests/unit" / name, root / "tests/unit")
        # The guest's own Python; compiling there takes longer than all else.
        compile_ = ("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/programs")
        engine.docker(
            "run", "--rm", "--network", "none", "--volume", f"{place}:/programs", "--entrypoint", compile_[0], IMAGE,
            *compile_[1:],
        )  # fmt: skip
        disk(PROGRAMS, root, "64M")


def build() -> None:
    """Make both disks."""
    build_system()
    build_programs()
