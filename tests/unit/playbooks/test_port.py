# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight checks the port that the server will have; a test double answers as the Docker Engine does."""

from __future__ import annotations

import socket
import typing as t

import pytest

from tests.unit.playbooks import conftest

RECIPE = {"name": "mine", "engine": "vllm", "image": "release:1", "port": 8000}


def test_the_port_of_the_deployment_is_checked(
    check: t.Callable[..., conftest.Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = {"Id": "sha256:1", "Architecture": "arm64", "Os": "linux", "Size": 1, "RepoTags": ["release:1"]}
    monkeypatch.setitem(conftest.PAGES, "/images/release:1/json", image)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # A value of one call is not taken from the command line.
        given = ("-e", "engine_container_port=9")
        inputs = {"deployment_recipe": RECIPE, "speculative_serve_port": port}
        said = check("speculative_serve", "preflight", conftest.NAME, "--check", *given, inputs=inputs)
    assert said.code != 0, said.text
    assert f"port {port} on 127.0.0.1" in said.text
    assert "speculative_serve_port" in said.text
