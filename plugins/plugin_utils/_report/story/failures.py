# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Print a failure as one block: host, task and reason."""

from __future__ import annotations

import typing as t

from .screen import folded, wrap
from .steps import chain

# The end of a program's output usually has the reason.
LAST_LINES = 20

# Ansible's own text does not name the source of the address.
REACHED_BY = (
    "See that it is on and that you can log in by SSH. Its address and user are in the inventory "
    "(inventory/hosts.yml, or what -i names)."
)

# Part of Ansible's text for a hidden result. It gives no reason.
HIDDEN = "the output has been hidden"


class Failure(t.NamedTuple):
    """A task that failed on a host."""

    host: str
    task: str
    why: str
    # Blocks whose rescue may still handle the failure.
    guards: frozenset[str]
    reached: bool = True


def is_in(part: t.Any, section: t.Iterable[t.Any] | None) -> bool:
    return any(item._uuid == part._uuid for item in section or ())


def rescue_blocks(task: t.Any) -> frozenset[str]:
    """Return the blocks with a rescue around a task, unless the task is in their rescue or always."""
    parts = list(chain(task))
    around = [(part, outer) for part, outer in zip(parts, parts[1:]) if getattr(outer, "rescue", None)]
    return frozenset(
        outer._uuid for part, outer in around if not is_in(part, outer.rescue) and not is_in(part, outer.always)
    )


def is_rescued(failure: Failure, task: t.Any) -> bool:
    """Return whether a rescue has handled the failure, because its host runs this task.

    It has if the task is outside all blocks that could handle it, or outside some of them and in the main part of the
    others.
    """
    left = failure.guards & {part._uuid for part in chain(task)}
    return bool(failure.guards) and (not left or (left < failure.guards and left <= rescue_blocks(task)))


def tail(text: str) -> str:
    lines = text.rstrip().splitlines()
    left_out = len(lines) - LAST_LINES
    return "\n".join([f"({left_out} earlier lines: -v)"] * (left_out > 0) + lines[-LAST_LINES:])


def failure_text(result: t.Mapping[str, t.Any], host: str) -> str:
    """Return the failure text of a result; for a loop, a line for each item that failed."""
    rows = (row for row in result.get("results") or () if isinstance(row, t.Mapping))
    items = [row for row in rows if row.get("failed") or row.get("unreachable")]
    if items:
        return "\n".join(
            f"{item.get('_ansible_item_label', item.get('item', ''))}: {failure_text(item, host)}" for item in items
        )
    message = next(filter(None, map(result.get, ("msg", "reason", "censored"))), "Failed without a message.")
    text = "\n".join(map(str, message)) if isinstance(message, list) else str(message)
    lines = [text.strip().removeprefix(f"{host}: ")]
    # The module setup runs several modules.
    modules = result.get("failed_modules")
    lines += [failure_text(module, host) for module in modules.values()] if isinstance(modules, dict) else []
    outputs = {
        name: text
        for name in ("stderr", "module_stderr", "stdout", "module_stdout")
        if (text := str(result.get(name) or "").strip()) and text not in lines[0]
    }
    # Of a program of this collection, the message is a sentence.
    if result.get("rc") and (outputs or "return code" in lines[0]):
        lines.append(f"rc: {result['rc']}")
    for name, text in outputs.items():
        lines += [f"{name}:", *(f"    {line}" for line in tail(text).splitlines())]
    return "\n".join(lines)


def repeats(final: str, earlier: str) -> bool:
    return folded(earlier) in folded(final)


def distinct(failures: t.Sequence[Failure]) -> list[Failure]:
    """Return a host's failures with different reasons, the last one first.

    A rescue usually repeats the reason, with more text or without the output of the program. Of the same reasons, the
    longest is kept, and the task that had it first.
    """
    kept: list[Failure] = []
    for failure in reversed(failures):
        same = [other for other in kept if repeats(other.why, failure.why) or repeats(failure.why, other.why)]
        if same:
            longest = max((*same, failure), key=lambda other: len(folded(other.why)))
            kept[kept.index(same[0])] = same[0]._replace(task=failure.task, why=longest.why)
        elif not kept or HIDDEN not in failure.why:
            kept.append(failure)
    return kept


def blocks(failures: t.Sequence[Failure]) -> list[str]:
    """Return a block for each different failure: a host's last failure, then earlier ones with other reasons."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in dict.fromkeys(failure.host for failure in failures):
        last, *others = distinct([failure for failure in failures if failure.host == host])
        before = [f"{failure.task}: {failure.why}" for failure in reversed(others)]
        mark = "FAILED" if last.reached else "UNREACHABLE"
        groups.setdefault((mark, last.task, last.why, *before), []).append(host)
    texts = []
    for (mark, task, reason, *before), hosts in groups.items():
        lines = [f"{mark}  {', '.join(hosts)}: {task}", "", *wrap(reason, "    ", "    ")]
        for text in before:
            lines += ["", "  earlier failure", *wrap(text, "    ", "    ")]
        texts.append("\n".join(["", *lines, ""]))
    return texts
