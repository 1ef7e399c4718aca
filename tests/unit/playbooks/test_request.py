# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked for is judged before any Spark is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("playbook", "variables", "words"),
    [
        ("request", {"previous": "true", "recipe": "single_eagle3"}, "Leave one of them out."),
        (
            "request",
            {"previous": "true", "variant": "qa"},
            "but variant=qa selects another one. Leave one of them out.",
        ),
        (
            "single_eagle3",
            {"variant": "quick"},
            "Recipe 'single_eagle3' has no variant 'quick'. It has page, qa. Nothing was changed.",
        ),
        (
            "single_eagle3",
            {"recipe": "single_qwen3_30b"},
            "recipe is 'single_qwen3_30b', but this playbook serves only 'single_eagle3'.",
        ),
        ("check_recipe", {"recipe": "single_eagl3"}, "did you mean 'single_eagle3'?"),
        ("check_recipe", {"recipe": "single_eagle3", "variant": "qa"}, None),
        ("request", {"speculation": "maybe"}, "speculation is 'maybe', but must be true or false"),
        ("request", {"speculatoin": "off"}, "speculatoin is not known; did you mean 'speculation'?"),
        ("request", {"previous": "true"}, None),
        # On the controller nobody becomes anybody.
        ("request", {"previous": "true", "ansible_become": "true"}, None),
        ("request", {"verify": "true", "wait_minutes": "3", "previous": "true"}, None),
    ],
)
def test_one_thing_at_a_time(playbook: str, variables: dict[str, str], words: str | None) -> None:
    given = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", f"playbooks/{playbook}.yml", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (words is None), done.stdout
    assert words is None or words in " ".join(done.stdout.split())
