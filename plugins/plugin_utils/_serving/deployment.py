# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A deployment as one Spark has it: what is planned, what is recorded once it was seen to answer, how it is run.

A record is a deployment with what was seen of it, so that both are run in the same way. Records are read by
`module_utils/_deployment/records.py`, on the Spark.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import typing as t
import urllib.parse
from pathlib import PurePosixPath

from ...module_utils._data.moments import moment_text
from ...module_utils._deployment import cluster_view, names, nccl
from ...module_utils._deployment.names import STANDBY
from ...module_utils._deployment.records import FORMAT, NOT_COMPARED, PREVIOUS, nodes_of
from ...module_utils._server.server_facts import NOT_JUDGED
from .._engines.known_issues import issues_of_ranks
from .._engines.registry import ENGINES, drafting
from . import containers, option_check
from .container_spec import PROGRAMS
from .containers import LABEL

Mapping = t.Mapping[str, t.Any]
Record = dict[str, t.Any]

# Only valid until a restart, which creates the KV cache again and lets NCCL choose its network again.
TRANSIENT_FINDINGS = ("smaller_context", nccl.BY_TCP, nccl.PARTLY)
# Upper bound of what the answer, the ranks and Docker's definition of the container add to a record.
OBSERVATION_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A complete description of what a Spark runs, enough to run it again. The fields are a record's keys."""

    format: int
    deployment: str
    # Of its recipe; empty if it is the recipe itself.
    variant: str
    title: str
    source: str
    engine: str
    # The API.
    url: str
    listens_on: str
    # By Hub id or path, each with its commit or fingerprint and where it is.
    models: Mapping
    target_model: str
    draft_model: str
    method: str
    draft_length: int
    # The acceptance length from which speculation pays, and its figures.
    break_even: Mapping | None
    break_even_figures: Mapping
    # Sources of the values that are not the recipe's, and the benchmark that chose the draft length.
    origins: Mapping
    benchmark: Mapping
    # Engine options and their memory plan: tokens, conversations, and rows in bytes.
    family: str
    options: Mapping
    warnings: t.Sequence[str]
    context: int
    concurrency: int
    plan: t.Sequence[Mapping]
    free_for_gpu: str
    # Before a run: the image's name and the planned container. Afterwards: their facts from Docker.
    image: Mapping
    container: Mapping
    # The values in serve.sh.
    script: Mapping
    # Rank and nodes; empty for one Spark.
    cluster: Mapping
    # The texts of the container's files, by name.
    files: t.Mapping[str, str]

    @property
    def checked(self) -> str:
        """Return the hash under which the image's option check is stored."""
        return str(self.container["labels"][f"{names.LABEL}options"])

    def record(self, seen: Observation, now: datetime.datetime) -> Record:
        """Return the record of the deployment, which has answered."""
        return {
            **vars(self),
            "deployed_at": moment_text(now.timestamp()),
            "image": {**self.image, "id": seen.image["id"], "digests": seen.image["repo_digests"]},
            "container": seen.container,
            "cluster": cluster_record(self.cluster, seen.networks, seen.ranks) if self.cluster else {},
            "warnings": [
                *self.warnings,
                *issues_of_ranks(ENGINES[self.engine].known_issues, seen.ranks),
                *option_check.warnings(self.image["reference"], seen.option_check),
            ],
            "served_model": seen.answered["http"]["models"][0],
            **merged_findings(
                [*seen.answered["findings"], *network_findings(seen.networks)],
                [finding for finding in seen.figures["findings"] if finding["id"] not in NOT_JUDGED],
            ),
            "checks": checks(seen),
            "answer": seen.answered["answer"],
            "measurements": seen.figures["measurements"],
            "memory_available": seen.memory_available,
        }


@dataclasses.dataclass(frozen=True)
class Observation:
    """Facts that only a running deployment shows."""

    # Results of completions_probe: the answer to the test prompt, and the measurement with another prompt.
    answered: Mapping
    figures: Mapping
    # From Docker: the image, and the complete definition of the container.
    image: Mapping
    container: Mapping
    # The result of the option check in the image; empty without a check.
    option_check: Mapping
    # In bytes, with the server running.
    memory_available: int
    # Facts from the ranks before the start; empty for one Spark.
    ranks: t.Sequence[Mapping]
    # The network of each rank's NCCL, by Spark; empty if unknown.
    networks: t.Mapping[str, t.Any]


def cluster_record(cluster: Mapping, networks: Mapping, ranks: t.Sequence[Mapping]) -> dict[str, t.Any]:
    """Return what a record keeps of several Sparks: with what each rank said, and its network, None if not known."""
    by_rank = {number: networks.get(name) for number, name in enumerate(nodes_of(cluster))}
    return {**cluster, "ranks": [{**rank, "network": by_rank.get(rank.get("rank", -1)) or None} for rank in ranks]}


