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
  - A recipe is the data that says what is served and how, such as target model, draft model, method and engine options.
  - Reads one recipe, given by the name of a shipped one or by a path, and validates it.
  - All errors are reported at once, each with the nearest valid name. What a server of the recipe's own image would
    refuse of its engine options is one of them, by the rules of M(dgx_spark.speculative.trtllm_config).
  - Without O(recipe), lists the shipped recipes; so does the error if there is no such recipe.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  recipe:
    description:
      - Name of a shipped recipe, or path of a recipe file. A relative path starts at the working directory.
      - The name of the file, without its ending, becomes the name of the deployment.
    type: str
  directory:
    description:
      - Directory with the named recipes. The default is the collection's own C(playbooks/recipes).
    type: path
  speculation:
    description:
      - Whether the recipe keeps its drafts. Without them its C(method) is C(none), and neither its draft model nor a
        C(speculative_config) of its own is left.
      - Its name stays, so that it takes the place of the deployment with drafts.
      - Only with O(recipe).
    type: bool
    default: true
  overrides:
    description:
      - What takes the place of what the recipe says, by its keys. Only with O(recipe).
    type: dict
    default: {}
  inputs:
    description:
      - Engine options that are merged over those of the recipe, and what is served in place of its image and family.
        Fails for such an option that a server of that image would refuse. Only with O(recipe).
    type: dict
    suboptions:
      options:
        description:
          - The options, as in the input C(speculative_serve_options).
        type: dict
        default: {}
      image:
        description:
          - The image. By default the recipe's.
        type: str
        default: ""
      family:
        description:
          - The family of releases. By default the recipe's.
        type: str
        default: ""
  count_hosts_of:
    description:
      - Which hosts must be as many as the recipe needs, those of the group C(sparks) in the V(inventory), or those of
        this V(run). Without it they are not counted.
    type: str
    choices: [inventory, run]
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

- name: Read a shipped recipe without its drafts
  dgx_spark.speculative.recipe_info:
    recipe: single_eagle3
    speculation: false
  register: result

- name: Get the shipped recipes
  dgx_spark.speculative.recipe_info:
  register: result

- name: List them
  ansible.builtin.debug:
    msg: "{{ result.lines }}"
"""

RETURN = r"""
recipe:
  description:
    - The recipe with every key present, also the ones left to their default.
    - Its C(name) is that of the file.
    - Its C(target) and C(draft) name the models, by Hub id or by the path of the directory. Without a draft model
      C(draft) is empty.
    - Its C(repositories) are the models from the Hub in the form of M(dgx_spark.speculative.huggingface_snapshot), its
      C(directories) the paths of those that are on the Spark already.
  returned: when O(recipe) is given
  type: dict
  sample:
    name: single_eagle3
    method: eagle3
    target: openai/gpt-oss-120b
    draft: nvidia/gpt-oss-120b-Eagle3-long-context
    directories: []
    port: 8000
    context: 131072
    concurrency: 1
    kv_cache: planned
path:
  description:
    - The file the recipe was read from.
  returned: when O(recipe) is given
  type: str
  sample: /home/user/recipes/my_models.yml
recipes:
  description:
    - All recipes of O(directory).
  returned: when O(recipe) is not given
  type: list
  elements: dict
  sample: []
table:
  description:
    - A row for each of RV(recipes), with texts for people.
  returned: when O(recipe) is not given
  type: list
  elements: dict
  sample:
    - recipe: single_eagle3
      target model: openai/gpt-oss-120b
      method: EAGLE-3, draft length 5
      image: 1.3.0rc12
      Sparks: "1"
lines:
  description:
    - RV(table) as text.
  returned: when O(recipe) is not given
  type: list
  elements: str
  sample: []
"""
