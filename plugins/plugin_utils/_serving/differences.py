# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find containers on several Sparks that do not belong to one deployment."""

from __future__ import annotations

import typing as t

from ...module_utils._deployment.records import nodes_of

Facts = t.Mapping[str, t.Any]

MACHINE = {"driver": "GPU driver", "kernel": "kernel"}


def _pair(facts: Facts) -> Facts:
    return facts.get("cluster") or {}


def _runs(facts: Facts) -> bool | None:
    """Return whether a container runs; None if unknown."""
    container = facts.get("container")
    if container:
        return container.get("state") in ("running", "restarting")
    return False if facts.get("state") == "absent" else None


def _serves(facts: Facts) -> str:
    """Return what a Spark outside the cluster runs."""
    if facts.get("state") == "absent" or not facts.get("deployment"):
        return "has no container"
    return f"runs {facts['deployment']} alone"


def _belongs(host: str, other: str, facts: Facts) -> bool:
    """Return whether the rank on this host was deployed together with the other Spark."""
    names = set(nodes_of(_pair(facts)))
    # A container that was never verified has no names; the Sparks of the run then count as its own.
    return not names or {host, other} <= names


def _all_of(facts: Facts) -> str:
    """Return the word for the Sparks of the deployment: both or all."""
    return "all" if len(nodes_of(_pair(facts))) > 2 else "both"


def _misses(facts: Facts, other: str) -> bool:
    """Return whether a rank needs the other Spark: a head needs each worker, a worker its head."""
    cluster = _pair(facts)
    return bool(cluster) and (cluster["role"] == "head" or nodes_of(cluster)[:1] in ([], [other]))


def _halves(host: str, own: Facts, other: str, its: Facts) -> t.Iterator[str]:
    """Yield the differences of two Sparks that both have a rank."""
    mine, name = _pair(own), own.get("deployment")
    role, other_role = mine["role"], _pair(its)["role"]
    again = f"Run the playbook of the deployment that you want. 'stop.yml --limit {other}' frees the memory of {other}."
    if mine["rank"] == _pair(its)["rank"]:
        yield f"{host} and {other} are both the {role}: {host} for {name}, {other} for {its.get('deployment')}. {again}"
    elif name != its.get("deployment"):
        yield f"{host} is the {role} of {name}, but {other} is the {other_role} of {its.get('deployment')}. {again}"
    elif mine.get("options") != _pair(its).get("options"):
        yield (
            f"{host} and {other} run different images or engine options of {name}: a run was interrupted or reached "
            f"only one of them. Run its playbook again for {_all_of(own)}."
        )
    elif None not in (_runs(own), _runs(its)) and _runs(own) != _runs(its):
        up, down = (host, other) if _runs(own) else (other, host)
        yield (
            f"The container of {up} runs, but the container of {down} does not. Neither can serve alone. "
            f"Run start.yml, which starts {_all_of(own)}."
        )


def _machines(own: Facts, other: str, its: Facts) -> t.Iterator[str]:
    mine, theirs = own.get("machine") or {}, its.get("machine") or {}
    for key, what in MACHINE.items():
        if mine.get(key) and theirs.get(key) and mine[key] != theirs[key]:
            yield (
                f"The {what} is {mine[key]} here and {theirs[key]} on {other}. Sparks that differ may be slow "
                f"together. Update {_all_of(own)} to the same release."
            )


def _alone(host: str, own: Facts, other: str, its: Facts) -> t.Iterator[str]:
    """Exactly one of the two is half of something."""
    half, of_half, whole, of_whole = (host, own, other, its) if _pair(own) else (other, its, host, own)
    deployment = of_half.get("deployment")
    if not _runs(of_half) or _runs(of_whole) is None:
        return
    if _pair(of_half)["role"] == "worker":
        yield (
            f"{half} still runs rank {_pair(of_half)['rank']} of {deployment}, but its head {whole} "
            f"{_serves(of_whole)}. Free its memory with 'stop.yml --limit {half}'."
        )
    else:
        yield (
            f"{half} is the head of {deployment}, but its worker {whole} {_serves(of_whole)}. "
            f"Run the playbook of {deployment} again for {_all_of(of_half)}, or another one with --limit {half}."
        )


def differences(statuses: t.Mapping[str, Facts | None], host: str) -> list[str]:
    """Return the findings on a host that only the others show; empty for one Spark, and while all is well."""
    own = statuses.get(host) or {}
    result: list[str] = []
    for other in statuses:
        its = statuses[other] or {}
        if other == host or not own or not _belongs(host, other, own) or not _belongs(host, other, its):
            continue
        if not its:
            if _pair(own):
                result.append(f"{other} could not be looked at; what is said of it here is what {host} sees.")
        elif _pair(own) and _pair(its):
            result += [*_halves(host, own, other, its), *_machines(own, other, its)]
        elif _misses(own, other) or _misses(its, host):
            result += _alone(host, own, other, its)
    return result
