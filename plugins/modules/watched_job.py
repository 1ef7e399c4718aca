#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: watched_job
short_description: Run a long job on the host and watch it (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Starts a Python program that keeps running when the connection ends. The same call again reattaches to it.
  - A call with another program or other arguments ends the running job of that name first.
options:
  name: {type: str, required: true, description: "The name of the job, of letters, digits, C(_), C(-) and C(.)."}
  directory: {type: path, required: true, description: "The directory of all jobs."}
  program: {type: str, description: "The Python program, a text or a zip application, in base64, to start."}
  arguments: {type: list, elements: str, default: [], description: "The program's arguments, which all users can see."}
  stdin: {type: str, default: "", description: "The program's standard input, for secrets. It is not stored."}
  state: {type: str, choices: [started, absent], default: started, description: "Whether to run or to end the job."}
  wait: {type: float, default: 8, description: "Seconds that one call waits for the end of the job."}
  job: {type: str, description: "The ID of a running job to reattach to. Set by O(follow)."}
  follow: {type: bool, default: true, description: "Whether to call the module until the job has finished."}
  interval: {type: float, default: 10, description: "With O(follow), the least number of seconds between two lines."}
  timeout: {type: float, default: 0, description: "With O(follow), seconds until the task fails, or V(0) for no limit."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import base64
import re
import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._spark.following import following
from ..module_utils._spark.watched_job import NO_PROGRESS, Job, State, WatchedJobError, job_key

FIRST_WAIT_S = 2.0


def when(timestamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))


class WatchedJob:
    """One call of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        params: dict[str, t.Any] = module.params
        self._check_mode: bool = module.check_mode
        self._job = Job(Path(params["directory"]), params["name"])
        self._program = base64.b64decode(params["program"] or "")
        self._arguments: list[str] = params["arguments"]
        self._stdin: str = params["stdin"]
        self._state: str = params["state"]
        self._wait: float = params["wait"]
        self._watched: str | None = params["job"]

    def act(self) -> dict[str, t.Any]:
        if self._state == "absent":
            return self._stop()
        if self._check_mode:
            return self._check()
        if self._watched:
            return self._report(self._watched, wait=self._wait, attached=True)
        return self._start()

    def _stop(self) -> dict[str, t.Any]:
        changed = self._job.is_at_work()
        if self._job.directory.exists() and not self._check_mode:
            with self._job.locked():
                self._job.stop()
        return {"changed": changed, "finished": True}

    def _check(self) -> dict[str, t.Any]:
        key = job_key(self._program, self._arguments)
        state, running = self._job.settled()
        if state is None or state["key"] != key or self._must_start(state, running, key):
            return self._answer(None, changed=True, finished=True)
        return self._answer(state, attached=True)

    def _start(self) -> dict[str, t.Any]:
        key = job_key(self._program, self._arguments)
        other = ""
        with self._job.locked():
            state, running = self._job.settled()
            if state is not None and running and state["key"] != key:
                other = (
                    f"another {self._job.name} job, which had been running since {when(state['started'])}, was ended"
                )
                self._job.stop()
                state = None
            must_start = state is None or self._must_start(state, running, key)
            if state is None or must_start:
                state = self._job.start(key, self._program, self._arguments, self._stdin.encode(), replaced=state)
        answer = self._report(state["id"], wait=min(self._wait, FIRST_WAIT_S), attached=not must_start)
        return {**answer, "stopped_job": other} if other else answer

    @staticmethod
    def _must_start(state: State, running: bool, key: str) -> bool:
        """Watch a running job, report a success once, and start a job otherwise.

        An unseen failure is not reported, because its cause may be gone: a full disk, or a lost network.
        """
        told = state["finished"] and not state["seen"] and state["error"] is None and state["key"] == key
        return not running and not told

    def _report(self, job_id: str, wait: float, attached: bool) -> dict[str, t.Any]:
        state, running = self._job.wait(job_id, wait)
        if state is None:
            return self._answer(None, attached=attached, finished=True, error=self._gone())
        if state["finished"]:
            with self._job.locked():
                first = self._job.mark_seen(job_id)
            return self._answer(state, attached=attached, changed=first or not attached)
        if not running:
            return self._answer(state, attached=attached, changed=not attached, finished=True, error=self._died())
        return self._answer(state, attached=attached, changed=not attached)

    def _answer(
        self,
        state: State | None,
        attached: bool = False,
        changed: bool = False,
        finished: bool | None = None,
        error: str | None = None,
    ) -> dict[str, t.Any]:
        known: State = state or {}
        error = error or known.get("error")
        answer: dict[str, t.Any] = {
            "changed": changed,
            "finished": known.get("finished", False) if finished is None else finished,
            "attached": attached,
            "progress": known.get("progress", NO_PROGRESS),
            "result": known.get("result") or {},
            "log": str(self._job.log),
        }
        if known.get("rc") is not None:
            answer["rc"] = known["rc"]
        if state:
            answer.update(job=state["id"], follow={"job": state["id"]}, started=int(state["started"]))
        if error:
            answer["error"] = error
        return answer

    def _gone(self) -> str:
        return f"The {self._job.name} job was stopped by another command. Run again to start it again."

    def _died(self) -> str:
        return (
            f"The {self._job.name} job ended without a result, because it was killed or the host rebooted. "
            f"Run again to start it again (its log is {self._job.log})."
        )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "program": {"type": "str"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "stdin": {"type": "str", "default": "", "no_log": True},
            "state": {"type": "str", "choices": ["started", "absent"], "default": "started"},
            "wait": {"type": "float", "default": 8},
            "job": {"type": "str"},
            **following(by_default=True),
        },
        required_if=[("state", "started", ["program"])],
        supports_check_mode=True,
    )
    name, directory = module.params["name"], module.params["directory"]
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name):
        module.fail_json(msg=f"The job's name is {name!r}, but may contain only letters, digits, '_', '-' and '.'.")
    try:
        answer = WatchedJob(module).act()
    except WatchedJobError as e:
        module.fail_json(msg=f"Keeping the {name} job in {directory} failed: {e}.")
    except OSError as e:
        module.fail_json(
            msg=f"Keeping the {name} job in {directory} failed: {e.strerror} ({e.filename}); "
            "check the owner, the mode and the free space of the directory."
        )
    for warning in answer.get("result", {}).get("warnings", []):
        module.warn(warning)
    if "error" in answer:
        module.fail_json(msg=answer["error"], **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
