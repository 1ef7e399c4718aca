# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read whether DGX OS removes the NIC from the bus if there is no cable, and which countermeasures are installed.

Nothing here needs root.
"""

from __future__ import annotations

import hashlib
import typing as t
from pathlib import Path

# The package dgx-spark-mlnx-hotplug creates it. Its handler acts only while this file exists.
MARKER = Path("/etc/nvidia/cx7-hotplug-enabled")
# The cable as the driver cx7-pcie-hotplug (NVIDIA/NV-Kernels pull request 271) sees it: 1 is in, 0 is out.
STATE = Path("/sys/devices/platform/MTKP0001:00/pcie_hotplug/debug_state")
HANDLER = "/opt/nvidia/dgx-spark-mlnx-hotplug/mtk-hotplug-handler.sh"
# The name of the marker after this collection has disabled it.
DISABLED_MARKER = Path(f"{MARKER}.dgx-spark-speculative")
# Files that start a container if the NIC appears late: the path on the Spark, and the file in spark_network.
STARTER = {
    "/usr/local/sbin/dgx-spark-speculative-nic": "start_on_nic.sh",
    "/etc/systemd/system/dgx-spark-speculative-nic.service": "dgx-spark-speculative-nic.service",
    "/etc/systemd/system/dgx-spark-speculative-nic.path": "dgx-spark-speculative-nic.path",
}
ENABLED = Path("/etc/systemd/system/paths.target.wants/dgx-spark-speculative-nic.path")


def look(root: Path = Path("/")) -> dict[str, t.Any]:
    """Return the state of the hotplug handling.

    C(armed): the NIC is removed if there is no cable. C(powered): whether the driver has powered the NIC; None without
    the driver. C(disabled_marker): current and original path of the marker if this collection has
    disabled it, else empty.
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
    """Return the installed files of STARTER with their digests as C(files), and whether the unit is C(enabled)."""
    result = {}
    for path in STARTER:
        try:
            result[path] = digest((root / path.lstrip("/")).read_bytes())
        except OSError:
            continue
    return {"files": result, "enabled": (root / ENABLED.relative_to("/")).is_symlink()}
