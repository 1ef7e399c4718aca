# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.filter.break_even import break_even

PARAMETERS = {"draft_cost": 0.318, "expert_share": 0.381, "experts": 128, "active_experts": 4}


def test_numbers_from_templates_are_strings() -> None:
    parameters = {name: str(value) for name, value in PARAMETERS.items()}
    assert break_even("5", parameters) == {"best": 2.59, "worst": 4.32}
    assert break_even(5, {"draft_cost": 0.1}) == {"best": 1.5, "worst": 1.5}


@pytest.mark.parametrize(("draft_length", "parameters"), [(0, PARAMETERS), (5, {}), (5, None), (None, PARAMETERS)])
def test_without_drafts_or_parameters_there_is_none(draft_length: t.Any, parameters: t.Any) -> None:
    assert break_even(draft_length, parameters) is None


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("x", "needs a dictionary"),
        ({"experts": 3}, "with at least draft_cost"),
        ({**PARAMETERS, "expert": 1}, "does not know expert;"),
        ({**PARAMETERS, "draft_cost": "much"}, "cannot be computed: could not convert"),
        ({**PARAMETERS, "active_experts": 500}, "cannot be computed: active_experts is 500"),
    ],
)
def test_what_makes_no_sense_is_named(parameters: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        break_even(5, parameters)


@pytest.mark.parametrize("parameters", [{"draft_cost": "nan"}, {"draft_cost": "inf"}, {"draft_cost": -1}])
def test_what_is_no_cost(parameters: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"draft_cost is .*, but must be a number that is not negative"):
        break_even(5, parameters)


def test_numbers_too_large_to_compute_with() -> None:
    with pytest.raises(AnsibleFilterError, match="cannot be computed"):
        break_even(10**400, {"draft_cost": 0.3})
