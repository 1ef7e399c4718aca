# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.comparison import compared


def pair_comparison(
    nodes: t.Any, names: t.Sequence[str], clock_skew: float = 60, tolerate: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """What keeps two Sparks from serving as one, and what is worth saying about them."""
    if not isinstance(nodes, t.Sequence) or len(nodes) != 2 or len(names) != 2:
        raise AnsibleFilterError(
            "pair_comparison needs what spark_info returned as pair of two hosts, and their names."
        )
    try:
        return compared(names, nodes, float(clock_skew), tolerate)
    except (KeyError, TypeError) as e:
        raise AnsibleFilterError(f"pair_comparison needs what spark_info returned as pair of two hosts ({e!r}).") from e


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pair_comparison": pair_comparison}
