# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan the handling of a NIC that appears after Docker, or disappears when the other Spark is off."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ...module_utils._spark.hotplug import DISABLED_MARKER, MARKER, STARTER, digest
from .._recipe.text import join_words
from .fabric import tristate
from .links import Info
from .units import Steps, Unit, unit_lines, unit_steps

# The NIC watcher of this version, which starts the container when the NIC appears.
STARTER_FILES = Path(__file__).resolve().parents[3] / "roles/spark_network/files"
INSTALL = "run again with -K and -e spark_network_start_on_nic=true"
NIC_COST = "18 to 20 W a Spark"
WATCHER = Unit("dgx-spark-speculative-nic.path", "NIC watcher", "spark_network_start_on_nic")


def own_files() -> dict[str, str]:
    """Return the files of this version, by their place on a Spark, with their digests."""
    return {path: digest((STARTER_FILES / name).read_bytes()) for path, name in STARTER.items()}


def nic_steps(info: Info, start: bool | None, keep: bool | None, configure: bool, own: t.Mapping[str, str]) -> Steps:
    """Return the files to install and remove on a Spark, and where its marker is moved."""
    hotplug = info.get("hotplug") or {}
    files = [
        {"src": name, "dest": path, "mode": "0755" if name.endswith(".sh") else "0644"}
        for path, name in STARTER.items()
    ]
    move: list[str] = []
    if keep and hotplug.get("armed"):
        move = [str(MARKER), str(DISABLED_MARKER)]
    elif keep is False:
        move = hotplug.get("disabled_marker") or []
    return {**unit_steps(WATCHER, info.get("starter") or {}, own, files, start, configure), "move": move}


def nic_findings(hosts: t.Mapping[str, Info], planned: t.Mapping[str, Steps], keep: bool | None) -> list[str]:
    """Return what may keep the Sparks from restarting alone, and what changes with their next start."""
    findings = []
    bare = [name for name in hosts if planned[name]["lacking"] and not _has_starter(hosts[name])]
    other = [name for name in hosts if planned[name]["lacking"] and _has_starter(hosts[name])]
    armed = [name for name, info in hosts.items() if (info.get("hotplug") or {}).get("armed") and keep is None]
    aside = [name for name, one in planned.items() if one["move"][:1] == [str(MARKER)]]
    back = [name for name, one in planned.items() if one["move"][:1] == [str(DISABLED_MARKER)]]
    if bare:
        findings.append(
            f"{join_words(bare)}: Docker does not start a container whose NIC appears later, so the cluster may stay "
            f"down after a reboot. To start it then, {INSTALL}."
        )
    if other:
        findings.append(
            f"{join_words(other)}: the NIC watcher is from another version, or disabled. To renew it, {INSTALL}."
        )
    if armed:
        findings.append(
            f"{join_words(armed)}: DGX OS turns the NIC off without a cable. So the reboot of one Spark may turn off "
            "the NIC of the other one until that reboots as well. spark_network_keep_nic_on=true (with -K) keeps the "
            f"NICs on, for {NIC_COST}."
        )
    if aside:
        findings.append(
            f"{join_words(aside)}: the NIC stays on from the next start, for {NIC_COST}: reboot "
            f"{'both' if len(hosts) == 2 else 'all'} with the cable in."
        )
    if back:
        findings.append(f"{join_words(back)}: DGX OS turns the NIC off without a cable again, from the next start.")
    return findings


def _has_starter(info: Info) -> bool:
    return bool((info.get("starter") or {}).get("files"))


def plan_nics(
    hosts: t.Mapping[str, Info], start_on_nic: t.Any, keep_nic_on: t.Any, configure: t.Mapping[str, bool]
) -> dict[str, t.Any]:
    """Return the steps of each host. Raises PlanError for what is neither auto nor a boolean."""
    start, own = tristate("spark_network_start_on_nic", start_on_nic), own_files()
    keep = tristate("spark_network_keep_nic_on", keep_nic_on)
    # A deployment on one Spark needs no NIC.
    if len(hosts) < 2:
        return {"hosts": {}, "findings": [], "lines": []}
    planned = {name: nic_steps(info, start, keep, configure[name], own) for name, info in hosts.items()}
    return {"hosts": planned, "findings": nic_findings(hosts, planned, keep), "lines": unit_lines(planned)}
