#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_check
short_description: Prove that a Spark reaches the other one through the cable
version_added: 0.1.0
description:
  - Checks each interface of the cable in steps, from the one end. Run it on both Sparks for both directions.
  - The steps are the link, the address on the interface, the route by the interface, packets that reach the other
    Spark in the full size of the MTU without being cut up, the interface's own counter of sent bytes, a hundred
    small packets of which none may be lost, and answers from two TCP ports of the other Spark.
  - What may take a moment is tried again until O(timeout), such as the first packet to a neighbour.
  - Needs no root.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  rails:
    description:
      - The interfaces, as M(dgx_spark.speculative.deployment_plan) returns them.
    type: list
    elements: dict
    required: true
  peer:
    description:
      - What the other Spark is called in messages.
    type: str
    default: the other Spark
  host:
    description:
      - What this Spark is called in messages, which begin with it.
    type: str
    default: ""
  port:
    description:
      - The TCP port of the other Spark that is asked, because a firewall may let ping in and nothing else. A second one
        is taken by chance from those of programs that name none, as mpirun and NCCL do.
      - Nothing has to listen there; only no answer at all is an error. V(0) leaves both out.
    type: int
    default: 2233
  timeout:
    description:
      - Seconds for all of it.
    type: int
    default: 15
seealso:
  - module: dgx_spark.speculative.deployment_plan
  - module: dgx_spark.speculative.fabric_network
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Prove the link
  dgx_spark.speculative.fabric_check:
    rails: "{{ plan.rails }}"
    peer: spark-2
  register: proof
"""

RETURN = r"""
rails:
  description:
    - O(rails) with the MTU that was proven, the speed, and, for information, the index of the address in the GID table.
  returned: success
  type: list
  elements: dict
  sample:
    - interface: enp1s0f1np1
      rdma: rocep1s0f1
      address: 192.168.100.10
      peer_address: 192.168.100.11
      mtu: 9000
      gid_index: 3
table:
  description:
    - One row for each interface, with the outcome of each step. A step that was not reached is null.
  returned: always
  type: list
  elements: dict
  sample:
    - interface: enp1s0f1np1
      address: 192.168.100.10
      peer_address: 192.168.100.11
      link: true
      on_interface: true
      route: enp1s0f1np1
      reached: true
      full_frames: true
      milliseconds: 0.12
      left_by_interface: true
      lost: 0
      connects: true
      error: null
findings:
  description: What works but not as one may expect.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.arguments import PROOF
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.proof import proven


def main() -> None:
    module = AnsibleModule(argument_spec=PROOF, supports_check_mode=True)
    proof = proven(module.params)
    if proof["error"]:
        module.fail_json(msg=proof["error"], table=proof["table"])
    module.exit_json(changed=False, **{name: proof[name] for name in ("rails", "table", "findings")})


if __name__ == "__main__":
    main()
