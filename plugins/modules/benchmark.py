#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Plan with which draft lengths a deployment is measured, and report what came of it
version_added: 0.1.0
description:
  - With O(plan), chooses the draft lengths, makes the engine options of each from those that serve now, validates them
    for the release that serves, and reads the prompts.
  - With O(report), comes to a verdict on the draft lengths that were measured, writes it with all figures and plots
    into one self-contained HTML file and into a JSON file, and prints it in short. The report names no token, no
    address, no host and no user, so that it can be passed on.
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
  plan:
    description:
      - What is to be measured.
      - Exactly one of O(plan) and O(report) is given.
    type: dict
    suboptions:
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
          - Without any, V(off), V(1), V(2), V(3) and the one that serves now are measured, then V(4), V(5) and V(8)
            while longer drafts gain.
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
          - A file of JSON lines on the controller, each with C(prompt) and, if wanted, C(id), C(category) and
            C(optional).
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
  report:
    description:
      - What was measured, and where it is told.
    type: dict
    suboptions:
      results:
        description:
          - What was measured, the content of C(results.json). Its text will do, and is faster than a dictionary made of
            it.
          - Without it nothing is written. It is only checked that the report could be, and O(report.compare_with) is
            one, which is good to know before anything is measured.
        type: dict
      record:
        description:
          - The record of the deployment that was measured, as M(dgx_spark.speculative.spark_info) returns it.
            Required with O(report.results).
        type: dict
      plan:
        description:
          - What was returned with O(plan). Required with O(report.results).
        type: dict
      machine:
        description:
          - What M(dgx_spark.speculative.spark_info) returned as C(machine). Required with O(report.results).
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
seealso:
  - module: dgx_spark.speculative.deployment_info
"""

EXAMPLES = r"""
---
- name: Plan the benchmark of what serves
  dgx_spark.speculative.benchmark:
    plan:
      record: "{{ records.present }}"
      prompts: prompts.jsonl
      draft_lengths: ["off", 1, 3]
  register: plan

- name: Show what it would do
  dgx_spark.speculative.report:
    lines: "{{ plan.lines }}"

- name: Report
  dgx_spark.speculative.benchmark:
    report:
      results: "{{ lookup('ansible.builtin.file', 'results.json') | from_json }}"
      record: "{{ records.present }}"
      plan: "{{ plan }}"
      machine: "{{ spark.machine }}"
      html_path: benchmark/single_eagle3.html
      json_path: benchmark/single_eagle3.json

- name: Report what the new image changed
  dgx_spark.speculative.benchmark:
    report:
      results: "{{ lookup('ansible.builtin.file', 'results.json') | from_json }}"
      record: "{{ records.present }}"
      plan: "{{ plan }}"
      machine: "{{ spark.machine }}"
      html_path: benchmark/new_image.html
      json_path: benchmark/new_image.json
      compare_with: benchmark/single_eagle3.json
"""

RETURN = r"""
points:
  description:
    - What is measured, in this order.
  returned: with O(plan)
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
  returned: with O(plan)
  type: list
  elements: dict
task:
  description:
    - All that the program is told which measures on the host.
  returned: with O(plan)
  type: dict
key:
  description:
    - A hash of RV(points), by which a run knows whether a benchmark at work is its own.
  returned: with O(plan)
  type: str
recipe:
  description:
    - What O(plan.recipe) says. Empty without it.
  returned: with O(plan)
  type: dict
path:
  description:
    - The file of O(plan.recipe). Empty without it.
  returned: with O(plan)
  type: str
settings:
  description:
    - How each point is measured, with O(plan.max_tokens), O(plan.repetitions), O(plan.warmup) and
      O(plan.prompt_lengths).
  returned: with O(plan)
  type: dict
  sample:
    max_tokens: 256
    repetitions: 3
    warmup: 2
    prompt_lengths: []
speculative_config:
  description:
    - How the deployment drafts, or would if a benchmark had not turned drafts off. In TensorRT-LLM's own spelling.
  returned: with O(plan)
  type: dict
collection_version:
  description:
    - The version of this collection. Null if its files do not say it.
  returned: with O(plan)
  type: str
  sample: 0.1.0
report:
  description:
    - The report, as the JSON file has it.
  returned: when O(report.results) is given
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
    - Empty without a verdict, or if O(report.plan) has no C(recipe).
  returned: when O(report.results) is given
  type: dict
verdict:
  description:
    - C(date) and C(sentence), and the C(configuration) of the deployment that was measured. Empty without a verdict.
  returned: when O(report.results) is given
  type: dict
not_restored:
  description:
    - Why the deployment's own options do not serve again. Empty if they do.
  returned: when O(report.results) is given
  type: str
  sample: ""
lines:
  description:
    - What is going to happen with O(plan), for a person, and with O(report) what was printed.
  returned: with O(plan), or when O(report.results) is given
  type: list
  elements: str
  sample: ["gpt-oss-120b with EAGLE-3 on one Spark (single_eagle3), 2026-11-22"]
"""
