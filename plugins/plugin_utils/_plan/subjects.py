# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The queries of deployment_plan as Ansible's argument specs; the functions that answer them explain the values."""

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.fabric import MODES, RENDERERS

DICT: dict[str, t.Any] = {"type": "dict"}
NEEDED: dict[str, t.Any] = {"type": "dict", "required": True}
PORTS: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
# Values of type raw are read by the plan, whose errors name the inputs that people set.
FABRIC: dict[str, dict[str, t.Any]] = {
    "hosts": NEEDED,
    "mode": {"type": "str", "default": "auto", "choices": list(MODES)},
    "plan": {"type": "raw"},
    "interfaces": {"type": "raw"},
    "mtu": {"type": "int", "default": 9000},
    "renderer": {"type": "str", "default": "auto", "choices": list(RENDERERS)},
    "speed": {"type": "int", "default": 200_000},
    "minimum_speed": {"type": "int", "default": 0},
    "bandwidth_test": {"type": "raw", "default": "auto"},
    "start_with_card": {"type": "raw", "default": "auto"},
    "keep_card": {"type": "raw", "default": "auto"},
    "ssh_port": {"type": "int", "default": 0},
    "copy_port": {"type": "int", "default": 0},
}
SERVED: dict[str, dict[str, t.Any]] = {
    "recipe": NEEDED,
    "given": NEEDED,
    "options": {"type": "dict", "default": {}},
    "use_benchmark": {"type": "bool", "default": True},
    "reserve_gib": {"type": "raw", "default": 12},
    "guard": {"type": "raw", "default": True},
    "overcommit": {"type": "bool", "default": False},
    "incomplete": {"type": "bool", "default": False},
    "memory": DICT,
    "slot": {"type": "dict", "default": {}},
    **{name: {"type": "dict", "default": {}} for name in ("records", "facts", "models")},
}
CLUSTER: dict[str, dict[str, t.Any]] = {
    **dict.fromkeys(("looks", "rails"), NEEDED),
    "settled": {"type": "bool", "required": True},
    "findings": {"type": "list", "elements": "str", "default": []},
    "ssh_port": {"type": "int", "required": True},
    "copy_port": {"type": "int", "required": True},
    "clock_skew": {"type": "float", "default": 60},
    "tolerate": {"type": "list", "elements": "str", "default": []},
}
ROOM: dict[str, dict[str, t.Any]] = {
    "looks": DICT,
    "models": NEEDED,
    "image_bytes": {"type": "int", "default": 0},
    "packed_bytes": {"type": "int", "default": 0},
    "reserve_bytes": {"type": "int", "default": 0},
}
TRUST: dict[str, dict[str, t.Any]] = {
    **dict.fromkeys(("rails", "looks", "users", "pythons"), NEEDED),
    "keys": {"type": "dict", "required": True, "no_log": False},
    "directory": {"type": "str", "required": True},
    "ssh_port": {"type": "int", "required": True},
    "copy_port": {"type": "int", "required": True},
    "key": {"type": "str", "required": True, "no_log": False},
    "streams": {"type": "int", "required": True},
    "patience": {"type": "int", "required": True},
}
ACCESS: dict[str, dict[str, t.Any]] = {
    "docker": NEEDED,
    "need_gpu": {"type": "bool", "default": True},
    "add_to_group": {"type": "bool", "default": True},
}
PLACE: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "required": True},
    "image": {"type": "str", "required": True},
    "look": NEEDED,
    "registry": {"type": "dict", "default": {}},
    "alternative": {"type": "str", "default": ""},
    "unpack_factor": {"type": "float", "default": 0.0},
    "inputs": NEEDED,
    "listens": {"type": "list", "elements": "dict", "default": []},
    "labels": {"type": "dict", "default": {}},
    "publish": {
        "type": "dict",
        "options": {
            "network": {"type": "str", "required": True},
            "ports": PORTS,
            "server": {"type": "int", "default": 0},
            "allow_unauthenticated": {"type": "bool", "default": False},
        },
    },
}
FIREWALL: dict[str, dict[str, t.Any]] = {
    "network": {"type": "str", "required": True},
    "published_ports": PORTS,
    "former": PORTS,
}
PAGE: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "required": True},
    "endpoint": {"type": "str", "required": True},
    "environment": {"type": "dict", "default": {}},
}
# What is asked; a task asks one of them.
SUBJECTS: dict[str, dict[str, t.Any]] = {
    "fabric": {"type": "dict", "options": FABRIC},
    "cluster": {"type": "dict", "options": CLUSTER},
    "served": {"type": "dict", "options": SERVED},
    "steps": {"type": "dict", "options": dict.fromkeys(("looks", "views", "plans", "pairs", "links"), NEEDED)},
    "room": {"type": "dict", "options": ROOM},
    "model_copies": {
        "type": "dict",
        "options": {
            "views": NEEDED,
            "state_directory": {"type": "str", "required": True},
            "verify": {"type": "bool", "default": False},
        },
    },
    "trust": {"type": "dict", "options": TRUST},
    "access": {"type": "dict", "options": ACCESS},
    "place": {"type": "dict", "options": PLACE},
    "firewall": {"type": "dict", "options": FIREWALL},
    "cable": {
        "type": "dict",
        "options": {
            "slot": DICT,
            "container": {"type": "str", "required": True},
            "others": {"type": "str", "required": True},
        },
    },
    "image_copies": {"type": "dict", "options": {"looks": NEEDED, "loaded": {"type": "str", "default": ""}}},
    "page": {"type": "dict", "options": PAGE},
    "share": DICT,
    "nodes": DICT,
    "run": {
        "type": "dict",
        "options": {
            "deployment": NEEDED,
            "turn": {"type": "str"},
            "slot": DICT,
            "addresses": {"type": "list", "elements": "str"},
            "own": DICT,
            "proven": {"type": "bool", "default": False},
        },
    },
    "back": {
        "type": "dict",
        "options": {
            "records": NEEDED,
            "state_directory": {"type": "str", "required": True},
            "docker": DICT,
        },
    },
    "record": {
        "type": "dict",
        "options": {
            **dict.fromkeys(("deployment", "records", "seen", "container", "answered", "figures"), NEEDED),
            "option_check": {"type": "dict", "default": {}},
            "checked": {"type": "str", "default": ""},
            "ranks": {"type": "dict", "default": {}},
            "networks": {"type": "dict", "default": {}},
        },
    },
    "review": {
        "type": "dict",
        "options": {
            **dict.fromkeys(("own", "answered", "origins"), NEEDED),
            **{name: {"type": "dict", "default": {}} for name in ("networks", "verdict")},
        },
    },
    "listen": {
        "type": "dict",
        "options": {
            "host": {"type": "str", "required": True},
            "port": {"type": "raw", "required": True},
            "expose": {"type": "str", "default": "local"},
            "allow_unauthenticated": {"type": "bool", "default": False},
            "network": {"type": "str", "default": "host"},
            "image": {"type": "str", "required": True},
            "recipe": {"type": "dict", "default": {}},
            "published_ports": {"type": "list", "elements": "str"},
            "cache_directory": {"type": "str", "required": True},
        },
    },
    "question": {
        "type": "dict",
        "options": {
            "probe": {"type": "dict", "default": {}},
            "chat": {"type": "bool", "required": True},
            "tools": {"type": "bool", "required": True},
            **dict.fromkeys(("recorded", "known", "changed"), NEEDED),
        },
    },
    "failure": {
        "type": "dict",
        "options": {
            "result": NEEDED,
            "before": DICT,
            "again": {"type": "str", "required": True},
            **{name: {"type": "dict", "default": {}} for name in ("slots", "changed", "known")},
        },
    },
    "ended": {
        "type": "dict",
        "options": {
            "whys": NEEDED,
            "log": {"type": "str", "default": ""},
            "again": {"type": "str", "default": ""},
            "result": {"type": "dict", "default": {}},
        },
    },
    "start": {
        "type": "dict",
        "options": {
            "labels": NEEDED,
            "recorded": DICT,
            "addresses": {"type": "list", "elements": "str", "required": True},
            "everybody": DICT,
            "server": DICT,
            "published_ports": {"type": "list", "elements": "str", "default": []},
        },
    },
}
# What the plan of the nodes is completed with, on each Spark.
PARTS: dict[str, dict[str, t.Any]] = {
    **{name: {"type": "dict", "default": {}} for name in ("recipe", "plan")},
    "script": {"type": "path", "default": ""},
}
