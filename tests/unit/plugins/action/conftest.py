# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.plugins.action import ActionBase


@pytest.fixture(autouse=True)
def nothing_of_ansibles_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action that is called by its test has no task of a play."""
    monkeypatch.setattr(ActionBase, "run", lambda *_a, **_k: {})
