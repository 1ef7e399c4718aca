# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Arguments of a link check. The check itself is loaded only when it is needed."""

from __future__ import annotations

import typing as t

# Of the module fabric_check, and of spark_info, which proves the link in a look.
PROOF: dict[str, t.Any] = {
    "rails": {"type": "list", "elements": "dict", "required": True},
    "peer": {"type": "str", "default": "the other Spark"},
    "host": {"type": "str", "default": ""},
    "port": {"type": "int", "default": 2233},
    "timeout": {"type": "int", "default": 15},
}
