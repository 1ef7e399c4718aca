# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""What is known of models before anybody asks the Hub: the figures of playbooks/data/known_models.yml."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import yaml

# Found from a clone and installed.
PATH = Path(__file__).resolve().parent.parent.parent / "playbooks" / "data" / "known_models.yml"


@functools.cache
def known_models() -> dict[str, dict[str, t.Any]]:
    """What is known, by Hub id; nobody is to change it."""
    return t.cast("dict[str, dict[str, t.Any]]", yaml.safe_load(PATH.read_text(encoding="utf-8"))["models"])


def figures(model: str) -> dict[str, t.Any]:
    """What is known of one model; a figure that is not there is not known."""
    return known_models().get(model, {})


def download_bytes(models: t.Iterable[str]) -> tuple[int, bool]:
    """What fetching these models takes, but for the MB of their small files, and whether that is all of them."""
    sizes = [figures(model).get("weights_bytes") for model in models]
    return sum(size for size in sizes if size), None not in sizes
