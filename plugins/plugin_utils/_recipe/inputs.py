# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find variables that look like inputs of the roles, and invalid values.

Ansible takes any name and ignores it. It notices invalid values late, or takes them for something else.
"""

from __future__ import annotations

import ipaddress
import math
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.validation import check_type_dict
from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.parsing.convert_bool import BOOLEANS, boolean
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import (
    NOT_DEPLOYMENTS,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.spelling import did_you_mean
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import (
    MOST_DRAFTED,
    check_environment,
)

# Variables that roles export with set_fact, and later plays of a run see; tests compare them with the tasks.
OUTPUTS = (
    "api_proxy_endpoint",
    "api_proxy_urls",
    "docker_permissions_become",
    "docker_permissions_become_method",
    "engine_container_changed",
    "engine_container_definition",
    "engine_container_facts",
    "engine_container_image_bytes",
    "engine_container_option_check",
    "engine_container_registry",
    "engine_container_switchover",
    "engine_container_started_at",
    "huggingface_cache_resolved_directory",
    "huggingface_cache_snapshot",
    "spark_network_bandwidth",
    "spark_network_copy_source",
    "spark_network_comparison",
    "spark_network_directory",
    "spark_network_findings",
    "spark_network_keys_fingerprint",
    "spark_network_facts",
    "spark_network_rails",
    "speculative_benchmark_choice",
    "speculative_benchmark_recipe_path",
    "speculative_benchmark_report",
    "speculative_serve_diagnosis",
    "speculative_serve_plan",
    "speculative_serve_record",
    "speculative_serve_status",
    "speculative_serve_stopped",
)

# The inputs of open_webui.yml and cleanup.yml for Open WebUI, which has no role.
OPEN_WEBUI = {
    "open_webui_address": "address",
    "open_webui_remove_data": "bool",
    "open_webui_environment": "dict",
    "open_webui_image": "str",
    "open_webui_name": "str",
    "open_webui_port": "int",
}

# Variables between roles only.
HANDED_OVER = re.compile(r"\w+_handover")

# The least and the most that a number may be whose mistake would only be noticed late.
LIMITS = {
    "open_webui_port": (1, 65535),
    "spark_network_copy_port": (1, 65535),
    "spark_network_copy_streams": (1, 64),
    "spark_network_ssh_port": (1, 65535),
    "speculative_serve_draft_length": (0, MOST_DRAFTED),
    "speculative_serve_port": (1, 65535),
}
ENVIRONMENT = "speculative_serve_environment"
DEPLOYMENT = "speculative_serve_deployment"
# One part of a path, and none that leads elsewhere or is hidden.
DIRECTORY_NAME = re.compile(r"[^./\x00-\x1f][^/\x00-\x1f]*")

# Of a Spark, where Docker takes a colon for the end of a path, and a job has another working directory.
SPARK_DIRECTORY = re.compile(r"(/|~/)[^:]*|~")

# Mappings that the playbooks build in group_vars/all.yml, with a part of each. A value from -e or the inventory would
# replace the whole mapping.
RESERVED = {
    "deployment_settings": ("state_directory", "the name of a deployment is speculative_serve_deployment"),
    "deployment_hosts": ("cluster", "choose Sparks with --limit, or in the inventory"),
    "deployment_failed_checks_for": ("cluster", "what is missing is found out by a look"),
    "open_webui": ("image", "the inputs of Open WebUI begin with open_webui_"),
}


def inputs(roles: Path) -> dict[str, dict[str, str]]:
    """Return what a user may set, with its type: of every role from its argument specs, and of Open WebUI."""
    result: dict[str, dict[str, str]] = {"open_webui": OPEN_WEBUI}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        specs = yaml_load(path.read_text(encoding="utf-8"))["argument_specs"]
        options = (option for spec in specs.values() for option in (spec.get("options") or {}).items())
        result[path.parent.parent.name] = {
            name: option.get("type", "str") for name, option in options if not HANDED_OVER.fullmatch(name)
        }
    return result


def likely_typos(
    given: t.Iterable[str], known: t.Mapping[str, t.Collection[str]], also: t.Collection[str]
) -> list[str]:
    """One line for each variable of the command line that is most likely one of a playbook's own, wrongly spelt."""
    every = {name for names in known.values() for name in names}
    return [f"{name} is no input; {said}" for name, (_part, said) in RESERVED.items() if name in given] + [
        f"{name} is not known{did_you_mean(name, also)}"
        for name in sorted(given)
        if name not in also and name not in every and not name.startswith("ansible_") and did_you_mean(name, also)
    ]


