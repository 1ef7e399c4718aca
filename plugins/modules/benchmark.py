#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Plan the benchmark of a deployment, and report its results (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - The report contains no token, address, host name or user name. Its plots need matplotlib on the controller.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
options:
  plan: {type: dict, description: "Chooses the draft lengths to measure, and derives the engine options of each."}
  report: {type: dict, description: "Judges the results, writes them as HTML and JSON, and prints a summary. Without
    results, it only checks that the report can be written."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""
