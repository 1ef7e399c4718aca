# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the records of the current and the previous deployment below the state directory."""

from __future__ import annotations

import hashlib
import json
import time
import typing as t
from pathlib import Path

from .._data.typed import find_mismatches, keep_matching
from . import nccl
from .names import LABEL, PREVIOUS
from .record_types import Choice, RecordedDeployment

Record = dict[str, t.Any]

# The form of records and of container labels. Both carry it, as `format`.
FORMAT = 1
# The directory of the generations, and the suffix of one that is being written.
GENERATIONS = "generations"
DRAFT = ".draft-"
# Other directories beside those of the deployments.
NOT_DEPLOYMENTS = ("benchmark", "images", "jobs", "models", "cluster", "proxy", PREVIOUS)
# This file is there while a cleanup removes a deployment, or after one that was interrupted.
CLEANUP = "cleanup-began"
# The names of images that were pulled, or served before a cleanup, one in a file.
IMAGES = "images"
# A benchmark's result for a deployment, with or without a choice.
VERDICT = "verdict.json"
# The differences between two deployments of a recipe.
COMPARED_FIELDS = ("context", "concurrency", "family")
# As the container's main process has it, which is what obeys a lease.
LONGEST_LEASE_S = 900

# Among the checks of a deployment whose release logs other lines than the known ones.
NOT_COMPARED = "the KV cache was not compared with the plan: no known line of this release's log tells its size"


class FormatError(Exception):
    """The deployment has another format. The text is for the user."""


