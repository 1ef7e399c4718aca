# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The story with a mistake in it."""

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.callback import story

DOCUMENTATION = story.DOCUMENTATION.replace("name: story", "name: broken")


def fail(*arguments: t.Any) -> None:
    raise ZeroDivisionError("a mistake")


class CallbackModule(story.CallbackModule):
    CALLBACK_NAME = "broken"


for event in ("on_file_diff", "runner_on_ok", "playbook_on_stats"):
    setattr(story.Story, event, fail)