def network_findings(networks: Mapping) -> list[dict[str, str]]:
    """Return the findings on the networks of several Sparks."""
    return nccl.findings({name: nccl.parse_facts(facts) for name, facts in networks.items()})


def texts(files: t.Mapping[str, str], config: Mapping) -> dict[str, str]:
    """Return the texts in the container by name: the programs, the script and the engine's options."""
    return {**files, "options.yml": config.get("text", "")}


def build(
    plan: Mapping,
    recipe: Mapping,
    values: Mapping,
    memory: Mapping,
    config: Mapping,
    files: t.Mapping[str, str],
    own: Mapping,
) -> Deployment:
    """Return a deployment from its parts.

    They are the container's plan, recipe, values, memory plan, engine options, files and its own record, whose files
    stay where its container does."""
    node = plan["node"]
    return Deployment(
        format=FORMAT,
        deployment=node["deployment"],
        variant=recipe.get("variant", ""),
        title=recipe.get("title", ""),
        source=recipe.get("source", ""),
        engine=node["engine"],
        url=node["url"],
        listens_on=node["host"],
        models=node["models"],
        target_model=node["target"],
        draft_model=values["draft"],
        method=values["method"],
        draft_length=values["draft_length"],
        break_even=values.get("break_even"),
        break_even_figures=values.get("break_even_figures") or {},
        origins=values["origins"],
        benchmark=values.get("benchmark") or {},
        family=config.get("family", ""),
        options=config.get("options") or {},
        warnings=config.get("warnings") or [],
        context=memory.get("context", 0),
        concurrency=int(values.get("concurrency") or 0),
        plan=memory.get("rows") or [],
        free_for_gpu=memory.get("free_for_gpu", ""),
        image={"reference": node["reference"]},
        container=plan["container"],
        script=plan["script"],
        cluster=plan["cluster"],
        files=own["files"] if plan["unchanged"] else texts(files, config),
    )


def merged_findings(*findings: t.Iterable[Mapping]) -> dict[str, t.Any]:
    """Return the findings, each once, and the outcome. The first ones are of this moment."""
    found: list[Mapping] = []
    for number, rows in enumerate(findings):
        found += [row for row in rows if row not in found and (number == 0 or row["id"] not in TRANSIENT_FINDINGS)]
    return {"findings": found, "outcome": "serving with findings" if found else "serving"}


def changed_during_run(container: Mapping, docker: Mapping) -> str:
    """Return why the server that answered is not this run's deployment, by the present state of Docker; else empty."""
    slot = docker["slot"]
    if slot is not None and slot["labels"].get(LABEL) == container["labels"].get(LABEL):
        return ""
    why = "a user removed or replaced it"
    if slot is not None and slot["name"].endswith(STANDBY) and slot["state"] == "running":
        why = "Docker or the Spark restarted, and the previous container was started"
    elif docker["state"] != "usable":
        why = f"Docker or the Spark restarted ({docker['detail'].rstrip('.')})"
    return f"the deployment was not recorded, because its container changed during the run: {why}. Run again."


def checks(seen: Observation) -> list[str]:
    """Return the checks beyond the answer."""
    called = seen.answered.get("tool_call")
    cache = (seen.answered.get("server") or {}).get("kv_cache") or {}
    scope = " with the configuration of the models" if seen.option_check.get("with_models") else ""
    return [
        *([f"the image itself accepts the engine options{scope}"] if seen.option_check.get("available") else []),
        *([f"the model called the tool {called['name']}"] if called else []),
        *([NOT_COMPARED] if cache.get("planned") and cache.get("tokens") is None else []),
    ]


def with_liveness(record: Mapping, answered: Mapping, networks: Mapping, origins: Mapping) -> Record:
    """Return the record of an unchanged deployment with the findings of a liveness probe added."""
    result = merged_findings([*answered["findings"], *network_findings(networks)], record["findings"])
    cluster = record.get("cluster")
    return {
        **record,
        **result,
        "origins": origins,
        **({"cluster": cluster_record(cluster, networks, cluster_view.ranks_of(cluster))} if cluster else {}),
    }


def with_verdict(record: Mapping, verdict: Mapping) -> Record:
    """Return the record with what a benchmark has found of just this deployment, if one has."""
    is_its = bool(verdict) and verdict.get("configuration") == record["container"]["labels"].get(LABEL)
    others = {name: value for name, value in record.items() if name != "verdict"}
    return {**others, "verdict": verdict} if is_its else others


def _measured(record: Mapping) -> tuple[t.Any, ...]:
    """Return what the speed of a record is of, besides its speculation: test prompt, release, model and Sparks."""
    model = (record.get("models") or {}).get(record.get("target_model")) or {}
    return (
        (record.get("measurements") or {}).get("request"),
        (record.get("image") or {}).get("id"),
        record.get("target_model"),
        model.get("commit") or model.get("fingerprint"),
        nodes_of(record.get("cluster") or {}),
    )


