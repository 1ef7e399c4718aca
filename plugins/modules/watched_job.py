#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: watched_job
short_description: Run a long job on the host and watch it
version_added: 0.1.0
description:
  - Starts a Python program on the host that goes on when the connection ends, and reports how far it is.
  - A second call with the same program and arguments attaches to the running job instead of starting it again. One with
    others ends that job and starts its own.
  - A run that ends while it watches the job does not end it. The next one attaches to it.
  - >-
    The program is run by the Python interpreter that runs the module, in the job's directory. It prints one JSON object
    a line: V({"progress": {"percent": 12.5, "text": "8.1 of 65.2 GB"}}) as often as it likes, and at the end
    V({"result": {...}}) with exit status 0 or V({"error": "One sentence."}) with exit status 1. Its standard error goes
    to the log, as does any other line. It must end soon after SIGTERM. What a result has as C(warnings) is shown as
    warnings.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._following
attributes:
  check_mode:
    support: full
    details:
      - In check mode no program is run, so there is no RV(result) unless an earlier job left one.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A job that has been reported as finished is started again by the next call, and so is one that failed unseen.
      - It is the program that finds nothing left to do.
options:
  name:
    description:
      - The name of the job. At most one job of a name runs in a O(directory).
      - Letters, digits, C(_), C(-) and C(.) are allowed.
    type: str
    required: true
  directory:
    description:
      - The directory that holds the job's own directory, which is named like the job and readable by its user only.
      - It is made when it is missing.
    type: path
    required: true
  program:
    description:
      - The text of the Python program.
      - Required with O(state=started).
    type: str
  arguments:
    description:
      - The program's arguments. Everybody on the host can see them. A dictionary is handed over as JSON.
    type: list
    elements: str
    default: []
  stdin:
    description:
      - What the program reads from its standard input, for example a token.
      - It is neither written to a file nor shown in the process list, and it does not count when two jobs are compared.
    type: str
    default: ""
  state:
    description:
      - With V(started) the job is started, or attached to when it runs already.
      - With V(absent) the program is ended with all its children and the job's directory is removed. Where the job had
        ended before, that is no change.
    type: str
    choices:
      - started
      - absent
    default: started
  follow:
    default: true
  wait:
    description:
      - How many seconds one call waits for the end of the job before its progress is returned.
      - Without O(job) two seconds at most, so that the progress is seen early.
    type: float
    default: 8
  job:
    description:
      - The RV(job) of an earlier call. Then no job is started, and it is an error when that job was stopped meanwhile.
      - With O(follow=true) it is set by itself.
    type: str
notes:
  - Where C(KillUserProcesses=yes) is set for systemd-logind, the job ends when the user's last session does.
  - Turn on Ansible's pipelining, or Ansible itself writes O(stdin) to a temporary file of its own on the host.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Count to ten on the host and show each number here
  dgx_spark.speculative.watched_job:
    name: count
    directory: ~/.local/share/dgx-spark-speculative/jobs
    program: "{{ lookup('ansible.builtin.file', 'count.py') }}"
    arguments:
      - "10"

- name: Stop counting
  dgx_spark.speculative.watched_job:
    name: count
    directory: ~/.local/share/dgx-spark-speculative/jobs
    state: absent
"""

RETURN = r"""
finished:
  description: Whether there is nothing left to wait for.
  returned: success
  type: bool
attached:
  description: Whether the job had been started by an earlier call.
  returned: with O(state=started)
  type: bool
calls:
  description: How often the module was called.
  returned: with O(follow=true)
  type: int
  sample: 12
job:
  description: What tells this run of the job from any other. Hand it back as O(job).
  returned: when there is a job
  type: str
  sample: 1f0c3a5e9b7d2468
follow:
  description: The options to add to the next call, which O(follow=true) does.
  returned: when there is a job
  type: dict
  sample:
    job: 1f0c3a5e9b7d2468
progress:
  description: How far the job is.
  returned: with O(state=started)
  type: dict
  contains:
    percent:
      description: Percent of the whole, null where that is not known.
      type: float
    text:
      description: The same in words.
      type: str
  sample:
    percent: 12.5
    text: 8.1 of 65.2 GB, 112 MB/s, 8 min left
result:
  description: What the program returned. Empty as long as it has not finished, and when it failed.
  returned: with O(state=started)
  type: dict
error:
  description: One sentence that says why the job failed or could not be started. The module fails with it.
  returned: when the job failed
  type: str
  sample: The pull job was stopped while it was being watched; run the same again to start it anew.
ended:
  description: What was ended, in words.
  returned: when other work of the same name was under way
  type: str
  sample: another pull job, which had been running since 2026-10-04 11:07:45, was ended
rc:
  description: The exit status of the program, or the negative number of the signal that ended it.
  returned: when the program has ended
  type: int
started:
  description: When the job was started, in seconds since 1970.
  returned: when there is a job
  type: int
log:
  description: The path of the job's log on the host.
  returned: with O(state=started)
  type: str
  sample: /home/spark/.local/share/dgx-spark-speculative/jobs/pull/log
"""

import re
import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.following import following
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.watched_job import (
    NO_PROGRESS,
    Job,
    State,
    WatchedJobError,
    job_key,
)

FIRST_WAIT_S = 2.0


def when(timestamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))


class WatchedJob:
    """One call of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        params: dict[str, t.Any] = module.params
        self._check_mode: bool = module.check_mode
        self._job = Job(Path(params["directory"]), params["name"])
        self._program: str = params["program"]
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
        return {**answer, "ended": other} if other else answer

    @staticmethod
    def _must_start(state: State, running: bool, key: str) -> bool:
        """A job that runs goes on, and the good end of the same job is told once. Anything else is started.

        A failure that nobody saw is not told: by now there may be room on the disk, or the network is back.
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
        return f"The {self._job.name} job was stopped while it was being watched; run the same again to start it anew."

    def _died(self) -> str:
        return (
            f"The {self._job.name} job vanished before it had finished, as after a kill or a restart of the host; "
            f"run the same again to start it anew (its log is {self._job.log})."
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
        module.fail_json(msg=f"The name of a job is made of letters, digits, '_', '-' and '.', which {name!r} is not.")
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
