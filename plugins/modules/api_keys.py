#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_keys
short_description: Create and revoke the keys of the API proxy (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Keeps each key in a file that only the login user can read, and never returns or shows one.
  - The proxy must be reloaded afterwards.
options:
  directory: {type: path, required: true, description: "The directory of the keys."}
  names: {type: list, elements: str, default: [], description: "The names of all keys of O(owner). Others are revoked."}
  owner: {type: str, default: api_proxy, description: "The role that asks for the keys."}
  expose: {type: str, choices: [local, docker, lan], default: local, description: "Clients that may use the endpoint."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._gateway.exposed import closes, exposed_endpoint, scope
from ..module_utils._gateway.keys import Keys, KeysError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True, "no_log": False},
            "names": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "owner": {"type": "str", "default": "api_proxy"},
            "expose": {"type": "str", "choices": ["local", "docker", "lan"], "default": "local"},
        },
        supports_check_mode=True,
    )
    directory, names, owner = Path(module.params["directory"]), module.params["names"], module.params["owner"]
    keys = Keys(directory)
    there = directory.is_dir()
    try:
        before = keys.owners()
        change = keys.ensure(names, owner, dry=module.check_mode)
    except KeysError as e:
        module.fail_json(msg=str(e))
    for name in change.tightened:
        module.warn(f"The key {keys.path(name)} could be read by others; its mode is 0600 now. Revoke it if in doubt.")
    after = {
        **{name: whose for name, whose in before.items() if name not in change.revoked},
        **dict.fromkeys(names, owner),
    }
    guests = [name for name, whose in before.items() if whose not in ("", owner)]
    expose = module.params["expose"]
    now = "docker" if expose == "local" and guests else expose
    module.exit_json(
        changed=change.any,
        created=change.created,
        created_paths={name: str(keys.path(name)) for name in change.created},
        directory_exists=there,
        owned=[name for name, whose in before.items() if whose == owner],
        other_owners_keys=guests,
        # A key of another owner keeps the endpoint open for containers.
        scope=now,
        # The message for people if other machines lose access.
        closes=closes(scope(exposed_endpoint(directory.parent)), now),
        owners=dict(sorted(after.items())),
        accepted_paths={
            name: str(keys.path(name)) for name in sorted(after, key=lambda name: (after[name] != owner, name))
        },
    )


if __name__ == "__main__":
    main()
