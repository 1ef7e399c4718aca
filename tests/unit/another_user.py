# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another user than the one to whom the files of a test belong."""

from __future__ import annotations

import contextlib
import os
import typing as t

import pytest

NO_ACTION = 65534


@contextlib.contextmanager
def another_user() -> t.Iterator[int]:
    """Root becomes nobody. Who may not do that gets a double: only the number of the user is nobody's.

    What may be written the kernel decides in both cases, by the modes that a test sets.
    """
    if os.getuid() == 0:
        os.seteuid(NO_ACTION)
        try:
            yield NO_ACTION
        finally:
            os.seteuid(0)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: NO_ACTION)
            yield NO_ACTION
