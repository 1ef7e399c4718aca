# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role keeps of a benchmark whose speeds cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit import benchmark_results as measured
from tests.unit import plays
from tests.unit.plugins.action.test_benchmark_report import WHAT


def test_nothing_is_chosen_and_the_next_run_measures_again(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(measured.results(measured.Truth(draft_ms=-2.0), (0, 1))))
    (tmp_path / "points").mkdir()
    variables = {
        "__speculative_benchmark_file": {"content": "{{ lookup('file', 'results.json') | b64encode }}"},
        "__speculative_benchmark_facts": {
            "machine": WHAT["machine"],
            "records": {"slot_directory": str(tmp_path), "present": {**WHAT["record"], "container": {"labels": {}}}},
        },
        "__speculative_benchmark_plan": {
            **WHAT["plan"],
            "recipe": {"name": "single_eagle3", "method": "eagle3"},
            "path": "recipe.yml",
            "speculative_config": {},
            "task": {"results": str(tmp_path)},
        },
        "speculative_benchmark_apply": True,
        "speculative_benchmark_html_path": "report.html",
        "speculative_benchmark_json_path": "report.json",
    }
    role = {"name": "dgx_spark.speculative.speculative_benchmark", "tasks_from": "report"}
    report = {"name": "Report", "ansible.builtin.include_role": role}
    done = plays.run(tmp_path, {"gather_facts": False, "vars": variables, "tasks": [report]})
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no draft length was chosen, because the Spark was not idle" in " ".join(done.stdout.split())
    verdict = json.loads((tmp_path / "report.json").read_text())["verdict"]
    assert json.loads((tmp_path / "verdict.json").read_text())["sentence"] == verdict["sentence"]
    assert not (tmp_path / "benchmark.json").exists()
    assert not (tmp_path / "points").exists()
