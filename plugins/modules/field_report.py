#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: field_report
short_description: Write what was seen on the Sparks into a page and a JSON file
version_added: 0.1.0
description:
  - Writes one HTML file that loads nothing, and the same as JSON, from what M(dgx_spark.speculative.field_info) found
    on every host of the play. Tokens, addresses, and names of hosts and users are taken out.
  - This is an action plugin. It runs on the controller, for all hosts of the play at once.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
attributes:
  check_mode:
    support: full
    details:
      - Nothing is written in check mode.
options:
  variable:
    description:
      - The variable in which every host has what M(dgx_spark.speculative.field_info) returned. A host without it is one
        that could not be reached.
    type: str
    required: true
  path:
    description:
      - The files without C(.html) and C(.json), relative to the working directory.
    type: path
    required: true
  names:
    description:
      - Whether the Sparks keep their names of the inventory. Otherwise they are called spark-1, spark-2.
    type: bool
    default: false
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Look
  dgx_spark.speculative.field_info:
    state_directory: ~/.local/share/dgx-spark-speculative
  register: field_check_found

- name: Write it down
  dgx_spark.speculative.field_report:
    variable: field_check_found
    path: field/spark-1-2026-12-01
  run_once: true
"""

RETURN = r"""
report:
  description:
    - What was written as JSON.
  returned: success
  type: dict
  sample: {format: 1, collection: 0.1.0, date: "2026-12-01T10:00:00Z", sparks: []}
lines:
  description:
    - The lines that were printed.
  returned: success
  type: list
  elements: str
  sample: ["40 of 43 rows were measured."]
"""
