# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that writes on a Spark writes as module_utils/_spark/whole.py does, so that a power cut leaves no half file."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WHOLE = "plugins/module_utils/_spark/whole.py"
PYTHON = (
    "plugins/modules/*.py",
    "plugins/module_utils/**/*.py",
    "plugins/plugin_utils/_jobs/*.py",
    "roles/*/files/**/*.py",
)
TASKS = ("roles/*/tasks/**/*.yml", "playbooks/**/*.yml")

RUNNING = (
    "It describes a running server, which must not wait for the disk; each start of the container writes it again."
)
LOG = "A log. A power cut costs its last lines."
LOCK = "A lock file without content."
TEMPORARY = "Nothing reads it after the process that wrote it."
LINK = "A link has no content."
SERVER = "roles/speculative_serve/files/server"

# By file and function, why it need not write so.
EXCEPTIONS = {
    ("plugins/module_utils/_fabric/change.py", "_generate"): TEMPORARY,
    ("plugins/module_utils/_fabric/change.py", "locked"): LOCK,
    ("plugins/module_utils/_field/link.py", "read"): TEMPORARY,
    ("plugins/module_utils/_models/disk.py", "link_to_blob"): LINK,
    ("plugins/module_utils/_models/disk.py", "lock_if_free"): LOCK,
    ("plugins/module_utils/_spark/detached.py", "_run"): "It opens /dev/null.",
    ("plugins/module_utils/_spark/watched_job.py", "locked"): LOCK,
    ("plugins/module_utils/_spark/watched_job.py", "supervise"): LOG,
    ("plugins/module_utils/_spark/watched_job.py", "write_private"): "A full disk has no room for a second file.",
    ("plugins/plugin_utils/_jobs/build_image.py", "context"): "An archive in memory.",
    ("plugins/plugin_utils/_jobs/incoming.py", "append"): "An incomplete file, flushed before it gets its name.",
    ("plugins/plugin_utils/_jobs/incoming.py", "locked"): LOCK,
    ("plugins/plugin_utils/_jobs/sweep.py", "make_room"): TEMPORARY,
    ("roles/speculative_serve/files/option_check/vllm.py", "parse"): TEMPORARY,
    (f"{SERVER}/cluster.py", "write_private"): "In the container's own layer, written by each start.",
    (f"{SERVER}/launchers/mpi/login.py", "note"): LOG,
    (f"{SERVER}/ranks.py", "link_model"): LINK,
    (f"{SERVER}/ranks.py", "write_report"): RUNNING,
    (f"{SERVER}/sampler.py", "begin"): LOG,
    (f"{SERVER}/sampler.py", "put_aside"): LOG,
    (f"{SERVER}/state.py", "note"): RUNNING,
    (f"{SERVER}/state.py", "rotate"): LOG,
    (f"{SERVER}/state.py", "write"): LOG,
    (f"{SERVER}/state.py", "write_over"): RUNNING,
    (f"{SERVER}/supervisor.py", "keep_evidence"): LOG,
}
TASK_EXCEPTIONS = {
    ("roles/huggingface_cache/tasks/tiktoken.yml", "ansible.builtin.get_url"): "Each run compares the checksum.",
    (
        "roles/spark_network/tasks/ssh_keys.yml",
        "community.crypto.openssh_keypair",
    ): "An incomplete key is created again.",
    ("roles/spark_network/tasks/unit.yml", "ansible.builtin.command"): "It moves an empty marker.",
    ("roles/speculative_serve/tasks/drop_caches.yml", "ansible.builtin.command"): "It writes to the kernel.",
    ("roles/speculative_serve/tasks/recover.yml", "ansible.builtin.copy"): LOG,
}

# Of Path or os, by name; they change what a name leads to, or make a file.
CHANGES = {"write_text", "write_bytes", "rename", "symlink_to", "hardlink_to", "touch", "mkstemp", "atomic_move"}
CHANGES |= {"NamedTemporaryFile"}
WRITING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}
MODULES = {"assemble", "blockinfile", "copy", "get_url", "ini_file", "lineinfile", "replace", "template", "unarchive"}
MODULES |= {"openssh_keypair", "authorized_key", "cron", "known_hosts"}
SHELL = re.compile(r"(?<![<&0-9])>(?!&|/dev/null)|\bmv\b|\btee\b")


