# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Return the facts of this machine that affect images: its architecture, and how its Docker stores images."""

from __future__ import annotations

import platform
import re
import shutil
import typing as t
from pathlib import Path

# The kernel's name of an architecture, with its name in images.
ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "amd64", "amd64": "amd64"}

# Docker or containerd stores the images. A fresh installation of Engine 29 uses containerd.
CLASSIC, CONTAINERD = "classic", "containerd"
SNAPSHOTTER = "io.containerd.snapshotter"
CONTAINERD_ROOT, CONTAINERD_CONFIG = Path("/var/lib/containerd"), Path("etc/containerd/config.toml")
# Size of an unpacked image, as a multiple of the packed one. For NVIDIA's images it is 2.1 to 2.4.
UNPACKED = 2.3
# The classic store deletes the packed layers after unpacking; containerd keeps them.
CLASSIC_FACTOR = 3.0


def own_architecture() -> str:
    """Return the architecture of this machine, as images name it."""
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def own_platform() -> str:
    """Return the platform of images for this machine."""
    return f"linux/{own_architecture()}"


class Store(t.NamedTuple):
    """Kind and directory of an Engine's image store."""

    kind: str
    path: Path

    @property
    def unpack_factor(self) -> float:
        """Return the disk space that a pull needs, as a multiple of the image's packed size."""
        return 1 + UNPACKED if self.kind == CONTAINERD else CLASSIC_FACTOR

    @property
    def way_out(self) -> str:
        """Return the setting that moves the store to a larger disk."""
        if self.kind == CONTAINERD:
            return f"containerd's root ('root' in /{CONTAINERD_CONFIG})"
        return "Docker's data-root"

    def free_bytes(self) -> int | None:
        """Return the free bytes for images; None if unknown."""
        try:
            return shutil.disk_usage(self.path).free
        except OSError:
            return None

    def facts(self) -> dict[str, t.Any]:
        return {
            "kind": self.kind,
            "path": str(self.path),
            "free_bytes": self.free_bytes(),
            "unpack_factor": self.unpack_factor,
            "way_out": self.way_out,
        }


def containerd_root(root: Path = Path("/")) -> Path:
    """Return containerd's data directory: `root` before the first section of its configuration, or the default."""
    try:
        text = (root / CONTAINERD_CONFIG).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return CONTAINERD_ROOT
    plain = re.split(r"^\s*\[", text, maxsplit=1, flags=re.MULTILINE)[0]
    match = re.search(r"""^\s*root\s*=\s*["']([^"']+)["']""", plain, re.MULTILINE)
    return Path(match[1]) if match else CONTAINERD_ROOT


def store_of(info: t.Mapping[str, t.Any], root: Path = Path("/")) -> Store | None:
    """Return the Engine's image store, from its /info."""
    if any(SNAPSHOTTER in str(value) for _name, value in info.get("DriverStatus") or []):
        return Store(CONTAINERD, containerd_root(root))
    data_root = info.get("DockerRootDir")
    return Store(CLASSIC, Path(data_root)) if data_root else None


def sizes(size: int, kind: str) -> tuple[int, int]:
    """Return the unpacked and the packed bytes of an image, from the size that the Engine reports.

    With containerd's store this is the packed size (moby, daemon/containerd/image_inspect.go), and images are exported
    packed. The classic store keeps only unpacked images.
    """
    return (round(UNPACKED * size), size) if kind == CONTAINERD else (size, size)
