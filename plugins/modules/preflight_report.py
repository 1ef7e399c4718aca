#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_report
short_description: Print what a preflight found, and fail if anything stands in the way
version_added: 0.1.0
description:
  - Prints a table for a person (GPU, memory, Docker, disk, port, image, models, the memory plan) and every problem with
    what to do about it.
  - Facts that a check did not come to are left out of the call, and the table says so.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
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
      - C(docker), C(registry) and C(models) are what M(dgx_spark.speculative.docker_access_info),
        M(dgx_spark.speculative.registry_image_info) and M(dgx_spark.speculative.huggingface_snapshot) returned.
      - C(directories) are paths of models in directories of their own that were found to be complete.
      - C(plan) holds the lines of M(dgx_spark.speculative.memory_plan).
      - C(problems) holds what the checks found to stand in the way, one text each.
      - C(role) is V(alone), V(head) or V(worker).
      - C(rails) are the ways through the cable, as the role C(spark_network) hands them out, and C(notes) sentences
        that are worth knowing.
      - C(image_here) is whether a worker has the image already, which otherwise comes from the head, as the models do.
    type: dict
    required: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Report
  dgx_spark.speculative.preflight_report:
    title: "{{ deployment_recipe.title }}"
    image: "{{ deployment_recipe.image }}"
    hosts:
      spark-1:
        spark: "{{ spark }}"
        problems: "{{ problems }}"
"""

RETURN = r"""
lines:
  description:
    - The lines that were printed.
  returned: always
  type: list
  elements: str
  sample: ["Nothing stands in the way, and nothing was changed."]
problems:
  description:
    - Everything that stands in the way, of several hosts with their names.
  returned: always
  type: list
  elements: str
  sample: []
"""
