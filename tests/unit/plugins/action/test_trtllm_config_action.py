# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engine options are validated and rendered on the controller, with the real ansible-playbook."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from tests.unit import plays

VALID: dict[str, t.Any] = {
    "release": "1.3.0rc12",
    "method": "eagle3",
    "draft_model": "/models/head",
    "max_draft_len": 5,
    # Also from a template, whose values carry Ansible's tags.
    "options": {"max_batch_size": "{{ 1 + 1 }}", "kv_cache_config": {"free_gpu_memory_fraction": 0.9}},
}


def look(**changes: t.Any) -> dict[str, t.Any]:
    return {"dgx_spark.speculative.trtllm_config": {**VALID, **changes}}


def test_validating_asks_no_host(tmp_path: Path) -> None:
    done = plays.do(tmp_path, {**look(max_draft_len=0), "ignore_errors": True}, connection="ssh")
    assert "UNREACHABLE" not in done.stdout
    assert "max_draft_len" in done.stdout, done.stdout


def test_what_is_validated_is_rendered(tmp_path: Path) -> None:
    checked, _said = plays.registered(tmp_path, look())
    assert (checked["changed"], checked["options"]) == (False, yaml.safe_load(checked["text"]))
    assert checked["options"]["max_batch_size"] == 2
    assert [checked[key] for key in ("release", "family", "method")] == ["1.3.0rc12", "1.3", "eagle3"]


def test_a_warning_is_shown(tmp_path: Path) -> None:
    said = " ".join(plays.registered(tmp_path, look(release="1.3.0rc99"))[1].split())
    assert "[WARNING]: release: 1.3.0rc99" in said, said
