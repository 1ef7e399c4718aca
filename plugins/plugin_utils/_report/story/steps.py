# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Group the tasks of a run into steps, and format the line of a step."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible.playbook.role_include import IncludeRole

from ....module_utils._data.text import amount, clock
from .screen import width, wrap

# Modules whose results do not help a user.
SILENT = {
    "gather_facts",
    "set_fact",
    "fail",
    "assert",
    "meta",
    "include_tasks",
    "include_vars",
    "validate_argument_spec",
    "add_host",
    "group_by",
}
COLUMN = 37
# The kind of change, by module. For another module, its name is used.
WORDS = {
    **dict.fromkeys(("copy", "template", "get_url", "deployment_files", "lineinfile", "unarchive"), "files"),
    **dict.fromkeys(("docker_container", "docker_container_exec"), "container"),
    **dict.fromkeys(("docker_image", "docker_image_remove", "docker_image_load"), "image"),
    **dict.fromkeys(("command", "shell", "raw", "script"), "commands"),
    **dict.fromkeys(("systemd_service", "systemd", "service"), "services"),
    **dict.fromkeys(("apt", "package", "dnf"), "packages"),
    "docker_volume": "volume",
    "iptables": "firewall",
    "user": "user account",
    "api_keys": "keys",
    "huggingface_cache_prune": "models",
    "fabric_network": "addresses",
    "reboot": "reboot",
}
# The kind of change of a watched job, by the beginning of its name.
JOBS = {"pull": "image", "load": "image", "build": "image", "copy-image": "image", "fetch": "models", "copy": "models"}

T = t.TypeVar("T")


class Entry(t.NamedTuple):
    """A role that the playbook includes, or, without a name, tasks of the playbook itself."""

    key: str
    name: str


def chain(task: t.Any) -> t.Iterator[t.Any]:
    """Yield a task and its parents, from the inside out."""
    while task is not None:
        yield task
        task = getattr(task, "_parent", None)


def entry(task: t.Any, names: t.Mapping[str, str]) -> Entry:
    """Return the outermost role of a task, with the title of its inclusion in the playbook."""
    result = Entry("", "")
    for part in chain(task):
        role = getattr(part, "_role", None)
        if isinstance(part, IncludeRole):
            result = Entry(part._uuid, names.get(part._uuid) or part.get_name())
        elif role is not None:
            result = Entry(role.get_name(), role.get_name())
    return result


def task_name(task: t.Any) -> str:
    """Return the name of a task without the name of its role."""
    return str(task.name or task.action)


def changed_by(task: t.Any) -> str:
    """Return the kind of a task's change in a word; empty if other tasks report it, or if it does not help a user."""
    name, args = str(task.action).rpartition(".")[2], task.args
    if name == "file":
        return "files" if args.get("state") == "absent" else ""
    if name == "watched_job":
        return next((word for begin, word in JOBS.items() if str(args.get("name")).startswith(begin)), "")
    return WORDS.get(name, name.replace("_", " "))


def is_silent(task: t.Any) -> bool:
    return str(task.action).rpartition(".")[2] in SILENT


def is_measured(model: t.Any) -> bool:
    return isinstance(model, dict) and all(isinstance(model.get(f"bytes_{name}"), int) for name in ("total", "missing"))


def result_text(result: t.Mapping[str, t.Any]) -> str:
    """Return a short text for a result."""
    models, recipe, progress = (result.get(name) for name in ("repositories", "recipe", "progress"))
    if isinstance(models, list) and models and all(is_measured(model) for model in models):
        total, missing = (sum(model[name] for model in models) for name in ("bytes_total", "bytes_missing"))
        return f"{amount(total)}, {f'{amount(missing)} to fetch' if missing else 'all here'}"
    if isinstance(recipe, dict):
        return str(recipe.get("title") or "")
    # In the result of a job, it is the last progress, not the outcome.
    return str(progress.get("text") or "") if isinstance(progress, dict) and "job" not in result else ""


def in_order(things: t.Sequence[T], hosts: t.Iterable[str], of: t.Callable[[T], str]) -> list[T]:
    """Sort by the play's order of hosts. Hosts of an earlier play come first."""
    places = {host: place for place, host in enumerate(hosts)}
    return sorted(things, key=lambda thing: places.get(of(thing), -1))


@dataclasses.dataclass
class HostResult:
    """The result of a step on a host."""

    said: str = ""
    changed: list[str] = dataclasses.field(default_factory=list)
    differs: list[str] = dataclasses.field(default_factory=list)
    ignored: list[str] = dataclasses.field(default_factory=list)
    # Number of failed tasks.
    wrong: int = 0

    def words(self, has_failed: bool = False) -> str:
        parts = [
            self.said,
            ", ".join(filter(None, dict.fromkeys(self.changed + self.differs))),
            f"ignored failure: {', '.join(self.ignored)}" if self.ignored else "",
            # A final failure has its own block below.
            f"{self.wrong} rescued" if self.wrong and not has_failed else "",
        ]
        return "; ".join(part for part in parts if part)


class Step:
    """Consecutive tasks of one entry."""

    def __init__(self, entry: Entry, now: float) -> None:
        self.entry = entry
        self.began = now
        self.hosts: dict[str, HostResult] = {}
        self.task = ""
        self._task_began = now
        self._is_candidate = False
        self._longest = ("", -1.0)

    def of(self, host: str) -> HostResult:
        return self.hosts.setdefault(host, HostResult())

    def begin(self, task: t.Any, now: float) -> None:
        self._end_task(now)
        self.task, self._task_began = task_name(task), now
        self._is_candidate = not is_silent(task)

    @property
    def doing(self) -> str:
        """The name of the current task; empty if it does not help a user."""
        return self.task if self._is_candidate else ""

    def _end_task(self, now: float) -> None:
        passed = now - self._task_began
        if self._is_candidate and passed > self._longest[1]:
            self._longest = (self.task, passed)

    def longest(self, now: float) -> str:
        self._end_task(now)
        return self._longest[0] or self.task

    def is_silent(self, failed: t.Collection[str] = ()) -> bool:
        """Return whether the step needs no line: nothing was changed, and there is no text."""
        return not any(seen.words(host in failed) or seen.changed or seen.differs for host, seen in self.hosts.items())

    def lines(
        self, name: str, now: float, nodes: t.Collection[str], failed: t.Collection[str]
    ) -> list[tuple[str, str]]:
        """Return marks and lines: one for all hosts with the same result."""
        groups: dict[tuple[str, str], list[str]] = {}
        for host in in_order(list(self.hosts), nodes, str):
            seen = self.of(host)
            marks = {"failed": host in failed, "changed": seen.changed, "differs": seen.differs, "ok": True}
            mark = next(mark for mark, applies in marks.items() if applies)
            if mark != "ok" or seen.words():
                groups.setdefault((mark, seen.words(mark == "failed")), []).append(host)
        column = min(COLUMN, width() // 2 - 10)
        # A long name has several lines.
        *above, name = wrap(name, columns=column)
        lines = []
        for (mark, words), hosts in groups.items():
            same = set(hosts) >= set(nodes)
            text = words if same else f"{', '.join(hosts)}: {words}".removesuffix(": ")
            heads = [f"{mark:<8} {part}" for part in above[:1]] + [f"{'':<8} {part}" for part in above[1:]]
            head = f"{'' if above else mark:<8} {name:<{column}} {clock(now - self.began):>9}  "
            lines.append((mark, "\n".join([*heads, *wrap(text, head, " " * 11)]).rstrip()))
        return lines
