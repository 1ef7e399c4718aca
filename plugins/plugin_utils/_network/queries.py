# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `fabric`: how the Sparks are connected, and whether their cable may be configured."""

from __future__ import annotations

import dataclasses

from .._query.query import Form, Forms, Mapping, RefusedError, Result, Run
from . import fabric, host_plan
from .links import NetworkRequest


def plan_network(run: Run, request: NetworkRequest) -> Result:
    addresses, named = (fabric.parsed_input(value) or None for value in (request.plan, request.interfaces))
    try:
        return host_plan.host_plan(run.host, dataclasses.replace(request, plan=addresses, interfaces=named))
    except host_plan.OtherHostError as error:
        raise RefusedError(str(error), {"of_another": True}) from None


def check_use(run: Run, container: str, others: str, slot: Mapping | None = None) -> Result:
    if refusal := host_plan.in_use(slot, container, others):
        # The only problem to report: it applies before any other.
        raise RefusedError(f"{run.host}: {refusal}", {"refused": True})
    return {}


FORMS: Forms = {
    "plan": Form(plan_network, "dgx_spark.speculative.spark_info with gather: [fabric]"),
    "in_use": Form(check_use),
}
