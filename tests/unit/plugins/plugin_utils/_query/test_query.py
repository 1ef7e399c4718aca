# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests and answers of a form are dataclasses, between a task's arguments and what it registers."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._query.query import (
    Form,
    RefusedError,
    Run,
    ask_form,
    form_spec,
)


@dataclasses.dataclass(frozen=True)
class Port:
    name: str


@dataclasses.dataclass(frozen=True)
class Request:
    ports: dict[str, list[Port]]
    mtu: int = 9000
    names: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Answer:
    ports: list[Port]


def count_ports(_run: Run, request: Request) -> Answer:
    ports = [port for each in request.ports.values() for port in each]
    if request.mtu < 9000:
        raise RefusedError("The MTU is too small.", Answer(ports))
    return Answer(ports)


RUN = t.cast("Run", None)
FORM = Form(count_ports)
PORTS = {"spark-1": [{"name": "a", "speed": 1}], "spark-2": []}


def test_the_fields_of_a_request_are_the_arguments_of_the_task() -> None:
    assert form_spec(count_ports)["options"] == {
        "ports": {"type": "dict", "required": True},
        "mtu": {"type": "int", "default": 9000},
        "names": {"type": "list", "elements": "str", "default": []},
    }


def test_facts_become_the_types_of_the_request_and_the_answer_plain_values() -> None:
    assert ask_form(FORM, RUN, {"ports": PORTS}) == {"ports": [{"name": "a"}]}


def test_a_refusal_is_registered_with_its_answer() -> None:
    refused = {"failed": True, "msg": "The MTU is too small.", "ports": [{"name": "a"}]}
    assert ask_form(FORM, RUN, {"ports": PORTS, "mtu": 1500}) == refused


def test_a_missing_fact_is_named() -> None:
    with pytest.raises(KeyError, match="name"):
        ask_form(FORM, RUN, {"ports": {"spark-1": [{}]}})


def test_a_fact_of_another_type_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"ports\.spark-1\[0\]\.name must be a string"):
        ask_form(FORM, RUN, {"ports": {"spark-1": [{"name": 1}]}})
