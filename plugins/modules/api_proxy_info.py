#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_proxy_info
short_description: Tell where the endpoint's proxy would listen, and what speaks against it
version_added: 0.1.0
description:
  - Finds out the host's addresses and names, the address of Docker's bridge, and whether its clock is right.
  - Says under which addresses others would reach the endpoint, or why they would not.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  expose:
    description:
      - V(docker) is for containers on the host, V(lan) for other machines as well.
    type: str
    choices: [docker, lan]
    required: true
  port:
    description:
      - The port for other machines.
    type: int
    default: 8443
  docker_port:
    description:
      - The port for containers.
    type: int
    default: 8000
  addresses:
    description:
      - The addresses on which it is to be offered to other machines. Without any, all.
    type: list
    elements: str
    default: []
  names:
    description:
      - Further names of the host.
    type: list
    elements: str
    default: []
  certificate_names:
    description:
      - The names of a given certificate, as M(community.crypto.x509_certificate_info) returns them. Leave it out
        where the proxy makes its certificates.
    type: list
    elements: str
  reached_as:
    description:
      - The name or address by which the controller reaches the host.
    type: str
    default: ""
  controller_clock:
    description:
      - The controller's time, in seconds since 1970.
    type: float
    required: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: See where the proxy would listen
  dgx_spark.speculative.api_proxy_info:
    expose: lan
    controller_clock: "{{ now().timestamp() }}"
  register: proxy
"""

RETURN = r"""
problems:
  description: What speaks against it, each in a sentence. With any, the rest is empty.
  returned: success
  type: list
  elements: str
  sample: []
gateway:
  description: The host's address on Docker's bridge.
  returned: success
  type: str
  sample: 172.17.0.1
names:
  description: The names and addresses that the certificates are for.
  returned: success
  type: list
  elements: str
  sample: [spark-1234.local, spark-1234, 192.168.1.20]
listens:
  description:
    - On which addresses and ports it listens, with the input of the role C(api_proxy) that says so, and in the spelling
      of O(dgx_spark.speculative.spark_info#module:docker.published_ports).
  returned: success
  type: list
  elements: dict
  sample:
    - address: 172.17.0.1
      port: 8000
      input: api_proxy_docker_port
      text: 172.17.0.1:8000:8000
    - address: 0.0.0.0
      port: 8443
      input: api_proxy_port
      text: 0.0.0.0:8443:8443
urls:
  description: How to reach it, and from where.
  returned: success
  type: list
  elements: dict
  sample:
    - scope: docker
      url: http://172.17.0.1:8000
    - scope: lan
      url: https://spark-1234.local:8443
check:
  description: How the controller reaches it. Null unless O(expose=lan).
  returned: success
  type: dict
  sample:
    url: https://192.168.1.20:8443
    connect_to: 192.168.1.20
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.proxy import (
    HostError,
    Wish,
    plan,
    read_host,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "expose": {"type": "str", "choices": ["docker", "lan"], "required": True},
            "port": {"type": "int", "default": 8443},
            "docker_port": {"type": "int", "default": 8000},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "certificate_names": {"type": "list", "elements": "str"},
            "reached_as": {"type": "str", "default": ""},
            "controller_clock": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **plan(Wish(**module.params), read_host()))
    except HostError as e:
        module.fail_json(msg=str(e))


if __name__ == "__main__":
    main()
