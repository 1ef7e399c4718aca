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
  - All errors are reported at once, each with the nearest valid name.
  - Without O(recipe), lists the shipped recipes.
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
"""

RETURN = r"""
recipe:
  description:
    - The recipe with every key present, also the ones left to their default.
    - Its C(name) is that of the file, its C(repositories) are the models in the form of
      M(dgx_spark.speculative.huggingface_snapshot).
  returned: when O(recipe) is given
  type: dict
  sample:
    name: single_eagle3
    method: eagle3
    draft_length: 5
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
"""
