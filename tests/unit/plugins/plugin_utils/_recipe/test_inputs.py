# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import NOT_DEPLOYMENTS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.inputs import (
    DEPLOYMENT,
    ENVIRONMENT,
    HANDED_OVER,
    KINDS,
    LIMITS,
    OUTPUTS,
    choices,
    inputs,
    invalid_values,
    likely_typos,
    reserved_names,
    specifications,
    undefined_name,
    unknown_inputs,
)

ROLES = Path(__file__).parents[5] / "roles"
KNOWN = inputs(ROLES)
TYPES = {name: kind for options in KNOWN.values() for name, kind in options.items()}
WORDS = choices(ROLES)


def test_a_misspelt_input_gets_the_nearest_name() -> None:
    assert unknown_inputs(["speculative_serve_prot", "open_webui_prot", "open_webui"], KNOWN) == [
        "open_webui_prot is not an input of any role; did you mean 'open_webui_port'?",
        "speculative_serve_prot is not an input of any role; did you mean 'speculative_serve_port'?",
    ]


def test_what_has_nothing_to_do_with_the_roles_is_nobodys_business() -> None:
    assert unknown_inputs(["recipe", "ansible_user", "__speculative_serve_url", "my_port"], KNOWN) == []


def foreign_inputs(role: str, text: str) -> list[str]:
    """Return the inputs of other roles that a template reads without a default. Only their own role has a value."""
    expressions = " ".join(re.findall(r"\{[{%].*?[%}]\}", text, re.DOTALL))
    names = re.findall(r"\b(\w+)\b(?! \| default\()", expressions)
    others = {name for other, options in KNOWN.items() if other != role for name in options}
    return sorted(others.intersection(names).difference(OUTPUTS, KNOWN[role]))


def test_a_role_reads_no_input_that_only_another_role_has() -> None:
    files = [path for kind in ("tasks", "templates", "vars", "defaults") for path in ROLES.glob(f"*/{kind}/*")]
    assert len(files) > 100
    found = {path: foreign_inputs(path.parts[-3], path.read_text(encoding="utf-8")) for path in files}
    assert {path.as_posix(): names for path, names in found.items() if names} == {}
    assert foreign_inputs("trtllm_container", "FROM {{ engine_container_image }}") == ["engine_container_image"]


def test_every_default_is_an_input() -> None:
    known = KNOWN
    files = list(ROLES.glob("*/defaults/main.yml"))
    assert files
    for defaults in files:
        names = yaml.safe_load(defaults.read_text(encoding="utf-8"))
        assert unknown_inputs((name for name in names if not HANDED_OVER.fullmatch(name)), known) == []


def test_an_input_under_the_name_of_another_role_is_no_input() -> None:
    assert unknown_inputs(["trtllm_container_network"], KNOWN) == [
        "trtllm_container_network is not an input of any role; did you mean 'engine_container_network'?"
    ]


def facts(tasks: list[dict[str, t.Any]]) -> t.Iterator[str]:
    """What these tasks set, those in blocks too."""
    for task in tasks:
        yield from task.get("ansible.builtin.set_fact") or {}
        yield task.get("register", "")
        for part in ("block", "rescue", "always"):
            yield from facts(task.get(part) or [])


def test_the_outputs_are_what_the_roles_hand_out() -> None:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROLES.glob("*/tasks/*.yml")]
    handed_out, roles = {name for tasks in files for name in facts(tasks)}, tuple(KNOWN)
    assert {name for name in handed_out if name.startswith(roles)} == set(OUTPUTS)


def test_the_outputs_of_a_run_are_not_taken_for_inputs() -> None:
    assert unknown_inputs(OUTPUTS, KNOWN) == []


def test_a_misspelt_word_of_a_playbook() -> None:
    given = ["unusd", "models", "speculative_serve_port", "ansible_user", "colour"]
    assert likely_typos(given, KNOWN, ["models", "unused", "image"]) == ["unusd is not known; did you mean 'unused'?"]


@pytest.mark.parametrize("name", ["draft_length", "draft-length", "draft_lenght"])
def test_an_input_without_the_name_of_its_role_is_not_ignored(name: str) -> None:
    assert likely_typos([name, "models"], KNOWN, []) == [
        f"{name} is not known; did you mean 'speculative_serve_draft_length'?"
    ]


def judged(kind: str, *values: t.Any) -> list[str]:
    """Whom of these values is refused, and why."""
    names = {f"input_{number}": value for number, value in enumerate(values)}
    return invalid_values(names, dict.fromkeys(names, kind), {})


def test_neither_yes_nor_no_is_not_taken_for_no() -> None:
    assert judged("bool", "yes", "off", True, 0, "False") == []
    assert judged("bool", "yep", "", [1]) == [
        "input_0 is 'yep', but must be true or false",
        "input_1 is '', but must be true or false",
        "input_2 is [1], but must be true or false",
    ]


