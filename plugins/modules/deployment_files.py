#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_files
short_description: Write a deployment's directories and small text files in one call (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Leaves files alone that are not named, unless O(prune) is set.
  - A generation is created as a whole. Later only files that were modified are repaired.
options:
  directory: {type: path, required: true, description: "The directory of the deployment."}
  mode: {type: str, default: "0700", description: "The mode of the directory."}
  subdirectories: {type: list, elements: str, default: [], description: "Directories to create in it, mode V(0755)."}
  generation: {type: str, description: "The directory below C(generations) to which the files are written."}
  prune: {type: bool, default: false, description: "Whether to remove generations that no record or container uses."}
  mounted: {type: list, elements: path, default: [], description: "Paths that containers have mounted, which stay."}
  existing: {type: dict, default: {}, description: "The existing files. If all match, the host is not contacted."}
  files:
    type: list
    elements: dict
    default: []
    description: "The files, in the order in which they are written."
    suboptions:
      name: {type: str, required: true, description: "The path below the directory."}
      content: {type: str, description: "The whole text. Either this or O(files[].reserve) is required."}
      reserve: {type: int, description: "Bytes of disk space to reserve for a later call. Not with O(generation)."}
      mode: {type: str, default: "0644", description: "The mode."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import errno
import os
import shutil
import tempfile
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._deployment import records
from ..module_utils._spark.whole import put, sync_directory, write_synced


def outside(names: t.Iterable[str]) -> list[str]:
    """Return the names that lead out of the directory, or to itself."""
    return [name for name in names if any(part in ("", ".", "..") for part in name.split("/"))]


def draft_of(path: Path) -> Path:
    """Return the path under which a file is written before it takes the place of the one that is there."""
    return path.with_name(f"{records.DRAFT}{path.name}")


def inodes(directory: Path) -> dict[str, int]:
    """Return the inode numbers of the directories in it; empty if check mode created none."""
    if not directory.is_dir():
        return {}
    with os.scandir(directory) as result:
        return {entry.name: entry.inode() for entry in result if entry.is_dir()}


def remedy(error: OSError, directory: str) -> str:
    """Return the fix for a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make room on its disk ('df -h {directory}'), then run again."
    if error.errno == errno.EROFS:
        return (
            f"its file system is mounted read-only ('findmnt --target {directory}'), and 'sudo dmesg' may say why. "
            "Mount it for writing, then run again."
        )
    return "the directory has to belong to the login user."


class DeploymentFiles:
    """The directory as it should be."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.directory = Path(module.params["directory"])
        self.changed = False
        self.diff: list[dict[str, str]] = []

    def act(self) -> dict[str, t.Any]:
        params = self.module.params
        self.have_directory(self.directory, params["mode"])
        self.have_directories(self.directory, params["subdirectories"])
        if params["generation"]:
            self.have_generation(self.directory / records.GENERATIONS / params["generation"])
        else:
            self.have_files(self.directory)
        if params["prune"]:
            # The task itself is complete, and the next call removes the rest.
            try:
                self.prune()
            except OSError as error:
                self.module.warn(
                    f"Could not remove unused files: {error.strerror} ({error.filename}). The next run tries again."
                )
        return {"changed": self.changed, "diff": self.diff, "inodes": inodes(self.directory)}

    def have_directories(self, directory: Path, names: t.Iterable[str]) -> None:
        for name in names:
            self.have_directory(directory / name, "0755")

    def have_files(self, directory: Path) -> None:
        kept = [file for file in self.module.params["files"] if file["reserve"] is None]
        below = dict.fromkeys(str(Path(file["name"]).parent) for file in kept)
        self.have_directories(directory, (name for name in below if name != "."))
        for file in self.module.params["files"]:
            path = directory / file["name"]
            if file["reserve"] is None:
                self.have_file(path, file["content"], file["mode"])
            elif not self.module.check_mode:
                # Bytes that no file system stores as a hole.
                write_synced(draft_of(path), b" " * file["reserve"], 0o600)

    def have_generation(self, directory: Path) -> None:
        """Create a generation as a whole: an interrupted run leaves only a draft of it."""
        self.have_directories(directory.parent.parent, [directory.parent.name])
        if directory.is_dir():
            self.have_files(directory)
            return
        before = self.recorded()
        files = [file["name"] for file in self.module.params["files"]]
        self.note(directory, *("".join(f"{name}\n" for name in sorted(names)) for names in (before, files)))
        for file in self.module.params["files"]:
            if before.get(file["name"], file["content"]) != file["content"]:
                self.note(directory / file["name"], before[file["name"]], file["content"])
        if self.module.check_mode:
            return
        with tempfile.TemporaryDirectory(prefix=records.DRAFT, dir=directory.parent) as place:
            draft = Path(place) / directory.name
            draft.mkdir()
            for name in self.module.params["subdirectories"]:
                (draft / name).mkdir()
            for file in self.module.params["files"]:
                write_synced(draft / file["name"], file["content"].encode("utf-8"), int(file["mode"], 8))
            for path in (draft, *draft.rglob("*")):
                if path.is_dir():
                    path.chmod(0o755)
                    sync_directory(path)
            put(draft, directory)

    def recorded(self) -> dict[str, str]:
        """Return the recorded files of the verified generation, by name."""
        return (records.read_record(self.directory / "record.json") or {}).get("files") or {}

    def prune(self) -> None:
        # This file was reserved for the record of a previous deployment, but there was none.
        if not self.module.check_mode:
            draft_of(self.directory.parent / records.PREVIOUS).unlink(missing_ok=True)
        for path in records.unused_files(self.directory.parent, [Path(path) for path in self.module.params["mounted"]]):
            self.note(path, "directory\n", "")
            if not self.module.check_mode:
                shutil.rmtree(path)

    def have_directory(self, path: Path, mode: str) -> None:
        if not path.is_dir():
            self.note(path, "", "directory\n")
            if self.module.check_mode:
                return
            # With parents=True, mkdir would make the parents accessible to the group.
            for each in reversed([one for one in (path, *path.parents) if not one.exists()]):
                each.mkdir(mode=0o700, exist_ok=True)
            self.module.set_mode_if_different(str(path), mode, False)
        self.have_mode(path, mode)

    def have_file(self, path: Path, content: str, mode: str) -> None:
        is_new = not path.is_file()
        # Bytes are compared, since reading as text would hide wrong line endings.
        before = b"" if is_new else path.read_bytes()
        if is_new or before != content.encode("utf-8"):
            self.note(path, before.decode("utf-8", "replace"), content)
            if self.module.check_mode:
                return
            # Beside it, so that a disk without room is noticed here and not where it takes the other's place.
            draft = draft_of(path)
            write_synced(draft, content.encode("utf-8"), int(mode, 8))
            put(draft, path)
        elif not self.module.check_mode:
            # Space that was reserved for a text which is already there, as after a rollback.
            draft_of(path).unlink(missing_ok=True)
        self.have_mode(path, mode)

    def have_mode(self, path: Path, mode: str) -> None:
        before = f"mode {path.stat().st_mode & 0o7777:04o}\n"
        if self.module.set_mode_if_different(str(path), mode, False):
            self.note(path, before, f"mode {mode}\n")

    def note(self, path: Path, before: str, after: str) -> None:
        self.changed = True
        self.diff.append({"before_header": str(path), "after_header": str(path), "before": before, "after": after})


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "mode": {"type": "str", "default": "0700"},
            "subdirectories": {"type": "list", "elements": "str", "default": []},
            "generation": {"type": "str"},
            "prune": {"type": "bool", "default": False},
            "mounted": {"type": "list", "elements": "path", "default": []},
            # For the action, which need not call where all is there.
            "existing": {"type": "dict", "default": {}},
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "content": {"type": "str"},
                    "reserve": {"type": "int"},
                    "mode": {"type": "str", "default": "0644"},
                },
                "required_one_of": [("content", "reserve")],
                "mutually_exclusive": [("content", "reserve")],
            },
        },
        supports_check_mode=True,
    )
    names = [*module.params["subdirectories"], *(file["name"] for file in module.params["files"])]
    wrong = outside([*names, module.params["generation"] or "generation"])
    if wrong:
        module.fail_json(msg=f"Names in {module.params['directory']} must stay below it: {', '.join(wrong)}")
    if module.params["generation"] and any(file["content"] is None for file in module.params["files"]):
        module.fail_json(msg="A generation is written whole. Give each of its files a content and no reserve.")
    try:
        module.exit_json(**DeploymentFiles(module).act())
    except OSError as error:
        module.fail_json(
            msg=f"Writing the deployment to {module.params['directory']} failed: {error.strerror} ({error.filename}); "
            + remedy(error, module.params["directory"])
            + (" No server was stopped." if any(file["reserve"] for file in module.params["files"]) else "")
        )


if __name__ == "__main__":
    main()
