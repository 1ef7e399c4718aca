#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_inputs
short_description: Refuse inputs with a misspelt name or an invalid value (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Also refuses a play whose tasks all become another user.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
options:
  playbook_inputs: {type: dict, default: {}, description: "The inputs of the playbook itself, each with its type."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""
