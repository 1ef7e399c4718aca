# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.inputs import (
    ENVIRONMENT,
    LIMITS,
    OUTPUTS,
    RENAMED,
    inputs,
    misspelt,
    mistaken,
    undecided,
    unusable,
)

ROLES = Path(__file__).parents[5] / "roles"


def test_a_misspelt_input_gets_the_nearest_name() -> None:
    assert misspelt(["speculative_serve_prot"], inputs(ROLES)) == [
        "speculative_serve_prot is not an input of any role; did you mean 'speculative_serve_port'?"
    ]


def test_an_input_that_was_called_otherwise_is_told_its_name() -> None:
    given = ["spark_pair_tolerate", "spark_pair_reserve_gib", "spark_network_tolerate"]
    assert misspelt(given, inputs(ROLES)) == [
        "spark_pair_reserve_gib is called huggingface_cache_reserve_gib now",
        "spark_pair_tolerate is called spark_network_tolerate now",
    ]


def test_what_is_renamed_is_an_input_under_its_new_name_only() -> None:
    every = {name for names in inputs(ROLES).values() for name in names}
    assert set(RENAMED.values()) <= every
    assert not RENAMED.keys() & every


def test_what_has_nothing_to_do_with_the_roles_is_nobodys_business() -> None:
    assert misspelt(["recipe", "ansible_user", "__speculative_serve_url", "my_port"], inputs(ROLES)) == []


def test_every_default_is_an_input() -> None:
    known = inputs(ROLES)
    for defaults in ROLES.glob("*/defaults/main.yml"):
        assert misspelt(yaml.safe_load(defaults.read_text(encoding="utf-8")), known) == []


def facts(tasks: list[dict[str, t.Any]]) -> t.Iterator[str]:
    """What these tasks set, those in blocks too."""
    for task in tasks:
        yield from task.get("ansible.builtin.set_fact") or {}
        yield task.get("register", "")
        for part in ("block", "rescue", "always"):
            yield from facts(task.get(part) or [])


def test_the_outputs_are_what_the_roles_hand_out() -> None:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROLES.glob("*/tasks/*.yml")]
    handed_out, roles = {name for tasks in files for name in facts(tasks)}, tuple(inputs(ROLES))
    assert {name for name in handed_out if name.startswith(roles)} == set(OUTPUTS)


def test_the_outputs_of_a_run_are_not_taken_for_inputs() -> None:
    assert misspelt(OUTPUTS, inputs(ROLES)) == []


def test_a_misspelt_word_of_a_playbook() -> None:
    given = ["unusd", "models", "speculative_serve_port", "ansible_user", "colour"]
    assert mistaken(given, inputs(ROLES), ["models", "unused", "image"]) == [
        "unusd is not known; did you mean 'unused'?"
    ]


def test_neither_yes_nor_no_is_not_taken_for_no() -> None:
    assert undecided({"a": "yes", "b": "off", "c": True, "d": 0, "e": "False"}) == []
    assert undecided({"unused": "yep", "apply": "", "image": [1]}) == [
        "apply is '', but must be true or false",
        "image is [1], but must be true or false",
        "unused is 'yep', but must be true or false",
    ]


def test_numbers_and_names_that_would_only_fail_when_nothing_serves_any_more() -> None:
    assert unusable({"spark_network_ssh_port": "2233", "spark_network_copy_streams": 8, "other": 0}) == []
    assert unusable({"spark_network_ssh_port": "two", "speculative_serve_environment": "text"}) == []
    environment = {"A B": "x", "GOOD": 1, "BAD": [1]}
    assert unusable(
        {
            "spark_network_ssh_port": 70000,
            "spark_network_copy_streams": "0",
            "speculative_serve_environment": environment,
        }
    ) == [
        "spark_network_copy_streams is 0, but must be from 1 to 64",
        "spark_network_ssh_port is 70000, but must be from 1 to 65535",
        "speculative_serve_environment.A B is not the name of a variable",
        "speculative_serve_environment.BAD must be a string or a number, not [1]",
    ]


def test_what_has_limits_is_an_input() -> None:
    every = {name for names in inputs(ROLES).values() for name in names}
    assert {*LIMITS, ENVIRONMENT} <= every


def test_what_the_playbooks_put_together_is_no_input() -> None:
    assert mistaken({"deployment": "mine"}, inputs(ROLES), []) == [
        "deployment is no input; the name of a deployment is speculative_serve_deployment"
    ]


def test_infinity_is_no_traceback() -> None:
    assert unusable({"speculative_serve_port": float("inf")}) == []
