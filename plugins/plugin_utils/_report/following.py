# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Call a module until its work has finished, and show the progress. For action plugins."""

from __future__ import annotations

import os
import time
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ...module_utils._spark.following import following
from .._lease.fence import require_lease
from .story.screen import Progress

display = Display()

# A module that waits by itself is called again at once; one that does not is not called in a tight loop.
LEAST_CALL_S = 1.0
# Said beforehand: Ansible kills its workers at Ctrl-C before they can say a word.
HINT = "Ctrl-C stops watching, not the job. Run the same command to reattach."


# After it the callback is left to say it.
GOES_ON = ", which keeps running. Run the same command to reattach, or end it with stop.yml."


def is_followed(task: t.Any) -> bool:
    """Return whether a task has started work that continues on the host by itself."""
    return _marker(f"follow-{task._uuid}").exists()


def _marker(name: str) -> Path:
    return Path(constants.DEFAULT_LOCAL_TMP) / name  # type: ignore[attr-defined]


class Ticker:
    """Decides which progress of a host is worth a line."""

    def __init__(self, host: str, interval: float, show: t.Callable[[str], None]) -> None:
        self._host = host
        self._interval = interval
        self._show = show
        self._last_text = ""
        self._last_time: float | None = None

    def tell(self, progress: t.Any, now: float, last: bool = False) -> None:
        text = str(progress.get("text") or "") if isinstance(progress, dict) else ""
        if not text or text == self._last_text:
            return
        if last or self._last_time is None or now - self._last_time >= self._interval:
            self._show(Progress(f"{self._host} | {text}"))
            self._last_text, self._last_time = text, now


def is_first_to_say(task: t.Any) -> bool:
    """Record that a task is followed, and return whether it is the first in this run.

    Each host has its own process; the processes share only a directory.
    """
    try:
        _marker(f"follow-{task._uuid}").touch()
        _marker("follow").touch(exist_ok=False)
    except OSError:
        return False
    return True


class Following(ActionBase):
    """Call the module of the same name until it has finished.

    It returns `finished`, and perhaps `progress` with a `text`, `error`, which is a sentence, and `follow`, which are
    options to add to the next call.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    # The default of the module's option follow.
    BY_DEFAULT: t.ClassVar[bool]

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        spec = following(self.BY_DEFAULT)
        # All the others are the module's to judge.
        validated = ArgumentSpecValidator(spec).validate(
            {key: self._task.args[key] for key in spec if key in self._task.args}
        )
        if validated.error_messages:
            raise AnsibleActionFail("; ".join(validated.error_messages))
        options = validated.validated_parameters
        host = str(variables.get("inventory_hostname", self._play_context.remote_addr))
        if not options["follow"]:
            require_lease(self, host)
            return dict(self._execute_module(task_vars=variables))
        return self._follow(options, host, variables)

    def _follow(self, options: dict[str, t.Any], host: str, variables: dict[str, t.Any]) -> dict[str, t.Any]:
        module, timeout = self._task.action, options["timeout"]
        # Of the task and not validated copies, which have lost their tags (such as who may see them).
        args: dict[str, t.Any] = dict(self._task.args)
        # Of several Sparks the texts stand below each other.
        hosts = [str(name) for name in variables.get("ansible_play_hosts_all") or [host]]
        name = f"{host:<{max(map(len, hosts))}}"
        ticker = Ticker(name, options["interval"], display.display)
        begin, parent = time.monotonic(), os.getppid()
        first: dict[str, t.Any] | None = None
        changed, calls = False, 0
        while True:
            called = time.monotonic()
            # A result counts only while no other run changes the Spark.
            require_lease(self, host)
            result = self._execute_module(module_args=dict(args), task_vars=variables)
            require_lease(self, host)
            now, calls = time.monotonic(), calls + 1
            if first is None:
                first = result
                if result.get("attached"):
                    display.display(f"{name} | this was started before and has gone on; attached to it")
                if result.get("stopped_job"):
                    display.display(f"{name} | {result['stopped_job']}")
            changed = changed or bool(result.get("changed"))
            result.update(changed=changed, attempts=calls)
            if "attached" in first:
                result["attached"] = first["attached"]
            finished = bool(result.get("finished"))
            # The failure itself is printed at its end.
            if not (result.get("failed") or result.get("error")):
                ticker.tell(result.get("progress"), now, last=finished)
            if result.get("failed") or result.get("skipped") or result.get("unreachable"):
                return result
            if "finished" not in result:
                raise AnsibleActionFail(
                    f"The module {module} did not return 'finished'; only modules that do can be followed."
                )
            if result.get("error"):
                return {**result, "failed": True, "msg": result["error"]}
            if finished or self._task.check_mode:
                return result
            if timeout and now - begin >= timeout:
                message = f"Following {module} on {host} ended after {timeout:g} seconds; the job keeps running there."
                return {**result, "failed": True, "msg": message}
            if os.getppid() != parent:
                # The terminal was closed or ansible-playbook killed, which Ansible's workers survive.
                raise AnsibleActionFail(
                    f"ansible-playbook has ended, so {module} on {host} is not followed; the job keeps running there."
                )
            # Once a run, by the first that waits: only a worker gets its models from another Spark.
            if calls == 1 and is_first_to_say(self._task):
                display.display(f"  {HINT}")
            args.update(result.get("follow") or {})
            time.sleep(max(0.0, LEAST_CALL_S - (now - called)))
