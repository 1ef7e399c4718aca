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
  - Plans the containers of a deployment for all its Sparks at once, says how a deployment is made to run that was
    planned or recorded, whether what served before can come back, and what is recorded of one that was seen to answer.
  - A Spark that serves alone is a cluster of one. It gets nothing of what a fabric needs.
  - Besides it judges whether there is a place for a container on a Spark.
  - A task asks one of O(place), O(share), O(nodes), O(run), O(back) and O(record).
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  place:
    description:
      - What was found where a container is to be.
    type: dict
    suboptions:
      name:
        description:
          - The name of the container.
        type: str
        required: true
      image:
        description:
          - Its image. Empty if it comes from elsewhere.
        type: str
        required: true
      look:
        description:
          - What M(dgx_spark.speculative.docker_access_info) returned.
        type: dict
        required: true
      uses:
        description:
          - The ports that it would listen on, as RV(dgx_spark.speculative.docker_access_info#module:port). One that has
            another name than C(port) in O(place.inputs) brings it as C(input).
        type: list
        elements: dict
        default: []
      taken:
        description:
          - Those of them that somebody else has.
        type: list
        elements: dict
        default: []
      seen:
        description:
          - The same as the login user sees them, who may see more of the user's own processes.
        type: list
        elements: dict
        default: []
      registry:
        description:
          - What M(dgx_spark.speculative.registry_image_info) returned of an image that is not here yet.
        type: dict
        default: {}
      unpack_factor:
        description:
          - The room that a pull takes, as a multiple of the packed size. V(0) is what Docker's image store takes.
        type: float
        default: 0.0
      inputs:
        description:
          - What C(name), C(image), C(port) and C(address) are called where they are set, for the messages.
        type: dict
        required: true
      labels:
        description:
          - The labels that tell this collection's own container of that name from somebody else's. Without any, any
            container may be replaced.
        type: dict
        default: {}
  share:
    description:
      - What a Spark brings into a deployment, as the role C(speculative_serve) puts it together in C(tasks/nodes.yml).
    type: dict
  nodes:
    description:
      - What each Spark brings, as O(share) returned it. The first is the head, which has the API. Planned is what the
        host of the task runs.
    type: list
    elements: dict
  recipe:
    description:
      - With O(nodes), the recipe, as M(dgx_spark.speculative.recipe_info) returned it.
    type: dict
    default: {}
  values:
    description:
      - With O(nodes), what is served, as P(dgx_spark.speculative.deployment_values#filter) returned it.
    type: dict
    default: {}
  memory:
    description:
      - With O(nodes), the plan of the memory, as M(dgx_spark.speculative.memory_plan) returned it.
    type: dict
    default: {}
  config:
    description:
      - With O(share) and O(nodes), the engine options, as M(dgx_spark.speculative.trtllm_config) returned them.
    type: dict
    default: {}
  files:
    description:
      - With O(share) and O(nodes), the texts that the deployment keeps, by the name of their file, but for the options.
    type: dict
    default: {}
  own:
    description:
      - With O(share) and O(nodes), the last record of the deployment of that name. If it serves, and says the same but
        for the programs in the container, it is planned to go on as it is.
    type: dict
    default: {}
  run:
    description:
      - A deployment that is to run.
    type: dict
    suboptions:
      deployment:
        description:
          - As O(nodes) returned it, or the record of one that was seen to answer.
        type: dict
        required: true
      turn:
        description:
          - When its container is run, as O(nodes) returned it. By default that of a head comes last.
        type: str
      slot:
        description:
          - What is in the serving slot, as RV(dgx_spark.speculative.docker_access_info#module:slot).
        type: dict
      addresses:
        description:
          - The addresses of the Spark. Without them it is not asked whether it could find the others.
        type: list
        elements: str
      own:
        description:
          - The last record of the deployment of that name.
        type: dict
      state_directory:
        description:
          - The directory in which deployments live.
        type: str
        required: true
  back:
    description:
      - Going back to what served before.
    type: dict
    suboptions:
      records:
        description:
          - Of every Spark of the run, by name, RV(dgx_spark.speculative.deployment_info#module:records).
        type: dict
        required: true
      state_directory:
        description:
          - The directory in which deployments live.
        type: str
        required: true
      addresses:
        description:
          - The addresses of the Spark.
        type: list
        elements: str
        default: []
      has_image:
        description:
          - Whether the image of what served before is there.
        type: bool
        required: true
  record:
    description:
      - A deployment that was seen to answer.
    type: dict
    suboptions:
      deployment:
        description:
          - As O(nodes) returned it.
        type: dict
        required: true
      own:
        description:
          - Its record, if it has served all along.
        type: dict
      is_new:
        description:
          - Whether it was deployed in this run.
        type: bool
        required: true
      seen:
        description:
          - What was seen of it (C(answered), C(figures), C(image), C(container), C(option_check), C(memory_available)),
            as the role C(speculative_serve) puts it together in C(tasks/record.yml).
        type: dict
        required: true
      files:
        description:
          - Files of the Spark, in Base64, or empty. C(option_check) is what the image said of the options in an earlier
            run, C(ranks) what the ranks said of themselves before they started.
        type: dict
        default: {}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.deployment_info
  - module: dgx_spark.speculative.memory_plan
"""

EXAMPLES = r"""
---
- name: Plan what each Spark runs
  dgx_spark.speculative.deployment_plan:
    nodes: "{{ ansible_play_hosts | map('extract', hostvars, ['brings', 'node']) | list }}"
    recipe: "{{ deployment_recipe }}"
    values: "{{ served }}"
  register: plan

- name: Work out how it is run
  dgx_spark.speculative.deployment_plan:
    run:
      deployment: "{{ plan.deployment }}"
      turn: "{{ plan.turn }}"
      state_directory: "{{ ansible_facts['user_dir'] }}/.local/share/dgx-spark-speculative"
  register: way
"""

RETURN = r"""
problems:
  description: What keeps the container from being made, each with the name of the host and with what to do.
  returned: with O(place)
  type: list
  elements: str
node:
  description: What the Spark brings.
  returned: with O(share) or O(nodes)
  type: dict
container:
  description: What Docker is asked for, as the input C(trtllm_container_planned) of the role trtllm_container takes it.
  returned: with O(nodes) or O(run)
  type: dict
serves_already:
  description: Whether just this container is in the slot and runs.
  returned: with O(nodes)
  type: bool
kept:
  description: Whether what serves is what is wanted, and goes on with the programs that it was deployed with.
  returned: with O(nodes)
  type: bool
turn:
  description:
    - When the container is run. V(first) for a worker, V(last) for a head, V(at once) where no order is needed.
  returned: with O(nodes) or O(run)
  type: str
  sample: at once
script:
  description: What C(serve.sh) has to know.
  returned: with O(nodes)
  type: dict
pair:
  description: Which rank of which Sparks this is. Empty for a Spark that serves alone.
  returned: with O(nodes)
  type: dict
deployment:
  description: All that tells what is deployed, and all that is needed to deploy it again, under the keys of a record.
  returned: with O(nodes)
  type: dict
directory:
  description: Where the deployment has what is kept of it.
  returned: with O(run)
  type: str
generation:
  description:
    - The files that its container has, as M(dgx_spark.speculative.deployment_files) takes it. Empty for what an earlier
      release has deployed, which had them in RV(directory).
  returned: with O(run)
  type: str
beside:
  description: The directories in RV(directory) that are mounted among its files.
  returned: with O(run)
  type: list
  elements: str
files:
  description: Its files, as they were, if it comes from a record.
  returned: with O(run)
  type: list
  elements: dict
answers:
  description: Whether this Spark has the API.
  returned: with O(run)
  type: bool
address:
  description: The address of the API.
  returned: with O(run)
  type: str
port:
  description: The port of the API.
  returned: with O(run)
  type: int
stop:
  description: Whether what is in the slot has to be stopped before anything is run.
  returned: with O(run)
  type: bool
recorded:
  description: Whether it comes from a record.
  returned: with O(run)
  type: bool
known:
  description: Whether just this was seen to answer before.
  returned: with O(run)
  type: bool
refusal:
  description: Why it cannot be run, or come back. Empty if it can.
  returned: with O(run) or O(back)
  type: str
record:
  description: The record.
  returned: with O(record)
  type: dict
"""
