# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the volumes with code that servers have downloaded, and with kernels that they have compiled."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass
from urllib.parse import quote

from .engine import Engine, EngineError


@dataclass(frozen=True)
class Cache:
    """A volume: the beginning of the ID of the image whose kernels it has, or None if it has downloaded code."""

    volume: str
    image: str | None
    # None if the Engine does not say.
    bytes: int | None
    # Whether a container has it, also one that is stopped.
    mounted: bool

    def is_used(self, images: t.Collection[str] | None) -> bool:
        """Return whether a container has it or its image is in use. Without the images any may be."""
        return self.mounted or images is None or self.image in {brief_id(image) for image in images}


def brief_id(image: str) -> str:
    """Return the part of an image's ID by which its volume is named."""
    return image.rpartition(":")[2][:12]


def caches_of(engine: Engine, container: str) -> list[Cache]:
    """Return the volumes of a serving container and of those before it. The Engine measures only if there are any."""
    prefix = f"{container}-cache"
    listed = engine.find(f"/volumes?filters={quote(json.dumps({'name': [prefix]}))}") or {}
    found = (
        re.fullmatch(rf"{re.escape(prefix)}(?:-([0-9a-f]{{12}}))?", row["Name"]) for row in listed.get("Volumes") or ()
    )
    names = {match[0]: match[1] for match in found if match}
    usage = _usage(engine) if names else {}
    return [
        Cache(name, image, size if size >= 0 else None, references > 0)
        for name, image in sorted(names.items())
        for size, references in [usage.get(name, (-1, 0))]
    ]


def _usage(engine: Engine) -> dict[str, tuple[int, int]]:
    """Return bytes and containers of each volume; empty if the Engine cannot tell, as while it measures for another."""
    try:
        # Only releases before 29 answer without `verbose`, and before 23 they measure the images, too.
        answer = engine.find("/system/df?type=volume&verbose=1") or {}
    except (OSError, EngineError):
        return {}
    rows = answer.get("Volumes") or (answer.get("VolumeUsage") or {}).get("Items") or ()
    usage = ((row["Name"], row.get("UsageData") or {}) for row in rows)
    return {name: (data.get("Size", -1), data.get("RefCount", 0)) for name, data in usage}
