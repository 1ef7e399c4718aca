# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets, and how each may be spelled where it must not be found."""

from __future__ import annotations

import base64
import html
import json
import typing as t
import urllib.parse
from pathlib import Path

from tests.soak.look import text_of

# By the name of the secret: how it is spelled, and what that is.
Spelled = dict[str, dict[str, str]]


def spellings(secret: str) -> dict[str, str]:
    """Return what a secret looks like in files and messages, by the name of the spelling."""
    raw = secret.encode()
    found = {
        "plain": secret,
        "url": urllib.parse.quote(secret, safe=""),
        "json": json.dumps(secret)[1:-1],
        "html": html.escape(secret),
        "hex": raw.hex(),
        "upper-case hex": raw.hex().upper(),
        "reversed": secret[::-1],
        # Of either order of bytes, as it is read as UTF-8.
        "utf-16": "\0".join(secret),
        **in_base64(raw),
    }
    # Each once, under the first of its names.
    return {name: text for name, text in found.items() if text not in list(found.values())[: list(found).index(name)]}


def in_base64(raw: bytes) -> dict[str, str]:
    """Return the three ways in which base64 spells a part of a longer text, without what depends on its neighbours."""
    found = {}
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw + b"\0" * (-(before + len(raw)) % 3)).decode()
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        found[f"base64 ({before})"] = text[first:last]
    return found


def spelled(secrets: t.Mapping[str, str]) -> Spelled:
    return {name: spellings(secret) for name, secret in secrets.items()}


def seen(text: str, secrets: Spelled) -> list[str]:
    """Return which secrets a text shows, and in which spelling."""
    return [
        f"{name} as {spelling}" for name, ways in secrets.items() for spelling, secret in ways.items() if secret in text
    ]


def seen_in(paths: t.Iterable[Path], secrets: Spelled) -> list[str]:
    """Return which secrets these files and their names show, however large they are."""
    return [
        f"{what} in {path}"
        for path in sorted(paths)
        for what in seen(f"{path}\n{text_of(path) if path.is_file() and not path.is_symlink() else ''}", secrets)
    ]


def of_a_key(text: str) -> str:
    """Return of a private key's file the line that has the secret part: those before are public."""
    return text.strip().splitlines()[4]
