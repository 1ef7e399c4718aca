#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_plan
short_description: Decide what each Spark of a deployment runs, and how
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Answers one query about a deployment on one or more Sparks. A Spark that serves alone is a cluster of one.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
requirements:
  - netaddr >= 1.0, for O(fabric) on several Sparks
extends_documentation_fragment:
  - dgx_spark.speculative._of_all
options:
  fabric: {type: dict, description: "Plans how the Sparks are connected, and refuses a plan that cannot work."}
  cluster: {type: dict, description: "Compares the Sparks that are to serve as one, and says what is left to connect."}
  served: {type: dict, description: "Decides the values to serve, the engine options and the memory plan."}
  steps: {type: dict, description: "Names the steps of a run that have nothing to do."}
  room: {type: dict, description: "Refuses an image and models that do not fit on the disks."}
  model_copies: {type: dict, description: "Names the Sparks to which the Spark before them copies models."}
  trust: {type: dict, description: "Writes the SSH files with which the head starts ranks and the Sparks copy files."}
  access: {type: dict, description: "Decides how tasks reach Docker, and refuses a Docker that cannot serve a model."}
  place: {type: dict, description: "Reports all problems that prevent a container from being created."}
  firewall: {type: dict, description: "Lists the firewall rules that let containers reach published ports."}
  cable: {type: dict, description: "Refuses a network change while the serving container uses the cable."}
  image_copies: {type: dict, description: "Names the Sparks that lack the image of the head."}
  page: {type: dict, description: "Plans the container of the chat page."}
  share: {type: dict, description: "Returns the node spec of a Spark."}
  nodes: {type: dict, description: "Plans the container of this Spark from all node specs, the head first."}
  recipe: {type: dict, default: {}, description: "The recipe, with O(share) and O(nodes)."}
  plan: {type: dict, default: {}, description: "The result of O(served), with O(share) and O(nodes)."}
  script: {type: path, default: "", description: "The template of the server's start script, with O(nodes)."}
  run: {type: dict, description: "Decides how the container of a planned or recorded deployment is started."}
  back: {type: dict, description: "Checks that the previous deployment can be started again."}
  record: {type: dict, description: "Returns the record of a deployment that answered."}
  review: {type: dict, description: "Returns the record of an unchanged deployment that answered again."}
  listen: {type: dict, description: "Decides where the API listens, and refuses an address that is open to everyone."}
  question: {type: dict, description: "Returns the test prompt, and whether the deployment is new."}
  failure: {type: dict, description: "Decides what follows a run that failed."}
  ended: {type: dict, description: "Fails with the outcome of a run that was rolled back."}
  start: {type: dict, description: "Returns what a start waits for, and refuses a Spark that lost its addresses."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""
