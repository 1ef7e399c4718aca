#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Print lines as plain text, and keep facts in a JSON file
version_added: 0.1.0
description:
  - Prints O(lines) as they are, where a debug task would quote them.
  - Writes O(document) into a JSON file on the controller, one entry a host. Hosts that report at the same time wait for
    each other.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - The report is made in check mode as well, since a report changes nothing on the host.
  diff_mode:
    support: N/A
    details:
      - This action does not modify the host's state.
  idempotent:
    support: full
options:
  lines:
    description:
      - The lines to print.
    type: list
    elements: str
    required: true
  title:
    description:
      - What stands above O(items).
    type: str
    default: Besides
  items:
    description:
      - Sentences that are printed below the lines, wrapped, as a list.
    type: list
    elements: str
    default: []
  document:
    description:
      - The facts to keep. Nothing is written without them.
    type: dict
  json_path:
    description:
      - A file on the controller, relative to the directory of the call. Entries of other hosts are kept. Its mode is
        V(0600).
    type: path
  unreachable:
    description:
      - Hosts that could not be reached. Their entries in the file say so, whatever an earlier run has written there.
    type: list
    elements: str
    default: []
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Report
  dgx_spark.speculative.report:
    lines: "{{ diagnosis.lines }}"
    document:
      verdict: "{{ diagnosis.verdict }}"
    json_path: diagnosis.json
"""

RETURN = r"""
lines:
  description:
    - The lines that were printed, O(items) among them.
  returned: success
  type: list
  elements: str
  sample: ["healthy: the server generates"]
"""
