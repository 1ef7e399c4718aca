# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess

from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import processes

from tests.unit.waiting import until


def test_descendants_are_children_and_theirs() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 30 & wait"], start_new_session=True) as shell:
        until(lambda: len(processes.children(shell.pid)) == 1)
        (sleep,) = processes.children(shell.pid)
        stat = processes.process_stat(sleep)
        assert stat is not None
        assert (stat.parent, stat.group, stat.session, stat.runs) == (shell.pid, shell.pid, shell.pid, True)
        assert {shell.pid, sleep} <= processes.descendants(os.getpid())
        assert processes.descendants(shell.pid) == {sleep}
        os.killpg(shell.pid, 9)
    assert shell.pid not in processes.running_processes()
    assert processes.process_stat(shell.pid) is None
