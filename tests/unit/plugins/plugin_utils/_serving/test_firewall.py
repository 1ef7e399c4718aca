# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.firewall import rules

FORWARD = {"chain": "DOCKER-USER", "port": None}


def test_nothing_is_open_and_nothing_was() -> None:
    assert rules("host", [], []) == []
    assert rules("bridge", [], []) == []
    assert rules("bridge", ["127.0.0.1:53:53/udp"], []) == []


def test_what_is_published_is_let_in() -> None:
    wanted = [{"chain": "INPUT", "port": 8000, "state": "present"}, {**FORWARD, "state": "present"}]
    assert rules("bridge", ["127.0.0.1:8000:8000"], []) == wanted
    assert rules("bridge", ["127.0.0.1:8000:8000"], ["0.0.0.0:8000:80/tcp"]) == wanted


def test_what_nothing_needs_any_more_goes_last() -> None:
    assert rules("bridge", ["8000:8000"], ["9000:8000", "8000:8000"]) == [
        {"chain": "INPUT", "port": 8000, "state": "present"},
        {**FORWARD, "state": "present"},
        {"chain": "INPUT", "port": 9000, "state": "absent"},
    ]
    # In the host's network nothing is published, though the ports are still told.
    assert rules("host", ["8000:8000"], ["8000:8000"]) == [
        {"chain": "INPUT", "port": 8000, "state": "absent"},
        {**FORWARD, "state": "absent"},
    ]


@pytest.mark.parametrize(("published", "former"), [(["8000"], []), ([], ["8000"])])
def test_a_port_that_docker_would_not_take(published: list[str], former: list[str]) -> None:
    with pytest.raises(ValueError, match="The published port '8000' is not understood; write it as in 127"):
        rules("bridge", published, former)
