# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.values import merge


def deployment_values(
    recipe: t.Mapping[str, t.Any],
    given: t.Mapping[str, t.Any],
    choice: t.Mapping[str, t.Any] | None = None,
    models: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """What is served, and where that comes from."""
    try:
        return merge(recipe, given, choice, models)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"What is to be served is not clear: {error}.") from error


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"deployment_values": deployment_values}
