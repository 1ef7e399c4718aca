#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_import
short_description: Import a recipe of spark-vllm-docker or sparkrun (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - The file is read as data. Nothing of it is executed, and no template of Jinja is filled in.
  - A refusal has all reasons at once, and one command with all permissions that the file needs.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
options:
  source: {type: path, default: "", description: "The file to import, with at most 50 kB."}
  name: {type: str, default: "", description: "The name of the new recipe. The default is that of the file."}
  directory: {type: path, default: recipes, description: "The directory of the new recipe."}
  replace: {type: bool, default: false, description: "Whether to replace a recipe of this name that differs."}
  without_mods: {type: bool, default: false, description: "Whether to leave out its changes of the image, its commands
    and the options that are refused."}
  allow_code_of: {type: list, elements: str, default: [], description: "Repositories whose code may run on the Spark."}
  allow_options: {type: list, elements: str, default: [], description: "Options to import although they can do more than
    tune the server."}
  revision: {type: str, description: "Commit, branch or tag of the target model. The default is that of the recipe."}
  context: {type: int, description: "Tokens of one request with its answer. Required if the recipe has no number."}
  concurrency: {type: int, description: "Requests served at once. The default is that of the recipe, or V(4)."}
  sparks: {type: int, description: "Number of Sparks. The default is the tensor parallelism of the recipe."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""
