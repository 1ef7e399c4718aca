# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import break_even as _break_even

NUMBERS = {"draft_cost": float, "expert_share": float, "experts": int, "active_experts": int}
# What only the bound of a benchmark is made from.
UNUSED = ("target_gb",)


def break_even(draft_length: t.Any, parameters: t.Any) -> dict[str, float] | None:
    """The acceptance lengths at which drafts begin to pay; None if there are no drafts or no parameters."""
    if not parameters or not draft_length:
        return None
    if not isinstance(parameters, t.Mapping) or "draft_cost" not in parameters:
        raise AnsibleFilterError("break_even needs a dictionary of parameters with at least draft_cost.")
    unknown = sorted(set(parameters) - {*NUMBERS, *UNUSED})
    if unknown:
        raise AnsibleFilterError(f"break_even does not know {', '.join(unknown)}; it knows {', '.join(NUMBERS)}.")
    try:
        numbers: dict[str, t.Any] = {
            name: NUMBERS[name](value) for name, value in parameters.items() if name in NUMBERS
        }
        bounds = _break_even.break_even(int(draft_length), **numbers)
    except (TypeError, ValueError, OverflowError) as error:
        raise AnsibleFilterError(f"break_even cannot be computed: {error}.") from error
    return {"best": round(bounds.best, 2), "worst": round(bounds.worst, 2)}


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"break_even": break_even}
