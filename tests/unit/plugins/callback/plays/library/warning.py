#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module that warns."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

if __name__ == "__main__":
    module = AnsibleModule({"warning": {"type": "str"}}, supports_check_mode=True)
    module.warn(module.params["warning"])
    module.exit_json()
