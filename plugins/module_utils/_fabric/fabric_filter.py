# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read whether the fabric filter is installed, the systemd unit that closes the fabric's addresses to other networks.

Nothing here needs root.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

from .._spark.hotplug import digest

UNIT = Path("/etc/systemd/system/dgx-spark-speculative-fabric.service")
# The unit starts at boot, has set its rules, and its file is not newer than what systemd has read.
EFFECTIVE = {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}

Run = t.Callable[[t.Sequence[str]], "tuple[int, str, str]"]


def look(runner: Run, root: Path = Path("/")) -> dict[str, t.Any]:
    """Return the unit's file with its digest as C(files), and whether the unit is in effect as C(enabled)."""
    try:
        content = (root / UNIT.relative_to("/")).read_bytes()
    except OSError:
        return {"files": {}, "enabled": False}
    _code, output, _error = runner(["systemctl", "show", f"--property={','.join(EFFECTIVE)}", UNIT.name])
    states = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return {"files": {str(UNIT): digest(content)}, "enabled": states == EFFECTIVE}
