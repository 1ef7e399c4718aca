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
  - M(dgx_spark.speculative.field_report) writes the rows into a file.
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
      - After how many seconds to stop watching.
    type: float
    default: 3600
  samples:
    description:
      - What was noted by O(watch_until), to be reported with the rest.
    type: list
    elements: list
    default: []
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
      with C(unit), or C(not_measured). Empty with O(watch_until).
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
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field.link import sensors
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field.machine import MACHINE
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field.sensor import (
    NotMeasured,
    Sensor,
    World,
    measured,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field.serving import SERVING, watch

ROOT = Path("/")


def loading(samples: t.Sequence[t.Sequence[float]]) -> Sensor:
    """The row of what was watched before."""

    def read(_world: World) -> list[list[float]]:
        if not samples:
            raise NotMeasured("the server was not started anew for it; ask for that with -e restart=true")
        return [list(sample) for sample in samples]

    what = "Free and available memory while loading"
    return Sensor("memory_loading", "What serves", what, read, "/proc/meminfo, each second", "s, bytes, bytes")


def reboot(_world: World) -> t.NoReturn:
    """What nobody should do unasked, and this check cannot do yet."""
    raise NotMeasured("this check does not reboot a Spark; do it by hand, run it again, and look at the state above")


def look(world: World, parameters: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """All rows. The link comes first: both Sparks measure it at once, and the other sensors take different times."""
    link = [measured(sensor, world) for sensor in sensors(parameters["bandwidth_program"] or "")]
    further = (
        *SERVING,
        loading(parameters["samples"]),
        Sensor("reboot", "What serves", "After a reboot", reboot, "by hand"),
    )
    machine = [measured(sensor, world) for sensor in MACHINE]
    return machine + link + [measured(sensor, world) for sensor in further]


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
        },
        supports_check_mode=True,
    )
    given = module.params
    world = World(ROOT, Path(given["state_directory"]), given["container"], given["socket"])
    try:
        samples = watch(world, Path(given["watch_until"]), given["deadline"]) if given["watch_until"] else []
    except NotMeasured as reason:
        module.fail_json(msg=f"Watching the memory failed: {reason}.")
    module.exit_json(changed=False, rows=[] if given["watch_until"] else look(world, given), samples=samples)


if __name__ == "__main__":
    main()
