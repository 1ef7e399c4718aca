# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The story by a clock that the plays move: a task takes a second, or what its variable `takes` says."""

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.callback import story

DOCUMENTATION = story.DOCUMENTATION.replace("name: story", "name: by_the_plays_clock")


class CallbackModule(story.CallbackModule):
    CALLBACK_NAME = "by_the_plays_clock"

    def __init__(self) -> None:
        super().__init__()
        self._now = self._takes = 0.0
        self.clock = lambda: self._now

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self._pass(float(task.vars.get("takes", 1)))
        super().v2_playbook_on_task_start(task, is_conditional)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._pass(0)
        super().v2_playbook_on_stats(stats)

    def _pass(self, takes: float) -> None:
        """The task before has ended, and the next one begins."""
        self._now += self._takes
        self._takes = takes
