# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launcher of an engine."""

from __future__ import annotations

from server.engines.engine import MPI, Engine
from server.launchers.launcher import Launcher


def launcher_of(engine: Engine) -> Launcher:
    """Return the launcher of an engine. Only that one is imported."""
    if engine.launcher == MPI:
        from server.launchers.mpi.launcher import LAUNCHER
    else:
        from server.launchers.own_process.launcher import LAUNCHER
    return LAUNCHER
