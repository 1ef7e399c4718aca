#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_proxy
short_description: Tell where the endpoint's proxy would listen, and prove whom it lets in
version_added: 0.1.0
description:
  - With O(plan), finds out the host's addresses and names, the address of Docker's bridge, and whether its clock is
    right; says under which addresses others would reach the endpoint, or why they would not.
  - With O(check), asks the endpoint with a key, without one and with a wrong one, asks for what is not offered, tries
    to get around the list of what is offered, and reads a stream. Run that where the users of the endpoint are.
  - Nothing that it asks for changes the server, even if the endpoint lets it through to one that does not know it; the
    routes that do change the server are asked for with an empty object.
  - Proxies set in the environment are not used.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
attributes:
  check_mode:
    details:
      - The endpoint is asked in check mode as well.
options:
  plan:
    description:
      - What is wanted.
      - Exactly one of O(plan) and O(check) is given.
    type: dict
    suboptions:
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
      certificate:
        description:
          - The SHA-256 of the given certificate's file, by which it is called on the host. Empty where the proxy makes
            its certificates.
        type: str
        default: ""
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
  check:
    description:
      - The endpoint that is asked. Exactly one of O(check.api_key) and O(check.api_key_file) is given.
    type: dict
    suboptions:
      url:
        description:
          - Where the endpoint is, with its port.
        type: str
        required: true
      connect_to:
        description:
          - The address to connect to, where the name in O(check.url) does not lead there from here.
        type: str
      api_key:
        description:
          - A key that is accepted.
        type: str
      api_key_file:
        description:
          - A file with such a key, on the host where the module runs.
        type: path
      ca_path:
        description:
          - The certificate, or that of the authority, that has to be trusted besides the system's.
        type: path
      wait:
        description:
          - How many seconds to wait for the endpoint to take connections.
        type: float
        default: 15
      stream_seconds:
        description:
          - How many seconds the stream may be silent. A server that answers others that long is not judged by its
            stream.
        type: float
        default: 120
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: See where the proxy would listen
  dgx_spark.speculative.api_proxy:
    plan:
      expose: lan
      controller_clock: "{{ now().timestamp() }}"
  register: proxy

- name: Prove it from here
  dgx_spark.speculative.api_proxy:
    check:
      url: https://spark-1234.local:8443
      ca_path: ~/.config/dgx-spark-speculative/spark-ca.crt
      api_key_file: ~/spark.key
  delegate_to: localhost
"""

RETURN = r"""
problems:
  description: What speaks against it, each in a sentence. With any, the rest is empty.
  returned: with O(plan)
  type: list
  elements: str
  sample: []
gateway:
  description: The host's address on Docker's bridge.
  returned: with O(plan)
  type: str
  sample: 172.17.0.1
certificate:
  description:
    - What O(plan.certificate) and its key are called in the proxy's directory, without suffix. Empty if none is given.
  returned: with O(plan)
  type: str
  sample: certificate-0123456789abcdef
names:
  description: The names and addresses that the certificates are for.
  returned: with O(plan)
  type: list
  elements: str
  sample: [spark-1234.local, spark-1234, 192.168.1.20]
listens:
  description:
    - On which addresses and ports it listens, with the input of the role C(api_proxy) that says so, and in the spelling
      of O(dgx_spark.speculative.spark_info#module:docker.published_ports).
  returned: with O(plan)
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
  returned: with O(plan)
  type: list
  elements: dict
  sample:
    - scope: docker
      url: http://172.17.0.1:8000
    - scope: lan
      url: https://spark-1234.local:8443
check:
  description: How the controller reaches it. Null unless O(plan.expose=lan).
  returned: with O(plan)
  type: dict
  sample:
    url: https://192.168.1.20:8443
    connect_to: 192.168.1.20
rows:
  description: The requests, and what came of each. C(ok) is null where it could not be seen.
  returned: with O(check), when the endpoint could be asked
  type: list
  elements: dict
  sample:
    - request: GET /v1/models without a key
      expected: "401"
      got: "401"
      ok: true
lines:
  description: The same as a table.
  returned: with O(check), when the endpoint could be asked
  type: list
  elements: str
  sample:
    - request                       expected  got
    - GET /v1/models without a key  401       401
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.endpoint import (
    Check,
    CheckError,
    Endpoint,
    remedy,
    table,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.proxy import (
    HostError,
    Wish,
    plan,
    read_host,
)

PLAN: dict[str, dict[str, t.Any]] = {
    "expose": {"type": "str", "choices": ["docker", "lan"], "required": True},
    "port": {"type": "int", "default": 8443},
    "docker_port": {"type": "int", "default": 8000},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "names": {"type": "list", "elements": "str", "default": []},
    "certificate_names": {"type": "list", "elements": "str"},
    "certificate": {"type": "str", "default": ""},
    "reached_as": {"type": "str", "default": ""},
    "controller_clock": {"type": "float", "required": True},
}
CHECK: dict[str, dict[str, t.Any]] = {
    "url": {"type": "str", "required": True},
    "connect_to": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "ca_path": {"type": "path"},
    "wait": {"type": "float", "default": 15},
    "stream_seconds": {"type": "float", "default": 120},
}
# A task asks one of them.
SUBJECTS: dict[str, dict[str, t.Any]] = {
    "plan": {"type": "dict", "options": PLAN},
    "check": {
        "type": "dict",
        "options": CHECK,
        "mutually_exclusive": [("api_key", "api_key_file")],
        "required_one_of": [("api_key", "api_key_file")],
    },
}


def check(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What came of the requests: with a message if anything is not as it should be, else what could not be seen."""
    try:
        key = given["api_key"] or Path(given["api_key_file"]).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckError(f"The key in {given['api_key_file']} cannot be read ({reason}).") from None
    endpoint = Endpoint(given["url"], given["connect_to"], given["ca_path"])
    endpoint.wait(given["wait"])
    rows = Check(endpoint, key.strip(), given["stream_seconds"]).rows()
    result: dict[str, t.Any] = {"changed": False, "rows": [row._asdict() for row in rows], "lines": table(rows)}
    wrong = [row for row in rows if row.ok is False]
    if wrong:
        told = "; ".join(f"{row.request}: {row.got} instead of {row.expected}" for row in wrong)
        return {**result, "msg": f"The endpoint {given['url']} does not do what it should: {told}. {remedy(wrong)}"}
    unseen = [f"{given['url']}, {row.request}: {row.got}, so it was not checked." for row in rows if row.ok is None]
    return {**result, "unseen": unseen}


def main() -> None:
    module = AnsibleModule(
        argument_spec=SUBJECTS,
        mutually_exclusive=[list(SUBJECTS)],
        required_one_of=[list(SUBJECTS)],
        supports_check_mode=True,
    )
    asked = module.params
    try:
        if asked["plan"] is not None:
            module.exit_json(changed=False, **plan(Wish(**asked["plan"]), read_host()))
        result = check(asked["check"])
    except (CheckError, HostError) as error:
        module.fail_json(msg=str(error))
    if "msg" in result:
        module.fail_json(**result)
    # As a result's key, even an empty one, Ansible calls it deprecated.
    for text in result.pop("unseen"):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
