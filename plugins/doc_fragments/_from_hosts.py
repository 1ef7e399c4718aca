# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option that reads variables of all Sparks."""

    DOCUMENTATION = r"""
options:
  from_hosts:
    description:
      - Parameters that take a variable of each Spark, by host name. A key is the name of a parameter of the query's
        form or of the report, and its value is the name of the variable. With C(hosts=look.fabric), the parameter
        C(hosts) contains the C(look.fabric) of each host.
      - It covers all Sparks of the run in the order of the inventory, or only this one if C(deployment_recipe) is for
        one Spark. A missing variable, such as that of an unreachable host, is an empty mapping.
    type: dict
"""