def complete_record(path: Path) -> Record | None:
    """Return a record that is complete enough to deploy again; None if there is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if find_mismatches(RecordedDeployment, record):
        return None
    # Only a worker starts nothing by itself.
    needed = {"options.yml", "entrypoint.py"} | (set() if is_worker(record) else {"serve.sh"})
    labels = {f"{LABEL}directory", f"{LABEL}generation"}
    is_whole = needed <= record["files"].keys() and labels <= record["container"]["labels"].keys()
    return t.cast("Record", record) if is_whole else None


class LoadedRecords(t.TypedDict):
    """The records of one moment; one that is damaged, or lacks what starting its deployment needs, is None."""

    # Of the deployment that is named.
    latest: Record | None
    # Of the deployment in the serving container, and its directory.
    slot_directory: str | None
    slot: Record | None
    # The record of the slot, if its configuration label is the container's.
    present: Record | None
    previous: Record | None
    previous_damaged: bool
    # The models of previous that are not where they were.
    previous_lacks: list[str]
    # A benchmark's present trial instead of the deployment's own engine options: id, title, until (Unix time).
    trial: dict[str, t.Any] | None
    # A benchmark's result (date, sentence, configuration) and its choice.
    verdict: dict[str, t.Any]
    choice: dict[str, t.Any] | None
    # As load_notes() returns them.
    option_checks: dict[str, t.Any]
    ranks: list[t.Any]
    network: dict[str, t.Any] | None
    # As present_files() and images() return them.
    files: dict[str, str]
    images: dict[str, t.Any]


def load_records(
    state_directory: Path, deployment: str | None, labels: t.Mapping[str, str], rdma_filter: str
) -> LoadedRecords:
    """Return the records of a deployment, of the serving container with these labels, and of the previous one.

    `rdma_filter` is that container's NCCL_IB_HCA.
    """
    directory = deployment_directory(state_directory, labels)
    slot = complete_record(directory / "record.json") if directory else None
    before = complete_record(state_directory / PREVIOUS)
    result = {
        "latest": complete_record(state_directory / deployment / "record.json") if deployment else None,
        "slot_directory": str(directory) if directory else None,
        "slot": slot,
        "present": slot if slot and is_of(slot, labels) else None,
        "previous": before,
        "previous_damaged": before is None and (state_directory / PREVIOUS).exists(),
        "previous_lacks": lost_models(before) if before else [],
        "trial": leased_trial(directory) if directory else None,
        "verdict": _mapping(state_directory / deployment / VERDICT) if deployment else {},
        "choice": choice(state_directory / deployment if deployment else directory),
        **(
            load_notes(state_directory / deployment, rdma_filter)
            if deployment
            else {"option_checks": {}, "ranks": [], "network": None}
        ),
        "files": present_files(state_directory / deployment, labels) if deployment else {},
        "images": images(state_directory, labels),
    }
    return t.cast("LoadedRecords", result)


def file_identity(mode: str, content: bytes | None = None) -> str:
    """Return the identity of a file, or of a directory if there is no content."""
    return mode if content is None else f"{mode} {hashlib.sha256(content).hexdigest()}"


def present_files(directory: Path, labels: t.Mapping[str, str]) -> dict[str, str]:
    """Return the existing paths of a deployment: its directory, those in it, and all sources of mounts."""
    generation = files_directory(directory, labels)
    inside = sorted(generation.rglob("*")) if generation else []
    try:
        paths = [directory, *(path for path in directory.iterdir() if path.is_dir()), *inside]
        return {
            path.relative_to(directory).as_posix(): file_identity(
                f"{path.stat().st_mode & 0o7777:04o}", None if path.is_dir() else path.read_bytes()
            )
            for path in paths
        }
    except OSError:
        return {}


def load_notes(directory: Path, rdma_filter: str) -> dict[str, t.Any]:
    """Return the data that is stored beside the record of a deployment.

    That is the image's verdict on its options (by their hash), the facts of the ranks at their last start, and the
    network of this Spark's rank.
    """
    said = {path.stem: _mapping(path) for path in directory.glob("check/*.json")}
    ranks = _mapping(directory / "state/ranks.json").get("ranks")
    runs = _mapping(directory / "state/state.json").get("state") in nccl.RANKS_RUN
    network = nccl.rank_network(directory / "state", rdma_filter) if runs else None
    return {
        "option_checks": {checked: answer for checked, answer in said.items() if answer},
        "ranks": ranks if isinstance(ranks, list) else [],
        "network": network.facts() if network else None,
    }


def _mapping(path: Path) -> dict[str, t.Any]:
    """Return the data of a file; an empty mapping if it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def lost_models(record: Record) -> list[str]:
    """Return the models of a record that are no longer where they were when it was written."""
    return [name for name, model in record["models"].items() if not Path(model["snapshot"]).exists()]


def is_worker(record: t.Mapping[str, t.Any]) -> bool:
    """Return whether a record is a worker's, which runs a rank for its head and has no server of its own."""
    return bool((record.get("cluster") or {}).get("rank"))


def nodes_of(cluster: t.Mapping[str, t.Any]) -> list[str]:
    """Return the Sparks of a recorded deployment, by rank; none for a single Spark."""
    return list(cluster.get("nodes") or [])


