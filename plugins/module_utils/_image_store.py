# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""What of an image depends on the machine that it comes to: its processor, and how its Docker stores images."""

from __future__ import annotations

import platform

# What the kernel calls a processor, with its name in images.
ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "amd64", "amd64": "amd64"}


def own_architecture() -> str:
    """This machine's processor, as images name it."""
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def own_platform() -> str:
    """What an image for this machine is made for."""
    return f"linux/{own_architecture()}"
