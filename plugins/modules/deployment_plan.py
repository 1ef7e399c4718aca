#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_plan
short_description: Plan the containers of a deployment on one or more Sparks (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Answers one query about a deployment on one or more Sparks. A Spark that serves alone is a cluster of one.
  - Each query has one or more forms, of which a task asks one. Each query has a file in C(plugins/plugin_utils).
  - This is an action plugin. It runs on the controller and needs no connection to the host.
requirements:
  - netaddr >= 1.0, for O(fabric) on several Sparks
extends_documentation_fragment:
  - dgx_spark.speculative._from_hosts
options:
  served: {type: dict, description: "Plans values, engine options and memory."}
  fabric: {type: dict, description: "Plans the connection of the Sparks."}
  cluster: {type: dict, description: "Compares the Sparks of a deployment, and plans their connections and copies."}
  placement: {type: dict, description: "Reports all problems that prevent a container from being created or started."}
  node_plan: {type: dict, description: "Plans the container of a Spark, and its lifecycle."}
  result: {type: dict, description: "Plans the probe, the record and the reaction to a failure."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""
