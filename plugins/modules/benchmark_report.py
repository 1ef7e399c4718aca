#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_report
short_description: Judge what a benchmark measured, and write the report
version_added: 0.1.0
description:
  - Comes to a verdict on the draft lengths that were measured, writes it with all figures and plots into one
    self-contained HTML file and into a JSON file, and prints it in short.
  - The report names no token, no address, no host and no user, so that it can be passed on.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
  - The plots need matplotlib on the controller. Without it the page says so and has the figures in words.
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
  results:
    description:
      - What was measured, the content of C(results.json). Its text will do, and is faster than a dictionary made of it.
      - Without it nothing is written. It is only checked that the report could be, and O(compare_with) is one, which is
        good to know before anything is measured.
    type: dict
  record:
    description:
      - The record of the deployment that was measured, as M(dgx_spark.speculative.spark_info) returns it. Required
        with O(results).
    type: dict
  plan:
    description:
      - What M(dgx_spark.speculative.benchmark_plan) returned. Required with O(results).
    type: dict
  machine:
    description:
      - What M(dgx_spark.speculative.spark_info) returned as C(machine). Required with O(results).
    type: dict
  html_path:
    description:
      - The page, a file on the controller, relative to the directory of the call. Its mode is V(0600).
    type: path
    required: true
  json_path:
    description:
      - The same as JSON, a file on the controller. Its mode is V(0600).
    type: path
    required: true
  compare_with:
    description:
      - An earlier report as JSON. The page then shows both, by which factors the figures changed, and what else
        differs.
      - Anything else than such a report is refused before a file is written.
    type: path
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Report
  dgx_spark.speculative.benchmark_report:
    results: "{{ lookup('ansible.builtin.file', 'results.json') | from_json }}"
    record: "{{ records.present }}"
    plan: "{{ plan }}"
    machine: "{{ spark.machine }}"
    html_path: benchmark/single_eagle3.html
    json_path: benchmark/single_eagle3.json

- name: Report what the new image changed
  dgx_spark.speculative.benchmark_report:
    results: "{{ lookup('ansible.builtin.file', 'results.json') | from_json }}"
    record: "{{ records.present }}"
    plan: "{{ plan }}"
    machine: "{{ spark.machine }}"
    html_path: benchmark/new_image.html
    json_path: benchmark/new_image.json
    compare_with: benchmark/single_eagle3.json
"""

RETURN = r"""
report:
  description:
    - The report, as the JSON file has it.
  returned: when O(results) is given
  type: dict
  contains:
    verdict:
      description:
        - What to do. C(kind) is V(use), V(off) or V(undecided). C(draft_length) is V(0) for no drafts, and unknown if
          undecided.
      returned: success
      type: dict
      sample:
        kind: use
        draft_length: 3
        sentence: >-
          Use draft length 3: it is 1.57 times as fast as without drafts (95 % interval 1.48 to 1.66, 30 prompts).
    points:
      description:
        - The figures of each draft length, in ascending order, each with its 95 % interval.
      returned: success
      type: list
      elements: dict
chosen:
  description:
    - C(draft_length), C(method), C(date) and C(sentence), what they were found for (C(recipe), C(image), C(models)),
      and C(speculative_config), by which a deployment without drafts can be measured again. Later runs read it.
    - Empty without a verdict, or if O(plan) has no C(recipe).
  returned: when O(results) is given
  type: dict
not_restored:
  description:
    - Why the deployment's own options do not serve again. Empty if they do.
  returned: when O(results) is given
  type: str
  sample: ""
lines:
  description:
    - The lines that were printed.
  returned: when O(results) is given
  type: list
  elements: str
  sample: ["gpt-oss-120b with EAGLE-3 on one Spark (single_eagle3), 2026-11-22"]
"""
