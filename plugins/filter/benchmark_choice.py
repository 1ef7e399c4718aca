# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import honoured


def benchmark_choice(
    choice: t.Mapping[str, t.Any] | None,
    recipe: t.Mapping[str, t.Any],
    image: str,
    models: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """What a benchmark has chosen, if that still holds."""
    return honoured(choice, recipe, image, models or {})


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"benchmark_choice": benchmark_choice}
