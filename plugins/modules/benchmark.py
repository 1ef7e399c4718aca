#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Plan the benchmark of a deployment, and report its results
version_added: 0.1.0
description:
  - With O(plan), chooses the draft lengths, and derives the engine options of each from those of the deployment.
    Validates the options for the release of the deployment, and reads the prompts.
  - With O(report), gives a verdict on the measured draft lengths. Writes a self-contained HTML file with all figures
    and plots, and a JSON file, and prints a summary. The report contains no token, address, host name or user name, so
    that you can share it.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
  - The plots need matplotlib on the controller. Without it, the page says so and has the figures as text.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - The report is written in check mode as well, because it changes nothing on the host.
  diff_mode:
    support: N/A
    details:
      - This action does not modify the host's state.
  idempotent:
    support: full
options:
  plan:
    description:
      - Settings of the benchmark.
      - Exactly one of O(plan) and O(report) is required.
    type: dict
    suboptions:
      record:
        description:
          - Record of the deployment, as M(dgx_spark.speculative.spark_info) returns it.
        type: dict
        required: true
      choice:
        description:
          - Choice of an earlier benchmark of this deployment. If that choice turned speculation off, it contains the
            speculation settings to measure.
        type: dict
      draft_lengths:
        description:
          - Draft lengths to measure, all of them. V(off) or V(0) is without speculation.
          - If it is empty, V(off), V(1), V(2), V(3) and the current length are measured, then V(4), V(5) and V(8) while
            longer drafts gain.
        type: list
        elements: raw
        default: []
      quick:
        description:
          - Whether to measure only V(off), V(1), V(3) and the current draft length.
        type: bool
        default: false
      prompts:
        description:
          - File of JSON lines on the controller, each with C(prompt), and optionally C(id), C(category) and
            C(optional).
          - An optional prompt that is too long for the deployment is left out. Any other prompt that is too long is
            refused.
        type: path
        required: true
      max_tokens:
        description:
          - Maximum tokens of an answer.
        type: int
        default: 256
      repetitions:
        description:
          - Repetitions of each prompt at each draft length.
        type: int
        default: 3
      warmup:
        description:
          - Answers after each start that are not counted.
        type: int
        default: 2
      prompt_lengths:
        description:
          - Lengths in tokens of further prompts, of which only the time to the first token is measured.
        type: list
        elements: int
        default: []
      load_s:
        description:
          - Seconds that the deployment takes to load. Without it, no duration is announced.
        type: float
      recipe:
        description:
          - Recipe of the deployment, by name or path, for which the winner is chosen. It is refused if the deployment
            has another recipe, or if this run has more or fewer hosts than the recipe needs.
        type: str
      sweep:
        description:
          - Further settings of the program that measures on the host.
        type: dict
        default: {}
        suboptions:
          deployment:
            description:
              - Directory of the deployment on the host.
            type: str
          results:
            description:
              - Directory of the results on the host.
            type: str
          lease_s:
            description:
              - Seconds without a heartbeat after which the deployment's own options are restored.
            type: int
          ready_timeout:
            description:
              - Maximum seconds for loading the server at each draft length.
            type: int
          answer_timeout:
            description:
              - Maximum seconds for one answer.
            type: int
  report:
    description:
      - Results of the benchmark, and the files to write.
    type: dict
    suboptions:
      results:
        description:
          - Results of the benchmark, which are the content of C(results.json). Its text is also accepted, and is faster
            than a dictionary.
          - Without it, nothing is written. The module then only checks that the report can be written, and that
            O(report.compare_with) has reports. Do this before the benchmark.
        type: dict
      record:
        description:
          - Record of the deployment that was measured, as M(dgx_spark.speculative.spark_info) returns it. Required with
            O(report.results).
        type: dict
      plan:
        description:
          - Result of this module with O(plan). Required with O(report.results).
        type: dict
      machine:
        description:
          - The C(machine) that M(dgx_spark.speculative.spark_info) returned. Required with O(report.results).
        type: dict
      html_path:
        description:
          - HTML file on the controller. A relative path starts in the working directory. Its mode is V(0600).
        type: path
        required: true
      json_path:
        description:
          - JSON file on the controller with the same figures. Its mode is V(0600).
        type: path
        required: true
      compare_with:
        description:
          - Earlier reports as JSON. With one of the same engine and method, the page shows both, the factors by which
            the figures changed, and other differences. Otherwise it shows which engine and which method is fastest.
          - A file that is not such a report is refused before anything is written.
        type: list
        elements: path
        default: []
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.deployment_info
"""

EXAMPLES = r"""
---
- name: Read the record of the deployment
  dgx_spark.speculative.spark_info:
    gather: [machine, docker, records]
    docker:
      container: dgx-spark-speculative
  register: spark

