# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Whether DGX OS takes the network card off the bus while it sees no cable, and whether it has. Nothing needs root."""

from __future__ import annotations

import typing as t
from pathlib import Path

# The package dgx-spark-mlnx-hotplug makes it when it is installed; its handler does something while it is there only.
MARKER = Path("/etc/nvidia/cx7-hotplug-enabled")
# What the driver cx7-pcie-hotplug (NVIDIA/NV-Kernels pull request 271) knows of the cable: 1 is in, 0 is out.
STATE = Path("/sys/devices/platform/MTKP0001:00/pcie_hotplug/debug_state")
HANDLER = "/opt/nvidia/dgx-spark-mlnx-hotplug/mtk-hotplug-handler.sh"


def look(root: Path = Path("/")) -> dict[str, t.Any]:
    """C(armed): the card is taken away without a cable. C(powered): what the driver says of it; None without it."""
    try:
        state = (root / STATE.relative_to("/")).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        state = ""
    return {
        "armed": (root / MARKER.relative_to("/")).exists(),
        "powered": {"0": False, "1": True}.get(state),
    }
