# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `fabric`: how the Sparks are connected, and whether their cable may be configured."""

from __future__ import annotations

import typing as t

from .._query.query import Form, Forms, Mapping, Result, Run
from . import fabric, host_plan
from .links import FabricSpec


def plan(
    run: Run,
    hosts: Mapping,
    mode: str,
    plan: t.Any,
    interfaces: t.Any,
    mtu: int,
    renderer: str,
    speed: int,
    minimum_speed: int,
    bandwidth_test: t.Any,
    start_on_nic: t.Any,
    keep_nic_on: t.Any,
    close_fabric: t.Any,
    worker_port: int,
    copy_port: int,
) -> Result:
    addresses, named = (fabric.parsed_input(value) or None for value in (plan, interfaces))
    wish = FabricSpec(mode, addresses, named, mtu, renderer, speed, minimum_speed, bandwidth_test)
    try:
        return host_plan.host_plan(
            run.host, hosts, wish, start_on_nic, keep_nic_on, close_fabric, worker_port, copy_port
        )
    except host_plan.OtherHostError as error:
        return {"failed": True, "of_another": True, "msg": str(error)}


def in_use(run: Run, container: str, others: str, slot: Mapping | None = None) -> Result:
    refusal = host_plan.in_use(slot, container, others)
    # The only problem to report: it applies before any other.
    return {"refused": True, **run.refusal_result(refusal)} if refusal else {}


FORMS: Forms = {
    "plan": Form(plan, "dgx_spark.speculative.spark_info with gather: [fabric]"),
    "in_use": Form(in_use),
}
