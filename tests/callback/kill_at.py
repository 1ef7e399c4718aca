# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills the controller in the middle of its nth task that may change a Spark, as kill -9 does."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import typing as t

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: kill_at
type: notification
short_description: Kills the controller at a task
description:
  - Kills the controller at the first task that may change a Spark and is not in the file that the environment variable
    KILLED_AT names, a name a line.
"""

# These change nothing on a Spark; to be killed at one is to be killed before the task that follows.
HARMLESS = (
    *("set_fact", "fail", "debug", "assert", "include_tasks", "include_role", "validate_argument_spec"),
    *("recipe_info", "check_inputs", "trtllm_config", "report"),
    *("setup", "gather_facts", "slurp", "stat", "spark_info"),
    "registry_image_info",
    *("huggingface_snapshot", "deployment_plan"),
    # Their loops are empty where nothing is published.
    "iptables",
)
IN_THE_MIDDLE_S = 0.3


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "kill_at"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: t.Any, **options: t.Any) -> None:
        super().__init__(*arguments, **options)
        self.killed_at = pathlib.Path(os.environ["KILLED_AT"]).read_text(encoding="utf-8").splitlines()
        self.dying = False

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        name = task.get_name()
        harmless = task.action.rpartition(".")[2] in HARMLESS or str(host) == "localhost"
        if harmless or name in self.killed_at or self.dying:
            return
        self.dying = True
        self._display.display(f"KILLED AT {name}")
        threading.Timer(IN_THE_MIDDLE_S, os.killpg, (os.getpgrp(), signal.SIGKILL)).start()
