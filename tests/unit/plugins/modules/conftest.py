# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.module_utils import _internal
from ansible.module_utils.common import warnings


@pytest.fixture(autouse=True)
def a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module runs alone on a host; here it shares a process with other modules, and with tests of controller code."""
    monkeypatch.setattr(_internal, "is_controller", False)
    warnings._global_warnings.clear()
    warnings._global_deprecations.clear()
