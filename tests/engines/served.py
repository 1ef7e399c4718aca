# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name a server that clients are tried with, and what a client needs for it."""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t
import urllib.request
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Served:
    """Address, key and model of a server; the CA of its certificate and the schema of its routes if it has them."""

    url: str
    key: str
    model: str
    ca: Path | None = None
    schema: dict[str, t.Any] | None = None

    def openapi(self) -> dict[str, t.Any]:
        """Return the schema of its routes."""
        if self.schema is not None:
            return self.schema
        with urllib.request.urlopen(f"{self.url}/openapi.json", timeout=60) as answer:
            result: dict[str, t.Any] = json.load(answer)
        return result

    def environment(self, home: Path) -> dict[str, str]:
        """Return the environment of a client: its files are in a directory of its own, and it asks no other server."""
        own = {"HOME": str(home), "LLM_USER_PATH": str(home), "NO_PROXY": "127.0.0.1"}
        ca = {} if self.ca is None else {"SSL_CERT_FILE": str(self.ca)}
        # No list of prices from the internet.
        return {"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True", **own, **ca}
