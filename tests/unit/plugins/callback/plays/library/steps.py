#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module that has finished at its third call, or a later one."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

if __name__ == "__main__":
    module = AnsibleModule(
        {"file": {"type": "path"}, "interval": {"type": "float"}, "calls": {"type": "int", "default": 3}}
    )
    place = Path(module.params["file"])
    done = len(place.read_text()) + 1 if place.exists() else 1
    place.write_text("x" * done)
    calls = module.params["calls"]
    progress = {"text": f"{done} of {calls} GB, as fast as the line allows"}
    module.exit_json(changed=True, finished=done == calls, progress=progress)
