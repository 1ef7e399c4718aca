# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import run_state


@pytest.fixture(autouse=True)
def of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_state, "directory", lambda: tmp_path / "ansible-local-1" / "lease")
    run_state.directory().mkdir(parents=True)
    return run_state.directory()
