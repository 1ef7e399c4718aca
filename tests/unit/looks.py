# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a look at Sparks that are to serve as one finds."""

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._cluster.cluster_facts import is_made

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0f2b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0"
STATE = "/home/me/.local/share/dgx-spark-speculative"


def node(number: int, **changes: t.Any) -> dict[str, t.Any]:
    """What spark_info tells of a Spark that goes with any other."""
    found: dict[str, t.Any] = {
        "hostname": f"spark-{number}",
        "architecture": "aarch64",
        "memory_total": 128_521_625_600,
        "drivers": ["580.95.05"],
        "clock_offset": 0.3,
        "sshd": "/usr/sbin/sshd",
        "docker": {
            "state": "usable",
            "detail": "",
            "version": "28.3.3",
            "store": "classic",
            "images": "/var/lib/docker",
            "way_out": "Docker's data-root",
            "filesystem": "/",
            "free": 1_000_000_000_000,
        },
        "images": {"base": None, "cluster": None},
        "slot": None,
        "ports": [],
        "state": {"path": STATE, "filesystem": "/", "free": 1_000_000_000_000},
        "state_directory": STATE,
        "client_key": None,
        "authorized": None,
        "has_directory": True,
        "key": f"{KEY[:-1]}{number}",
        "key_is_open": False,
        "trusted": "",
        "proof": None,
        "spooled_bytes": 0,
        **changes,
    }
    return {**found, "image_made": is_made(found["images"])}
