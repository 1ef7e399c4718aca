#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: caddy_config
short_description: Have a running Caddy use a configuration, without a restart
version_added: 0.1.0
description:
  - Compares what a running Caddy uses with a Caddyfile, as Caddy itself reads it, and puts the latter in force where
    they differ. Streams that are under way go on.
  - A configuration that Caddy refuses leaves the former one in force.
  - Files that the Caddyfile imports are read by Caddy, so their paths are those that Caddy sees, and what is in them is
    neither returned nor logged.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - Imported files are compared as they are now.
  diff_mode:
    support: none
    details:
      - A difference would show what is imported, such as keys.
  idempotent:
    support: full
options:
  socket:
    description:
      - The socket on which Caddy takes orders.
    type: path
    required: true
  content:
    description:
      - The Caddyfile's text.
    type: str
    required: true
  wait:
    description:
      - How many seconds to wait for a Caddy that was started a moment ago.
    type: float
    default: 0
  authority:
    description:
      - The name of an authority of Caddy's own whose certificate is returned.
    type: str
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Have the proxy use its configuration
  dgx_spark.speculative.caddy_config:
    socket: ~/.local/share/dgx-spark-speculative/proxy/data/admin.sock
    content: "{{ lookup('ansible.builtin.template', 'Caddyfile.j2') }}"
    wait: 30
"""

RETURN = r"""
running:
  description: Whether a Caddy answers. In check mode there may be none yet.
  returned: success
  type: bool
  sample: true
authority_certificate:
  description: The root certificate of O(authority), as PEM. Null without O(authority).
  returned: success
  type: str
  sample: "-----BEGIN CERTIFICATE-----..."
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.caddy import (
    Absent,
    Caddy,
    CaddyError,
    same,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "wait": {"type": "float", "default": 0},
            "authority": {"type": "str"},
        },
        supports_check_mode=True,
    )
    caddy, authority = Caddy(Path(module.params["socket"])), module.params["authority"]
    try:
        caddy.wait(0 if module.check_mode else module.params["wait"])
        wanted = caddy.adapt(module.params["content"])
        changed = not same(caddy.running(), wanted)
        if changed and not module.check_mode:
            caddy.load(wanted)
        certificate = caddy.authority(authority) if authority and not module.check_mode else None
    except Absent as e:
        if not module.check_mode:
            module.fail_json(msg=str(e))
        module.exit_json(changed=False, running=False, authority_certificate=None)
    except CaddyError as e:
        module.fail_json(msg=str(e))
    module.exit_json(changed=changed, running=True, authority_certificate=certificate)


if __name__ == "__main__":
    main()
