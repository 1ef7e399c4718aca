# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The evidence comes to the controller, and stays nowhere else."""

from __future__ import annotations

import tarfile
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.dgx_spark.speculative.plugins.action import deployment_diagnosis
from ansible_collections.dgx_spark.speculative.plugins.action.deployment_diagnosis import bundle_path

from tests.unit import actions, plays


@pytest.mark.parametrize(
    ("where", "hosts", "expected"),
    [
        ("report.tar.gz", ["spark-1"], "{here}/report.tar.gz"),
        ("/there/report.tar.gz", ["spark-1"], "/there/report.tar.gz"),
        ("~/report.tgz", ["spark-1", "spark-2"], "/home/me/report-spark-1.tar.gz"),
        ("report", ["spark-1", "spark-2"], "{here}/report-spark-1.tar.gz"),
    ],
)
def test_where_it_goes(
    where: str, hosts: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    # A program that changes its directory may leave another one there.
    monkeypatch.setenv("PWD", "/there")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(bundle_path(where, "spark-1", hosts)) == expected.format(here=tmp_path)


def play(directory: Path, *arguments: str, **options: t.Any) -> dict[str, t.Any]:
    (directory / "home").mkdir(exist_ok=True)
    asked = {"state_directory": str(directory / "state"), "socket": str(directory / "none"), "probe": False, **options}
    task = {"dgx_spark.speculative.deployment_diagnosis": asked}
    return plays.registered(directory, task, *arguments, HOME=str(directory / "home"))[0]


def test_the_host_does_not_keep_it(tmp_path: Path) -> None:
    found = play(tmp_path, fetch_to="out/report.tar.gz")
    path = tmp_path / "out/report.tar.gz"
    assert (found["bundle"], path.stat().st_mode & 0o777) == (str(path), 0o600)
    assert found["lines"][-1] == f"  The evidence is in {path}; look through it before you give it away."
    with tarfile.open(path) as archive:
        assert archive.getnames()
    assert list((tmp_path / "home").glob("*.tar.gz")) == list((tmp_path / "home").glob(".*.tar.gz")) == []


def test_in_check_mode_there_is_none(tmp_path: Path) -> None:
    found = play(tmp_path, "--check", fetch_to="report.tar.gz")
    assert (found["bundle"], (tmp_path / "report.tar.gz").exists()) == (None, False)
    assert "evidence" not in found["lines"][-1]


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"verdict": "problem", "lines": ["No memory.", "Stop something."]}, ["\nNo memory.\nStop something.\n"]),
        (
            {
                "verdict": "problem",
                "lines": [
                    "problem found",
                    "  cause        It failed",
                    "  evidence     the message: spark-1: It failed.",
                    "  more         docs/troubleshooting.md#memory",
                ],
            },
            ["\nAbout the failure below:\n  more         docs/troubleshooting.md#memory\n"],
        ),
        ({"verdict": "problem", "lines": ["problem found", "  cause        It failed"]}, []),
        ({"verdict": "unknown", "lines": ["Nothing is known."]}, []),
        ({"failed": True, "msg": "no Python"}, []),
        (None, []),
    ],
)
def test_a_run_that_failed_ends_with_its_own_message(
    found: dict[str, t.Any] | None, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*_: t.Any) -> t.Any:
        if found is None:
            raise AnsibleConnectionFailure("lost")
        return found

    said: list[str] = []
    monkeypatch.setattr(deployment_diagnosis.display, "display", said.append)
    action = actions.made(
        deployment_diagnosis, {"always_fail": "true", "failure_message": "spark-1: It failed."}, answer
    )
    assert action.run() == {"failed": True, "changed": False, "msg": "spark-1: It failed."}
    assert said == shown
