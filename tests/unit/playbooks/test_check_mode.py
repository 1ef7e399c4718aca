# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said in check mode of a server that goes on; a test double answers as the Docker Engine does."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.unit.playbooks.conftest import NAME, SERVES, Said

ROOT = Path(__file__).parents[3]


def test_a_server_that_goes_on_was_not_stopped(check: t.Callable[..., Said]) -> None:
    said = check("speculative_serve", "stop", NAME, "--check")
    assert said.code == 0, said.text
    assert "Would be stopped." in said.text
    assert "Stopped." not in said.text


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_a_server_that_is_stopped_is_not_stopped_again(
    check: t.Callable[..., Said], arguments: tuple[str, ...]
) -> None:
    stopped = {
        "State": {**SERVES["State"], "Status": "exited", "Running": False},
        "HostConfig": {**SERVES["HostConfig"], "RestartPolicy": {"Name": "no"}},
    }
    said = check("speculative_serve", "stop", NAME, *arguments, container=stopped)
    assert said.code == 0, said.text
    assert "spark-1: Already stopped." in said.text
    assert "changed=0" in said.text
    assert "Memory available" not in said.text


def test_who_removes_a_server_is_not_told_how_to_start_it_again(check: t.Callable[..., Said]) -> None:
    assert "start.yml" not in check("speculative_serve", "stop").text
    assert "until you run start.yml" in (ROOT / "playbooks/stop.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "changed"), [(f"{NAME}-standby", 1), (NAME, 0)])
def test_a_switch_that_would_be_finished_is_a_change(check: t.Callable[..., Said], name: str, changed: int) -> None:
    said = check("engine_container", "finalize", name, "--check")
    assert said.code == 0, said.text
    assert f"changed={changed}" in said.text
    # Who only looks in a run that may change something, as preflight.yml does, changes nothing.
    assert "changed=0" in check("engine_container", "finalize", name, check_mode=True).text


def test_what_was_put_aside_would_be_started_by_who_finishes_the_switch(check: t.Callable[..., Said]) -> None:
    said = check("speculative_serve", "start", f"{NAME}-standby", "--check")
    assert said.code == 0, said.text
    assert "changed=1" in said.text
    said = check("speculative_serve", "start", NAME, "--check")
    assert "changed=1" in said.text
    assert "mine would serve at http://127.0.0.1:8000" in said.text
    # Only a head has the API.
    labels = {"dgx_spark.speculative.rank": "1"}
    assert "would serve" not in check("speculative_serve", "start", NAME, "--check", labels=labels).text


def test_what_serves_would_not_serve_but_does(check: t.Callable[..., Said]) -> None:
    said = check("speculative_serve", "start", "as-it-is", "--check", inputs={"engine_container_name": "as-it-is"})
    assert "changed=0" in said.text
    assert "mine serves at http://127.0.0.1:8000" in said.text
