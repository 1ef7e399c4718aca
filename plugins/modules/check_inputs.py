#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_inputs
short_description: Refuse misspelt inputs of the roles
version_added: 0.1.0
description:
  - Ansible takes a variable of any name and ignores the ones that nobody reads, so a misspelt input changes nothing and
    says nothing.
  - Fails when a variable of the host begins like an input of one of this collection's roles and is none, and names the
    nearest one. All of them are reported at once.
  - Fails, too, when a port or a number of streams is out of its limits, or C(speculative_serve_environment) has what is
    no name of a variable, which would only be noticed after what served was replaced.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  also:
    description:
      - Inputs of the playbook itself, such as V(unused). A variable given on the command line that nearly reads like
        one of them is refused, too.
    type: list
    elements: str
    default: []
  flags:
    description:
      - More of the playbook's own inputs, those that are true or false. Another value is refused, since Ansible would
        take it for V(false).
    type: list
    elements: str
    default: []
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Refuse misspelt inputs
  dgx_spark.speculative.check_inputs:
    also: [recipe]
    flags: [previous]
"""

RETURN = r"""
"""
