# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker's health check: the state of the container, and whether its server answers."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

from server.cluster import Cluster, knock
from server.engines.registry import engine_of
from server.launchers.registry import launcher_of
from server.watchdog import answers


def main(deployment: Path, url: str) -> int:
    """Say how it is, which `docker inspect` shows; 0 if it is well."""
    try:
        cluster = Cluster.from_environment(os.environ) if "DGX_SPARK_RANK" in os.environ else None
    except ValueError as error:
        print(error)
        return 1
    try:
        state = json.loads((deployment / "state" / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        print(f"no state: {error}")
        return 1
    if not isinstance(state, dict) or "state" not in state:
        print("no state: state.json holds something else")
        return 1
    text, well = of_worker(state, cluster) if cluster is not None and cluster.rank else of_server(state, url)
    print(text)
    return 0 if well else 1


def of_server(state: t.Mapping[str, t.Any], url: str) -> tuple[str, bool]:
    """Return the state, or the watchdog's verdict on a running server."""
    running, trial = state["state"] == "running", state.get("trial")
    name, reason = state.get("verdict") if running else state["state"], state.get("reason")
    if running and trial:
        # No client asks the server of a trial.
        text = f"a benchmark tries {trial['title']}"
    else:
        text = f"{name or 'no verdict'}: {reason}" if reason else name or "running, not asked yet"
    if not running or name in ("stalled", "unhealthy"):
        return text, False
    if not answers(url, timeout=8):
        return f"running, but /health does not answer; the last word: {text}", False
    return text, True


def of_worker(state: t.Mapping[str, t.Any], cluster: Cluster) -> tuple[str, bool]:
    """Well with its port open on the fabric, with a rank or without."""
    name, reason = state["state"], state.get("reason")
    text = f"{name}: {reason}" if reason else name
    if name not in ("ready", "rank_runs"):
        return text, False
    problem = knock(cluster.own, cluster.port, cluster.own, greeting=launcher_of(engine_of(os.environ)).greeting)
    return (f"{text}, but {problem}", False) if problem else (text, True)
