# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one Spark of three has to know of the others."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays

ROOT = Path(__file__).parents[3]
NAMES = ("spark-1", "spark-2", "spark-3")


def play(directory: Path, tasks: list[dict[str, t.Any]], **keywords: t.Any) -> subprocess.CompletedProcess[str]:
    hosts: dict[str, dict[str, t.Any]] = {name: {} for name in NAMES}
    hosts["spark-1"]["engine_container_registry"] = {"compressed_bytes": 13}
    (directory / "hosts.yml").write_text(json.dumps({"sparks": {"hosts": hosts}}), encoding="utf-8")
    return plays.do(directory, *tasks, hosts=str(directory / "hosts.yml"), **keywords)


def test_all_know_what_the_head_was_told_of_the_image(tmp_path: Path) -> None:
    shown = {
        "ansible.builtin.debug": {
            "msg": "{{ inventory_hostname }} has {{ deployment_settings.compressed_image_bytes }}"
        }
    }
    befores = {"ansible.builtin.set_fact": {"spark_network_copy_source": "{{ before[inventory_hostname] }}"}}
    before = dict(zip(NAMES, ("", *NAMES)))
    files = [str(ROOT / "playbooks/group_vars/all.yml")]
    done = play(tmp_path, [befores, shown], vars={"before": before}, vars_files=files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name} has 13" in done.stdout for name in NAMES), done.stdout


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"nodes": NAMES}, "spark-1: the container runs and waits, because spark-3 could not be started"),
        ({"nodes": NAMES[:2]}, ""),
        ({}, ""),
    ],
)
def test_a_head_does_not_wait_for_any_that_was_not_started(tmp_path: Path, cluster: t.Any, said: str) -> None:
    labels = {"dgx_spark.speculative.rank": "{{ ansible_play_hosts_all.index(inventory_hostname) | string }}"}
    start = {"labels": labels, "record": {"cluster": {**cluster, "rails": []}}, "addresses": []}
    query = {"node_plan": {"start": {**start, "all_labels": {}}}}
    look = {"dgx_spark.speculative.deployment_plan": query, "register": "found"}
    refuse = {
        "ansible.builtin.fail": {"msg": "{{ found.missing_workers }}"},
        "when": "found.missing_workers | length > 0",
    }
    ended = {"ansible.builtin.fail": {"msg": "It does not start."}, "when": "inventory_hostname == 'spark-3'"}
    done = play(tmp_path, [ended, look, refuse])
    told = " ".join(done.stdout.split())
    assert "It does not start." in told
    assert "Unsupported" not in told
    assert (said in told) if said else ("could not be started" not in told), done.stdout + done.stderr


@pytest.mark.parametrize("entry_point", ["status", "diagnose", "logs"])
def test_sparks_are_reported_in_the_order_of_the_inventory(entry_point: str) -> None:
    """And not in that in which they are done."""
    text = (ROOT / f"roles/speculative_serve/tasks/{entry_point}.yml").read_text(encoding="utf-8")
    (task,) = (task for task in yaml.safe_load(text) if "dgx_spark.speculative.report" in task)
    assert task.get("throttle") == 1
