#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_summary
short_description: Print what a deployment serves, how fast, and how to reach it
version_added: 0.1.0
description:
  - Prints a short text for a person at the end of a run. It holds the URL, an SSH tunnel where the Spark is
    another machine, the measured figures, the first lines of the answer, and lines to copy for curl and Python.
  - Of two Sparks that serve as one the head speaks for both, and tells how they are joined and what both ranks said of
    themselves. With the worker's record nothing is printed.
  - It says so when the acceptance length is below the one from which drafts pay, and what was checked besides.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  record:
    description:
      - The deployment's record, as the role C(speculative_serve) hands it out.
      - Its keys C(break_even) (see P(dgx_spark.speculative.deployment_values#filter)), C(checks) (a list of sentences)
        and C(pair) may be missing.
    type: dict
    required: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Summarise
  dgx_spark.speculative.deployment_summary:
    record: "{{ speculative_serve_record }}"
"""

RETURN = r"""
summary:
  description:
    - The lines that were printed.
  returned: success
  type: list
  elements: str
  sample: ["spark-1 serves openai/gpt-oss-120b with EAGLE-3, draft length 5"]
"""
