# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import os
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_files

from tests.unit import modules

SCRIPT = {"name": "serve.sh", "content": "#!/bin/bash\necho hello\n", "mode": "0755"}


def run(directory: Path, **arguments: t.Any) -> dict[str, t.Any]:
    return modules.run(deployment_files, {"directory": str(directory), "files": [SCRIPT], **arguments})


def test_everything_is_made_once(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    first = run(home, subdirectories=["state"])
    second = run(home, subdirectories=["state"])
    assert (first["changed"], second["changed"]) == (True, False)
    assert (len(first["diff"]), second["diff"]) == (3, [])
    assert first["inodes"] == second["inodes"] == {"state": (home / "state").stat().st_ino}
    assert (home / "serve.sh").read_text(encoding="utf-8") == SCRIPT["content"]
    assert [oct(path.stat().st_mode)[-4:] for path in (home, home / "state", home / "serve.sh")] == [
        "0700",
        "0755",
        "0755",
    ]


def test_directories_above_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        run(tmp_path / "share" / "state" / "images")
    finally:
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("share", "share/state")} == {0o700}


def test_a_changed_file_shows_its_difference(tmp_path: Path) -> None:
    run(tmp_path)
    second = run(tmp_path, files=[{**SCRIPT, "content": "echo bye\n"}])
    assert second["changed"]
    assert [(part["before"], part["after"]) for part in second["diff"]] == [(SCRIPT["content"], "echo bye\n")]


def test_a_changed_mode_is_a_change(tmp_path: Path) -> None:
    run(tmp_path)
    second = run(tmp_path, files=[{**SCRIPT, "mode": "0644"}])
    assert second["changed"]
    assert [(part["before"], part["after"]) for part in second["diff"]] == [("mode 0755\n", "mode 0644\n")]
    assert oct((tmp_path / "serve.sh").stat().st_mode)[-4:] == "0644"


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    result = run(tmp_path / "new", subdirectories=["state"], _ansible_check_mode=True)
    assert result["changed"]
    assert len(result["diff"]) == 3
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../x", "a/../../b", "/a", "a//b", "..", ""])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, files=[{**SCRIPT, "name": name}])
    assert result["failed"]
    assert "must stay below it" in result["msg"]


def test_a_directory_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run(tmp_path / "file" / "below")
    assert result["failed"]
    assert result["msg"].startswith(f"Writing the deployment to {tmp_path / 'file' / 'below'} failed: Not a directory")


@pytest.mark.parametrize("generation", [None, "0123456789ab"])
def test_a_full_disk_is_told_as_that_and_leaves_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation: str | None
) -> None:
    run(tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    changed = {**SCRIPT, "content": "echo bye\n"}
    result = run(tmp_path, files=[changed], **({"generation": generation} if generation else {}))
    assert result["msg"].startswith(f"Writing the deployment to {tmp_path} failed: No space left on device ({tmp_path}")
    assert result["msg"].endswith(f"make room on its disk ('df -h {tmp_path}'), then run again.")
    assert (tmp_path / "serve.sh").read_text(encoding="utf-8") == SCRIPT["content"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "serve.sh"]


def test_room_is_reserved_for_a_file_that_is_written_later(tmp_path: Path) -> None:
    run(tmp_path)
    reserved = run(tmp_path, files=[{"name": "serve.sh", "reserve": 100_000}])
    assert (reserved["changed"], reserved["diff"]) == (False, [])
    assert (tmp_path / "serve.sh").read_text(encoding="utf-8") == SCRIPT["content"]
    draft = (tmp_path / ".draft-serve.sh").stat()
    assert draft.st_blocks * 512 >= 100_000
    assert run(tmp_path, files=[{**SCRIPT, "content": "echo bye\n"}])["changed"]
    written = (tmp_path / "serve.sh").stat()
    assert (written.st_ino, written.st_size) == (draft.st_ino, 9)
    assert [path.name for path in tmp_path.iterdir()] == ["serve.sh"]


def test_space_that_the_file_does_not_need_is_freed(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, files=[{"name": "serve.sh", "reserve": 100_000}])
    assert not run(tmp_path)["changed"]
    assert [path.name for path in tmp_path.iterdir()] == ["serve.sh"]


def test_nothing_is_reserved_in_a_generation(tmp_path: Path) -> None:
    result = run(tmp_path, generation="a", files=[{"name": "serve.sh", "reserve": 10}])
    assert result["msg"] == "A generation is written whole. Give each of its files a content and no reserve."
    assert list(tmp_path.iterdir()) == []


def test_what_is_reserved_leaves_the_modes_of_directories(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir(mode=0o700)
    run(tmp_path, files=[{"name": "one/record.json", "reserve": 10}])
    assert (tmp_path / "one/.draft-record.json").stat().st_size == 10
    assert oct((tmp_path / "one").stat().st_mode)[-4:] == "0700"


def test_check_mode_reserves_nothing(tmp_path: Path) -> None:
    run(tmp_path, files=[{"name": "record.json", "reserve": 100_000}], _ansible_check_mode=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "what", "says"),
    [
        (errno.ENOSPC, "No space left on device", "make room on its disk ('df -h {}'), then run again."),
        (
            errno.EROFS,
            "Read-only file system",
            "its file system is mounted read-only ('findmnt --target {}'), and 'sudo dmesg' may say why. Mount it for "
            "writing, then run again.",
        ),
    ],
)
def test_without_room_nothing_is_reserved(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    what: str,
    says: str,
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(number, what)

    monkeypatch.setattr(os, "fsync", fail)
    result = run(tmp_path, files=[{"name": "record.json", "reserve": 100_000}])
    wrong = f"Writing the deployment to {tmp_path} failed: {what} ({tmp_path})"
    assert result["msg"] == f"{wrong}; {says.format(tmp_path)} No server was stopped."
    assert list(tmp_path.iterdir()) == []


def test_what_was_reserved_and_is_not_needed_goes(tmp_path: Path) -> None:
    (tmp_path / ".draft-previous.json").write_text(" ", encoding="utf-8")
    run(tmp_path / "one", prune=True)
    assert not (tmp_path / ".draft-previous.json").exists()


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(Path(f"/proc/self/fd/{number}").resolve().name))
    run(tmp_path)
    assert synced == [f".draft-{SCRIPT['name']}", tmp_path.name]


def test_wrong_line_endings_are_a_difference(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "serve.sh").write_bytes(SCRIPT["content"].replace("\n", "\r\n").encode())
    assert run(tmp_path)["changed"]
    assert b"\r" not in (tmp_path / "serve.sh").read_bytes()


GENERATION = {"generation": "0123456789ab", "subdirectories": ["state"]}
PROGRAM = {"name": "server/head.py", "content": "pass\n"}


def tree(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): oct(path.stat().st_mode & 0o777)[2:] for path in sorted(directory.rglob("*"))
    }


