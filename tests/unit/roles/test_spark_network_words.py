# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role says of a systemd unit about which nothing could be done."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays

ROLE = Path(__file__).parents[3] / "roles/spark_network"


@pytest.fixture(name="evaluated", scope="module")
def fixture_evaluated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    """Every case of the table below, by Ansible itself and at once."""
    directory = tmp_path_factory.mktemp("words")
    cases: dict[str, t.Any] = {
        f"{case[0]} {n}": ({"failed_result": case[1]}, case[0]) for n, case in enumerate(FAILURES)
    }
    unit = yaml.safe_load((ROLE / "tasks/unit.yml").read_text(encoding="utf-8"))[0]["rescue"][0]
    tasks = [
        {
            "name": name,
            "ansible.builtin.set_fact": {"found": "{{ found | default({}) | combine({name: value}) }}"},
            "vars": {
                **{f"__spark_network_{key}": value for key, value in given.items()},
                **({"ansible_failed_result": given["failed_result"]} if given.get("failed_result") else {}),
                "__spark_network_unit": UNITS[which],
                "__spark_network_said": unit["ansible.builtin.fail"]["msg"],
                "name": name,
                "value": "{{ __spark_network_said }}",
            },
        }
        for name, (given, which) in cases.items()
    ]
    keep = {"content": "{{ found | to_json }}", "dest": str(directory / "found.json"), "mode": "0600"}
    play = {
        "name": "Play",
        "hosts": "spark-1",
        "gather_facts": False,
        "tasks": [*tasks, {"name": "Keep", "ansible.builtin.copy": keep}],
    }
    done = plays.run(directory, play)
    assert done.returncode == 0, done.stdout + done.stderr
    return t.cast("dict[str, t.Any]", json.loads((directory / "found.json").read_text(encoding="utf-8")))


UNITS = {
    "nic": {"title": "NIC watcher", "input": "spark_network_start_on_nic"},
    "filter": {"title": "fabric filter", "input": "spark_network_close_fabric"},
}
SUDO = {"failed": True, "msg": "sudo: a password is required."}
FAILURES: list[tuple[str, dict[str, t.Any] | None, str]] = [
    (
        "nic",
        SUDO,
        "spark-1: could not install the NIC watcher (sudo: a password is required). Run again with -K (sudo password), "
        "or set spark_network_start_on_nic to false.",
    ),
    (
        "filter",
        SUDO,
        "spark-1: could not install the fabric filter (sudo: a password is required). Run again with -K (sudo "
        "password), or set spark_network_close_fabric to false.",
    ),
    (
        "nic",
        None,
        "spark-1: the NIC watcher may be incomplete, because the installation failed on another Spark. Run again.",
    ),
]


@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_why_it_failed_and_on_which_spark(evaluated: dict[str, t.Any], number: int) -> None:
    which, _result, said = FAILURES[number]
    assert evaluated[f"{which} {number}"] == said