@pytest.mark.parametrize(
    ("kind", "usable", "refused"),
    [
        ("address", ["127.0.0.1", "0.0.0.0", "::1"], ["", "localhost", "127.0.0.1:80", [], ["127.0.0.1"], 5]),
        (
            "int",
            ["8000", 8000, "-1", 0],
            ["1e3", "banana", "", 1.5, float("inf"), True, [1], {}, " 1", "1_000"],
        ),
        ("float", ["1.5", 2, "1e3", 0], ["banana", "nan", float("inf"), False, [1], {}]),
        ("list", ["a,b", ["a"], [], 1], [{"a": 1}, {}, True]),
        ("dict", [{}, {"a": 1}, "a=1", '{"a": 1}'], ["banana", [1], 5, "{"]),
        (
            "path",
            ["", "a.json", "~/a", "/tmp/a b", "a[1].json"],
            [["a"], "[a]", '{"a": 1}', True, "true", "no", "a\nb", 5],
        ),
        ("str", ["", "a", "5"], [5, 1.3, ["a"], {"a": 1}, True]),
    ],
)
def test_a_value_of_another_type_is_named(kind: str, usable: list[t.Any], refused: list[t.Any]) -> None:
    assert judged(kind, *usable) == []
    shown = ["something else" if kind == "dict" else repr(value) for value in refused]
    says = [f"input_{number} is {value}, but must be {KINDS[kind][1]}" for number, value in enumerate(shown)]
    assert judged(kind, *refused) == says


def test_a_number_that_is_too_large_for_a_float() -> None:
    (line,) = judged("float", 10**400)
    assert line.endswith("... (401 characters), but must be a number")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("speculative_serve_draft_length", "banana", "'banana', but must be a whole number"),
        ("speculative_serve_draft_length", "2000", "2000, but must be from 0 to 1024"),
        ("speculative_serve_port", "1e3", "'1e3', but must be a whole number"),
        ("speculative_serve_port", float("inf"), "inf, but must be a whole number"),
        ("open_webui_port", "70000", "70000, but must be from 1 to 65535"),
        ("engine_container_published_ports", {"8000": 1}, "{'8000': 1}, but must be a list"),
        # It may hold a token.
        ("huggingface_cache_token", ["hf_secret"], "something else, but must be text; put a number in quotes"),
        ("speculative_serve_options", "eager", "something else, but must be a mapping"),
    ],
)
def test_an_input_of_another_type_is_named(name: str, value: t.Any, says: str) -> None:
    assert invalid_values({name: value}, TYPES, WORDS) == [f"{name} is {says}"]


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".hidden", "", "/tmp", "a\n", "a b", "größe"])
def test_a_deployment_is_one_directory(name: t.Any) -> None:
    says = "but must be a directory's name, without a slash and not beginning with a dot, of at most 100 characters"
    refused = [] if name in ("a b", "größe") else [f"{DEPLOYMENT} is {name!r}, {says}"]
    assert invalid_values({DEPLOYMENT: name}, TYPES, WORDS) == refused


@pytest.mark.parametrize("name", NOT_DEPLOYMENTS)
def test_a_deployment_is_none_of_what_lies_beside_it(name: str) -> None:
    says = "but that lies beside the deployments and is none"
    assert invalid_values({DEPLOYMENT: name}, TYPES, WORDS) == [f"{DEPLOYMENT} is {name!r}, {says}"]
    assert invalid_values({DEPLOYMENT: f"{name}-2"}, TYPES, WORDS) == []


def test_what_lies_beside_the_deployments_is_known() -> None:
    """By what roles put there themselves, of which they clean up some and keep some."""
    texts = "".join(path.read_text(encoding="utf-8") for path in ROLES.glob("*/tasks/*.yml"))
    beside = set(re.findall(r"[._]state_directory(?: \}\}| ~ ')/([a-z]+)", texts))
    assert beside == {name for name in NOT_DEPLOYMENTS if "." not in name}


def test_numbers_and_names_that_would_only_fail_when_nothing_serves_any_more() -> None:
    assert invalid_values({"spark_network_worker_port": "2233", "spark_network_copy_streams": 8}, TYPES, WORDS) == []
    environment = {"A B": "x", "GOOD": 1, "BAD": [1]}
    assert invalid_values(
        {
            "spark_network_worker_port": 70000,
            "spark_network_copy_streams": "0",
            "speculative_serve_environment": environment,
        },
        TYPES,
        WORDS,
    ) == [
        "spark_network_copy_streams is 0, but must be from 1 to 64",
        "spark_network_worker_port is 70000, but must be from 1 to 65535",
        "speculative_serve_environment.A B is not the name of a variable",
        "speculative_serve_environment.BAD must be a string or a number",
    ]


def test_a_value_that_a_specification_explains_is_within_the_limits() -> None:
    for options in specifications(ROLES).values():
        for name in options.keys() & LIMITS.keys():
            said = " ".join(options[name]["description"])
            assert [number for number in re.findall(r"V\((-?\d+)\)", said) if not in_limits(name, int(number))] == []


def in_limits(name: str, number: int) -> bool:
    least, most = LIMITS[name]
    return least <= number <= most