def test_a_generation_comes_into_being_as_a_whole(tmp_path: Path) -> None:
    first = run(tmp_path, files=[SCRIPT, PROGRAM], **GENERATION)
    place = "generations/0123456789ab"
    assert tree(tmp_path) == {
        **{"state": "755", "generations": "755", place: "755", f"{place}/state": "755", f"{place}/serve.sh": "755"},
        **{f"{place}/server": "755", f"{place}/server/head.py": "644"},
    }
    assert [(part["before"], part["after"]) for part in first["diff"]][-1] == ("", "serve.sh\nserver/head.py\n")
    was = (tmp_path / place / "serve.sh").stat()
    second = run(tmp_path, files=[SCRIPT, PROGRAM], **GENERATION)
    assert (first["changed"], second["changed"], second["diff"]) == (True, False, [])
    now = (tmp_path / place / "serve.sh").stat()
    assert (now.st_ino, now.st_mtime_ns) == (was.st_ino, was.st_mtime_ns)
    # Another wish is another directory.
    run(tmp_path, files=[PROGRAM], **{**GENERATION, "generation": "ba9876543210"})
    assert sorted(path.name for path in (tmp_path / "generations").iterdir()) == ["0123456789ab", "ba9876543210"]
    assert (tmp_path / place / "serve.sh").read_text(encoding="utf-8") == SCRIPT["content"]


def test_a_generation_that_somebody_has_changed_is_mended(tmp_path: Path) -> None:
    run(tmp_path, files=[SCRIPT, PROGRAM], **GENERATION)
    place = tmp_path / "generations" / "0123456789ab"
    kept = place.stat().st_ino
    (place / "serve.sh").write_text("exit 1\n", encoding="utf-8")
    mended = run(tmp_path, files=[SCRIPT, PROGRAM], **GENERATION)
    assert [(part["before"], part["after"]) for part in mended["diff"]] == [("exit 1\n", SCRIPT["content"])]
    # A container that has it mounted sees that.
    assert place.stat().st_ino == kept


def test_what_was_cut_off_is_no_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: t.Any) -> None:
        raise OSError(28, "No space left on device", "head.py")

    with monkeypatch.context() as patch:
        patch.setattr(deployment_files, "sync_directory", full)
        assert run(tmp_path, files=[SCRIPT, PROGRAM], **GENERATION)["failed"]
    assert tree(tmp_path / "generations") == {}
    assert run(tmp_path, files=[SCRIPT, PROGRAM], **GENERATION)["changed"]


