#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Tell a person what a run found, and keep facts in a JSON file
version_added: 0.1.0
description:
  - Prints plain text, where a debug task would quote it. What it is about is one of O(lines), O(plans),
    O(summary), O(preflight), O(field) and O(reveal).
  - Writes O(document) into a JSON file on the controller, one entry a host. Hosts that report at the same time wait for
    each other.
  - This is an action plugin. It runs on the controller, and only O(reveal) needs a connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._of_all
attributes:
  check_mode:
    support: full
    details:
      - The report is made in check mode as well, since a report changes nothing on the host. Only with O(field)
        nothing is written, and with O(reveal) nothing is read or shown in check mode.
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
      - Exactly one of O(lines), O(plans), O(summary), O(preflight), O(field) and O(reveal) is given.
    type: list
    elements: str
  plans:
    description:
      - RV(dgx_spark.speculative.deployment_plan#module:lines) and its siblings of each Spark that serves with others.
        Printed is the plan of the one with the least room.
      - O(of_all) may name the variable that has it on each of them, as C(plans).
    type: dict
  statuses:
    description:
      - What M(dgx_spark.speculative.deployment_info) returned on all Sparks. Printed is the table of the one that the
        task is for, with the next commands, which depend on what the others do.
      - O(of_all) may name the variable that has it on each of them, as C(statuses).
    type: dict
  summary:
    description:
      - A deployment's record, as the role C(speculative_serve) hands it out. Printed is a short text for the end of a
        run, with the URL, an SSH tunnel where the Spark is another machine, the measured figures, the first lines of
        the answer, and lines to copy for curl and Python.
      - In a run that has changed nothing, P(dgx_spark.speculative.story#callback) shows a few lines of it only.
      - Of two Sparks that serve as one the head speaks for both, and tells how they are joined and what both ranks said
        of themselves. With the worker's record nothing is printed.
      - It says so when the acceptance length is below the one from which drafts pay, and what was checked besides.
      - The record's keys C(break_even) (see RV(dgx_spark.speculative.deployment_plan#module:served)), C(checks) (a
        list of sentences) and C(pair) may be missing.
    type: dict
  preflight:
    description:
      - What a preflight found. Printed is a table (GPU, memory, Docker, disk, port, image, models, the memory plan) and
        every problem with what to do about it. If there is one, the task fails.
      - Facts that a check did not come to are left out of the call, and the table says so.
    type: dict
    suboptions:
      title:
        description:
          - What is to be served.
        type: str
        required: true
      image:
        description:
          - The image it is served with.
        type: str
        required: true
      hosts:
        description:
          - What was found, by host, in the order in which the hosts are shown. Two stand side by side. Empty for a host
            that could not be looked at, which is a problem. Only C(spark) is needed of these.
          - C(spark) is what M(dgx_spark.speculative.spark_info) returned. A machine that is not a Spark is a problem.
          - C(docker) is RV(dgx_spark.speculative.spark_info#module:docker), and C(registry) and C(models) are what
            M(dgx_spark.speculative.registry_image_info) and M(dgx_spark.speculative.huggingface_snapshot) returned.
          - C(facts) is what that returned as C(facts), or any mapping with the models that were found to be complete.
          - C(plan) holds the lines of M(dgx_spark.speculative.deployment_plan).
          - C(problems) holds what the checks found to stand in the way, one text each.
          - C(rails) are the ways through the cable, as the role C(spark_network) hands them out, and C(notes) sentences
            that are worth knowing.
          - C(image_here) is whether a worker has the image already, which otherwise comes from the head, as the models
            do.
          - C(connection) is how it is reached; V(local) is the machine that Ansible runs on.
        type: dict
        required: true
      table:
        description:
          - Whether the table is printed. Without it nothing is, and all problems are in the message with which the task
            fails.
        type: bool
        default: true
  field:
    description:
      - What was seen on the Sparks, for one HTML file that loads nothing, and the same as JSON. Tokens, addresses, and
        names of hosts and users are taken out.
    type: dict
    suboptions:
      found:
        description:
          - What M(dgx_spark.speculative.field_info) returned as C(rows), by host. Empty for one that could not be
            reached.
          - O(of_all) may name the variable that has it on each of them, as C(found).
        type: dict
        required: true
      path:
        description:
          - The files without C(.html) and C(.json), relative to the directory of the call. Their mode is V(0600).
        type: path
        required: true
      names:
        description:
          - Whether the Sparks keep their names of the inventory. Otherwise they are called spark-1, spark-2.
        type: bool
        default: false
  reveal:
    description:
      - Small secret files on the host. What is in them is shown to whoever sits at the screen. It is not in the result,
        and not in Ansible's log file. The task needs C(no_log=true), or it is refused.
      - Nothing else is printed or kept by such a task.
    type: dict
    suboptions:
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
  together:
    description:
      - The statuses of all Sparks, as M(dgx_spark.speculative.deployment_info) or
        M(dgx_spark.speculative.deployment_diagnosis) returned them, by host name. Empty for one that could not
        be looked at.
      - What shows only when they are looked at together takes the place of O(items), and is kept in O(document) as
        C(between).
    type: dict
  endpoint:
    description:
      - What the proxy offers, as the role C(api_proxy) hands it out as C(api_proxy_endpoint). The O(summary) shows the
        addresses that others use, with key and certificate. Without it the server is reached on the Spark only.
    type: dict
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
seealso:
  - module: dgx_spark.speculative.api_keys
"""

EXAMPLES = r"""
---
- name: Report
  dgx_spark.speculative.report:
    lines: "{{ diagnosis.lines }}"
    document:
      verdict: "{{ diagnosis.verdict }}"
    json_path: diagnosis.json

- name: Summarise
  dgx_spark.speculative.report:
    summary: "{{ speculative_serve_record }}"

- name: Tell what stands in the way
  dgx_spark.speculative.report:
    preflight:
      title: "{{ deployment_recipe.title }}"
      image: "{{ deployment_recipe.image }}"
      hosts:
        spark-1:
          spark: "{{ spark }}"
          problems: "{{ problems }}"

- name: Write down what was seen on all Sparks
  dgx_spark.speculative.report:
    field:
      path: field/spark-1-2026-12-01
    of_all: {found: field_check_found.rows}
  run_once: true

- name: Show the new keys once
  dgx_spark.speculative.report:
    reveal:
      paths: "{{ keys.created_paths }}"
  no_log: true
"""

RETURN = r"""
lines:
  description:
    - The lines that were printed, O(items) among them.
  returned: always, but with O(reveal)
  type: list
  elements: str
  sample: ["healthy: the server generates"]
problems:
  description:
    - Everything that stands in the way by O(preflight), of several hosts with their names.
  returned: always, but with O(reveal)
  type: list
  elements: str
  sample: []
shown:
  description:
    - The names of what was revealed. The result of a task with C(no_log) is not shown itself.
  returned: with O(reveal)
  type: list
  elements: str
  sample: [laptop]
"""