def with_comparison(record: Mapping, replaced: Mapping | None) -> Record:
    """Return the record with the speed of the deployment that it replaced, if only the speculation was another one."""
    others = {name: value for name, value in record.items() if name != "compared"}
    speeds = [((one or {}).get("measurements") or {}).get("tokens_per_second") for one in (record, replaced)]
    if not replaced or not all(speeds) or _measured(record) != _measured(replaced):
        return others
    before, now = drafting(replaced), drafting(record)
    return (
        {**others, "compared": {"speculation": before, "tokens_per_second": speeds[1]}}
        if before and before != now
        else others
    )


def previous_record(planned: Deployment, records: Mapping) -> Mapping | None:
    """Return the record of the replaced deployment, for a rollback; None if it is the same.

    If a run was cut off after it had made the container, the slot is this deployment's already.
    """
    slot = records["slot"] or {}
    own = records["latest"] if slot.get("deployment", "") in ("", planned.deployment) else slot
    before = records.get("present") or own
    return before if before and before["container"]["labels"] != planned.container["labels"] else None


def is_record(deployment: Mapping) -> bool:
    """Return whether the deployment is verified."""
    return "deployed_at" in deployment


def directory(deployment: Mapping) -> str:
    """Return where a Spark has its files."""
    return str(deployment["container"]["labels"][f"{names.LABEL}directory"])


def unreachable_reason(deployment: Mapping, addresses: t.Collection[str]) -> str:
    """Return why the deployment could not reach its other Spark any more; empty if it can, or needs none."""
    gone = [rail for rail in deployment.get("cluster", {}).get("rails") or [] if rail["address"] not in addresses]
    if not gone:
        return ""
    return (
        f"cannot roll back to '{deployment['deployment']}' (deployed {deployment['deployed_at']}): this Spark no "
        f"longer has {' and '.join(rail['address'] for rail in gone)} on "
        f"{' and '.join(rail['interface'] for rail in gone)}. Check the cable and run 'sudo netplan apply', or run "
        "serve.yml with its recipe."
    )


def mounted_generation(container: Mapping, files: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return where a container has its files: the generation, what is mounted into it by name, and the texts."""
    inside = f"{PROGRAMS}/"
    targets = [mount["target"] for mount in container["mounts"]]
    return {
        "generation": container["labels"][f"{names.LABEL}generation"],
        "subdirectories": [target.removeprefix(inside) for target in targets if target.startswith(inside)],
        "files": [{"name": name, "content": text} for name, text in files.items()],
    }


def reserved_space(deployment: Mapping, before: Mapping | None, state_directory: str) -> list[dict[str, t.Any]]:
    """Return the directories with the records that will be written once it answers.

    Each has the bytes to reserve for it.
    """
    size = max(len(json.dumps(record, indent=4)) for record in (deployment, before or {})) + OBSERVATION_BYTES
    files, place = [PREVIOUS], PurePosixPath(directory(deployment))
    if place.is_relative_to(state_directory):
        # One call, and so one failure.
        files.append(f"{place.relative_to(state_directory)}/record.json")
        places = {state_directory: files}
    else:
        places = {state_directory: files, str(place): ["record.json"]}
    return [
        {"directory": path, "files": [{"name": name, "reserve": size} for name in names]}
        for path, names in places.items()
    ]


def run_plan(
    deployment: Mapping,
    planned_turn: str | None,
    slot: Mapping | None,
    own: Mapping | None = None,
    proven: bool = False,
) -> dict[str, t.Any]:
    """Return how this Spark starts the container of a deployment.

    A planned deployment has its files already, and its start order from the plan. A recorded one gets its files again,
    and its head starts last, because a head accepts any worker that answers. A running container that its record shows
    as verified moves to standby.

    `preparation` is what happens first to the container in the slot: standby, stop, or empty for nothing.
    """
    recorded, rank = is_record(deployment), deployment.get("cluster", {}).get("rank", 0)
    labels = deployment["container"]["labels"]
    turn = planned_turn or containers.start_order(rank, [False] * (len(nodes_of(deployment.get("cluster") or {})) or 1))
    differs = slot is not None and slot["labels"].get(LABEL) != labels.get(LABEL)
    # The previous head is stopped before the new workers start, or it would accept them as its own.
    stops = turn == "last" and slot is not None and (differs or not recorded)
    known = recorded or bool(own and own["container"]["labels"] == labels)
    aside = (differs or stops) and slot is not None and proven and slot["state"] == "running"
    return {
        "deployment": deployment,
        "directory": directory(deployment),
        "container": deployment["container"],
        **mounted_generation(deployment["container"], deployment["files"] if recorded else {}),
        # Only the head has the API.
        "has_api": rank == 0,
        "port": urllib.parse.urlsplit(deployment["url"]).port or 0,
        "address": deployment["listens_on"],
        "start_order": turn,
        "preparation": "standby" if aside else "stop" if stops else "",
        # Until it is on record Docker must not start it again.
        "provisional": aside or not known,
        "from_record": recorded,
        "verified_before": known,
    }