@pytest.mark.parametrize("value", ["/data/models", "~/models", "~", "/home/my home/a"])
def test_a_directory_on_a_spark(value: str) -> None:
    assert invalid_values({"huggingface_cache_directory": value}, TYPES, WORDS) == []


@pytest.mark.parametrize("value", ["data/models", "../spark/rel", "/data/a:b", "/data:", "~other/models", ""])
@pytest.mark.parametrize("name", ["huggingface_cache_directory", "speculative_serve_state_directory"])
def test_a_directory_on_a_spark_is_absolute_and_has_no_colon(name: str, value: str) -> None:
    says = f"{name} is {value!r}, but must be an absolute path on the Spark without a colon"
    assert invalid_values({name: value}, TYPES, WORDS) == [says]


@pytest.mark.parametrize("value", ["hf_secret\n", "hf_secret\0", "a\r\nb"])
def test_an_environment_has_values_of_one_line(value: str) -> None:
    says = "speculative_serve_environment.TOKEN must be one line of text without control characters"
    assert invalid_values({ENVIRONMENT: {"TOKEN": value}}, TYPES, WORDS) == [says]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("speculative_serve_kv_cache", "plannd", "is 'plannd', but must be one of planned, fraction"),
        ("speculative_serve_expose", "wan", "is 'wan', but must be one of local, docker, lan"),
        ("speculative_serve_log_level", None, "has no value (null); give it one, or leave it out"),
        ("engine_container_image", "a" * 10_000, "has 10,000 characters, but may have at most 4,096"),
        ("huggingface_cache_token", "hf_a\nb", "must be one line of text without control characters"),
        ("speculative_serve_log_level", "inf", "is 'inf', but must be one of internal_error, error, warning, info"),
        ("api_proxy_keys", ["a" * 10_000], "has 10,000 characters, but may have at most 4,096"),
        ("speculative_serve_port", "9" * 10_000, f"is '{'9' * 99}... (10,002 characters), but must be a whole number"),
        ("speculative_serve_ready_timeout", -1, "is -1, but must be from 1 to 86400"),
        ("speculative_serve_target_model", "my model", "is 'my model', but must be a Hub id such as 'organisation/"),
        ("speculative_serve_draft_model", "../model", "is '../model', but must be a Hub id such as 'organisation/"),
        ("speculative_serve_probe", {"promt": "x"}, ".promt is not known"),
        ("speculative_serve_probe", {"prompt": ["x"]}, ".prompt must be a string, not ['x']"),
        ("speculative_serve_probe", {"expect": ["("]}, ".expect[0] is not a regular expression"),
        ("speculative_serve_break_even", {"draft_cost": "x"}, ".draft_cost must be a number, not 'x'"),
        ("speculative_serve_break_even", {"draft_cost": -1}, ".draft_cost must be above 0"),
    ],
)
def test_what_the_server_would_refuse_after_the_download(name: str, value: t.Any, says: str) -> None:
    (line,) = invalid_values({name: value}, TYPES, WORDS)
    assert line.startswith(f"{name}{says}" if says.startswith(".") else f"{name} {says}")


@pytest.mark.parametrize("value", ["", "openai/gpt-oss-120b", "/models/mine"])
def test_a_draft_model_is_of_the_hub_a_directory_or_none(value: str) -> None:
    assert invalid_values({"speculative_serve_draft_model": value}, TYPES, WORDS) == []


@pytest.mark.parametrize("name", ["speculative_serve_break_even", "speculative_serve_probe"])
def test_a_mapping_of_the_recipe_may_be_empty(name: str) -> None:
    assert invalid_values({name: {}}, TYPES, WORDS) == []


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("'my_prot' is undefined", "my_prot"),
        ("'deployment_recipe' is undefined", ""),
        ("'ansible_facts' is undefined", ""),
        ("'speculative_serve_plan' is undefined", ""),
        ("object of type 'dict' has no attribute 'later'", ""),
    ],
)
def test_a_variable_that_no_run_sets(error: str, name: str) -> None:
    assert undefined_name(error, ["known"]) == name


def test_what_has_limits_is_an_input() -> None:
    every = {name for names in KNOWN.values() for name in names}
    assert {*LIMITS, ENVIRONMENT, DEPLOYMENT} <= every


def test_what_the_playbooks_put_together_is_no_input() -> None:
    assert likely_typos({"deployment_settings": "mine"}, KNOWN, []) == [
        "deployment_settings is no input; the name of a deployment is speculative_serve_deployment"
    ]


def test_a_name_of_somebodys_own_that_the_playbooks_need() -> None:
    own = {"state_directory": "{{ x }}", "name": "{{ y }}"}
    assert reserved_names({"deployment_settings": own, "deployment_hosts": {"cluster": []}, "ansible_host": "a"}) == []
    (said,) = reserved_names({"deployment_settings": "production"})
    assert said.startswith(
        "deployment_settings is what the playbooks hand their roles, and no name for something else;"
    )
    assert len(reserved_names({"deployment_hosts": {"all": []}, "deployment_failed_checks_for": None})) == 2
