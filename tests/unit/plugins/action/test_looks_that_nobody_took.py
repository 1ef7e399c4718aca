# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whoever runs one role by itself is told what it needs of a look, in a play of two hosts that nobody looked at."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

from tests.unit import plays

PLAN = "dgx_spark.speculative.deployment_plan"
SNAPSHOT = "dgx_spark.speculative.huggingface_snapshot"
TRUST = {"directory": "/d", "worker_port": 1, "copy_port": 2, "key": "/k", "streams": 1, "patience": 1}
TOLD = ("rails", "facts", "keys", "users", "pythons")
CLUSTER = {
    "is_configured": True,
    "worker_port": 1,
    "copy_port": 2,
    "findings": [],
    "clock_skew": 60,
    "allow_differences": [],
}
BACK = {"rollback_in": "/s", "docker": {}, "records": {}}
SEEN = {"seen": {"key": None}, "rails": [{"address": "10.0.0.1"}]}
# What is asked, and the beginning of what is said.
ASKED: dict[str, tuple[str, dict[str, t.Any], str]] = {
    "cluster.compare": (
        PLAN,
        {"cluster": {"compare": CLUSTER}, "from_hosts": {"facts": "look", "rails": "rails"}},
        "'hostname'. Register it with ",
    ),
    "placement.disk_space": (
        PLAN,
        {"placement": {"disk_space": {"models": {}}}},
        "'model_pair_problems'. Register it with ",
    ),
    "cluster.model_copies": (
        PLAN,
        {"cluster": {"model_copies": {"state_directory": "/s"}}, "from_hosts": {"snapshots": "view"}},
        f"'verified'. Register it with {SNAPSHOT} on",
    ),
    "cluster.keys": (
        PLAN,
        {"cluster": {"keys": TRUST}, "from_hosts": dict.fromkeys(TOLD, "look")},
        "'key'. Register it with ",
    ),
    "cluster.keys of nobody": (
        PLAN,
        {
            "cluster": {"keys": TRUST},
            "from_hosts": {**dict.fromkeys(TOLD, "seen"), "rails": "rails", "users": "ansible_facts.user_id"},
        },
        "'user_id'. Gather it with ansible.builtin.setup on each Spark",
    ),
    "node_plan.record": (
        PLAN,
        {"node_plan": {"record": BACK}, "from_hosts": {"all_records": "look.records"}},
        "'previous'. Register it with ",
    ),
    "node_plan.container": (
        PLAN,
        {"node_plan": {"container": {"scripts": "/s"}}, "from_hosts": {"specs": "brings"}},
        f"'node'. Register it with {PLAN} with node_plan.spec on ",
    ),
    "reference": (SNAPSHOT, {"from_hosts": {"reference": "view"}}, f"'repositories'. Register it with {SNAPSHOT} on "),
}


def test_it_is_said_what_is_needed_and_who_gives_it(tmp_path: Path) -> None:
    last = "{{ ansible_failed_result.msg }}"
    tasks: list[dict[str, t.Any]] = [{"name": "See", "ansible.builtin.set_fact": SEEN}]
    tasks += [
        {
            "name": name,
            "block": [{"name": name, module: arguments}],
            "rescue": [{"name": "Keep", "ansible.builtin.set_fact": {f"said_{re.sub('[ .]', '_', name)}": last}}],
        }
        for name, (module, arguments, _begin) in ASKED.items()
    ]
    every = {name: f"{{{{ said_{re.sub('[ .]', '_', name)} }}}}" for name in ASKED}
    keep = {"content": "{{ said | to_json }}", "dest": f"{tmp_path}/said.json", "mode": "0600"}
    tasks.append({"name": "Keep", "ansible.builtin.copy": keep, "vars": {"said": every}})
    play = {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": tasks}
    done = plays.run(tmp_path, play, hosts="spark-1,spark-2,")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "said.json").read_text(encoding="utf-8"))
    for name, (_module, _arguments, begin) in ASKED.items():
        assert found[name].startswith(f"{name.partition(' ')[0]} needs the variable {begin}"), found
        assert found[name].endswith("or use playbooks/serve.yml."), found
