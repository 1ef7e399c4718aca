#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: field_info
short_description: Look at what only a real Spark can tell
version_added: 0.1.0
description:
  - Reads versions, the state of the network card, and what the deployment that serves says of its memory, its KV cache
    and its figures; measures the link of two Sparks that serve as one, and how long the image takes to import
    TensorRT-LLM.
  - Each row is a value, or says why it was not measured. Nothing that was not there makes the module fail.
  - The import runs in a container of its own, which is removed again, and only with enough memory available. The link
    is busy for a few seconds. Nothing is restarted.
  - M(dgx_spark.speculative.report) writes the rows into a file.
  - With O(part) it does the parts of a look at what a reboot does, which the playbook makes between them.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  container:
    description:
      - The container that serves.
    type: str
    default: dgx-spark-speculative
  state_directory:
    description:
      - Where this collection keeps its deployments on the Spark.
    type: path
    required: true
  socket:
    description:
      - The Docker Engine's socket.
    type: path
    default: /var/run/docker.sock
  bandwidth_program:
    description:
      - The text of the program that measures the link by TCP, which the role C(spark_network) has.
    type: str
  watch_until:
    description:
      - Instead of all that, note the free memory each second until this file is there, and remove it.
    type: path
  deadline:
    description:
      - After how many seconds to stop watching, or waiting for an answer.
    type: float
    default: 3600
  samples:
    description:
      - What was noted by O(watch_until), to be reported with the rest.
    type: list
    elements: list
    default: []
  part:
    description:
      - Instead of all that, a part of what a reboot needs.
      - V(before_reboot) looks only at what a reboot is compared with, and who it would come in the way of.
      - V(first_answer) waits up to O(deadline) seconds until the server at O(url) generates a token.
    type: str
    choices: [before_reboot, first_answer]
  controller:
    description:
      - With O(part=before_reboot), what only the controller knows.
    type: dict
    default: {}
    suboptions:
      connection:
        description:
          - How it reaches this Spark, its C(ansible_connection).
        type: str
      machine_id:
        description:
          - Its own C(/etc/machine-id). Empty if it has none.
        type: str
      lost:
        description:
          - Other Sparks of the play that have failed or cannot be reached.
        type: list
        elements: str
  url:
    description:
      - Where the server answers. Required with O(part=first_answer).
    type: str
  passed:
    description:
      - With O(part=first_answer), how many seconds have passed since the reboot began.
    type: float
    default: 0
  reboot:
    description:
      - What is known of a reboot before this look, to be reported and compared. C(before) is the result of
        O(part=before_reboot), C(rebooted) that of M(ansible.builtin.reboot), and C(answered) that of
        O(part=first_answer). Without C(rebooted), the Spark was not rebooted.
    type: dict
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Look
  dgx_spark.speculative.field_info:
    state_directory: ~/.local/share/dgx-spark-speculative
  register: field_check_found
"""

RETURN = r"""
rows:
  description:
    - The rows, in the order of the report. Each has C(id), C(section), C(what), C(how), and either C(value), perhaps
      with C(unit), or C(not_measured). Empty with O(watch_until) and O(part=first_answer).
  returned: success
  type: list
  elements: dict
  sample: [{id: kernel, section: Machine, what: Kernel, how: /proc/sys/kernel/osrelease, value: 6.17.0-1014-nvidia}]
samples:
  description:
    - With O(watch_until), seconds since it began, and MemFree and MemAvailable in bytes.
  returned: success
  type: list
  elements: list
  sample: [[0.0, 118000000000, 119000000000]]
objections:
  description:
    - With O(part=before_reboot), what stands against a reboot, such as others' work, and what to do about it.
  returned: success
  type: list
  elements: str
  sample: [lisa is logged in; ask them to log out ('loginctl' lists the sessions)]
url:
  description:
    - With O(part=before_reboot), where the server answers. Empty where none serves here.
  returned: success
  type: str
  sample: http://127.0.0.1:8000
unanswered:
  description:
    - With O(part=before_reboot), why no answer is to be waited for.
  returned: success
  type: str
  sample: nothing was serving before
answer_s:
  description:
    - With O(part=first_answer), after how many seconds, with O(passed), the server answered. Null if it did not.
  returned: success
  type: float
  sample: 312.4
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.field import reboot
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.field.link import sensors
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.field.machine import MACHINE
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.field.sensor import (
    NotMeasured,
    Sensor,
    World,
    measured,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.field.serving import SERVING, watch

ROOT = Path("/")


def loading(samples: t.Sequence[t.Sequence[float]]) -> Sensor:
    """The row of what was watched before."""

    def read(_world: World) -> list[list[float]]:
        if not samples:
            raise NotMeasured("the server was not started anew for it; ask for that with -e restart=true")
        return [list(sample) for sample in samples]

    what = "Free and available memory while loading"
    return Sensor("memory_loading", "What serves", what, read, "/proc/meminfo, each second", "s, bytes, bytes")


def look(world: World, parameters: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """All rows. The link comes first: both Sparks measure it at once, and the other sensors take different times."""
    link = [measured(sensor, world) for sensor in sensors(parameters["bandwidth_program"] or "")]
    machine = [measured(sensor, world) for sensor in MACHINE]
    further = (
        *SERVING,
        loading(parameters["samples"]),
        *reboot.sensors(reboot.read(parameters["reboot"]), machine + link),
    )
    return machine + link + [measured(sensor, world) for sensor in further]


def found(world: World, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What is asked for, in the form in which it is returned."""
    made: dict[str, t.Any] = {"rows": [], "samples": [], "objections": [], "url": "", "unanswered": ""}
    made["answer_s"] = None
    if given["watch_until"]:
        return {**made, "samples": watch(world, Path(given["watch_until"]), given["deadline"])}
    if given["part"] == "first_answer":
        return {**made, "answer_s": reboot.first_answer(given["url"], given["deadline"], given["passed"])}
    if given["part"] == "before_reboot":
        slot = next(sensor for sensor in MACHINE if sensor.id == "hotplug_state")
        looks = [*sensors(given["bandwidth_program"] or ""), slot]
        return {**made, **reboot.before(world, given["controller"], looks)}
    return {**made, "rows": look(world, given)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "container": {"type": "str", "default": "dgx-spark-speculative"},
            "state_directory": {"type": "path", "required": True},
            "socket": {"type": "path", "default": "/var/run/docker.sock"},
            "bandwidth_program": {"type": "str"},
            "watch_until": {"type": "path"},
            "deadline": {"type": "float", "default": 3600},
            "samples": {"type": "list", "elements": "list", "default": []},
            "part": {"type": "str", "choices": ["before_reboot", "first_answer"]},
            "controller": {
                "type": "dict",
                "default": {},
                "options": {
                    "connection": {"type": "str"},
                    "machine_id": {"type": "str"},
                    "lost": {"type": "list", "elements": "str"},
                },
            },
            "url": {"type": "str"},
            "passed": {"type": "float", "default": 0, "no_log": False},
            "reboot": {"type": "dict"},
        },
        mutually_exclusive=[("watch_until", "part")],
        required_if=[("part", "first_answer", ("url",))],
        supports_check_mode=True,
    )
    given = module.params
    world = World(ROOT, Path(given["state_directory"]), given["container"], given["socket"])
    try:
        result = found(world, given)
    except NotMeasured as reason:
        doing = "Watching the memory" if given["watch_until"] else "Looking at this Spark"
        module.fail_json(msg=f"{doing} failed: {reason}.")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
