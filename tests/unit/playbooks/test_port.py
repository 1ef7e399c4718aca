# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The port that the server will have is checked; a test double answers as the Docker Engine does."""

from __future__ import annotations

import json
import socket
import typing as t
from pathlib import Path

import pytest

from tests.unit.playbooks import conftest
from tests.unit.plugins.module_utils._deployment.test_records import RECORD

IMAGE = {"Id": "sha256:1", "Architecture": "arm64", "Os": "linux", "Size": 1, "RepoTags": ["release:1"]}
RECIPE = {"name": "mine", "engine": "vllm", "image": "release:1", "port": 8000}


def test_the_port_of_the_deployment_is_checked(
    check: t.Callable[..., conftest.Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conftest.PAGES, "/images/release:1/json", IMAGE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # A value of one call is not taken from the command line.
        given = ("-e", "engine_container_port=9")
        inputs = {"deployment_recipe": RECIPE, "speculative_serve_port": port}
        said = check("speculative_serve", "preflight", conftest.NAME, "--check", *given, inputs=inputs)
    assert said.code != 0, said.text
    assert f"port {port} on 127.0.0.1" in said.text
    assert "speculative_serve_port" in said.text


def test_the_port_of_the_previous_deployment_is_checked(
    tmp_path: Path, check: t.Callable[..., conftest.Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conftest.PAGES, "/images/sha256:1/json", IMAGE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        container = {
            **RECORD["container"],
            "network": "host",
            "labels": {**RECORD["container"]["labels"], conftest.FORMAT: "1"},
        }
        record = {**RECORD, "format": 1, "models": {}, "container": container}
        (tmp_path / conftest.NAME).mkdir()
        (tmp_path / conftest.NAME / "previous.json").write_text(
            json.dumps({**record, "url": f"http://127.0.0.1:{port}"}), encoding="utf-8"
        )
        said = check("speculative_serve", "rollback", conftest.NAME, "--check")
    assert said.code != 0, said.text
    assert f"port {port} on 127.0.0.1" in said.text, said.text
