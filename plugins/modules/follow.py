#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: follow
short_description: Call a module until it has finished, and show how far it is
version_added: 0.1.0
description:
  - Calls a module again and again until it returns RV(finished=true), and shows the text of its C(progress) meanwhile.
  - >-
    Every host has a line of its own at most every O(interval) seconds, and one at the beginning and at the end, such as
    V(spark-1 | 3.1 of 8.2 GB (38 %\), 112 MB/s, 1 min left).
  - Interrupting the playbook ends the watching. The work on the host goes on, and the next run attaches to it.
    A line says so as soon as there is something to wait for.
  - The task fails when the module returns C(error), with that sentence.
  - This is an action plugin. It honours C(become), C(environment), C(delegate_to) and so on like the module it calls.
attributes:
  check_mode:
    support: full
    details:
      - The module is called once, in check mode.
  diff_mode:
    support: none
    description:
      - Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  idempotent:
    support: N/A
    details:
      - It is as idempotent as the module it calls.
  action:
    support: full
    description:
      - Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
options:
  module:
    description:
      - The fully qualified name of the module to call.
      - >-
        It returns C(finished) (a boolean). It can return C(progress) (a mapping with a C(text)), C(error) (a sentence)
        and C(follow) (a mapping of parameters to add to the next call).
    type: str
    required: true
  args:
    description:
      - The parameters of the module.
    type: dict
    default: {}
  interval:
    description:
      - The least number of seconds between two lines about the same host.
    type: float
    default: 10
  timeout:
    description:
      - Fail when the work has not finished after so many seconds. It goes on nevertheless.
      - With V(0) there is no limit.
    type: float
    default: 0
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.watched_job
"""

EXAMPLES = r"""
---
- name: Fetch the image
  dgx_spark.speculative.follow:
    module: dgx_spark.speculative.watched_job
    args:
      name: pull
      directory: ~/.local/share/dgx-spark-speculative/jobs
      program: "{{ lookup('ansible.builtin.file', 'pull_image.py') }}"
      arguments:
        - nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
"""

RETURN = r"""
finished:
  description: Whether the work has finished. In check mode this can be V(false).
  returned: success
  type: bool
calls:
  description: How often the module was called.
  returned: always
  type: int
  sample: 12
changed:
  description: Whether one of the calls changed something.
  returned: always
  type: bool
attached:
  description: Whether the first call found the work under way, when the module says so.
  returned: when the module returns it
  type: bool
"""
