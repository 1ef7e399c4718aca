#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reveal
short_description: Show small secret files on the screen, and nowhere else
version_added: 0.1.0
description:
  - Reads files on the host and shows what is in them to whoever sits at the screen. It is not in the result, and not in
    Ansible's log file.
  - The task needs C(no_log=true), or it is refused.
  - This is an action plugin.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is read or shown in check mode.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
options:
  paths:
    description:
      - The files by the names under which they are shown.
    type: dict
    required: true
  what:
    description:
      - What is in them, in a word.
    type: str
    default: key
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.api_keys
"""

EXAMPLES = r"""
---
- name: Show the new keys once
  dgx_spark.speculative.reveal:
    paths: "{{ keys.created_paths }}"
  no_log: true
"""

RETURN = r"""
shown:
  description: The names of what was shown. The result of a task with C(no_log) is not shown itself.
  returned: success
  type: list
  elements: str
  sample: [laptop]
"""
