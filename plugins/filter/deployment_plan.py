# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.containers import plan


def deployment_plan(nodes: t.Any) -> dict[str, dict[str, t.Any]]:
    """What each Spark of a deployment runs."""
    try:
        return plan(nodes)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise AnsibleFilterError(f"What the Sparks run cannot be planned: {error}.") from error


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"deployment_plan": deployment_plan}
