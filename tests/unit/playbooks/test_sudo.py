# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever needs sudo is asked for it before anything is downloaded: its password may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Which files become root, each with the file of the look that asks for sudo before, and with what that includes.
ASKED = {
    "speculative_serve/tasks/drop_caches.yml": ("speculative_serve/tasks/plan.yml", "drop_caches.yml"),
    "speculative_serve/tasks/protect_ssh.yml": ("speculative_serve/tasks/preflight.yml", "protect_ssh.yml"),
    "engine_container/tasks/firewall.yml": ("engine_container/tasks/preflight.yml", "firewall.yml"),
    "huggingface_cache/tasks/fix_ownership.yml": ("huggingface_cache/tasks/preflight.yml", "fix_ownership.yml"),
}
# These run before anything is downloaded: how Docker is reached is the first part of the look, and the network is the
# first step of a run.
EARLY = {"docker_permissions", "spark_network"}


def becoming() -> set[str]:
    files = (ROOT / "roles").glob("*/tasks/*.yml")
    return {
        path.relative_to(ROOT / "roles").as_posix()
        for path in files
        if "become: true" in path.read_text(encoding="utf-8") and path.parts[-3] not in EARLY
    }


def test_each_is_asked_before() -> None:
    assert becoming() == set(ASKED)


@pytest.mark.parametrize(("asking", "included"), ASKED.values(), ids=list(ASKED))
def test_the_look_asks(asking: str, included: str) -> None:
    text = (ROOT / "roles" / asking).read_text(encoding="utf-8")
    assert f"include_tasks: {included}" in text or f"file: {included}" in text


def test_the_network_comes_first() -> None:
    steps = (ROOT / "playbooks/tasks/deploy.yml").read_text(encoding="utf-8")
    assert 0 < steps.index("role: spark_network, tasks: main") < steps.index("role: engine_container, tasks: image")
