#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lease
short_description: Acquire the lease of a Spark for one run (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - The controller renews the lease until C(ansible-playbook) ends. Without renewal it ends after 45 seconds.
  - With the shell plugin C(dgx_spark.speculative.fenced), a run that lost its lease changes nothing more.
options:
  state:
    type: str
    choices: [held, checked, confirmed, awaited]
    default: checked
    description: "Acquire the lease, check it, check it on the host, or wait until the host is free."
  take_over: {type: bool, default: false, description: "Whether O(state=held) may take the lease from another run."}
  wait_minutes: {type: float, default: 0, description: "Minutes after which O(state=awaited) fails."}
  run: {type: str, description: "The ID of the run, set by the action plugin."}
  owner: {type: str, description: "The user of the run, set by the action plugin."}
  activity: {type: str, description: "The playbook of the run, set by the action plugin."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import sys

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._spark.lease import LockError, take


def main() -> None:
    # Asked by the action with the same name.
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "checked", "confirmed", "awaited"], "default": "checked"},
            "take_over": {"type": "bool", "default": False},
            "wait_minutes": {"type": "float", "default": 0},
            "run": {"type": "str"},
            "owner": {"type": "str"},
            "activity": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        answer = take({name: module.params[name] for name in ("run", "owner", "activity", "take_over")})
    except LockError as error:
        module.fail_json(msg=f"{error}.")
    module.exit_json(changed=False, python=sys.executable, **answer)


if __name__ == "__main__":
    main()
