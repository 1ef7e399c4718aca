#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_inputs
short_description: Refuse inputs of the roles that are misspelt or have no value that can be
version_added: 0.1.0
description:
  - Ansible takes a variable of any name and ignores the ones that nobody reads, so a misspelt input changes nothing and
    says nothing.
  - Fails when a variable of the host begins like an input of one of this collection's roles and is none, and names the
    nearest one. All of them are reported at once.
  - Fails, too, for what would only be noticed later, or not at all. An input has a value of another type, a number is
    out of its limits, C(speculative_serve_environment) has what is no name of a variable, or
    C(speculative_serve_deployment) is no name for a directory.
  - Fails, too, when all tasks of the play would become another user than the one who logs in, or those that ask for
    sudo another one than root. The roles ask for sudo themselves.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  also:
    description:
      - Inputs of the playbook itself, such as C(unused), each with its type, which is one of V(bool), V(dict),
        V(float), V(int), V(list), V(path) and V(str).
      - A variable given on the command line that nearly reads like one of them is refused, too.
    type: dict
    default: {}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Check the inputs
  dgx_spark.speculative.check_inputs:
    also: {recipe: str, previous: bool}
"""

RETURN = r"""
"""
