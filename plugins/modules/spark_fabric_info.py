#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spark_fabric_info
short_description: Find a Spark's QSFP ports, their interfaces, and what must not be touched
version_added: 0.1.0
description:
  - Finds the ports of the ConnectX network card in C(/sys), by vendor and PCI address and not by name, since other
    makers' boxes have other names.
  - A port shows as two interfaces, its twins, because the card hangs on two PCIe links. Twins have the same PCI bus,
    slot and function, and differ in the PCI domain. The number of a port is the PCI function.
  - Tells of each interface whether it has a link, speed, MTU, addresses, who manages it, and its RDMA device.
  - Tells which interfaces carry the way by which the host is reached, and which networks are in use.
  - Needs no root. Netplan files that the login user cannot read are listed.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  state_directory:
    description:
      - Where this collection keeps its deployments on the Spark, and what was measured of the cable.
    type: path
    default: ~/.local/share/dgx-spark-speculative
seealso:
  - module: dgx_spark.speculative.fabric_plan
  - module: dgx_spark.speculative.fabric_check
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Look at the ports
  dgx_spark.speculative.spark_fabric_info:
  register: fabric

- name: Show the interfaces with a link
  ansible.builtin.debug:
    msg: "{{ fabric.ports | map(attribute='interfaces') | flatten | selectattr('carrier') | map(attribute='name') }}"
"""

RETURN = r"""
ports:
  description:
    - The ports with their interfaces. In each interface, C(carrier) is null while it is switched off,
      C(speed_mbps) is the RDMA port's rate, C(pcie_width) and C(pcie_gts) are the lanes of its PCIe link and their
      speed in GT/s, C(manager) is V(NetworkManager), V(networkd) or V(none), C(profile) and
      C(file) name its configuration, C(netplan_files) are those that set it up as far as they can be read, C(own) is
      whether the file of M(dgx_spark.speculative.fabric_network) does, and C(gids) are the RoCE v2 entries with an IPv4
      address.
  returned: success
  type: list
  elements: dict
  sample:
    - number: 1
      place: "01:00.1"
      interfaces:
        - name: enp1s0f1np1
          pci: "0000:01:00.1"
          port: 1
          rdma: rocep1s0f1
          pcie_width: 4
          pcie_gts: 32.0
          mac: 4c:bb:47:00:00:01
          up: true
          carrier: true
          operstate: up
          speed_mbps: 200000
          mtu: 9000
          max_mtu: 9978
          master: null
          addresses:
            - address: 192.168.100.10
              prefix: 24
              dynamic: false
          manager: NetworkManager
          profile: netplan-enp1s0f1np1
          file: /run/NetworkManager/system-connections/netplan-enp1s0f1np1.nmconnection
          netplan_files: []
          own: true
          rdma_state: ACTIVE
          rdma_physical: LinkUp
          gids:
            - index: 3
              address: 192.168.100.10
connectx:
  description: How many PCI functions of a ConnectX-7 are on the bus. DGX OS takes them off while no cable is in.
  returned: success
  type: int
  sample: 4
hotplug:
  description:
    - Whether DGX OS takes the network card off the bus while it sees no cable (C(armed)), and whether its driver
      says that a cable is in (C(powered), null where there is no such driver). C(aside) is from where to where the
      marker of that goes back, if this collection has put it aside; else it is empty.
  returned: success
  type: dict
  sample:
    armed: true
    powered: true
    aside: []
starter:
  description:
    - What this collection has installed to start a container when the network card comes late, C(files) with their
      SHA-256, and whether it is C(enabled).
  returned: success
  type: dict
  sample:
    files: {}
    enabled: false
measured:
  description:
    - What the role spark_network has measured since the host was started, with C(interface), and on the head C(gbps),
      C(by), V(RDMA) or V(TCP), and C(finding), a sentence, or null if that is what a cable carries. Empty if nothing.
  returned: success
  type: list
  elements: dict
  sample:
    - interface: enp1s0f1np1
      gbps: 97.3
      by: RDMA
      finding: null
in_use:
  description: Whether a TCP connection is open at an address of the ports, as while a pair serves.
  returned: success
  type: bool
  sample: false
management:
  description: The interfaces by which the host is reached, each with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - interface: enP7s7
      why: the default route
networks:
  description: All IPv4 networks the host has an address in or a route to, with the interface.
  returned: success
  type: list
  elements: dict
  sample:
    - network: 172.17.0.0/16
      interface: docker0
renderer:
  description: What netplan hands the ports to on this host, V(NetworkManager) or V(networkd).
  returned: success
  type: str
  sample: NetworkManager
netplan:
  description: Whether netplan is installed.
  returned: success
  type: bool
  sample: true
netplan_unreadable:
  description: Netplan files that only root can read.
  returned: success
  type: list
  elements: str
  sample: [/etc/netplan/50-cloud-init.yaml]
own_file:
  description: Whether the file of M(dgx_spark.speculative.fabric_network) is there.
  returned: success
  type: bool
  sample: false
trial:
  description:
    - How the last change of the network since the host started stands, with C(id), C(action), C(state) and C(error).
      Null if there was none.
  returned: success
  type: dict
  sample: null
nccl_conf:
  description: What C(/etc/nccl.conf) says. Null if there is none.
  returned: success
  type: str
  sample: null
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.ports import FabricError, Look


def main() -> None:
    module = AnsibleModule(
        argument_spec={"state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"}},
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **Look(state_directory=Path(module.params["state_directory"])).look())
    except FabricError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
