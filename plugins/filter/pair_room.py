# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.comparison import room_needed


def pair_room(
    nodes: t.Any, names: t.Sequence[str], models: t.Mapping[str, t.Any], packed: int = 0, reserve: int = 0
) -> list[str]:
    """What of image and models does not fit on two Sparks."""
    if not isinstance(nodes, t.Sequence) or len(nodes) != 2 or len(names) != 2:
        raise AnsibleFilterError("pair_room needs what spark_info returned as pair of two hosts, and their names.")
    try:
        return room_needed(names, nodes, models, int(packed), int(reserve))
    except (KeyError, TypeError) as e:
        raise AnsibleFilterError(f"pair_room needs what spark_info and huggingface_snapshot returned ({e!r}).") from e


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pair_room": pair_room}
