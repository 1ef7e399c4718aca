#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Print the results of a run, and write facts to a JSON file (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Prints one of O(lines), O(summary), O(memory_plan), O(status), O(diagnosis), O(preflight), O(recipes) and
    O(field_report), or shows O(reveal).
  - This is an action plugin. It runs on the controller, and only O(reveal) needs a connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._from_hosts
options:
  lines: {type: list, elements: str, description: "The lines to print."}
  memory_plan: {type: dict, description: "The memory plans by host. The one with the least free memory is printed."}
  status: {type: dict, description: "The results of M(dgx_spark.speculative.deployment_info) by host."}
  diagnosis: {type: dict, description: "The lines of a diagnosis, and all diagnoses by host."}
  summary: {type: dict, description: "The record to summarise at the end of a run."}
  preflight: {type: dict, description: "The facts and problems of a preflight. With a problem, the task fails."}
  recipes: {type: dict, description: "The recipes, and the facts of a Spark on which they might be deployed."}
  field_report: {type: dict, description: "The field check to write as HTML and JSON, without tokens, addresses and
    names."}
  reveal: {type: dict, description: "Secret files on the host to show once. The task must set C(no_log=true)."}
  endpoint: {type: dict, description: "The endpoint of the API proxy, for O(summary)."}
  document: {type: dict, description: "The facts to write to O(json_path)."}
  json_path: {type: path, description: "The JSON file on the controller, with one entry for each host."}
  unreachable: {type: list, elements: str, default: [], description: "Hosts to mark as unreachable in O(json_path)."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""
