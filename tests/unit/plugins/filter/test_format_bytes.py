# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.filter.format_bytes import amount


@pytest.mark.parametrize(
    ("count", "words"),
    [(65_248_815_744, "65.2 GB"), ("130000000000", "130 GB"), (431e6, "431 MB"), (12_000, "12 kB"), (0, "0 bytes")],
)
def test_amounts(count: t.Any, words: str) -> None:
    assert amount(count) == words


@pytest.mark.parametrize("count", [None, "many", []])
def test_what_is_no_number(count: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="needs a number of bytes"):
        amount(count)
