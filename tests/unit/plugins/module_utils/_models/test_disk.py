# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the jobs that fetch and receive models have in common."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import write_whole


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = tmp_path / "models" / "receipt.json"
    write_whole(receipt, "one\n")
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _number: seen.append(receipt.read_text(encoding="utf-8")))
    write_whole(receipt, "two\n")
    assert (seen, receipt.read_text(encoding="utf-8")) == (["one\n"], "two\n")
    assert [path.name for path in receipt.parent.iterdir()] == ["receipt.json"]
