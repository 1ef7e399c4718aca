# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A failure as one block: what, where, why."""

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.story.screen import folded, wrap
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.story.steps import chain

# Of what a program wrote, its end tells why.
LAST_LINES = 20

# Ansible's own text does not say where the address comes from.
REACHED_BY = (
    "See that it is on and that you can log in by SSH. Its address and user are in the inventory "
    "(inventory/hosts.yml, or what -i names)."
)

# Ansible's text for a hidden result, which is no reason.
HIDDEN = "the output has been hidden"


class Failure(t.NamedTuple):
    """A task that failed on a host."""

    host: str
    task: str
    why: str
    # Blocks whose rescue may still deal with it.
    guards: frozenset[str]
    reached: bool = True


def is_in(part: t.Any, section: t.Iterable[t.Any] | None) -> bool:
    return any(one._uuid == part._uuid for one in section or ())


def rescue_blocks(task: t.Any) -> frozenset[str]:
    """Return the blocks around a task that have a rescue, and in whose rescue or always it is not itself."""
    parts = list(chain(task))
    around = [(part, outer) for part, outer in zip(parts, parts[1:]) if getattr(outer, "rescue", None)]
    return frozenset(
        outer._uuid for part, outer in around if not is_in(part, outer.rescue) and not is_in(part, outer.always)
    )


def is_rescued(failure: Failure, task: t.Any) -> bool:
    """Return whether a host that failed before this task continues as if nothing had happened.

    It does outside of all blocks that could deal with it, and in the main part of those that are left once one of them
    was left behind.
    """
    left = failure.guards & {part._uuid for part in chain(task)}
    return bool(failure.guards) and (not left or (left < failure.guards and left <= rescue_blocks(task)))


def tail(text: str) -> str:
    lines = text.rstrip().splitlines()
    left_out = len(lines) - LAST_LINES
    return "\n".join([f"({left_out} earlier lines: -v)"] * (left_out > 0) + lines[-LAST_LINES:])


def failure_text(result: t.Mapping[str, t.Any], host: str) -> str:
    """In the result's own words; of a loop, in those of each item that failed."""
    of_each = (result for result in result.get("results") or () if isinstance(result, t.Mapping))
    items = [one for one in of_each if one.get("failed") or one.get("unreachable")]
    if items:
        return "\n".join(
            f"{item.get('_ansible_item_label', item.get('item', ''))}: {failure_text(item, host)}" for item in items
        )
    message = next(filter(None, map(result.get, ("msg", "reason", "censored"))), "Failed without a message.")
    text = "\n".join(map(str, message)) if isinstance(message, list) else str(message)
    lines = [text.strip().removeprefix(f"{host}: ")]
    # Of setup, which runs several.
    modules = result.get("failed_modules")
    lines += [failure_text(module, host) for module in modules.values()] if isinstance(modules, dict) else []
    if result.get("rc"):
        lines.append(f"rc: {result['rc']}")
    for name in ("stderr", "module_stderr", "stdout", "module_stdout"):
        text = str(result.get(name) or "").strip()
        if text and text not in lines[0]:
            lines += [f"{name}:", *(f"    {line}" for line in tail(text).splitlines())]
    return "\n".join(lines)


def repeats(final: str, earlier: str) -> bool:
    return folded(earlier) in folded(final)


def blocks(failures: t.Sequence[Failure]) -> list[str]:
    """Each once: a host's last one is why it failed, and those before it are told where it does not repeat them."""
    told: dict[tuple[str, ...], list[str]] = {}
    for host in dict.fromkeys(failure.host for failure in failures):
        own = [failure for failure in failures if failure.host == host]
        last = own[-1]
        before = [
            f"{one.task}: {one.why}" for one in own[:-1] if not repeats(last.why, one.why) and HIDDEN not in one.why
        ]
        mark = "FAILED" if last.reached else "UNREACHABLE"
        # A rescue that says the same at its end is not what went wrong.
        what = next(one.task for one in own if repeats(last.why, one.why))
        told.setdefault((mark, what, last.why, *dict.fromkeys(before)), []).append(host)
    texts = []
    for (mark, task, reason, *before), hosts in told.items():
        lines = [f"{mark}  {', '.join(hosts)}: {task}", "", *wrap(reason, "    ", "    ")]
        for one in before:
            lines += ["", "  earlier failure", *wrap(one, "    ", "    ")]
        texts.append("\n".join(["", *lines, ""]))
    return texts
