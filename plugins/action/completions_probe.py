# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..plugin_utils._report.following import Following


class ActionModule(Following):
    """Probe a server once, or with `follow` until it has loaded."""

    BY_DEFAULT = False
