#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_import
short_description: Import a recipe of spark-vllm-docker or sparkrun
version_added: 0.1.0
description:
  - Reads a recipe of another launcher of vLLM, format 1 of spark-vllm-docker or format 2 of sparkrun.
  - Writes it as a recipe of this collection, and validates it before, as M(dgx_spark.speculative.recipe_info) does.
  - The file is read as data. Nothing of it is executed, and no template of Jinja is filled in.
  - A recipe that changes the image, or runs commands of its own, is refused unless O(without_mods=true).
  - An option that can do more than tune the server is refused unless O(allow_options) names it. Such are options that
    run code, read files, use the network or load other models, and those that are not known here.
  - A refusal has all reasons at once, and one command with all permissions that the file needs.
  - Options that the collection decides itself, and variables that do more than tune the server, are left out.
    RV(dropped) has the reason for each.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  source:
    description:
      - Path of the file to import, with at most 50 kB. A relative path starts in the working directory.
    type: path
    default: ""
  name:
    description:
      - Name of the new recipe, which becomes the name of its deployment. Lower-case letters, digits and underscores.
      - The default is the name of the file, with underscores for other characters.
    type: str
    default: ""
  directory:
    description:
      - Directory of the new recipe. A relative path starts in the working directory.
    type: path
    default: recipes
  replace:
    description:
      - Whether to replace a recipe of this name that differs. Otherwise the task fails.
    type: bool
    default: false
  without_mods:
    description:
      - Whether to import a recipe without its changes of the image and its commands, and without the options that are
        refused. They are listed in RV(dropped).
      - If something was left out, the recipe has the note that it is not verified.
    type: bool
    default: false
  allow_code_of:
    description:
      - Repositories whose code may run on the Spark, such as V(eugr/spark-vllm).
      - An image that neither the vLLM project nor NVIDIA publishes is refused without this permission.
      - Without the id of its target model, the option C(trust-remote-code) is left out. With it, the recipe must name a
        commit of the model, or O(revision) is one.
    type: list
    elements: str
    default: []
  allow_options:
    description:
      - Options to import although they can do more than tune the server, such as V(kv-transfer-config.kv_connector).
      - A key in a mapping is written with dots. An option that names a file is refused unless the file belongs to a
        model of the cache, because the container has no other one.
    type: list
    elements: str
    default: []
  revision:
    description:
      - Commit, branch or tag of the target model. The default is that of the recipe.
    type: str
  context:
    description:
      - Tokens of one request with its answer. Required if C(max_model_len) of the recipe is V(auto) or V(-1).
    type: int
  concurrency:
    description:
      - Requests served at once. The default is C(max-num-seqs) of the recipe, or V(4) without it.
    type: int
  sparks:
    description:
      - Number of Sparks. The default is its tensor parallelism, within its limits. Required if it has pipeline
        parallelism, which a deployment does not have.
    type: int
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Import a recipe
  dgx_spark.speculative.recipe_import:
    source: ~/spark-vllm-docker/recipes/qwen3.6-35b-a3b-nvfp4.yaml
    name: qwen3_6_35b
    allow_code_of: eugr/spark-vllm
    sparks: 1
  register: result

- name: Print all that was taken, left out and noted
  ansible.builtin.debug:
    msg: "{{ result.lines }}"
"""

RETURN = r"""
path:
  description:
    - Path of the new recipe.
  returned: success
  type: str
  sample: recipes/qwen3_6_35b.yml
recipe:
  description:
    - The new recipe, as it is in the file.
  returned: success
  type: dict
  sample:
    title: Qwen3.6-35B-A3B with its own MTP head
    engine: vllm
    sparks: 1
    method: mtp
    draft_length: 3
    context: 262144
dropped:
  description:
    - Keys, options and variables that were left out, each with the reason. Secrets have no value.
  returned: success
  type: list
  elements: dict
  sample:
    - name: --gpu-memory-utilization 0.4
      reason: the memory plan decides it
notes:
  description:
    - Sentences about the recipe, such as a revision that is missing.
  returned: success
  type: list
  elements: str
  sample:
    - The model has no revision. The Hub says which commit its branch main has when you plan.
lines:
  description:
    - RV(recipe), RV(dropped) and RV(notes) as text.
  returned: success
  type: list
  elements: str
  sample: []
"""
