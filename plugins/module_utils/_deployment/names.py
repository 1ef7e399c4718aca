# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Name the labels, files and containers of a deployment."""

from __future__ import annotations

import typing as t

LABEL = "dgx_spark.speculative."
# The container that served keeps this behind its name until its successor was seen to answer.
STANDBY = "-standby"
# The record of a verified deployment, in its directory.
RECORD = "record.json"
# Written beside the directories when a deployment takes the place of another one: the record of that one.
PREVIOUS = "previous.json"


def displayed(deployment: str, variant: t.Any) -> str:
    """Return the name of a deployment with that of its recipe's variant, if it is one."""
    return f"{deployment} (variant {variant})" if variant else deployment
