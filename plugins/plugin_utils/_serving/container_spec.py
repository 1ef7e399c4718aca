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

from ...module_utils._deployment.names import LABEL

Mapping = t.Mapping[str, t.Any]

# The directory of the programs in a container. They belong to a release of this collection.
PROGRAMS = "/deployment"
# The labels of a container that identify its deployment.
TOLD = tuple(f"{LABEL}{name}" for name in ("deployment", "directory", "url", "rank", "trust"))
# Derived from models and options, which are compared themselves; another release may derive other values.
TAKES = ("DGX_SPARK_TAKES_BYTES", "DGX_SPARK_TAKES_SHARE")
# Docker settings that are not planned: inputs of the role engine_container.
SETTINGS = (
    *("network", "published_ports", "ipc_mode", "ulimits", "device_requests", "stop_timeout"),
    *("log_max_size", "log_max_files", "read_only"),
)


def same_models(recorded: Mapping, wanted: Mapping) -> bool:
    """Return whether the models, by name, have the same commit or the same files."""
    before, now = (
        {name: (model.get("commit"), model.get("fingerprint")) for name, model in models.items()}
        for models in (recorded, wanted)
    )
    return before == now


def mount_summary(container: Mapping) -> list[str]:
    """Return the mounts of a container beside its programs: target, source, type and mode, as text."""
    told = [
        [str(mount.get(key)) for key in ("target", "source", "type", "read_only")]
        for mount in container["mounts"]
        if mount["target"] != PROGRAMS
    ]
    return sorted(" ".join(words) for words in told)


def settings(container: Mapping) -> dict[str, t.Any]:
    """Return the Docker settings of a recorded container that are not planned."""
    return {name: container[name] for name in SETTINGS if name in container}


def same_settings(recorded: Mapping, args: Mapping) -> bool:
    """Return whether a container has the desired setting, in any type. A setting that is not desired matches."""
    return all(_plain(recorded.get(name)) == _plain(value) for name, value in args.items())


def _plain(value: t.Any) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, dict)) else str(value)


def same_container(recorded: Mapping, wanted: Mapping) -> bool:
    """Return whether the planned parts of two containers are equal."""
    asked = ("image", "keep_entrypoint", "command", "devices", "capabilities", "healthcheck")
    told = [{**container["environment"], **dict.fromkeys(TAKES)} for container in (recorded, wanted)]
    labels = [container["labels"] for container in (recorded, wanted)]
    return (
        all(recorded.get(key) == wanted[key] for key in asked)
        and told[0] == told[1]
        and mount_summary(recorded) == mount_summary(wanted)
        and all(labels[0].get(name) == labels[1].get(name) for name in TOLD)
    )


def container(
    record: Mapping | None, texts: t.Mapping[str, str], script: Mapping, models: Mapping, host: str
) -> Mapping | None:
    """Return the container of a record with the same options, script, models and listening address.

    Return None without one, or if its options cannot be parsed. On Docker's bridge only the published ports tell the
    address.
    """
    if not record or not texts.get("options.yml"):
        return None
    try:
        options = [yaml.safe_load(files["options.yml"]) for files in (record["files"], texts)]
    except (ValueError, yaml.YAMLError):
        return None
    alike = options[0] == options[1] and record["script"] == script and same_models(record["models"], models)
    return t.cast("Mapping", record["container"]) if alike and record["listens_on"] == host else None
