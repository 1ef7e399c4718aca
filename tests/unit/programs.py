# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs in the roles' files, which no package holds, and jobs as they come to a Spark."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import threading
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.lookup.job import JOBS, program

# Removed at the end.
_KEPT = tempfile.TemporaryDirectory()
# Python 3.11 fails if two threads parse at the same time (python/cpython issue 106905).
_ONE_AT_A_TIME = threading.Lock()


def standalone(name: str) -> Path:
    """The program of a watched job as one file."""
    path = Path(_KEPT.name) / f"{name}.pyz"
    with _ONE_AT_A_TIME:
        if not path.exists():
            path.write_bytes(program(name))
    return path


def module(name: str) -> str:
    """Python that has a file of a watched job's program, as it comes to a Spark, as `module`."""
    holder = {"receive": "serve_copies", "incoming": "serve_copies"}.get(name, name)
    path = [str(standalone(holder))]
    return f"import sys\nsys.path[:0] = {path}\nfrom {JOBS.rstrip('.')} import {name} as module\n"


def load(program: Path) -> t.Any:
    """The program as a module of its name."""
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[program.stem] = module
    spec.loader.exec_module(module)
    return module
