#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells of a container as Docker does."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule


def mount(source: str) -> dict[str, object]:
    return {"target": "/deployment", "source": source, "read_only": True, "labels": None, "tmpfs_mode": None}


def side(length: int, source: str) -> dict[str, object]:
    return {"env": ["HOME=/root", f"LENGTH={length}"], "mounts": [mount(source), mount("/models")], "user": None}


AnsibleModule({}, supports_check_mode=True).exit_json(
    changed=True, diff={"before": side(3, "/old"), "after": {**side(4, "/new"), "user": ""}}
)
