# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find variables that look like inputs of the roles, and invalid values.

Ansible takes any name and ignores it. It notices invalid values late, or takes them for something else.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.validation import check_type_dict
from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.parsing.convert_bool import BOOLEANS, boolean

from ...module_utils._deployment.records import NOT_DEPLOYMENTS
from .._data.rows import CONTROL, check_value
from .._data.spelling import did_you_mean, is_misspelt, nearest
from .recipe import DIRECTORY, HUB_ID, MOST_DRAFTED, RECIPE, check_break_even, check_environment, check_expectations

# Variables that roles export with set_fact, and later plays of a run see; tests compare them with the tasks.
OUTPUTS = (
    "api_proxy_endpoint",
    "docker_permissions_become",
    "docker_permissions_become_method",
    "engine_container_changed",
    "engine_container_definition",
    "engine_container_facts",
    "engine_container_option_check",
    "engine_container_placement",
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
PORT, SECONDS, COUNT = (1, 65535), (1, 86_400), (1, 1_000_000)
LIMITS = {
    "api_proxy_docker_port": PORT,
    "api_proxy_max_body_mb": COUNT,
    "api_proxy_max_requests": COUNT,
    "api_proxy_port": PORT,
    "engine_container_stop_timeout": SECONDS,
    "open_webui_port": PORT,
    "spark_network_bandwidth_port": PORT,
    "spark_network_bandwidth_seconds": SECONDS,
    "spark_network_check_port": (0, PORT[1]),
    "spark_network_check_timeout": SECONDS,
    "spark_network_copy_port": PORT,
    "spark_network_copy_streams": (1, 64),
    "spark_network_copy_timeout": SECONDS,
    "spark_network_worker_port": PORT,
    "spark_network_undo_timeout": SECONDS,
    "speculative_serve_answer_timeout": SECONDS,
    "speculative_serve_draft_length": (0, MOST_DRAFTED),
    "speculative_serve_port": PORT,
    "speculative_serve_probe_interval_s": (0, SECONDS[1]),
    "speculative_serve_ready_timeout": SECONDS,
    "speculative_serve_stall_timeout_s": SECONDS,
    "speculative_serve_worker_timeout_s": SECONDS,
}
ENVIRONMENT = "speculative_serve_environment"
MODELS = ("speculative_serve_target_model", "speculative_serve_draft_model")
# Inputs that replace the key of the recipe, and are as it is.
OF_THE_RECIPE = {"speculative_serve_break_even": "break_even", "speculative_serve_probe": "probe"}
DEPLOYMENT = "speculative_serve_deployment"
# One part of a path, and none that leads elsewhere or is hidden.
MOST_OF_A_NAME = 100
DIRECTORY_NAME = re.compile(rf"[^./\x00-\x1f][^/\x00-\x1f]{{,{MOST_OF_A_NAME - 1}}}")
# As long as a path may be. A message shows the beginning of a value.
MOST_OF_A_TEXT = 4096
MOST_SHOWN = 100

# Its value is never shown, and its template is evaluated only where it is needed.
SECRET = "_token"
UNDEFINED = re.compile(r"'(\w+)' is undefined")
# Beginnings of the names of variables that a run sets.
LATER = ("ansible_", "deployment_", "role_", "__")

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


@functools.cache
def specifications(roles: Path) -> dict[str, dict[str, dict[str, t.Any]]]:
    """Return the inputs of every role, with what its argument specs say of them."""
    result = {}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        specs = yaml_load(path.read_text(encoding="utf-8"))["argument_specs"]
        options = (option for spec in specs.values() for option in (spec.get("options") or {}).items())
        result[path.parent.parent.name] = {name: option for name, option in options if not HANDED_OVER.fullmatch(name)}
    return result


def inputs(roles: Path) -> dict[str, dict[str, str]]:
    """Return what a user may set, with its type: of every role, and of Open WebUI."""
    types = {
        role: {name: option.get("type", "str") for name, option in options.items()}
        for role, options in specifications(roles).items()
    }
    return {"open_webui": OPEN_WEBUI, **types}


def choices(roles: Path) -> dict[str, list[str]]:
    """Return the inputs that are one of several words, with these."""
    return {
        name: option["choices"]
        for options in specifications(roles).values()
        for name, option in options.items()
        if "choices" in option and option.get("type", "str") == "str"
    }


def meant_input(name: str, known: t.Mapping[str, t.Collection[str]], also: t.Collection[str]) -> str:
    """Return the input that a variable of the command line most likely means: a playbook's, or one of a role.

    An input of a role is also meant by its name without the role.
    """
    short = {full.removeprefix(f"{role}_"): full for role, names in known.items() for full in names}
    # Short names are near to many words: `models` to `mode`.
    return nearest(name, also) or (short[nearest(name, short) or ""] if is_misspelt(name, short, 0.9) else "")


def likely_typos(
    given: t.Iterable[str], known: t.Mapping[str, t.Collection[str]], also: t.Collection[str]
) -> list[str]:
    """One line for each variable of the command line that is most likely an input, wrongly spelt."""
    every = {name for names in known.values() for name in names}
    return [f"{name} is no input; {said}" for name, (_part, said) in RESERVED.items() if name in given] + [
        f"{name} is not known; did you mean '{meant}'?"
        for name in sorted(given)
        if name not in also and name not in every and not name.startswith("ansible_")
        if (meant := meant_input(name, known, also))
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
    return bool(re.fullmatch(r"[+-]?[0-9]{1,18}", str(value)))


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


def _is_text(value: t.Any) -> bool:
    # Modules take a list or a number for its text, filters do not.
    return isinstance(value, str)


# By type, what a value has to be, and that in words. Whatever is none of these raises, too.
KINDS: dict[str, tuple[t.Callable[[t.Any], bool], str]] = {
    "address": (_is_address, "an IP address"),
    "bool": (_is_decided, "true or false"),
    "dict": (_is_mapping, "a mapping"),
    "float": (_is_number, "a number"),
    "int": (_is_whole, "a whole number"),
    "list": (lambda value: not isinstance(value, (dict, bool)), "a list"),
    "path": (_is_path, "a path"),
    "str": (_is_text, "text; put a number in quotes"),
}


def _fits(value: t.Any, kind: str) -> bool:
    try:
        return KINDS[kind][0](value)
    except (TypeError, ValueError, OverflowError, SyntaxError):
        return False


def _shown(value: t.Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def _unusable_name(name: t.Any) -> list[str]:
    """Check the name of a deployment: cleanup finds it by its directory, beside which others are."""
    if not DIRECTORY_NAME.fullmatch(str(name)):
        return [
            f"{DEPLOYMENT} is {_shown(name)}, but must be a directory's name, without a slash and not beginning with "
            f"a dot, of at most {MOST_OF_A_NAME} characters"
        ]
    return [f"{DEPLOYMENT} is {name!r}, but that lies beside the deployments and is none"] * (name in NOT_DEPLOYMENTS)


def _unusable_value(name: str, value: t.Any, kind: str, words: t.Sequence[str]) -> list[str]:
    """Check a value against the type of its input, its words and its limits."""
    if kind in KINDS and not _fits(value, kind):
        # An environment may hold a token.
        shown = "something else" if kind == "dict" or name.endswith(SECRET) else _shown(value)
        return [f"{name} is {shown}, but must be {KINDS[kind][1]}"]
    if name == DEPLOYMENT:
        return _unusable_name(value)
    texts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str)]
    longest = max(map(len, texts), default=0)
    if longest > MOST_OF_A_TEXT:
        return [f"{name} has {longest:,} characters, but may have at most {MOST_OF_A_TEXT:,}"]
    if kind == "str" and CONTROL.search(value.rstrip("\n")):
        return [f"{name} must be one line of text without control characters"]
    if kind == "path" and name.endswith("_directory") and not SPARK_DIRECTORY.fullmatch(value):
        return [f"{name} is {value!r}, but must be an absolute path on the Spark without a colon"]
    if name in MODELS and value and not (HUB_ID.fullmatch(value) or DIRECTORY.fullmatch(value)):
        return [f"{name} is {_shown(value)}, but must be a Hub id such as 'organisation/model', or an absolute path"]
    if words and value not in words:
        return [f"{name} is {value!r}, but must be one of {', '.join(words)}{did_you_mean(str(value), words)}"]
    if name in LIMITS and not LIMITS[name][0] <= int(value) <= LIMITS[name][1]:
        return [f"{name} is {value}, but must be from {LIMITS[name][0]} to {LIMITS[name][1]}"]
    return []


def _unusable_parts(given: t.Mapping[str, t.Any]) -> list[str]:
    """Check the mappings that replace one of the recipe by the recipe's own rules."""
    parts = {key: given[name] for name, key in {**OF_THE_RECIPE, ENVIRONMENT: "environment"}.items() if name in given}
    recipe = {key: part for key, part in parts.items() if isinstance(part, dict)}
    errors = [error for key, part in recipe.items() for error in check_value(key, part, RECIPE[key]) if part]
    errors = errors or [*check_expectations(recipe), *check_break_even(recipe)]
    return [f"speculative_serve_{error}" for error in [*errors, *check_environment(recipe)]]


def invalid_values(
    values: t.Mapping[str, t.Any], types: t.Mapping[str, str], words: t.Mapping[str, t.Sequence[str]]
) -> list[str]:
    """One line for each value of another type, number out of its limits, word that is no choice, and unusable name."""
    empty = [
        f"{name} has no value (null); give it one, or leave it out" for name in sorted(values) if values[name] is None
    ]
    given = {name: value for name, value in sorted(values.items()) if value is not None}
    wrong = [
        error
        for name, value in given.items()
        for error in _unusable_value(name, value, types[name], words.get(name, ()))
    ]
    return [*empty, *wrong, *_unusable_parts(given)]


def unknown_inputs(variables: t.Iterable[str], known: t.Mapping[str, t.Collection[str]]) -> list[str]:
    """One line for each variable that begins like a role's inputs and is none of them."""
    every = {name for names in known.values() for name in names}
    prefixes = tuple(f"{role}_" for role in known)
    return [
        f"{name} is not an input of any role{did_you_mean(name, every)}"
        for name in sorted(variables)
        if name.startswith(prefixes) and name not in every and name not in OUTPUTS
    ]


def undefined_name(error: str, variables: t.Container[str]) -> str:
    """Return the variable that an error of Ansible calls undefined; empty if a run sets it later."""
    found = UNDEFINED.search(error)
    is_later = not found or found[1] in variables or found[1] in OUTPUTS or found[1].startswith(LATER)
    return "" if is_later or not found else found[1]
