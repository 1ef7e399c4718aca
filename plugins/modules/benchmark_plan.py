#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_plan
short_description: Plan with which draft lengths a deployment is measured
version_added: 0.1.0
description:
  - Chooses the draft lengths, makes the engine options of each from those that serve now, validates them for the
    release that serves, and reads the prompts.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  record:
    description:
      - The record of the deployment, as M(dgx_spark.speculative.spark_info) returns it.
    type: dict
    required: true
  choice:
    description:
      - What an earlier benchmark of this deployment has chosen. It tells how the deployment drafts when it serves
        without drafts because of that.
    type: dict
  draft_lengths:
    description:
      - The draft lengths to measure, all of them. V(off) or V(0) is without drafts.
      - Without any, V(off), V(1), V(2), V(3) and the one that serves now are measured, then V(4), V(5) and V(8) while
        longer drafts gain.
    type: list
    elements: raw
    default: []
  quick:
    description:
      - Measure V(off), V(1), V(3) and what serves now only.
    type: bool
    default: false
  prompts:
    description:
      - A file of JSON lines on the controller, each with C(prompt) and, if wanted, C(id), C(category) and C(optional).
      - An optional prompt that is too long for the deployment is left out; any other one is refused.
    type: path
    required: true
  max_tokens:
    description:
      - The most tokens of an answer.
    type: int
    default: 256
  repetitions:
    description:
      - How often each prompt is asked at each point.
    type: int
    default: 3
  warmup:
    description:
      - How many answers are not counted after each start.
    type: int
    default: 2
  prompt_lengths:
    description:
      - Lengths in tokens of further prompts, for which only the time to the first token is measured.
    type: list
    elements: int
    default: []
  load_s:
    description:
      - How long the deployment takes to load, in seconds. Without it no duration is announced.
    type: float
  recipe:
    description:
      - The recipe that the deployment was made with, by name or path, to choose the winner for it. Refused if it is
        another one, or if this run has more or fewer hosts than it is for.
    type: str
  sweep:
    description:
      - What the program that measures is told besides.
    type: dict
    default: {}
    suboptions:
      deployment:
        description:
          - The directory of the deployment on the host.
        type: str
      results:
        description:
          - Where the results are kept on the host.
        type: str
      lease_s:
        description:
          - After how many seconds without a sign of life the deployment's own options serve again.
        type: int
      ready_timeout:
        description:
          - How many seconds a point may take to load.
        type: int
      answer_timeout:
        description:
          - How many seconds an answer may take.
        type: int
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.benchmark_report
"""

EXAMPLES = r"""
---
- name: Plan the benchmark of what serves
  dgx_spark.speculative.benchmark_plan:
    record: "{{ records.present }}"
    prompts: prompts.jsonl
    draft_lengths: ["off", 1, 3]
  register: plan

- name: Show what it would do
  dgx_spark.speculative.report:
    lines: "{{ plan.lines }}"
"""

RETURN = r"""
points:
  description:
    - What is measured, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - V(off) or the draft length.
      type: str
      sample: "3"
    draft_length:
      description:
        - The draft length. 0 is without drafts.
      type: int
    always:
      description:
        - Whether it is measured in any case. Otherwise only while the last step gained.
      type: bool
    options:
      description:
        - The text of the file with the engine options.
      type: str
    fingerprint:
      description:
        - A hash of everything that the figures depend on. The same again need not be measured again.
      type: str
prompts:
  description:
    - The prompts, each with C(id), C(category), C(prompt) and C(optional).
  returned: success
  type: list
  elements: dict
task:
  description:
    - All that the program is told which measures on the host.
  returned: success
  type: dict
key:
  description:
    - A hash of RV(points), by which a run knows whether a benchmark at work is its own.
  returned: success
  type: str
recipe:
  description:
    - What O(recipe) says. Empty without it.
  returned: success
  type: dict
path:
  description:
    - The file of O(recipe). Empty without it.
  returned: success
  type: str
settings:
  description:
    - How each point is measured, with O(max_tokens), O(repetitions), O(warmup) and O(prompt_lengths).
  returned: success
  type: dict
  sample:
    max_tokens: 256
    repetitions: 3
    warmup: 2
    prompt_lengths: []
speculative_config:
  description:
    - How the deployment drafts, or would if a benchmark had not turned drafts off. In TensorRT-LLM's own spelling.
  returned: success
  type: dict
collection_version:
  description:
    - The version of this collection. Null if its files do not say it.
  returned: success
  type: str
  sample: 0.1.0
lines:
  description:
    - What is going to happen, for a person.
  returned: success
  type: list
  elements: str
"""
