# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Compare a recorded container with the desired one.

Releases of this collection differ in their programs; that is no reason to end a server. Any other difference asks for
another container.
"""

from __future__ import annotations

import json
import typing as t

import yaml

Mapping = t.Mapping[str, t.Any]

# Where a container has its programs, which each release brings.
PROGRAMS = "/deployment"
# Of a container's labels, those that tell what it is for.
TOLD = tuple(f"dgx_spark.speculative.{name}" for name in ("deployment", "directory", "url", "rank", "trust"))
# What follows from models and options, which are compared, by an arithmetic that may be another release's.
TAKES = ("DGX_SPARK_TAKES_BYTES", "DGX_SPARK_TAKES_SHARE")
# How Docker runs a container, beside what is planned: inputs of the role trtllm_container.
SETTINGS = (
    *("network", "published_ports", "ipc_mode", "ulimits", "device_requests", "stop_timeout"),
    *("log_max_size", "log_max_files"),
)


def same_models(recorded: Mapping, wanted: Mapping) -> bool:
    """Whether models, by name, are at the same commit, or have the same files."""
    before, now = (
        {name: (model.get("commit"), model.get("fingerprint")) for name, model in models.items()}
        for models in (recorded, wanted)
    )
    return before == now


def mount_summary(container: Mapping) -> list[str]:
    """Return what a container sees of its Spark beside its programs: targets, sources, and what it may do."""
    told = [
        [str(mount.get(key)) for key in ("target", "source", "type", "read_only")]
        for mount in container["mounts"]
        if mount["target"] != PROGRAMS
    ]
    return sorted(" ".join(words) for words in told)


def settings(container: Mapping) -> dict[str, t.Any]:
    """How a recorded container is run, beside what is planned."""
    return {name: container[name] for name in SETTINGS if name in container}


def same_settings(recorded: Mapping, args: Mapping) -> bool:
    """Return whether a container has the desired setting, in any type. A setting that is not desired matches."""
    return all(_plain(recorded.get(name)) == _plain(value) for name, value in args.items())


def _plain(value: t.Any) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, dict)) else str(value)


def same_container(recorded: Mapping, wanted: Mapping) -> bool:
    """Whether Docker was asked for the same, as far as it is planned."""
    asked = ("image", "command", "devices", "healthcheck")
    told = [{**container["environment"], **dict.fromkeys(TAKES)} for container in (recorded, wanted)]
    labels = [container["labels"] for container in (recorded, wanted)]
    return (
        all(recorded[key] == wanted[key] for key in asked)
        and told[0] == told[1]
        and mount_summary(recorded) == mount_summary(wanted)
        and all(labels[0].get(name) == labels[1].get(name) for name in TOLD)
    )


def container(
    record: Mapping | None, texts: t.Mapping[str, str], script: Mapping, models: Mapping, host: str
) -> Mapping | None:
    """Return the container of a record that is for these texts, script and models and listens there.

    Return None without one, or if it cannot be parsed. On Docker's bridge only the published ports tell where it
    listens."""
    if not record or not texts.get("options.yml"):
        return None
    try:
        options = [yaml.safe_load(files["options.yml"]) for files in (record["files"], texts)]
    except (ValueError, yaml.YAMLError):
        return None
    alike = options[0] == options[1] and record["script"] == script and same_models(record["models"], models)
    return t.cast("Mapping", record["container"]) if alike and record["listens_on"] == host else None
