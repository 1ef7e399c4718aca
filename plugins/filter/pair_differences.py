# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.differences import differences


def pair_differences(statuses: t.Any, host: str) -> list[str]:
    """What only shows when two Sparks are looked at together."""
    if not isinstance(statuses, t.Mapping) or not all(
        isinstance(one, (t.Mapping, type(None))) for one in statuses.values()
    ):
        raise AnsibleFilterError(f"pair_differences needs a mapping of hosts to their statuses, not {statuses!r}.")
    return differences(statuses, host)


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pair_differences": pair_differences}
