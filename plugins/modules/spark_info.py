#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spark_info
short_description: Tell whether a machine is a DGX Spark, and how much memory it has
version_added: 0.1.0
description:
  - Recognises a DGX Spark, or a box of another maker with the same chip, by its GPU.
  - C(nvidia-smi) has 10 seconds, since a driver that hangs answers no question.
  - The network card says nothing, for DGX OS takes it off the PCI bus while no cable is in.
  - The release file is not asked, since it differs between makers.
  - Reads C(nvidia-smi), C(/sys/bus/pci/devices), C(/proc/meminfo), and what belongs to the card's hot-plug.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Look at the machine
  dgx_spark.speculative.spark_info:
  register: result

- name: Stop on anything but a Spark
  ansible.builtin.assert:
    that: result.is_spark
"""

RETURN = r"""
is_spark:
  description:
    - Whether the machine is a DGX Spark. Where C(nvidia-smi) names no GPU, one on the PCI bus or
      a loaded driver counts.
  returned: success
  type: bool
  sample: true
objections:
  description:
    - Why it is none, or why a Spark cannot serve, since its GPU's driver does not answer. Empty for a sound Spark.
  returned: success
  type: list
  elements: str
  sample: ["its GPU is 'NVIDIA H100', not a GB10"]
remedy:
  description:
    - What to do about a Spark whose GPU's driver does not answer. Empty for any other machine.
  returned: success
  type: str
  sample: ""
gpus:
  description:
    - The GPUs that C(nvidia-smi) finds.
  returned: success
  type: list
  elements: dict
  sample:
    - name: NVIDIA GB10
      driver: 580.95.05
connectx:
  description:
    - Number of ConnectX-7 functions on the PCI bus. None is usual for a Spark without a cable.
  returned: success
  type: int
  sample: 4
hotplug:
  description:
    - What DGX OS does with the ConnectX-7 when it sees no cable.
  returned: success
  type: dict
  contains:
    armed:
      description: Whether the card leaves the PCI bus then, by the marker file C(/etc/nvidia/cx7-hotplug-enabled).
      type: bool
      sample: true
    powered:
      description: Whether the driver of that says that a cable is in. Null where there is no such driver.
      type: bool
      sample: false
    aside:
      description: From where to where that marker file goes back, if this collection has put it aside. Else empty.
      type: list
      elements: str
      sample: []
memory_total:
  description:
    - Memory in bytes, shared by CPU and GPU.
  returned: success
  type: int
  sample: 128521625600
memory_available:
  description:
    - Memory in bytes that a program could get now, as the kernel estimates it.
  returned: success
  type: int
  sample: 120259084288
memory_free:
  description:
    - Memory in bytes that holds nothing, not even the content of files that were read.
  returned: success
  type: int
  sample: 4294967296
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import look


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, **look())


if __name__ == "__main__":
    main()
