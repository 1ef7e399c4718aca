#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_info
short_description: Read and validate recipes
version_added: 0.1.0
description:
  - A recipe is the data of a deployment, such as target model, draft model, method and engine options.
  - Reads one recipe, by the name of a shipped one or by a path, and validates it.
  - All errors are reported at once, each with the nearest valid name. An engine option that a server of the recipe's
    image would refuse is one of them, by the rules of M(dgx_spark.speculative.trtllm_config).
  - Without O(recipe), lists the shipped recipes. The error for an unknown recipe lists them, too.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  recipe: {type: str,
    description: "Name of a shipped recipe, or path of a recipe file. A relative path starts in the working directory.
      The name of the file, without its ending, becomes the name of the deployment."}
  variant: {type: str, default: "",
    description: "Name of a variant of the recipe, which is read instead of the recipe itself. The name of the
      deployment stays, so that a variant replaces the deployment of the recipe. Used only with O(recipe)."}
  directory: {type: path,
    description: "Directory with the named recipes. The default is the collection's own C(playbooks/recipes)."}
  own_directory: {type: path,
    description: "Directory with recipes of your own. A relative path starts in the working directory, and it need not
      exist. With it, RV(named) has these recipes, too. Used only without O(recipe)."}
  speculation: {type: bool, default: true,
    description: "Whether the recipe keeps its speculation. With V(false), its C(method) is C(none), and its draft model
      and its own C(speculative_config) are removed. Its name stays, so that it replaces the deployment with
      speculation. Used only with O(recipe)."}
  overrides: {type: dict, default: {},
    description: "Values that replace those of the recipe, by its keys. Used only with O(recipe)."}
  inputs:
    description: Inputs of the role C(speculative_serve) to check together with the recipe, which is returned without
      them. Fails if a server of the image would refuse one of these engine options. Used only with O(recipe).
    type: dict
    suboptions:
      options: {type: dict, default: {}, description: "Engine options, as in the input C(speculative_serve_options)."}
      image: {type: str, default: "", description: "Image that replaces the recipe's. The default is the recipe's."}
      family: {type: str, default: "",
        description: "Release family that replaces the recipe's. The default is the recipe's."}
  count_hosts_of: {type: str, choices: [inventory, run],
    description: "Hosts to count, which must be as many as the recipe needs. V(inventory) counts those of the group
      C(sparks), V(run) those of this run. Without it, hosts are not counted."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Read a shipped recipe
  dgx_spark.speculative.recipe_info:
    recipe: single_eagle3
  register: result

- name: Read a recipe of your own
  dgx_spark.speculative.recipe_info:
    recipe: ~/recipes/my_models.yml
  register: result

- name: Read a shipped recipe without speculation
  dgx_spark.speculative.recipe_info:
    recipe: single_eagle3
    speculation: false
  register: result

- name: Read a variant of a shipped recipe
  dgx_spark.speculative.recipe_info:
    recipe: single_qwen3_8_27b_dflash2
    variant: mtp
  register: result

- name: Read all shipped recipes
  dgx_spark.speculative.recipe_info:
  register: result

- name: Print them as a table
  ansible.builtin.debug:
    msg: "{{ result.lines }}"
"""

RETURN = r"""
recipe:
  description:
    - The recipe with all its keys, including those with default values.
    - C(name) is the name of the file, without its ending.
    - C(variant) is the name of the variant that was read, or empty. C(variants) are those of the recipe.
    - C(speculation) is false if O(speculation=false) took the recipe's own away.
    - C(target) and C(draft) name the models, by Hub id or by the path of the directory. Without a draft model, C(draft)
      is empty.
    - C(repositories) are the models from the Hub, in the form of M(dgx_spark.speculative.huggingface_snapshot).
      C(directories) are the paths of those that are on the Spark already.
  returned: when O(recipe) is given
  type: dict
  sample:
    {name: single_eagle3, method: eagle3, target: openai/gpt-oss-120b, draft: nvidia/gpt-oss-120b-Eagle3-long-context,
     directories: [], port: 8000, context: 131072, concurrency: 1, kv_cache: planned}
path: {returned: when O(recipe) is given, type: str, sample: /home/user/recipes/my_models.yml,
  description: "Path of the recipe file."}
recipes: {returned: when O(recipe) is not given, type: list, elements: dict, sample: [],
  description: "All recipes of O(directory), each in the form of RV(recipe)."}
named: {returned: when O(own_directory) is given, type: dict, sample: {},
  description: "RV(recipes) by name, and the recipes of O(own_directory) by path. These are the values that O(recipe)
    takes."}
problems: {returned: when O(own_directory) is given, type: list, elements: str, sample: [],
  description: "Errors of the recipes of O(own_directory) that cannot be used."}
table:
  description: A row for each of RV(recipes), with texts by column.
  returned: when O(recipe) is not given
  type: list
  elements: dict
  sample:
    - {recipe: single_eagle3, target model: openai/gpt-oss-120b, method: "EAGLE-3, draft length 5", image: 1.3.0rc12,
       Sparks: "1", variants: qa}
lines: {returned: when O(recipe) is not given, type: list, elements: str, sample: [], description: "RV(table) as text."}
"""