def read_record(path: Path) -> Record | None:
    """Return the valid part of a record; None if there is no record."""
    try:
        record = keep_matching(RecordedDeployment, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return None
    return record if record and "deployment" in record else None


def origins(record: t.Mapping[str, t.Any]) -> list[str]:
    """Return the values that are not the recipe's, each with its source, as text."""
    origins = (record.get("origins") or {}).values()
    return [
        str(origin["says"]) for origin in origins if isinstance(origin, dict) and isinstance(origin.get("says"), str)
    ]


def differences(record: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> list[str]:
    """Return the differences of two records of a deployment besides the speculation, in words."""
    if record.get("deployment") != other.get("deployment"):
        return []
    result = [f"{name} {record.get(name)}" for name in COMPARED_FIELDS if record.get(name) != other.get(name)]
    told = any(record.get(name) != other.get(name) for name in ("method", "draft_length"))
    references = [(one.get("image") or {}).get("reference") for one in (record, other)]
    result += [f"image {references[0]}"] if references[0] != references[1] else []
    mine, theirs = (one.get("options") or {} for one in (record, other))
    # Values that follow from these are reported already.
    names = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    if names and not result and not told:
        result.append(f"other engine options ({', '.join(names)})")
    return result


def deployment_directory(state_directory: Path, labels: t.Mapping[str, str]) -> Path | None:
    """Return the directory of a container's deployment; None for a container that this collection did not create."""
    directory, name = labels.get(f"{LABEL}directory"), labels.get(f"{LABEL}deployment")
    if directory:
        return Path(directory)
    return state_directory / name if name else None


def files_directory(directory: Path, labels: t.Mapping[str, str]) -> Path | None:
    """Return the generation that a container has mounted; None if its labels do not say it."""
    generation = labels.get(f"{LABEL}generation")
    return directory / GENERATIONS / generation if generation else None


def named_generations(path: Path) -> set[Path] | None:
    """Return the directories that a record's container mounts; None if the record cannot be read."""
    try:
        mounts = json.loads(path.read_text(encoding="utf-8"))["container"]["mounts"]
        return {Path(mount["source"]) for mount in mounts}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def unused_files(state_directory: Path, mounted: t.Collection[Path]) -> list[Path]:
    """Return the generations that no container mounts and no current or previous record names."""
    result: list[Path] = []
    before = named_generations(state_directory / PREVIOUS)
    for directory in sorted(state_directory.glob(f"*/{GENERATIONS}")):
        own = named_generations(directory.parent / "record.json")
        if before is not None and own is not None:
            used = before | own | set(mounted)
            result += [path for path in sorted(directory.iterdir()) if path not in used]
    return result


def is_of(record: Record, labels: t.Mapping[str, str]) -> bool:
    """Return whether a record is that of exactly the container with these labels."""
    key = f"{LABEL}configuration"
    recorded = ((record.get("container") or {}).get("labels") or {}).get(key)
    return recorded is not None and recorded == labels.get(key)


def current(state_directory: Path, labels: t.Mapping[str, str]) -> Record | None:
    """Return the record of the deployment in the serving container; None if it was never verified."""
    directory = deployment_directory(state_directory, labels)
    record = read_record(directory / "record.json") if directory else None
    return record if record and is_of(record, labels) else None


def choice(directory: Path | None) -> dict[str, t.Any] | None:
    """Return what a benchmark chose for a deployment; None if there is nothing to read."""
    if directory is None:
        return None
    try:
        data = json.loads((directory / "benchmark.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return None if find_mismatches(Choice, data) else t.cast("dict[str, t.Any]", data)


def leased_trial(directory: Path) -> dict[str, t.Any] | None:
    """Return the options that a benchmark's trial uses; None without a valid lease."""
    try:
        lease = json.loads((directory / "trial" / "lease.json").read_text(encoding="utf-8"))
        words, until = (lease["id"], lease["title"]), lease["until"]
        # As the server's program reads it: by a clock that is not set.
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        printable = all(isinstance(word, str) and word and word.isprintable() for word in words)
        valid = printable and now < until <= now + LONGEST_LEASE_S
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return {"id": words[0], "title": words[1], "until": until} if valid else None


def previous(state_directory: Path) -> Record | None:
    """Return the record of the previous deployment."""
    return read_record(state_directory / PREVIOUS)


def deployments(state_directory: Path) -> dict[str, Record]:
    """Every deployment that once served, by name."""
    result = {}
    for path in sorted(state_directory.glob("*/record.json")):
        record = read_record(path) if path.parent.name not in NOT_DEPLOYMENTS else None
        if record:
            result[path.parent.name] = record
    return result


def used_records(state_directory: Path, deployment: str | None, labels: t.Mapping[str, str]) -> list[Record | None]:
    """Return the records that load_records() uses, whole or not: of the slot, of the named deployment, the previous."""
    directory = deployment_directory(state_directory, labels)
    directories = [directory, state_directory / deployment if deployment else None]
    return [
        *(read_record(directory / "record.json") for directory in directories if directory),
        previous(state_directory),
    ]


def require_format(labels: t.Mapping[str, str], *used: Record | None) -> None:
    """Raise FormatError unless a container with these labels and the used records have the format."""
    result = [(record["deployment"], "record", record.get("format")) for record in used if record]
    if f"{LABEL}deployment" in labels:
        label = labels.get(f"{LABEL}format") or None
        number = int(label) if label and label.isdecimal() else label
        result.insert(0, (labels[f"{LABEL}deployment"], "container", number))
    others: dict[tuple[str, str], str] = {}
    for name, kind, number in result:
        if number != FORMAT:
            others.setdefault((name, json.dumps(number)), kind)
    problems = [
        f"{name} was deployed by an unreleased state of this collection"
        if number == "null"
        else f"the {kind} of {name} has format {number}, but this release reads format {FORMAT}"
        for (name, number), kind in others.items()
    ]
    if problems:
        is_later = any(isinstance(number, int) and number > FORMAT for _name, _kind, number in result)
        fix = "Run cleanup.yml first" + (", or use the release that deployed it" if is_later else "")
        raise FormatError(f"{'; '.join(problems)}. {fix}. Nothing was changed.")


def models_of(record: Record | None) -> dict[str, str]:
    """Return the models of a deployment, each with its commit."""
    models = (record or {}).get("models") or {}
    return {name: str(model.get("commit")) for name, model in models.items() if isinstance(model, dict)}


def _in_use(state_directory: Path, labels: t.Mapping[str, str]) -> list[Record | None]:
    """Return the records of the current deployment and of the previous one; None for a deployment without a record.

    Without a container every deployment that is still there counts: each of them may be started again.
    """
    directory = deployment_directory(state_directory, labels)
    result = [read_record(directory / "record.json")] if directory else [*deployments(state_directory).values()]
    return [*result, previous(state_directory)]


def models_in_use(state_directory: Path, labels: t.Mapping[str, str]) -> set[str]:
    """Return the models in use.

    If the slot has no record of its configuration, the last record of that name counts.
    """
    return {name for record in _in_use(state_directory, labels) for name in models_of(record)}


def _images_of(records: t.Iterable[Record | None]) -> set[str]:
    """Return the image names of records, with those of the cluster images built from them."""
    there = [record for record in records if record]
    named = [(record.get("image") or {}).get("reference") for record in there]
    return {str(name) for name in [*named, *((record.get("cluster") or {}).get("image") for record in there)] if name}


def images(state_directory: Path, labels: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the names of the images that this collection has pulled or served, `known`, and the `unused` of them.

    `ids` are the IDs of the images that deployments use. Where a record cannot be read, none counts as unused, and
    `ids` is None. `receipts` are the files that keep the names.
    """
    paths = [path for path in state_directory.glob("*/record.json") if path.parent.name not in NOT_DEPLOYMENTS]
    kept = [_mapping(path).get("reference") for path in (state_directory / IMAGES).glob("*.json")]
    result = [read_record(path) for path in [*paths, *state_directory.glob(PREVIOUS)]]
    known = {name for name in (*kept, *_images_of(result)) if isinstance(name, str) and name and name.isprintable()}
    in_use = [] if None in result else [record for record in _in_use(state_directory, labels) if record]
    used = known if None in result else _images_of(in_use)
    ids = {str(record["image"]["id"]) for record in in_use if (record.get("image") or {}).get("id")}
    receipts = [
        {"name": f"{hashlib.sha256(name.encode()).hexdigest()}.json", "content": f"{json.dumps({'reference': name})}\n"}
        for name in sorted(known)
    ]
    return {
        "known": sorted(known),
        "unused": sorted(known - used),
        "ids": None if None in result else sorted(ids),
        "receipts": receipts,
    }
