# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: story
type: stdout
short_description: Print a run of a playbook in a few lines
version_added: 0.1.0
description:
  - Prints a line for each step of a playbook instead of each task. A step is a role that the playbook includes, and has
    the title of the inclusion. Consecutive tasks of the playbook itself are also a step. Its title is the name of the
    task that took longest, or of the play if it has no other step.
  - A line begins with C(ok), C(changed) or C(failed), or in check mode with C(differs). It shows facts, changes and the
    progress of long work in a few words. If the results of hosts differ, each host has a line. A step without changes
    and without a text has no line.
  - On a terminal, the current step is redrawn in place. A narrow terminal shows its progress without its title. Without
    a terminal, a long step prints its progress every ten seconds at most.
  - A failure is printed once, when no C(rescue) can handle it any more, without an excerpt of the playbook. The line of
    a step names the failures that C(ignore_errors) ignores, and counts those that a C(rescue) handles.
  - If a task sets C(check_mode) itself in a run without check mode, its changes are not shown.
  - Warnings are printed at the end, or before the failure. The texts of M(ansible.builtin.debug) and the reports of
    this collection are printed in full. The report of a run that has changed nothing is shortened.
  - Diffs of texts are printed in full. Diffs of data show only the differences, without internal labels.
  - Lines are as wide as the terminal, and 100 columns at most.
  - With C(-v), the output is that of P(ansible.builtin.default#callback).
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as E(ANSIBLE_STDOUT_CALLBACK) or C(stdout_callback) in C(ansible.cfg)
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

import atexit
import collections
import os
import time
import typing as t

from ansible import constants as C
from ansible import context
from ansible.playbook.role_include import IncludeRole
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default

from ..module_utils._data.text import clock
from ..plugin_utils._report.following import GOES_ON, is_followed
from ..plugin_utils._report.story.changes import changes
from ..plugin_utils._report.story.failures import REACHED_BY, Failure, blocks, failure_text, is_rescued, rescue_blocks
from ..plugin_utils._report.story.screen import Screen, wrap
from ..plugin_utils._report.story.steps import (
    Step,
    changed_by,
    entry,
    in_order,
    is_silent,
    result_text,
    task_name,
)

COLOURS = {"ok": None, "changed": "COLOR_CHANGED", "differs": "COLOR_CHANGED"}
# Strategies in which different hosts run different tasks at the same time.
FREE = {"free", "host_pinned", "ansible.builtin.free", "ansible.builtin.host_pinned"}


def colour(name: str | None) -> str | None:
    return t.cast("str | None", getattr(C, name)) if name else None


class Story:
    """The output of a run. Methods have the names of Ansible's events."""

    def __init__(self, base: CallbackModule, screen: Screen, clock: t.Callable[[], float]) -> None:
        self._base = base
        self._screen = screen
        screen.on_progress = self._progress
        self._clock = clock
        self._began = clock()
        self._play: t.Any = None
        # In the order of the play.
        self._hosts: dict[str, None] = {}
        self._step: Step | None = None
        self._task: t.Any = None
        self._steps_told = 0
        self._others = 0
        self._names: dict[str, str] = {}
        self._held: list[Failure] = []
        self._failed: set[str] = set()
        # Hosts with the line of a failed step.
        self._marked: set[str] = set()
        # Hosts that stop because too many others failed.
        self._stopped: set[str] = set()
        self._talk: dict[str, list[str]] = {}
        # Texts in the lines of earlier steps.
        self._said: set[str] = set()
        # Number of steps in which a host was changed, or would be, by host and mark.
        self._counts: collections.Counter[tuple[str, str]] = collections.Counter()
        screen.in_short = self._is_unchanged
        self._checks = bool(context.CLIARGS.get("check"))
        if self._checks:
            screen.show("Check mode: nothing is changed, 'differs' marks what would change.")

    def playbook_on_play_start(self, play: t.Any) -> None:
        self._end_step(last=True)
        self._settle()
        self._play, self._hosts, self._steps_told = play, {}, 0
        # The default callback needs the play if the story fails.
        self._base._play = play

    def playbook_on_no_hosts_matched(self) -> None:
        self._screen.show(f"{self._play.get_name()}: no host matches, nothing was done.", colour("COLOR_SKIP"))

    def playbook_on_task_start(self, task: t.Any, is_conditional: bool = False) -> None:
        now = self._clock()
        self._screen.fit()
        self._say()
        if self._play.strategy not in FREE:
            final = {failure.host for failure in self._held if not failure.guards}
            self._held = [failure for failure in self._held if failure.host in final or not is_rescued(failure, task)]
        if isinstance(task, IncludeRole):
            self._names[task._uuid] = str(task.get_name())
        result = entry(task, self._names)
        if self._step is None or (self._step.entry.key != result.key and self._play.strategy not in FREE):
            self._end_step()
            self._settle()
            self._step = Step(result, now)
        # If no host is left, the remaining tasks of the step are in an `always`.
        if self._hosts.keys() - {failure.host for failure in self._held}:
            self._settle()
        self._task = task
        self._step.begin(task, now)
        self._others = self._screen.others
        self._screen.draw(self._at_work(self._step, self._step.doing))

    def playbook_on_handler_task_start(self, task: t.Any) -> None:
        self.playbook_on_task_start(task)

    def runner_on_start(self, host: t.Any, task: t.Any) -> None:
        self._hosts[str(host)] = None
        self._held = [failure for failure in self._held if failure.host != str(host) or not is_rescued(failure, task)]

    def runner_on_ok(self, result: t.Any) -> None:
        self._base._handle_warnings(result.result)
        if isinstance(result.task, TaskInclude) or self._step is None:
            return
        name, seen = task_name(result.task), self._step.of(result.host.get_name())
        text = result_text(result.result)
        if text and text not in self._said:
            seen.said = text
        if result.result.get("changed") and not self._only_looks(result.task):
            getattr(seen, "differs" if result.task.check_mode else "changed").append(changed_by(result.task))
        # A task that displays its own text needs no other.
        if self._base._run_is_verbose(result):
            self._speak(result)
        elif not is_silent(result.task) and self._screen.others == self._others:
            # Only now it is certain that the task was not skipped.
            self._under_way("", name)

    def runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self._base._handle_warnings(result.result)
        host, name = result.host.get_name(), task_name(result.task)
        if self._step is None:
            self._step = Step(entry(result.task, self._names), self._clock())
        seen = self._step.of(host)
        if ignore_errors:
            seen.ignored.append(name)
        else:
            seen.wrong += 1
            self._held.append(Failure(host, name, failure_text(result.result, host), rescue_blocks(result.task)))

    def runner_on_unreachable(self, result: t.Any) -> None:
        self.runner_on_failed(result, ignore_errors=bool(result.task.ignore_unreachable))
        if not result.task.ignore_unreachable:
            # A rescue does not handle unreachable hosts.
            failure = self._held[-1]
            self._held[-1] = failure._replace(why=f"{failure.why}\n{REACHED_BY}", reached=False, guards=frozenset())

    def runner_on_skipped(self, result: t.Any) -> None:
        self._base._handle_warnings(result.result)

    def runner_item_on_ok(self, result: t.Any) -> None:
        self._base._handle_warnings(result.result)
        if self._base._run_is_verbose(result):
            self._speak(result)

    # The result of the whole task has the failed items.
    runner_item_on_failed = runner_item_on_skipped = runner_on_skipped

    def runner_retry(self, result: t.Any) -> None:
        tried, tries = result.result.get("attempts"), result.result.get("retries")
        host = result.host.get_name()
        self._under_way(host, f"{host} | {task_name(result.task)}: tried {tried} of {tries} times")

    def playbook_on_no_hosts_remaining(self) -> None:
        self._stopped |= self._hosts.keys()

    def nothing(self, *arguments: t.Any) -> None:
        """Ignore an event that needs no line."""

    playbook_on_include = playbook_on_notify = nothing
    runner_on_async_poll = runner_on_async_ok = runner_on_async_failed = nothing

    def _only_looks(self, task: t.Any) -> bool:
        """Return whether only the task is in check mode, not the run. Another task makes its changes."""
        return bool(task.check_mode) and not self._checks

    def on_file_diff(self, result: t.Any) -> None:
        if self._only_looks(result.task):
            return
        for item in result.result.get("results") or [result.result] if result.task.loop else [result.result]:
            if item.get("diff") and item.get("changed") and (text := self._base._get_diff(changes(item["diff"]))):
                self._screen.show(f"{task_name(result.task)} ({result.host.get_name()}):\n{text}")

    def playbook_on_stats(self, stats: t.Any) -> None:
        bad = {*stats.failures, *stats.dark}
        # Rescues at the end of the play have handled the others.
        self._held = [failure for failure in self._held if failure.host in bad or not failure.guards]
        self._end_step(last=True)
        self._settle(self._held)
        if stats.custom and self._base.get_option("show_custom_stats"):
            self._screen.show(self._base._dump_results(stats.custom, indent=2))
        self._screen.release()
        self._base._story = None
        hosts = sorted(stats.processed)
        if hosts:
            self._screen.show("")
        for host in hosts:
            counts = stats.summarize(host)
            # On localhost, playbooks only check the inputs.
            if host != "localhost" or host in bad or self._counts[host, "changed"] or len(hosts) == 1:
                self._recap(host, counts, bool(bad))

    def broken_off(self) -> None:
        """End the story if the process ends without the last event."""
        if self._step is not None:
            goes_on = GOES_ON if self._task is not None and is_followed(self._task) else ""
            task = self._step.doing or self._step.entry.name or self._step.task
            lines = wrap(f"interrupted during: {task}{goes_on}", "", "  ")
            self._screen.show("\n".join(lines), colour("COLOR_ERROR"))
        self._end_step(last=True)
        self._settle(self._held)
        self._screen.release()

    def give_up(self) -> None:
        """Print all failures that were not printed yet."""
        self._screen.release()
        for failure in self._held:
            self._screen.show(f"FAILED  {failure.host}: {failure.task}: {failure.why}", colour("COLOR_ERROR"))

    def _is_unchanged(self) -> bool:
        """Return whether this run has changed nothing and has no failure."""
        here = self._step.hosts.values() if self._step else ()
        changed = any(seen.changed or seen.differs for seen in here)
        return not (changed or any(self._counts.values()) or self._failed or self._held)

    def _recap(self, host: str, counts: t.Mapping[str, int], has_failed: bool) -> None:
        outcome = "unreachable" if counts["unreachable"] else "failed" if counts["failures"] else "ok"
        if outcome == "ok" and host in self._stopped:
            outcome = "stopped (another host failed)"
        changed, differs = self._counts[host, "changed"], self._counts[host, "differs"]
        words = [
            outcome,
            f"{changed or 'nothing'} changed",
            *([f"{differs} would change"] if differs else []),
            *([f"{counts['rescued']} rescued"] if counts["rescued"] and not has_failed else []),
            *([f"{counts['ignored']} ignored"] if counts["ignored"] else []),
        ]
        text = f"{host}: {', '.join(words)}, {clock(self._clock() - self._began)}"
        self._screen.show(text, colour("COLOR_OK" if outcome == "ok" else "COLOR_ERROR"))

    def _speak(self, result: t.Any) -> None:
        """Collect the text of a task such as debug, so that hosts with the same text share it."""
        message = result.result.get("msg")
        lines = message if isinstance(message, list) else [message]
        if message and all(isinstance(line, str) for line in lines):
            text = "\n".join(lines)
        else:
            self._base._clean_results(result.result, result.task.action)
            text = f"{task_name(result.task)}:{self._base._dump_results(result.result)}"
        host = result.host.get_name()
        if host in self._talk.get(text, []):
            self._say()
        self._talk.setdefault(text, []).append(host)

    def _say(self) -> None:
        for text, hosts in self._talk.items():
            whose = "" if set(hosts) >= self._hosts.keys() or text.startswith(f"{hosts[0]}: ") else ", ".join(hosts)
            self._screen.show("\n".join(wrap(f"{whose}: {text}" if whose else text, "  ", "  ")))
        self._talk = {}

    def _progress(self, text: str) -> None:
        host, _bar, rest = text.partition(" | ")
        shown = rest if len(self._hosts) == 1 else text
        self._under_way(host, shown, shown)

    def _under_way(self, about: str, text: str, short: str = "") -> None:
        # Another thread may end the step, so read it once.
        step = self._step
        if step is not None:
            self._screen.note(about, self._at_work(step, text, short), step.began)

    def _at_work(self, step: Step, text: str, short: str = "") -> tuple[str, ...]:
        """Return the line of the current step, and a shorter one for a narrow terminal."""
        name = step.entry.name or self._play.get_name()
        whole = f"{name}: {text}" if text else name
        return f"{'':<8} {whole}", f"{'':<8} {short or step.entry.name or text or name}"

    def _end_step(self, last: bool = False) -> None:
        self._say()
        step, self._step = self._step, None
        now = self._clock()
        if step is None:
            return
        alone = last and not self._steps_told
        name = step.entry.name or (self._play.get_name() if alone else step.longest(now))
        self._steps_told += 1
        self._said |= {seen.said for seen in step.hosts.values()}
        for host, seen in step.hosts.items():
            self._counts[host, "changed"] += bool(seen.changed)
            self._counts[host, "differs"] += bool(seen.differs)
        failed = self._failed | {failure.host for failure in self._held}
        # Tasks of the playbook itself may only report the failure of an earlier step.
        news = failed & step.hosts.keys() - (set() if step.entry.name else self._marked)
        if step.is_silent(failed) and not news:
            return
        self._marked |= news
        for found, text in step.lines(name, now, self._hosts, failed):
            self._screen.show(text, colour(COLOURS.get(found, "COLOR_ERROR")))

    def _settle(self, failures: t.Sequence[Failure] | None = None) -> None:
        """Print the failures that no rescue can handle any more."""
        if failures is None:
            final = {failure.host for failure in self._held if not failure.guards}
            failures = [failure for failure in self._held if failure.host in final]
        if failures:
            # The failure is printed last, so warnings come before it.
            self._screen.warn()
        for text in blocks(in_order(failures, self._hosts, lambda failure: failure.host)):
            self._screen.show(text, colour("COLOR_ERROR"), stderr=self._base.get_option("display_failed_stderr"))
        hosts = {failure.host for failure in failures}
        self._failed |= hosts
        self._held = [failure for failure in self._held if failure.host not in hosts]


def event(name: str) -> t.Callable[..., None]:
    """Return a method that passes an event to the story, or to Ansible's own callback if there is no story."""
    default = getattr(Default, name)

    def handler(self: CallbackModule, *arguments: t.Any, **options: t.Any) -> None:
        if self._story is not None:
            try:
                getattr(self._story, name[len("v2_") :])(*arguments, **options)
                return
            except Exception as error:
                self._give_up(error)
        default(self, *arguments, **options)

    return handler


class CallbackModule(Default):
    """Callback that prints the story, or Ansible's own output with -v or if the story fails."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "dgx_spark.speculative.story"

    def __init__(self) -> None:
        super().__init__()
        self._story: Story | None = None
        self._process = os.getpid()
        # Tests replace the clock, because the title of a step depends on the time of its tasks.
        self.clock: t.Callable[[], float] = time.monotonic

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        if self._display.verbosity:
            super().v2_playbook_on_start(playbook)
            return
        self._story = Story(self, Screen(self._display, self.clock), self.clock)
        atexit.register(self._at_exit)

    def _give_up(self, error: Exception) -> None:
        story, self._story = self._story, None
        try:
            if story is not None:
                story.give_up()
        finally:
            self._display.warning(f"The story breaks off ({error!r}); Ansible's own output follows.")

    def _at_exit(self) -> None:
        # Ansible's workers are forks of this process.
        if self._story is not None and os.getpid() == self._process:
            try:
                self._story.broken_off()
            except Exception as error:
                self._give_up(error)


for _name in [name for name in vars(Default) if name.startswith("v2_") and hasattr(Story, name[len("v2_") :])]:
    setattr(CallbackModule, _name, event(_name))
