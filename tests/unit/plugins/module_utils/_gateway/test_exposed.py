# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.exposed import (
    FILE,
    closes,
    exposed_endpoint,
    scope,
)

DOCKER = {"scope": "docker", "url": "http://172.17.0.1:8000"}
LAN = {"scope": "lan", "url": "https://spark-1.local:8443"}


@pytest.mark.parametrize(("urls", "expected"), [([], "local"), ([DOCKER], "docker"), ([DOCKER, LAN], "lan")])
def test_for_whom_the_proxy_is(tmp_path: Path, urls: list[dict[str, str]], expected: str) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    offered = {"urls": urls, "keys": {"default": "/proxy/keys/default"}, "ca": ""}
    path.write_text(json.dumps(offered), encoding="utf-8")
    assert exposed_endpoint(tmp_path) == offered
    assert scope(exposed_endpoint(tmp_path)) == expected


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"urls": "none"}', '{"urls": [{}], "keys": {}, "ca": ""}'])
def test_what_cannot_be_read_offers_nothing(tmp_path: Path, text: t.Any) -> None:
    if text is not None:
        (tmp_path / FILE).parent.mkdir()
        (tmp_path / FILE).write_text(text, encoding="utf-8")
    assert exposed_endpoint(tmp_path) is None
    assert scope(exposed_endpoint(tmp_path)) == "local"


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [("lan", "local", True), ("lan", "docker", True), ("lan", "lan", False), ("docker", "local", False)],
)
def test_who_loses_access_is_told_and_how_to_keep_it(before: str, now: str, told: bool) -> None:
    text = closes(before, now)
    assert bool(text) is told
    assert not told or "speculative_serve_expose: lan" in text
