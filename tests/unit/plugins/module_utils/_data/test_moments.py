# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.moments import moment_text, unix_time


def test_a_moment_is_written_and_read_in_utc() -> None:
    assert moment_text(1763657465.9) == "2025-11-20T16:51:05Z"
    assert unix_time("2025-11-20T16:51:05.123456789Z") == 1763657465
    with pytest.raises(ValueError, match="does not match format"):
        unix_time("yesterday")
