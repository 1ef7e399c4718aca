# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `placement`: what prevents a container from being created or started on a Spark, and where it listens."""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import (
    access,
    course,
    firewall,
    nodes,
    page,
    place,
    room,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    DICT,
    EMPTY_DICT,
    PORTS,
    REQUIRED_DICT,
    REQUIRED_INT,
    REQUIRED_STR,
    Form,
    Forms,
    Mapping,
    Result,
    Run,
    Spec,
    refused,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.served import alternative
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.access import reach_of

DOCKER: Spec = {
    "docker": REQUIRED_DICT,
    "need_gpu": {"type": "bool", "default": True},
    "add_to_group": {"type": "bool", "default": True},
}
ENDPOINT: Spec = {
    "host": REQUIRED_STR,
    "port": {"type": "raw", "required": True},
    "expose": {"type": "str", "default": "local"},
    "allow_unauthenticated": {"type": "bool", "default": False},
    "network": {"type": "str", "default": "host"},
    "image": REQUIRED_STR,
    "recipe": EMPTY_DICT,
    "published_ports": {"type": "list", "elements": "str"},
    "cache_directory": REQUIRED_STR,
}
FORMER: Spec = {"deployment": REQUIRED_DICT, "cache_directory": REQUIRED_STR}
RESTART: Spec = {"server": REQUIRED_DICT, "published_ports": PORTS}
CONTAINER: Spec = {
    "name": REQUIRED_STR,
    "image": REQUIRED_STR,
    "look": REQUIRED_DICT,
    "registry": EMPTY_DICT,
    "alternative": {"type": "str", "default": ""},
    "unpack_factor": {"type": "float", "default": 0.0},
    "inputs": REQUIRED_DICT,
    "listens": {"type": "list", "elements": "dict", "default": []},
    "labels": EMPTY_DICT,
    "publish": {
        "type": "dict",
        "options": {
            "network": REQUIRED_STR,
            "ports": PORTS,
            "server": {"type": "int", "default": 0},
            "allow_unauthenticated": {"type": "bool", "default": False},
        },
    },
}
DISK_SPACE: Spec = {
    # Of all Sparks, for those that copy from another one.
    "looks": DICT,
    "models": REQUIRED_DICT,
    "image_bytes": {"type": "int", "default": 0},
    "packed_bytes": {"type": "int", "default": 0},
    "reserve_bytes": {"type": "int", "default": 0},
}
FIREWALL: Spec = {"network": REQUIRED_STR, "published_ports": PORTS, "former": PORTS}
OPEN_WEBUI: Spec = {
    "name": REQUIRED_STR,
    "address": REQUIRED_STR,
    "port": REQUIRED_INT,
    "endpoint": REQUIRED_STR,
    "environment": EMPTY_DICT,
}


def docker_access(run: Run, arguments: Mapping) -> Result:
    if os.environ.get("SUDO_USER"):
        raise AnsibleActionFail(access.UNDER_SUDO)
    docker = arguments["docker"]
    found = access.way(docker, arguments["add_to_group"], run.is_check)
    return {**found, **run.refused(access.refusal(docker, arguments["need_gpu"]))}


def endpoint(run: Run, arguments: Mapping) -> Result:
    found = course.listens(run.host, run.hosts, arguments["host"], arguments["port"])
    told = {name: arguments[name] for name in ("network", "image", "published_ports")}
    ways = {name: arguments[name] for name in ("host", "expose", "allow_unauthenticated", "network")}
    return {
        **found,
        "closely": course.closely(found, **told, compare_path=arguments["cache_directory"]),
        "alternative": alternative(run, arguments["recipe"], arguments["image"]),
        **run.refused(course.exposed(**ways, hosts=run.hosts)),
    }


def former(run: Run, arguments: Mapping) -> Result:
    return {"closely": course.former_query(run.host, run.hosts, **arguments)}


def restart(_run: Run, arguments: Mapping) -> Result:
    return course.restart_endpoint(**arguments)


def container(run: Run, arguments: Mapping) -> Result:
    return refused("\n".join(f"{run.host}: {problem}" for problem in place.problems(place.Place(**arguments))))


def disk_space(run: Run, arguments: Mapping) -> Result:
    looks, found, reserve = arguments["looks"], arguments["models"], arguments["reserve_bytes"]
    if looks is None:
        return refused(room.unfit(run.host, found, arguments["image_bytes"], reserve))
    found = {**found, "cache": found["cache"]["directory"]}
    return refused("\n".join(room.needed(looks, run.host, found, arguments["packed_bytes"], reserve)))


def firewall_rules(_run: Run, arguments: Mapping) -> Result:
    try:
        return {"rules": firewall.rules(**arguments)}
    except ValueError as error:
        raise AnsibleActionFail(str(error)) from None


def open_webui(run: Run, arguments: Mapping) -> Result:
    return page.plan(run.host, **arguments, reach=reach_of(run.action, run.variables))


FORMS: Forms = {
    "docker_access": Form(DOCKER, docker_access, "dgx_spark.speculative.spark_info with gather: [docker]"),
    # Where the API of a new deployment is.
    "endpoint": Form(ENDPOINT, endpoint),
    # Where that of a recorded one was.
    "former": Form(FORMER, former),
    # Where that of a server will be which does not run.
    "restart": Form(RESTART, restart),
    "container": Form(CONTAINER, container),
    "disk_space": Form(DISK_SPACE, disk_space, f"{nodes.PAIR}, and {nodes.MODELS}"),
    "firewall": Form(FIREWALL, firewall_rules),
    "open_webui": Form(OPEN_WEBUI, open_webui),
}
