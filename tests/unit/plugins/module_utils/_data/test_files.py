# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that may be missing or damaged."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.files import (
    read_object,
    read_text,
    read_value,
)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert (read_text(path), read_value(path), read_object(path)) == (None, None, None)


def test_a_text_and_a_value(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"up\xff\n")
    assert (read_text(path), read_value(path)) == ("up\ufffd\n", "up\ufffd")


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b'{"a": 1}', {"a": 1}), (b"[1]", None), (b'{"a": ', None), (b"\xff", None), (b"[" * 100_000, None)],
    ids=["object", "list", "cut", "no text", "too deep"],
)
def test_an_object(tmp_path: Path, content: bytes, expected: dict[str, t.Any] | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read_object(path) == expected
