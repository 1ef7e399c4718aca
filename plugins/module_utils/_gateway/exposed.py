# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the proxy's endpoints, which the role api_proxy stores beside its configuration."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from .._data.files import read_object
from .._data.typed import find_mismatches

FILE = Path("config/endpoint.json")


@dataclasses.dataclass(frozen=True)
class Address:
    scope: str
    url: str


@dataclasses.dataclass(frozen=True)
class Exposed:
    """Addresses by whom they are for, the file of each key, and the authority's certificate on the controller."""

    urls: list[Address]
    keys: dict
    ca: str


def exposed_endpoint(directory: Path) -> dict[str, t.Any] | None:
    """Return what is offered by the proxy that has this directory; None if nothing is, or it cannot be read."""
    data = read_object(directory / FILE)
    return None if find_mismatches(Exposed, data) else t.cast("dict[str, t.Any]", data)


def closes(before: str, now: str) -> str:
    """Return the message of a run that closes LAN access; empty if it does not."""
    if before != "lan" or now == "lan":
        return ""
    return "LAN access is closed by this run; 'speculative_serve_expose: lan' in the inventory keeps it open."


def scope(offered: t.Mapping[str, t.Any] | None) -> str:
    """Return for whom the farthest of the addresses is: lan, docker, or local if there is none."""
    scopes = {url["scope"] for url in (offered or {}).get("urls", ())}
    return next((name for name in ("lan", "docker") if name in scopes), "local")
