# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a server may load by default."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROLES = Path(__file__).parents[3] / "roles"
# NVIDIA's page of October 2026 on vLLM, of a new image on a DGX Station: 75 to 90 minutes of tuned kernels.
FIRST_START_S = 90 * 60


@pytest.mark.parametrize("role", ["speculative_serve", "speculative_benchmark"])
def test_a_run_waits_for_a_first_start(role: str) -> None:
    defaults = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text(encoding="utf-8"))
    assert defaults[f"{role}_ready_timeout"] > FIRST_START_S
