#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_proxy
short_description: Plan the endpoint of the API proxy, and check the access of clients (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - With O(plan), returns addresses, names and URLs, or the problems. With O(check), sends requests and compares.
  - The requests change nothing on the server. Proxies in the environment are not used.
options:
  plan:
    type: dict
    description: "The desired endpoint. Exactly one of O(plan) and O(check) is required."
    suboptions:
      expose: {type: str, choices: [docker, lan], required: true, description: "Clients that may use it."}
      port: {type: int, default: 8443, description: "The port for other machines."}
      docker_port: {type: int, default: 8000, description: "The port for containers."}
      addresses: {type: list, elements: str, default: [], description: "The addresses for other machines, or all."}
      names: {type: list, elements: str, default: [], description: "Further names of the host."}
      certificate_names: {type: list, elements: str, description: "The names in a certificate of the user's own."}
      certificate: {type: str, default: "", description: "The SHA-256 of that certificate's file."}
      reached_as: {type: str, default: "", description: "The name or address that the controller connects to."}
      controller_clock: {type: float, required: true, description: "The controller's time in seconds since 1970."}
  check:
    type: dict
    description: "The endpoint to check."
    suboptions:
      url: {type: str, required: true, description: "The URL with its port."}
      connect_to: {type: str, description: "The address to connect to in place of the URL's host name."}
      api_key: {type: str, description: "A valid key. Exactly one of this and O(check.api_key_file) is required."}
      api_key_file: {type: path, description: "A file with a valid key, on the host where the module runs."}
      ca_path: {type: path, description: "A certificate to trust besides those of the system."}
      wait: {type: float, default: 15, description: "Seconds to wait until the endpoint accepts connections."}
      stream_seconds: {type: float, default: 120, description: "Seconds for which the stream may be silent."}
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

from ..module_utils._gateway.endpoint import Check, CheckError, Endpoint, remedy, table
from ..module_utils._gateway.proxy import HostError, ProxySpec, plan, read_host

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
    """Return the result of the requests: a message if anything is wrong, and what could not be checked."""
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
    args = module.params
    try:
        if args["plan"] is not None:
            module.exit_json(changed=False, **plan(ProxySpec(**args["plan"]), read_host()))
        result = check(args["check"])
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