def test_check_mode_tells_of_a_generation(tmp_path: Path) -> None:
    told = run(tmp_path, files=[SCRIPT], _ansible_check_mode=True, **GENERATION)
    assert told["diff"][-1]["after_header"] == str(tmp_path / "generations" / "0123456789ab")
    assert tree(tmp_path) == {}
    run(tmp_path, files=[SCRIPT], **GENERATION)
    assert not run(tmp_path, files=[SCRIPT], _ansible_check_mode=True, **GENERATION)["changed"]


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_a_generation_changes_is_told_against_the_one_that_is_recorded(tmp_path: Path, check_mode: bool) -> None:
    files = {"options.yml": "max_draft_len: 5\n", "same.yml": "same\n", "lost.yml": 3}
    (tmp_path / "record.json").write_text(json.dumps({"deployment": "single_eagle3", "files": files}))
    wanted = {"options.yml": "max_draft_len: 3\n", "same.yml": "same\n", "lost.yml": "is\n", "new.yml": "new\n"}
    given = [{"name": name, "content": content} for name, content in wanted.items()]
    told = run(tmp_path, files=given, generation="0123456789ab", _ansible_check_mode=check_mode)["diff"]
    place = str(tmp_path / "generations" / "0123456789ab")
    path = f"{place}/options.yml"
    # What was there before is not shown as new.
    names = {"before": "options.yml\nsame.yml\n", "after": "lost.yml\nnew.yml\noptions.yml\nsame.yml\n"}
    assert [one for one in told if one["before"] not in ("", "directory\n")] == [
        {"before_header": place, "after_header": place, **names},
        {"before_header": path, "after_header": path, "before": "max_draft_len: 5\n", "after": "max_draft_len: 3\n"},
    ]


def test_a_generation_that_leads_out_is_refused(tmp_path: Path) -> None:
    assert "must stay below it" in run(tmp_path, generation="../x")["msg"]


def record(state: Path, name: str, *generations: Path) -> None:
    (state / name).parent.mkdir(parents=True, exist_ok=True)
    mounts = [{"source": str(generation)} for generation in generations]
    (state / name).write_text(json.dumps({"container": {"mounts": mounts}}), encoding="utf-8")


def test_only_generations_that_a_record_names_stay(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "generations", tmp_path / "other" / "generations"
    for path in (*(one / name for name in ("own", "former", "old", ".draft-x")), other / "own", other / "old"):
        (path / "server").mkdir(parents=True)
    record(tmp_path, "previous.json", one / "former")
    record(tmp_path, "one/record.json", one / "own")
    record(tmp_path, "other/record.json", other / "own")
    (tmp_path / "one").chmod(0o700)
    arguments = {"files": [], "prune": True}
    told = run(tmp_path / "one", _ansible_check_mode=True, **arguments)
    gone = [one / ".draft-x", one / "old", other / "old"]
    assert [part["before_header"] for part in told["diff"]] == [str(path) for path in gone]
    assert all(path.exists() for path in gone)
    assert run(tmp_path / "one", **arguments)["diff"] == told["diff"]
    assert sorted(tmp_path.glob("*/generations/*")) == [one / "former", one / "own", other / "own"]
    assert not run(tmp_path / "one", **arguments)["changed"]


@pytest.mark.parametrize("damaged", ["previous.json", "one/record.json"])
def test_where_a_record_cannot_be_read_nothing_is_removed(tmp_path: Path, damaged: str) -> None:
    for name in ("one", "other"):
        (tmp_path / name / "generations" / "old").mkdir(parents=True)
    (tmp_path / damaged).write_text('{"container": {}}', encoding="utf-8")
    run(tmp_path / "other", files=[], prune=True)
    assert (tmp_path / "one" / "generations" / "old").exists()
    # Only that deployment's are in doubt.
    assert (tmp_path / "other" / "generations" / "old").exists() == (damaged == "previous.json")


def test_what_cannot_be_removed_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    old = tmp_path / "one" / "generations" / "old"
    old.mkdir(parents=True)
    monkeypatch.setattr(deployment_files, "shutil", types.SimpleNamespace(rmtree=denied))
    text = json.dumps({"container": {"mounts": []}})
    result = run(tmp_path / "one", files=[{"name": "record.json", "content": text}], prune=True)
    assert "failed" not in result
    assert f"Could not remove unused files: Permission denied ({old}). The next run tries again." in json.dumps(
        result["warnings"]
    )
    assert (tmp_path / "one" / "record.json").exists()


def test_what_a_container_has_mounted_stays(tmp_path: Path) -> None:
    generations = tmp_path / "one" / "generations"
    for name in ("mounted", "old"):
        (generations / name).mkdir(parents=True)
    run(tmp_path / "one", files=[], prune=True, mounted=[str(generations / "mounted"), "/elsewhere"])
    assert [path.name for path in generations.iterdir()] == ["mounted"]
