#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: field_info
short_description: Measure values that only a real Spark has (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Returns rows with a value, or with the reason why there is none. No server is restarted.
  - With O(phase), performs one part of a reboot check.
options:
  container: {type: str, default: dgx-spark-speculative, description: "The name of the serving container."}
  state_directory: {type: path, required: true, description: "The directory of the deployments."}
  socket: {type: path, default: /var/run/docker.sock, description: "The socket of the Docker Engine."}
  bandwidth_program: {type: str, description: "The program of the lookup job that measures the link by TCP."}
  watch_until: {type: path, description: "Instead, sample the memory each second until this file exists."}
  deadline: {type: float, default: 3600, description: "Seconds after which to stop sampling or waiting."}
  samples: {type: list, elements: list, default: [], description: "The samples of O(watch_until), to be reported."}
  phase: {type: str, choices: [before_reboot, first_answer], description: "Instead, one part of a reboot check."}
  controller:
    type: dict
    default: {}
    description: "Facts of the controller, with O(phase=before_reboot)."
    suboptions:
      connection: {type: str, description: "The C(ansible_connection) of this Spark."}
      machine_id: {type: str, description: "The controller's C(/etc/machine-id), or an empty string."}
      lost: {type: list, elements: str, description: "Other Sparks of the play that failed or are unreachable."}
  url: {type: str, description: "The URL of the server. Required with O(phase=first_answer)."}
  elapsed_s: {type: float, default: 0, description: "With O(phase=first_answer), seconds since the reboot began."}
  reboot: {type: dict, description: "The results C(before), C(rebooted) and C(answered) of a reboot, to be reported."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._field import reboot
from ..module_utils._field.link import sensors
from ..module_utils._field.machine import MACHINE
from ..module_utils._field.sensor import NotMeasured, Sensor, World, measured
from ..module_utils._field.serving import SERVING, watch

ROOT = Path("/")


def loading(samples: t.Sequence[t.Sequence[float]]) -> Sensor:
    """Return the row of what was watched before."""

    def read(_world: World) -> list[list[float]]:
        if not samples:
            raise NotMeasured("the server was not restarted for it; add -e restart=true to do that")
        return [list(sample) for sample in samples]

    what = "Free and available memory while loading"
    return Sensor("memory_loading", "Server", what, read, "/proc/meminfo, each second", "s, bytes, bytes")


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


def found(world: World, inputs: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the requested part of the report."""
    made: dict[str, t.Any] = {"rows": [], "samples": [], "problems": [], "url": "", "unanswered": ""}
    made["answer_s"] = None
    if inputs["watch_until"]:
        return {**made, "samples": watch(world, Path(inputs["watch_until"]), inputs["deadline"])}
    if inputs["phase"] == "first_answer":
        return {**made, "answer_s": reboot.first_answer(inputs["url"], inputs["deadline"], inputs["elapsed_s"])}
    if inputs["phase"] == "before_reboot":
        slot = next(sensor for sensor in MACHINE if sensor.id == "hotplug_state")
        looks = [*sensors(inputs["bandwidth_program"] or ""), slot]
        return {**made, **reboot.before(world, inputs["controller"], looks)}
    return {**made, "rows": look(world, inputs)}


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
            "phase": {"type": "str", "choices": ["before_reboot", "first_answer"]},
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
            "elapsed_s": {"type": "float", "default": 0, "no_log": False},
            "reboot": {"type": "dict"},
        },
        mutually_exclusive=[("watch_until", "phase")],
        required_if=[("phase", "first_answer", ("url",))],
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
