#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lease
short_description: Have a Spark for one run alone
version_added: 0.1.0
description:
  - One run at a time changes a Spark, whichever user's it is. The lock is a process there, which is gone with a reboot,
    and leaves nothing that would have to be freed by hand.
  - A process on the controller renews the lease every 10 seconds, over the connection of the run, whatever its tasks
    do, and gives it back as soon as C(ansible-playbook) ends, however that does. One that was not renewed for 45
    seconds is free. That is counted by the Spark's time since boot.
  - Who was away and comes back goes on if nobody else came meanwhile. Otherwise the run must not change anything more,
    its way back included. The Spark refuses each module that may change it then. For that the variable
    C(ansible_shell_type) has to be V(dgx_spark.speculative.fenced), as in the playbooks of this collection.
  - Root, the user who took the lease, and the members of the groups C(docker), C(sudo), C(admin) and C(wheel) may take
    it. For other users the lock only says who has it.
  - A run that has taken no lease is not checked, so the roles can be used without.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode no lease is taken, and none is needed.
  diff_mode:
    support: N/A
  idempotent:
    support: full
  action:
    description:
      - Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
options:
  state:
    description:
      - V(held) takes the lease, unless the run has it, and fails if somebody else has. With several hosts give the task
        C(any_errors_fatal=true), so that a run has all of them or none.
      - V(checked) fails if the lease of one of the run's hosts is somebody else's by now. As a rule that takes no call
        of the host.
      - V(confirmed) is V(checked), but asks the host in any case.
      - V(awaited) belongs in the rescue of V(held). It gives back what was had, waits until the host is free, and fails
        after O(wait_minutes). Then V(held) is tried again.
    type: str
    choices: [held, checked, confirmed, awaited]
    default: checked
  take_over:
    description:
      - With O(state=held), whether to take the lease from a run that has it. What that has begun is waited for.
    type: bool
    default: false
  wait_minutes:
    description:
      - How long the run waits in all, with O(state=awaited).
    type: float
    default: 0
  run:
    description:
      - What no other run is called. Set by itself, as are O(who) and O(doing).
    type: str
  who:
    description:
      - Whose run it is, as others are told.
    type: str
  doing:
    description:
      - What is run, as others are told.
    type: str
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
# The play of these tasks has ansible_shell_type=dgx_spark.speculative.fenced as a variable.
- name: Have the Sparks for this run alone
  block:
    - name: Take the lease
      dgx_spark.speculative.lease:
        state: held
      any_errors_fatal: true
  rescue:
    - name: Wait until they are free
      dgx_spark.speculative.lease:
        state: awaited
        wait_minutes: 30
      any_errors_fatal: true

    - name: Try again
      ansible.builtin.include_tasks: lease.yml

- name: See that they still are this run's
  dgx_spark.speculative.lease:
    state: checked
"""

RETURN = r"""
held:
  description:
    - Whether this run has the lease of the Spark; not so for one that has taken none, nor in check mode.
  returned: with O(state=held), O(state=checked) and O(state=confirmed)
  type: bool
  sample: true
"""

import sys

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.lease import LockError, take


def main() -> None:
    # Asked by the action with the same name.
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "checked", "confirmed", "awaited"], "default": "checked"},
            "take_over": {"type": "bool", "default": False},
            "wait_minutes": {"type": "float", "default": 0},
            "run": {"type": "str"},
            "who": {"type": "str"},
            "doing": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        answer = take({name: module.params[name] for name in ("run", "who", "doing", "take_over")})
    except LockError as error:
        module.fail_json(msg=f"{error}.")
    module.exit_json(changed=False, python=sys.executable, **answer)


if __name__ == "__main__":
    main()
