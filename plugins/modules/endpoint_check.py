#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_check
short_description: Prove that an endpoint lets in who has a key, and nobody else
version_added: 0.1.0
description:
  - Asks with a key, without one and with a wrong one, asks for what is not offered, tries to get around the list of
    what is offered, and reads a stream.
  - Run it where the users of the endpoint are.
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
  url:
    description:
      - Where the endpoint is, with its port.
    type: str
    required: true
  connect_to:
    description:
      - The address to connect to, where the name in O(url) does not lead there from here.
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
      - How many seconds the stream may be silent. A server that answers others that long is not judged by its stream.
    type: float
    default: 120
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Prove it from here
  dgx_spark.speculative.endpoint_check:
    url: https://spark-1234.local:8443
    ca_path: ~/.config/dgx-spark-speculative/spark-ca.crt
    api_key_file: ~/spark.key
  delegate_to: localhost
"""

RETURN = r"""
rows:
  description: The requests, and what came of each. C(ok) is null where it could not be seen.
  returned: when the endpoint could be asked
  type: list
  elements: dict
  sample:
    - request: GET /v1/models without a key
      expected: "401"
      got: "401"
      ok: true
lines:
  description: The same as a table.
  returned: when the endpoint could be asked
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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "connect_to": {"type": "str"},
            "api_key": {"type": "str", "no_log": True},
            "api_key_file": {"type": "path", "no_log": False},
            "ca_path": {"type": "path"},
            "wait": {"type": "float", "default": 15},
            "stream_seconds": {"type": "float", "default": 120},
        },
        mutually_exclusive=[("api_key", "api_key_file")],
        required_one_of=[("api_key", "api_key_file")],
        supports_check_mode=True,
    )
    params = module.params
    try:
        key = params["api_key"] or Path(params["api_key_file"]).read_text(encoding="ascii")
    except (OSError, ValueError) as e:
        module.fail_json(
            msg=f"The key in {params['api_key_file']} cannot be read ({getattr(e, 'strerror', None) or e})."
        )
    try:
        endpoint = Endpoint(params["url"], params["connect_to"], params["ca_path"])
        endpoint.wait(params["wait"])
        rows = Check(endpoint, key.strip(), params["stream_seconds"]).rows()
    except CheckError as e:
        module.fail_json(msg=str(e))
    result: dict[str, t.Any] = {"changed": False, "rows": [row._asdict() for row in rows], "lines": table(rows)}
    wrong = [row for row in rows if row.ok is False]
    if wrong:
        told = "; ".join(f"{row.request}: {row.got} instead of {row.expected}" for row in wrong)
        module.fail_json(
            msg=f"The endpoint {params['url']} does not do what it should: {told}. {remedy(wrong)}", **result
        )
    for row in rows:
        if row.ok is None:
            module.warn(f"{params['url']}, {row.request}: {row.got}, so it was not checked.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