def reserved_names(variables: t.Mapping[str, t.Any]) -> list[str]:
    """Report each variable of the user that has the name of a variable of the playbooks."""
    return [
        f"{name} is what the playbooks hand their roles, and no name for something else; {said}"
        for name, (part, said) in RESERVED.items()
        if name in variables and not (isinstance(variables[name], dict) and part in variables[name])
    ]


def _is_whole(value: t.Any) -> bool:
    # Ansible takes 1e3 for a number, but hands on the text.
    return bool(re.fullmatch(r"[+-]?[0-9]+", str(value)))


def _is_number(value: t.Any) -> bool:
    return not isinstance(value, bool) and math.isfinite(float(value))


def _is_address(value: t.Any) -> bool:
    ipaddress.ip_address(value if isinstance(value, str) else "")
    return True


def _is_decided(value: t.Any) -> bool:
    boolean(value)
    return True


def _is_mapping(value: t.Any) -> bool:
    check_type_dict(value)
    return True


def _is_path(value: t.Any) -> bool:
    # A list that was given as text, or a yes, would be the name of a file.
    is_text = isinstance(value, str) and value.isprintable() and not value.startswith(("[", "{"))
    return is_text and value.lower() not in BOOLEANS


# By type, what a value has to be, and that in words. Whatever is none of these raises, too.
KINDS: dict[str, tuple[t.Callable[[t.Any], bool], str]] = {
    "address": (_is_address, "an IP address"),
    "bool": (_is_decided, "true or false"),
    "dict": (_is_mapping, "a mapping"),
    "float": (_is_number, "a number"),
    "int": (_is_whole, "a whole number"),
    "list": (lambda value: not isinstance(value, (dict, bool)), "a list"),
    "path": (_is_path, "a path"),
}


def _fits(value: t.Any, kind: str) -> bool:
    try:
        return KINDS[kind][0](value)
    except (TypeError, ValueError, OverflowError, SyntaxError):
        return False


def _unusable_name(name: t.Any) -> list[str]:
    """Check the name of a deployment: cleanup finds it by its directory, beside which others are."""
    if not DIRECTORY_NAME.fullmatch(str(name)):
        return [
            f"{DEPLOYMENT} is {name!r}, but must be a directory's name, without a slash and not beginning with a dot"
        ]
    return [f"{DEPLOYMENT} is {name!r}, but that lies beside the deployments and is none"] * (name in NOT_DEPLOYMENTS)


def invalid_values(values: t.Mapping[str, t.Any], types: t.Mapping[str, str]) -> list[str]:
    """One line for each value of another type, number out of its limits, and name that is none."""
    given = {name: value for name, value in sorted(values.items()) if value is not None}
    wrong = []
    for name, value in given.items():
        kind = types.get(name, "str")
        if kind in KINDS and not _fits(value, kind):
            # An environment may hold a token.
            shown = "something else" if kind == "dict" else repr(value)
            wrong.append(f"{name} is {shown}, but must be {KINDS[kind][1]}")
        elif kind == "path" and name.endswith("_directory") and not SPARK_DIRECTORY.fullmatch(value):
            wrong.append(f"{name} is {value!r}, but must be an absolute path on the Spark without a colon")
        elif name in LIMITS and not LIMITS[name][0] <= int(value) <= LIMITS[name][1]:
            wrong.append(f"{name} is {value}, but must be from {LIMITS[name][0]} to {LIMITS[name][1]}")
    if DEPLOYMENT in given:
        wrong += _unusable_name(given[DEPLOYMENT])
    environment = given.get(ENVIRONMENT)
    environment = {"environment": environment if isinstance(environment, dict) else {}}
    return wrong + [f"speculative_serve_{error}" for error in check_environment(environment)]


def unknown_inputs(variables: t.Iterable[str], known: t.Mapping[str, t.Collection[str]]) -> list[str]:
    """One line for each variable that begins like a role's inputs and is none of them."""
    every = {name for names in known.values() for name in names}
    prefixes = tuple(f"{role}_" for role in known)
    return [
        f"{name} is not an input of any role{did_you_mean(name, every)}"
        for name in sorted(variables)
        if name.startswith(prefixes) and name not in every and name not in OUTPUTS
    ]
