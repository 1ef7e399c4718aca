# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is started when the network card comes, with doubles of Docker and systemd."""

from __future__ import annotations

import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.hotplug import STARTER

from tests.unit.waiting import WITHIN_S

FILES = Path(__file__).parents[3] / "roles/spark_network/files"
LATE = 'error gathering device information while adding custom device "/dev/infiniband": no such file or directory'
OURS = "a1b2"
# Says what each container is, until it is started; starting one may bring a device, or take all away.
DOCKER = """#!/bin/sh
echo "$@" >>"$ROOT/calls"
case "$1" in
    ps) cut -d' ' -f1 "$ROOT/containers" ;;
    inspect) cat "$ROOT/containers" ;;
    start) [ -n "${STAYS:-}" ] || sed -i "/^$2 /d" "$ROOT/containers"; eval "${THEN:-:}" ;;
esac
"""
SYSTEMCTL = """#!/bin/sh
echo x >>"$ROOT/asked"
[ "$(wc -l <"$ROOT/asked")" -gt "${BOOTS:-0}" ] && echo "${DOCKER_IS:-active}" || echo activating
"""
Run = t.Callable[..., list[str]]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Run:
    """Run it with these containers and devices; what Docker was asked to start."""
    programs, devices = tmp_path / "programs", tmp_path / "infiniband"
    for directory in (programs, devices):
        directory.mkdir()
    for name, text in (("docker", DOCKER), ("systemctl", SYSTEMCTL)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)

    def run(*containers: str, nodes: t.Sequence[str] = ("uverbs0",), **environment: str) -> list[str]:
        (tmp_path / "containers").write_text("".join(f"{one}\n" for one in containers), encoding="utf-8")
        (tmp_path / "calls").touch()
        for node in ("rdma_cm", *nodes):
            (devices / node).touch()
        done = subprocess.run(
            ["/bin/sh", str(FILES / "start_on_nic.sh"), str(devices), "0.05"],
            env={"PATH": f"{programs}:{os.environ['PATH']}", "ROOT": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=True,
        )
        assert done.stderr == ""
        calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
        return [call.removeprefix("start ") for call in calls if call.startswith("start ")]

    return run


# As it serves, and put aside for its successor.
@pytest.mark.parametrize("policy", ["unless-stopped", "always"])
def test_what_docker_could_not_start_is_started_once(run: Run, policy: str) -> None:
    assert run(f"{OURS} {policy} {LATE}") == [OURS]


@pytest.mark.parametrize(
    "container",
    [
        f"{OURS} no {LATE}",
        f"{OURS} unless-stopped ",
        f"{OURS} unless-stopped driver failed programming external connectivity",
        f'{OURS} unless-stopped error gathering device information while adding custom device "/dev/video0": none',
    ],
    ids=["stop.yml", "docker stop", "another error", "another device"],
)
def test_anything_else_stays_as_it_is(run: Run, container: str) -> None:
    assert run(container) == []


def test_without_a_device_nothing_is_tried(run: Run) -> None:
    assert run(f"{OURS} unless-stopped {LATE}", nodes=()) == []


def test_docker_is_waited_for_while_it_starts(run: Run) -> None:
    assert run(f"{OURS} unless-stopped {LATE}", BOOTS="1") == [OURS]


def test_docker_that_was_switched_off_is_left_alone(run: Run, tmp_path: Path) -> None:
    assert run(f"{OURS} unless-stopped {LATE}", DOCKER_IS="inactive") == []
    assert (tmp_path / "calls").read_text(encoding="utf-8") == ""


def test_it_gives_up_when_nothing_has_changed(run: Run) -> None:
    assert run(f"{OURS} unless-stopped {LATE}", STAYS="1") == [OURS]


def test_a_device_that_comes_meanwhile_has_it_tried_again(run: Run) -> None:
    assert run(f"{OURS} unless-stopped {LATE}", STAYS="1", THEN='touch "$ROOT/infiniband/uverbs1"') == [OURS, OURS]


def test_the_card_that_leaves_again_ends_it(run: Run) -> None:
    assert run(f"{OURS} unless-stopped {LATE}", STAYS="1", THEN='rm "$ROOT/infiniband/"uverbs*') == [OURS]


def test_the_unit_runs_what_is_installed_and_has_no_limit() -> None:
    place, service, path = STARTER
    text = (FILES / STARTER[service]).read_text(encoding="utf-8")
    assert f"ExecStart=/bin/sh {place}\n" in text
    assert "StartLimitIntervalSec=0" in text
    # A path unit starts the service of its own name.
    assert service.removesuffix(".service") == path.removesuffix(".path")
