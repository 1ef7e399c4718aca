#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_records
short_description: Read what was recorded of deployments
version_added: 0.1.0
description:
  - A deployment that was seen to serve leaves a record from which it can be deployed again.
  - Reads the records that matter at one moment. A record that is damaged, or lacks what bringing its deployment back
    needs, is none.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  state_directory:
    description:
      - The directory in which deployments live.
    type: path
    required: true
  deployment:
    description:
      - The name of a deployment whose record is wanted.
    type: str
  labels:
    description:
      - The labels of the container in the serving slot. Empty if there is none.
    type: dict
    default: {}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.deployment_info
"""

EXAMPLES = r"""
---
- name: Look at the serving slot
  dgx_spark.speculative.docker_access_info:
    container: dgx-spark-speculative
  register: docker

- name: Read the records
  dgx_spark.speculative.deployment_records:
    state_directory: ~/.local/share/dgx-spark-speculative
    labels: "{{ docker.slot.labels if docker.slot else {} }}"
  register: records

- name: Show what can be gone back to
  ansible.builtin.debug:
    msg: "{{ records.previous.deployment }}"
  when: records.previous is not none
"""

RETURN = r"""
own:
  description: The last record of O(deployment). Null if there is none.
  returned: success
  type: dict
slot_directory:
  description: The directory of the deployment in the slot. Null without one.
  returned: success
  type: str
  sample: /home/user/.local/share/dgx-spark-speculative/single_eagle3
slot:
  description:
    - The last record of the deployment that is in the slot, whether it is of the same configuration or not. Null if
      there is none.
  returned: success
  type: dict
present:
  description:
    - The record of just what is in the slot. Null if that was never seen to serve.
  returned: success
  type: dict
previous:
  description: The record of what served before the present deployment. Null if there is none.
  returned: success
  type: dict
previous_damaged:
  description: Whether there is a file for RV(previous) and nothing usable in it.
  returned: success
  type: bool
choice:
  description:
    - What a benchmark has chosen for O(deployment), or without that for what is in the slot. Null if it has chosen
      nothing.
  returned: success
  type: dict
  sample:
    draft_length: 3
    method: eagle3
    date: "2026-11-22"
trial:
  description:
    - What a benchmark has served in the slot now, in place of the deployment's own engine options. Null if there is no
      benchmark, or none that lives.
  returned: success
  type: dict
  contains:
    id:
      description: What the benchmark calls it.
      type: str
    title:
      description: The same for a person.
      type: str
    until:
      description: The Unix time at which it ends unless the benchmark goes on renewing it.
      type: float
  sample:
    id: draft-3
    title: draft length 3
    until: 1790000000.0
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import records


def read(state_directory: Path, deployment: str | None, labels: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Everything that this module returns."""
    directory = records.deployment_directory(state_directory, labels)
    slot = records.complete_record(directory / "record.json") if directory else None
    previous = state_directory / records.PREVIOUS
    return {
        "own": records.complete_record(state_directory / deployment / "record.json") if deployment else None,
        "slot_directory": str(directory) if directory else None,
        "slot": slot,
        "present": slot if slot and records.is_of(slot, labels) else None,
        "previous": records.complete_record(previous),
        "previous_damaged": previous.exists() and records.complete_record(previous) is None,
        "trial": records.leased_trial(directory) if directory else None,
        "choice": records.choice(state_directory / deployment if deployment else directory),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_directory": {"type": "path", "required": True},
            "deployment": {"type": "str"},
            "labels": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    module.exit_json(changed=False, **read(Path(params["state_directory"]), params["deployment"], params["labels"]))


if __name__ == "__main__":
    main()