def opens_for_writing(call: ast.Call) -> bool:
    """Return whether a call of open has a mode with which it writes."""
    texts = [
        arg.value
        for arg in (*call.args, *(k.value for k in call.keywords if k.arg == "mode"))
        if isinstance(arg, ast.Constant)
    ]
    return any(
        isinstance(text, str) and re.fullmatch(r"[rwaxbt+]+", text) and set(text) & set("wax+") for text in texts
    )


def writes(call: ast.Call) -> bool:
    """Return whether a call writes a file, or gives it its name."""
    name = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
    of = call.func.value.id if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) else ""
    if name == "replace":
        # A string's has two arguments, and that of dataclasses has names.
        return of == "os" or (of != "dataclasses" and len(call.args) == 1 and not call.keywords)
    if name == "open" and of == "os":
        return any(isinstance(node, ast.Attribute) and node.attr in WRITING for node in ast.walk(call))
    if name in ("open", "fdopen"):
        return opens_for_writing(call)
    return name in CHANGES or (of == "shutil" and name.startswith(("copy", "move"))) or (of == "os" and "link" in name)


def places(source: str) -> set[str]:
    """Return the functions that write a file."""
    result = set()

    def look(node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, ast.Call) and writes(node):
            result.add(function)
        for child in ast.iter_child_nodes(node):
            look(child, function)

    look(ast.parse(source), "")
    return result


def tasks(node: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield every mapping of a YAML file, tasks among them."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from tasks(child)


def task_writes(task: t.Mapping[str, t.Any]) -> set[str]:
    """Return the modules of a task that write a file on a Spark beside deployment_files."""
    if task.get("delegate_to") == "localhost":
        return set()
    result = {name for name in task if isinstance(name, str) and name.rpartition(".")[2] in MODULES and "." in name}
    for name in ("ansible.builtin.shell", "ansible.builtin.command", "ansible.builtin.raw"):
        if name in task and SHELL.search(str(task[name])):
            result.add(name)
    return result


def found() -> set[tuple[str, str]]:
    return {
        (path.relative_to(ROOT).as_posix(), function)
        for pattern in PYTHON
        for path in ROOT.glob(pattern)
        if path.relative_to(ROOT).as_posix() != WHOLE
        for function in places(path.read_text(encoding="utf-8"))
    }


def found_in_tasks() -> set[tuple[str, str]]:
    return {
        (path.relative_to(ROOT).as_posix(), module)
        for pattern in TASKS
        for path in ROOT.glob(pattern)
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")))
        for module in task_writes(task)
    }


def test_nothing_writes_beside_it() -> None:
    assert found() == set(EXCEPTIONS)


def test_no_task_writes_beside_it() -> None:
    assert found_in_tasks() == set(TASK_EXCEPTIONS)


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text('')",
        "open(path, 'w')",
        "path.open(mode='ab')",
        "os.open(path, os.O_RDWR | os.O_CREAT)",
        "os.replace(one, two)",
        "draft.replace(path)",
        "shutil.copy(one, two)",
        "module.atomic_move(one, two)",
    ],
)
def test_a_write_is_found(line: str) -> None:
    assert places(f"def one():\n    {line}\n") == {"one"}


@pytest.mark.parametrize(
    "line", ["text.replace('a', 'b')", "open(path)", "os.open(path, os.O_RDONLY)", "dataclasses.replace(one, a=1)"]
)
def test_a_read_is_none(line: str) -> None:
    assert places(f"def one():\n    {line}\n") == set()


def test_a_task_that_writes_is_found() -> None:
    assert task_writes({"ansible.builtin.copy": {"dest": "/etc/a"}}) == {"ansible.builtin.copy"}
    assert task_writes({"ansible.builtin.shell": "echo a >/etc/a"}) == {"ansible.builtin.shell"}
    assert task_writes({"ansible.builtin.shell": "a 2>/dev/null 2>&1"}) == set()
