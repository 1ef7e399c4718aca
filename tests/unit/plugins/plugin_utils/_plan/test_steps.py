# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.steps import idle

LOOK: dict[str, t.Any] = {"image": {"id": "sha256:1"}, "slot": {"state": "running"}}
MODELS: dict[str, t.Any] = {"verified": True, "downloads": []}
PLAN: dict[str, t.Any] = {"options_served": True}


@pytest.mark.parametrize(
    ("look", "models", "plan", "left"),
    [
        ({}, {}, {}, []),
        # What was stopped or removed, and what was lost.
        ({"slot": {"state": "exited"}}, {}, {}, ["image", "options"]),
        ({"slot": None}, {}, {}, ["image", "options"]),
        ({"image": None}, {}, {}, ["image", "options"]),
        ({}, {"verified": False}, {}, ["models"]),
        ({}, {"downloads": [{"path": "/vocabularies/o200k"}]}, {}, ["models"]),
        ({}, {}, {"options_served": False}, ["options"]),
    ],
)
def test_what_has_something_to_do_is_not_left_out(
    look: dict[str, t.Any], models: dict[str, t.Any], plan: dict[str, t.Any], left: list[str]
) -> None:
    found = idle({**LOOK, **look}, {**MODELS, **models}, {**PLAN, **plan})
    assert found == [step for step in ("image", "options", "models") if step not in left]


def test_what_was_not_looked_at_is_not_left_out() -> None:
    assert idle({}, {}, {}) == []
