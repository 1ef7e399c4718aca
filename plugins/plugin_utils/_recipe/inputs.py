# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find variables that look like inputs of the roles and are none: Ansible itself takes any name and ignores it."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import check_environment
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.findings import did_you_mean

# What roles hand out with set_fact, which later plays of a run see as variables; tests compare this with the tasks.
OUTPUTS = (
    "api_proxy_trusted",
    "api_proxy_urls",
    "docker_permissions_become",
    "docker_permissions_become_method",
    "huggingface_cache_hub",
    "huggingface_cache_view",
    "open_webui_upstream",
    "spark_network_bandwidth",
    "spark_network_before",
    "spark_network_directory",
    "spark_network_findings",
    "spark_network_fingerprint",
    "spark_network_image",
    "spark_network_image_here",
    "spark_network_look",
    "spark_network_rails",
    "spark_network_trust_changed",
    "speculative_benchmark_chosen",
    "speculative_benchmark_recipe_path",
    "speculative_benchmark_report",
    "speculative_serve_diagnosis",
    "speculative_serve_plan",
    "speculative_serve_record",
    "speculative_serve_status",
    "trtllm_container_changed",
    "trtllm_container_definition",
    "trtllm_container_found",
    "trtllm_container_image_bytes",
    "trtllm_container_option_check",
    "trtllm_container_registry",
    "trtllm_container_settled",
    "trtllm_container_started_at",
)

# The least and the most that a number may be whose mistake would only be noticed when something serves no more.
LIMITS = {
    "spark_network_copy_port": (1, 65535),
    "spark_network_copy_streams": (1, 64),
    "spark_network_ssh_port": (1, 65535),
    "speculative_serve_port": (1, 65535),
}
ENVIRONMENT = "speculative_serve_environment"

# What the playbooks put together themselves; given with -e, it would take the place of all that.
RESERVED = {
    "deployment": "the name of a deployment is speculative_serve_deployment",
    "deployment_hosts": "choose Sparks with --limit, or in the inventory",
    "deployment_missing_for": "what is missing is found out by a look",
}

# What inputs of an earlier release are called now.
RENAMED = {
    "spark_pair_base_image": "spark_network_base_image",
    "spark_pair_become": "spark_network_become",
    "spark_pair_become_method": "spark_network_become_method",
    "spark_pair_clock_skew": "spark_network_clock_skew",
    "spark_pair_container": "spark_network_container",
    "spark_pair_copy_patience": "spark_network_copy_patience",
    "spark_pair_copy_port": "spark_network_copy_port",
    "spark_pair_copy_streams": "spark_network_copy_streams",
    "spark_pair_directory": "spark_network_directory",
    "spark_pair_fingerprint": "spark_network_fingerprint",
    "spark_pair_image": "spark_network_image",
    "spark_pair_remove_image": "spark_network_remove_image",
    "spark_pair_reserve_gib": "huggingface_cache_reserve_gib",
    "spark_pair_ssh_port": "spark_network_ssh_port",
    "spark_pair_state_directory": "spark_network_state_directory",
    "spark_pair_tolerate": "spark_network_tolerate",
}


def inputs(roles: Path) -> dict[str, set[str]]:
    """The inputs of every role, from its argument specs."""
    found: dict[str, set[str]] = {}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        found[path.parent.parent.name] = {name for spec in specs.values() for name in spec.get("options") or {}}
    return found


def mistaken(given: t.Iterable[str], known: t.Mapping[str, set[str]], also: t.Sequence[str]) -> list[str]:
    """One line for each variable of the command line that is most likely one of a playbook's own, wrongly spelt."""
    every = {name for names in known.values() for name in names}
    return [f"{name} is no input; {said}" for name, said in RESERVED.items() if name in given] + [
        f"{name} is not known{did_you_mean(name, also)}"
        for name in sorted(given)
        if name not in also and name not in every and not name.startswith("ansible_") and did_you_mean(name, also)
    ]


def undecided(flags: t.Mapping[str, t.Any]) -> list[str]:
    """One line for each of these variables that is neither yes nor no, which Ansible would take for no."""
    wrong = []
    for name, value in sorted(flags.items()):
        try:
            boolean(value)
        except TypeError:
            wrong.append(f"{name} is {value!r}, but must be true or false")
    return wrong


def unusable(values: t.Mapping[str, t.Any]) -> list[str]:
    """One line for each number out of its limits, and each name of a variable that is none."""
    wrong = []
    for name, (least, most) in LIMITS.items():
        # Whether it is a number at all, the role's argument spec says.
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            if name in values and not least <= int(values[name]) <= most:
                wrong.append(f"{name} is {values[name]}, but must be from {least} to {most}")
    given = values.get(ENVIRONMENT)
    environment = {"environment": given if isinstance(given, dict) else {}}
    return wrong + [f"speculative_serve_{error}" for error in check_environment(environment)]


def misspelt(variables: t.Iterable[str], known: t.Mapping[str, set[str]]) -> list[str]:
    """One line for each variable that begins like a role's inputs and is none of them."""
    every = {name for names in known.values() for name in names}
    prefixes = tuple(f"{role}_" for role in known)
    return [f"{name} is called {RENAMED[name]} now" for name in sorted(variables) if name in RENAMED] + [
        f"{name} is not an input of any role{did_you_mean(name, every)}"
        for name in sorted(variables)
        if name.startswith(prefixes) and name not in every and name not in OUTPUTS
    ]
