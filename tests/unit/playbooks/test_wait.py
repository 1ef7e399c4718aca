# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What start.yml says of a server that ends while it loads."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.unit import plays

URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(("state", "starts_again"), [("restarting", True), ("failed", False)])
def test_whether_the_server_is_started_again_is_said(tmp_path: Path, state: str, starts_again: bool) -> None:
    now = time.time()
    ended = {"code": 1, "signal": None, "reason": "no memory", "at": now}
    (tmp_path / "state").mkdir()
    (tmp_path / "state/state.json").write_text(json.dumps({"state": state, "since": now, "last_exit": ended}))
    known = {
        "__speculative_serve_facts": {
            "docker": {"slot": {"labels": {"dgx_spark.speculative.url": URL}}},
            "records": {"slot_directory": str(tmp_path)},
        },
        "__speculative_serve_start": {"has_api": True, "ssh_address": "", "missing_workers": "", "worker_timeout": 0},
    }
    include = {"name": "dgx_spark.speculative.speculative_serve", "tasks_from": "wait"}
    play = {"name": "Play", "hosts": "all", "gather_facts": False, "vars": known}
    done = plays.run(tmp_path, {**play, "tasks": [{"name": "Wait", "ansible.builtin.include_role": include}]})
    said = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert "The server ended with exit code 1" in said
    assert ("It is being started again." in said) is starts_again
