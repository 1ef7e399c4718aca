# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Whether DGX OS takes the network card off the bus while it sees no cable, whether it has, and what is done about it.

Nothing here needs root.
"""

from __future__ import annotations

import hashlib
import typing as t
from pathlib import Path

# The package dgx-spark-mlnx-hotplug makes it when it is installed; its handler does something while it is there only.
MARKER = Path("/etc/nvidia/cx7-hotplug-enabled")
# What the driver cx7-pcie-hotplug (NVIDIA/NV-Kernels pull request 271) knows of the cable: 1 is in, 0 is out.
STATE = Path("/sys/devices/platform/MTKP0001:00/pcie_hotplug/debug_state")
HANDLER = "/opt/nvidia/dgx-spark-mlnx-hotplug/mtk-hotplug-handler.sh"
# What the marker is called when this collection has put it aside.
DISABLED_MARKER = Path(f"{MARKER}.dgx-spark-speculative")
# What starts a container when the card comes late: each file on the Spark, and its name among those of spark_network.
STARTER = {
    "/usr/local/sbin/dgx-spark-speculative-nic": "start_on_nic.sh",
    "/etc/systemd/system/dgx-spark-speculative-nic.service": "dgx-spark-speculative-nic.service",
    "/etc/systemd/system/dgx-spark-speculative-nic.path": "dgx-spark-speculative-nic.path",
}
ENABLED = Path("/etc/systemd/system/paths.target.wants/dgx-spark-speculative-nic.path")


def look(root: Path = Path("/")) -> dict[str, t.Any]:
    """C(armed): the card is taken away without a cable. C(powered): what the driver says of it; None without it.

    C(aside): the present and the original path of a marker that this collection moved; empty if it did not.
    """
    try:
        state = (root / STATE.relative_to("/")).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        state = ""
    return {
        "armed": (root / MARKER.relative_to("/")).exists(),
        "powered": {"0": False, "1": True}.get(state),
        "disabled_marker": [str(DISABLED_MARKER), str(MARKER)]
        if (root / DISABLED_MARKER.relative_to("/")).exists()
        else [],
    }


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def starter(root: Path = Path("/")) -> dict[str, t.Any]:
    """C(files): those that are there of what starts a container with the card, with their digests. C(enabled)."""
    result = {}
    for path in STARTER:
        try:
            result[path] = digest((root / path.lstrip("/")).read_bytes())
        except OSError:
            continue
    return {"files": result, "enabled": (root / ENABLED.relative_to("/")).is_symlink()}