- name: Plan the benchmark of the current deployment
  dgx_spark.speculative.benchmark:
    plan:
      record: "{{ spark.records.present }}"
      prompts: prompts.jsonl
      draft_lengths: ["off", 1, 3]
  register: plan

- name: Print the plan
  ansible.builtin.debug:
    msg: "{{ plan.lines }}"

- name: Report the results
  dgx_spark.speculative.benchmark:
    report:
      results: "{{ lookup('ansible.builtin.file', 'results.json') }}"
      record: "{{ spark.records.present }}"
      plan: "{{ plan }}"
      machine: "{{ spark.machine }}"
      html_path: benchmark/single_eagle3.html
      json_path: benchmark/single_eagle3.json

- name: Compare the results with those of an earlier image
  dgx_spark.speculative.benchmark:
    report:
      results: "{{ lookup('ansible.builtin.file', 'results.json') }}"
      record: "{{ spark.records.present }}"
      plan: "{{ plan }}"
      machine: "{{ spark.machine }}"
      html_path: benchmark/new_image.html
      json_path: benchmark/new_image.json
      compare_with: [benchmark/single_eagle3.json]
"""

RETURN = r"""
points:
  description:
    - Points to measure, in this order. A point is a draft length with its engine options.
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
        - Draft length. V(0) is without speculation.
      type: int
    always:
      description:
        - Whether it is always measured. Otherwise it is measured only while the last step gained.
      type: bool
    options:
      description:
        - Text of the file with the engine options.
      type: str
    fingerprint:
      description:
        - Hash of everything on which the figures depend. A point with the same hash need not be measured again.
      type: str
prompts:
  description:
    - Prompts, each with C(id), C(category), C(prompt) and C(optional).
  returned: with O(plan)
  type: list
  elements: dict
task:
  description:
    - Task of the program that measures on the host.
  returned: with O(plan)
  type: dict
key:
  description:
    - Hash of RV(points), by which a run recognises its own benchmark.
  returned: with O(plan)
  type: str
recipe:
  description:
    - Content of O(plan.recipe). Empty without it.
  returned: with O(plan)
  type: dict
path:
  description:
    - Path of O(plan.recipe). Empty without it.
  returned: with O(plan)
  type: str
settings:
  description:
    - Settings of each measurement, which are O(plan.max_tokens), O(plan.repetitions), O(plan.warmup) and
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
    - Speculation settings of the deployment, in the engine's own spelling. If a benchmark turned speculation off,
      they are the settings before that.
  returned: with O(plan)
  type: dict
collection_version:
  description:
    - Version of this collection. Null if its files do not contain it.
  returned: with O(plan)
  type: str
  sample: 0.1.0
report_name:
  description:
    - Name of this benchmark for files, of the host, deployment, variant, and the time in UTC.
  returned: with O(plan)
  type: str
  sample: spark-1-single_eagle3-2026-11-28-195412
report:
  description:
    - Report, as in the JSON file.
  returned: when O(report.results) is given
  type: dict
  contains:
    verdict:
      description:
        - Recommendation. C(kind) is V(use), V(off), V(undecided), or V(again) if the speeds cannot be compared. Then
          C(reason) says why. C(draft_length) is V(0) without speculation, and null without a recommendation.
      returned: success
      type: dict
      sample:
        kind: use
        draft_length: 3
        sentence: >-
          Use draft length 3: it is 1.57 times as fast as without speculation (95 % interval 1.48 to 1.66, 30 prompts).
    points:
      description:
        - Figures of each draft length, in ascending order, each with its 95 % interval.
      returned: success
      type: list
      elements: dict
chosen:
  description:
    - Choice of a draft length, which later runs read. It contains C(draft_length), C(method), C(date) and C(sentence),
      and the subject of the choice (C(recipe), C(image), C(models)). With C(speculative_config), a deployment without
      speculation can be measured again.
    - Empty without a verdict, or if O(report.plan) has no C(recipe).
  returned: when O(report.results) is given
  type: dict
again:
  description:
    - Reason why the speeds cannot be compared, so that everything has to be measured again. Empty if they can.
  returned: when O(report.results) is given
  type: str
  sample: the Spark was not idle
verdict:
  description:
    - C(date) and C(sentence) of the verdict, and C(configuration) of the measured deployment. Empty if undecided.
  returned: when O(report.results) is given
  type: dict
not_restored:
  description:
    - Reason why the deployment's own options were not restored. Empty if they were.
  returned: when O(report.results) is given
  type: str
  sample: ""
lines:
  description:
    - The plan as text with O(plan), or the printed summary with O(report).
  returned: with O(plan), or when O(report.results) is given
  type: list
  elements: str
  sample: ["gpt-oss-120b with EAGLE-3 on one Spark (single_eagle3), 2026-11-22"]
"""
