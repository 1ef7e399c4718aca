# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The commands that a status advises, each for just the Sparks that it can be for."""

from __future__ import annotations

import dataclasses
import typing as t

from ...module_utils._data.text import amount
from ...module_utils._deployment.cluster_view import RANK_RUNS, SILENT
from ...module_utils._report.status import Status
from ...module_utils._server.server_facts import SERVING
from .._recipe.recipe import RECIPES, shipped

# A smaller amount is not worth a command.
WORTH_REMOVING = 1_000_000_000

LOGS = ("Read the server's log", "logs")
DIAGNOSE = ("Find out what is wrong", "diagnose")
# By state, what to do and the playbook that does it.
PLAYBOOKS: dict[str | None, tuple[tuple[str, str], ...]] = {
    "absent": (("Deploy a recipe, such as this one", "single_eagle3"),),
    "stopped": (("Start it again", "start"),),
    "loading": (("Watch it load", "start"), LOGS),
    "trial": (("Watch or continue the benchmark", "benchmark"),),
    "unhealthy": (DIAGNOSE, LOGS),
    "dead": (DIAGNOSE, LOGS),
    "failed": (DIAGNOSE, LOGS, ("Start the deployment again", "start")),
    "ready_without_speculation": (DIAGNOSE, LOGS),
    None: (DIAGNOSE,),
}
FAULTY = ("unhealthy", "dead", "failed", "ready_without_speculation")
# Jobs of an interrupted run that continue on a Spark without a deployment.
FETCHING = ("pull", "fetch")


@dataclasses.dataclass(frozen=True)
class Around:
    """The Sparks of the inventory, and what was seen of those that were looked at together; empty if not known."""

    inventory: tuple[str, ...] = ()
    statuses: t.Mapping[str, Status] = dataclasses.field(default_factory=dict)


class Advice(t.NamedTuple):
    """A playbook to run on hosts, and what for."""

    says: str
    playbook: str
    hosts: tuple[str, ...]
    variables: str = ""

    def line(self, inventory: t.Collection[str]) -> str:
        """Return it with the command as it is typed: a playbook is named by its file."""
        words = [f"{self.playbook}.yml", *([f"-e {self.variables}"] if self.variables else [])]
        if inventory and set(self.hosts) != set(inventory):
            words.append(f"--limit {','.join(self.hosts)}")
        return f"{self.says}: {' '.join(words)}"


def _nodes(host: str, status: Status) -> tuple[str, ...]:
    return tuple((status.cluster or {}).get("nodes") or [host])


def _gone_elsewhere(host: str, status: Status, around: Around) -> str:
    """Return the name of a Spark of the same deployment that has another one by now, or none."""
    others = {name: around.statuses[name] for name in _nodes(host, status) if name != host and name in around.statuses}
    away = (name for name, other in others.items() if not other.cluster or other.deployment != status.deployment)
    return next(away, "")


def _mixed_advice(host: str, status: Status, other: str) -> list[Advice]:
    """Return what there is to do for a Spark whose other half serves something else."""
    result = []
    if status.state != "stopped":
        result.append(Advice(f"Free its memory, since {other} has another deployment now", "stop", (host,)))
    if status.deployment in shipped(RECIPES):
        says, nodes = f"Serve {status.deployment} again", _nodes(host, status)
        result.append(Advice(says, "serve", nodes, f"recipe={status.deployment}"))
    return result


def _is_cut_off(cluster: t.Mapping[str, t.Any]) -> bool:
    """Return whether the cable or the other Spark is out: then there is nothing to start."""
    return cluster["peer"].get("answers") == SILENT or any(not rail["up"] for rail in cluster.get("rails", ()))


def _for_the_state(host: str, status: Status) -> list[Advice]:
    nodes = _nodes(host, status)
    if status.state == "waiting" and status.cluster:
        every = "all" if len(nodes) > 2 else "both"
        see = Advice(f"See what {status.cluster['peer']['name']} does", "status", nodes)
        if _is_cut_off(status.cluster):
            return [Advice(*DIAGNOSE, nodes), see]
        return [see, Advice(f"Start {every}", "start", nodes)]
    if status.state != "absent":
        return [Advice(*row, nodes) for row in PLAYBOOKS.get(status.state, ())]
    at_work = [job.name for job in status.jobs if job.name in FETCHING]
    if at_work:
        says = f"Continue after the {' and the '.join(at_work)}: run the same playbook again, such as this one"
        return [Advice(says, "single_eagle3", (host,))]
    return [] if status.lease else [Advice(*row, (host,)) for row in PLAYBOOKS["absent"]]


def _rollback_advice(host: str, status: Status, around: Around) -> list[Advice]:
    """Return the advice for a rollback if there is a fault and all Sparks have the previous record."""
    before = status.previous
    if before is None or status.state not in FAULTY or (status.cluster and status.cluster["rank"]):
        return []
    nodes = tuple(before.nodes) or (host,)
    remembered = [around.statuses[name].previous if name in around.statuses else None for name in nodes if name != host]
    if any(other is None or other.deployment != before.deployment for other in remembered):
        return []
    return [Advice(f"Roll back to {before.deployment}", "serve", nodes, "previous=true")]


def advice(host: str, status: Status, around: Around) -> list[Advice]:
    """Return the next commands."""
    other = "" if status.state in (*SERVING, RANK_RUNS) else _gone_elsewhere(host, status, around)
    result = _mixed_advice(host, status, other) if other else _for_the_state(host, status)
    if status.cleanup_began and not status.lease:
        result.insert(0, Advice("Finish the interrupted cleanup", "cleanup", _nodes(host, status)))
    result += _rollback_advice(host, status, around)
    removable = status.disk.reclaimable_bytes or 0
    if removable >= WORTH_REMOVING:
        says = f"Free {amount(removable)} of unused files"
        result.append(Advice(says, "cleanup", (host,), "unused=true"))
    return result
