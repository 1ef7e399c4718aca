# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Export the option classes under the module name of the real package."""

from standin.release import FAMILY

if FAMILY == "1.2":
    from standin.options_1_2 import *  # noqa: F403
else:
    from standin.options import *  # noqa: F403
