# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import whole


@pytest.fixture(name="disk")
def fixture_disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Return what was flushed, in order, each with the names in its directory at that moment."""
    flushed: list[tuple[str, list[str]]] = []

    def fsync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").resolve()
        place = path if path.is_dir() else path.parent
        flushed.append((path.name, sorted(child.name for child in place.iterdir())))

    monkeypatch.setattr(os, "fsync", fsync)
    return flushed


def test_content_is_flushed_before_its_name_is(tmp_path: Path, disk: list[tuple[str, list[str]]]) -> None:
    whole.write_whole(tmp_path / "record", "one")
    assert disk == [(".record.new", [".record.new"]), (tmp_path.name, ["record"])]


def test_a_private_file_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    change_mode = os.fchmod

    def noted(number: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(number).st_mode))
        change_mode(number, mode)

    monkeypatch.setattr(os, "fchmod", noted)
    before = os.umask(0)
    try:
        whole.write_whole(tmp_path / "key", "secret", 0o640)
    finally:
        os.umask(before)
    assert (modes, stat.S_IMODE((tmp_path / "key").stat().st_mode)) == ([0o600], 0o640)


def test_the_draft_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("", encoding="utf-8")
    (tmp_path / ".key.new").symlink_to(other)
    whole.write_whole(tmp_path / "key", "secret")
    assert (other.read_text(encoding="utf-8"), (tmp_path / "key").is_symlink()) == ("", False)


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.write_whole(tmp_path / "record", "old")

    def full(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        whole.write_whole(tmp_path / "record", "new")
    assert caught.value.filename == str(tmp_path)
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [("record", "old")]


def test_the_blocks_of_a_draft_are_used(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    whole.write_synced(draft, b" " * 10_000, 0o600)
    inode = draft.stat().st_ino
    whole.write_synced(draft, b"text", 0o644)
    whole.put(draft, tmp_path / "record")
    assert ((tmp_path / "record").stat().st_ino, (tmp_path / "record").read_bytes()) == (inode, b"text")


@pytest.mark.parametrize("refuses", [False, True])
def test_a_file_is_given_to_the_owner_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    given = []

    def chown(file: int, user: int, group: int) -> None:
        given.append((os.fstat(file).st_ino, user, group))
        if refuses:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", chown)
    whole.write_whole(tmp_path / "record", "text")
    written, directory = (tmp_path / "record").stat(), tmp_path.stat()
    assert given == [(written.st_ino, directory.st_uid, directory.st_gid)]
    # Only root may give files away. Another user keeps the file.
    assert (tmp_path / "record").read_text(encoding="utf-8") == "text"
