# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that may be missing or damaged."""

from __future__ import annotations

import fcntl
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.files import (
    locked_directory,
    nearest_existing,
    read_object,
    read_tail,
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


def test_the_nearest_directory_of_a_path_follows_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk/cache")
    assert nearest_existing(tmp_path / "link/hub") == tmp_path / "disk"
    assert nearest_existing(tmp_path) == tmp_path


def test_a_directory_is_locked_once(tmp_path: Path) -> None:
    with locked_directory(tmp_path):
        descriptor = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_a_tail_has_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    assert (read_tail(path, 8), read_tail(path)) == ("three\n", "one\ntwo\nthree\n")
    assert read_tail(tmp_path / "none") == ""
