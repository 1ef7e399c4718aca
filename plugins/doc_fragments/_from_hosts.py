# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a decision for several Sparks gets what is known of each."""

    DOCUMENTATION = r"""
options:
  from_hosts:
    description:
      - What is a variable of each Spark, by the name of the parameter that takes them all by host name. The parameter
        is one of the form that is asked, or of the report. With C(hosts=look.fabric) each host's C(look.fabric) is an
        entry.
      - Asked are all Sparks of the run in the order of the inventory, unless C(deployment_recipe) is for one. What a
        host lacks, such as one that cannot be reached, is an empty mapping.
    type: dict
"""
