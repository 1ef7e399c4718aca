#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_plan
short_description: Decide how two Sparks are joined by their cable
version_added: 0.1.0
description:
  - Chooses the port with the cable at both ends, takes the addresses that are there, or plans new ones.
  - Refuses what cannot work or would endanger something, with one sentence for each reason, before anything is
    changed. That is a missing cable, one twin interface without a link, addresses that clash or overlap a network in
    use, an interface by which the host is reached, and one that somebody else has set up.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  hosts:
    description:
      - What M(dgx_spark.speculative.spark_info) returned as C(fabric), by host name, the head first.
    type: dict
    required: true
  host:
    description:
      - Whose part of the plan is returned. The default is the host that the task runs for.
    type: str
  mode:
    description:
      - V(auto) uses addresses that work, whoever set them, also if O(plan) or O(mtu) say otherwise, which is a finding.
        It configures a port whose addresses do not join the Sparks.
      - V(adopt) configures nothing.
      - V(configure) also changes addresses that work, if this collection has set them up, to O(plan) and O(mtu). It
        never changes what others have set up.
    type: str
    choices: [auto, adopt, configure]
    default: auto
  plan:
    description:
      - Addresses of one's own. Either a list with an entry for each twin interface, which has C(addresses), the head's
        first, and C(subnet); or a mapping of each host's name to a list of addresses with prefix length.
      - Without it, 192.168.100.0/24 and 192.168.101.0/24 are used, with .10 for the head and .11 for the worker, or the
        next pair of networks that is free.
    type: raw
  interfaces:
    description:
      - Names of the interfaces to use, a list for both hosts, or a mapping of each host's name to a list. Without it,
        the port with the cable is found.
    type: raw
  mtu:
    description:
      - MTU of the interfaces that are configured.
    type: int
    default: 9000
  renderer:
    description:
      - What netplan hands the interfaces to. V(auto) is what the host already uses.
    type: str
    choices: [auto, NetworkManager, networkd]
    default: auto
  speed:
    description:
      - The speed of a link in Mb/s below which it is a finding.
    type: int
    default: 200000
  minimum_speed:
    description:
      - The speed of a link in Mb/s below which it is refused.
    type: int
    default: 0
  bandwidth_test:
    description:
      - Whether what the cable carries is to be measured, V(true), V(false), or V(auto), which is once after each start
        of one of the two, while nobody uses the cable.
    type: raw
    default: auto
  start_with_card:
    description:
      - Whether a Spark is to start its container when the network card comes after Docker, V(true), V(false), or
        V(auto), which is where the host is configured anyway.
    type: raw
    default: auto
  keep_card:
    description:
      - Whether the network card is to stay on without a cable, V(true), V(false), or V(auto), which is as it is.
    type: raw
    default: auto
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.spark_info
  - module: dgx_spark.speculative.fabric_network
  - module: dgx_spark.speculative.fabric_check
"""

EXAMPLES = r"""
---
- name: Look at the ports
  dgx_spark.speculative.spark_info:
    gather: [fabric]
  register: look

- name: Plan the addresses
  dgx_spark.speculative.fabric_plan:
    hosts:
      spark-1: "{{ hostvars['spark-1'].look.fabric }}"
      spark-2: "{{ hostvars['spark-2'].look.fabric }}"
  register: plan

- name: Plan the addresses of an older page of NVIDIA's
  dgx_spark.speculative.fabric_plan:
    hosts:
      spark-1: "{{ hostvars['spark-1'].look.fabric }}"
      spark-2: "{{ hostvars['spark-2'].look.fabric }}"
    plan:
      - subnet: 192.168.200.0/24
        addresses: [192.168.200.12, 192.168.200.13]
      - subnet: 192.168.200.0/24
        addresses: [192.168.200.14, 192.168.200.15]
  register: plan
"""

RETURN = r"""
rank:
  description: V(0) for the head, V(1) for the worker.
  returned: success
  type: int
  sample: 0
before:
  description: The host before this one, from which it takes what both need. Empty for the head.
  returned: success
  type: str
  sample: spark-1
after:
  description: The host after this one, which takes that from it. Empty for the last one.
  returned: success
  type: str
rails:
  description: The interfaces of the cable, as this host sees them, one for each twin.
  returned: success
  type: list
  elements: dict
  sample:
    - interface: enp1s0f1np1
      rdma: rocep1s0f1
      port: 1
      address: 192.168.100.10
      prefix: 24
      subnet: 192.168.100.0/24
      peer_address: 192.168.100.11
      peer_interface: enp1s0f1np1
      peer_rdma: rocep1s0f1
      mtu: 9000
      speed_mbps: 200000
      manager: NetworkManager
      gid_index: 3
configure:
  description: Whether this host has to be configured.
  returned: success
  type: bool
  sample: false
any_configure:
  description: Whether any of the hosts has to be configured.
  returned: success
  type: bool
  sample: false
measure:
  description:
    - Whether what the cable carries is to be measured. With O(bandwidth_test=auto), it was not since one of the two
      was started, and nobody uses it.
  returned: success
  type: bool
  sample: false
document:
  description: What the netplan file of this host is to say. Empty without RV(configure).
  returned: success
  type: dict
  sample: {}
ask:
  description:
    - What this host is to ask on the wire with M(dgx_spark.speculative.fabric_network) and C(state=asked) before the
      plan is final. Give its C(neighbours) to the next plan, in the host's entry of O(hosts). Empty if nothing.
    - If both ports have a cable, only that tells which of them join the two Sparks, and there are no RV(rails) before.
  returned: success
  type: dict
  sample: {}
card:
  description:
    - What is to be done on this host about a network card that comes late or leaves. In C(install) are files with
      C(src), C(dest) and C(mode), in C(remove) the paths of files, in C(move) how the marker of DGX OS is moved, from
      and to. Each is empty if nothing is to be done. C(lacking) is whether something should be installed and is not.
  returned: success
  type: dict
  sample: {install: [], remove: [], move: [], lacking: false}
renderer:
  description: What netplan hands the interfaces to.
  returned: success
  type: str
  sample: NetworkManager
findings:
  description: What works but not as one may expect, for both hosts.
  returned: success
  type: list
  elements: str
  sample: []
lines:
  description: The plan for people.
  returned: success
  type: list
  elements: str
  sample:
    - "spark-1: enp1s0f1np1 192.168.100.10/24, MTU 9000, to spark-2's enp1s0f1np1 192.168.100.11: as it is"
"""
