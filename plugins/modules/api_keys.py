#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_keys
short_description: Have named keys for the endpoint's proxy
version_added: 0.1.0
description:
  - Has one key for each of the O(names), in a file of its own that only the login user may read. A key that is there is
    kept.
  - A key of the same O(owner) that is not named any more is revoked. Keys of other owners stay.
  - Writes what the proxy accepts next to them. The proxy has to read it anew afterwards, by C(caddy reload).
  - Never returns, logs or shows a key. M(dgx_spark.speculative.report) shows one to whoever sits at the screen.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - A difference would show keys.
  idempotent:
    support: full
options:
  directory:
    description:
      - Where the keys are. It is created with mode V(0700).
    type: path
    required: true
  names:
    description:
      - The names of the owner's keys. Without any, all keys of the owner are revoked.
    type: list
    elements: str
    default: []
  owner:
    description:
      - Who asks for them, usually a role.
    type: str
    default: api_proxy
  expose:
    description:
      - Whom the proxy is to let in, as V(local), which is nobody, V(docker) or V(lan). See RV(scope).
    type: str
    choices: [local, docker, lan]
    default: local
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.report
"""

EXAMPLES = r"""
---
- name: Have a key for the laptop and one for the agent
  dgx_spark.speculative.api_keys:
    directory: ~/.local/share/dgx-spark-speculative/proxy/keys
    names: [laptop, agent]
  register: keys

- name: Show the new ones once
  dgx_spark.speculative.report:
    reveal:
      paths: "{{ keys.created_paths }}"
  no_log: true
"""

RETURN = r"""
paths:
  description: The file of each of the O(names).
  returned: success
  type: dict
  sample:
    laptop: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/laptop
created:
  description: The names whose keys are new.
  returned: success
  type: list
  elements: str
  sample: [laptop]
created_paths:
  description: The files of the new keys.
  returned: success
  type: dict
  sample:
    laptop: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/laptop
revoked:
  description: The names whose keys are accepted no more.
  returned: success
  type: list
  elements: str
  sample: []
there:
  description: Whether there was a O(directory).
  returned: success
  type: bool
  sample: true
existing:
  description: The keys that were there before, and who asked for each.
  returned: success
  type: dict
  sample:
    open-webui: open_webui
own:
  description: Those of the RV(existing) that the O(owner) has asked for.
  returned: success
  type: list
  elements: str
  sample: []
guests:
  description: Those of the RV(existing) that other owners have asked for.
  returned: success
  type: list
  elements: str
  sample: [open-webui]
scope:
  description:
    - Whom the proxy lets in. A key of another owner, such as Open WebUI's, keeps the door for containers open when
      O(expose=local).
  returned: success
  type: str
  sample: docker
accepted_paths:
  description: The file of each key that is accepted now, those of the O(owner) first.
  returned: success
  type: dict
  sample:
    laptop: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/laptop
    open-webui: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/open-webui
closes:
  description:
    - What to tell people where other machines lose access by RV(scope), and how to keep it. Empty if they do not. Whom
      the proxy has let in so far is read where the role C(api_proxy) has written it down.
  returned: success
  type: str
  sample: ""
owners:
  description: All keys that are accepted now, and who asked for each. Empty for a key that was put there by hand.
  returned: success
  type: dict
  sample:
    laptop: api_proxy
    open-webui: open_webui
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.exposed import closes, exposed, scope
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.keys import Keys, KeysError


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
        paths={name: str(keys.path(name)) for name in names},
        created=change.created,
        created_paths={name: str(keys.path(name)) for name in change.created},
        revoked=change.revoked,
        there=there,
        existing=before,
        own=[name for name, whose in before.items() if whose == owner],
        guests=guests,
        scope=now,
        closes=closes(scope(exposed(directory.parent)), now),
        owners=dict(sorted(after.items())),
        accepted_paths={
            name: str(keys.path(name)) for name in sorted(after, key=lambda name: (after[name] != owner, name))
        },
    )


if __name__ == "__main__":
    main()
