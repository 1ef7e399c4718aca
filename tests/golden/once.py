# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each thing is written once: what equals something that is written already becomes a reference to it.

<as Docker was asked>   the container that Docker was asked for in the same case
<as on disk>            the files that the container has (`normal`)
<as in PATH>            another file of the same Spark, or a value in it
<as in CASE>            the same place in an earlier case
<record.json of CASE>   the record that an earlier case wrote
<as on spark-1>         the same place on the first Spark
"""

from __future__ import annotations

import json
import re
import typing as t

import yaml

from tests.golden.normal import FLOW

ASKED = "<as Docker was asked>"
NUMBER = re.compile(r" \(\d+\)$")
# In Docker's names: the beginning of a word that is not the first.
WORD = re.compile(r"(?<!^)([A-Z])")
# Docker counts in nanoseconds.
SECOND = 10**9
# A value at the same place, and how to refer to it.
Written = tuple[t.Any, str]


def recorded(asked: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a container that Docker was asked for in the words of a record."""
    host = asked["HostConfig"]
    log = host["LogConfig"].get("Config", {})
    return {
        "capabilities": host.get("CapAdd", []),
        "command": asked["Cmd"],
        "device_requests": [_renamed(each) for each in host.get("DeviceRequests", [])],
        "devices": [f"{each['PathOnHost']}:{each['PathInContainer']}" for each in host.get("Devices", [])],
        "environment": dict(each.split("=", 1) for each in asked.get("Env", [])),
        "healthcheck": {
            key: f"{value // SECOND}s" if isinstance(value, int) and value >= SECOND else value
            for key, value in _renamed(asked.get("Healthcheck", {})).items()
        },
        "image": asked["Image"],
        "ipc_mode": host.get("IpcMode"),
        "keep_entrypoint": asked.get("Entrypoint") is None,
        "labels": asked.get("Labels", {}),
        "log_max_files": int(log.get("max-file", 0)),
        "log_max_size": log.get("max-size"),
        "mounts": [_renamed(each) for each in host.get("Mounts", [])],
        "network": host.get("NetworkMode"),
        # A record writes them in another way: if there are any, its container is written out.
        "published_ports": list(host.get("PortBindings", {})),
        "read_only": host.get("ReadonlyRootfs", False),
        "stop_timeout": asked.get("StopTimeout"),
        "ulimits": [f"{each['Name']}:{each['Soft']}:{each['Hard']}" for each in host.get("Ulimits", [])],
    }


def _renamed(value: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {WORD.sub(r"_\1", key).lower(): each for key, each in value.items()}


def _key(value: t.Any) -> str:
    # Not ==, for which 1 is true.
    return json.dumps(value, sort_keys=True, default=str)


def _is_record(entry: t.Mapping[str, t.Any]) -> bool:
    said = entry.get("json")
    return isinstance(said, dict) and {"container", "deployment"} <= set(said)


def _values(name: str, entry: t.Mapping[str, t.Any]) -> t.Iterator[t.Any]:
    """Yield what a file says, as a whole and in parts. A record refers to others and not they to it."""
    if "text" in entry:
        yield entry["text"]
        if name.partition(" ")[0].endswith(".yml"):
            yield yaml.safe_load(entry["text"])
    if isinstance(entry.get("json"), dict) and not _is_record(entry):
        yield entry["json"]
        yield from entry["json"].values()


def once(value: t.Any, written: t.Sequence[Written], places: t.Mapping[str, str]) -> t.Any:
    """Return a reference to what equals the value; of what equals nothing, the parts that differ are written out."""
    if len(str(value)) <= FLOW:
        return value
    if place := places.get(_key(value)):
        return place
    for said, reference in written:
        if _key(said) == _key(value):
            return reference
    if not isinstance(value, dict):
        return value
    return {
        key: once(each, [(said[key], how) for said, how in written if isinstance(said, dict) and key in said], places)
        for key, each in value.items()
    }


class Spark:
    """What the cases of a story have written of one Spark."""

    def __init__(self, name: str) -> None:
        self.name = name
        # With the case that wrote it.
        self.files: dict[str, Written] = {}
        self.containers: dict[tuple[str, str], Written] = {}

    def write(
        self,
        case: str,
        containers: t.Sequence[t.Mapping[str, t.Any]],
        changed: t.Mapping[str, t.Any],
        gone: t.Collection[str],
        first: Spark | None = None,
    ) -> dict[str, t.Any]:
        """Return what a case made of the Spark; `first` is the first Spark, if this is another."""
        before = self.files
        self.files = {name: each for name, each in before.items() if name not in gone}
        self.files.update({name: (entry, case) for name, entry in changed.items()})
        places = self._places(containers)
        return {
            "containers": [self._container(case, each, first) for each in containers],
            "files": {
                name: once(
                    entry,
                    _earlier(before, name, entry) + (_on(first, first.files.get(name)) if first else []),
                    {key: place for key, place in places.items() if place != f"<as in {name}>"},
                )
                for name, entry in changed.items()
            },
            **({"gone": sorted(gone)} if gone else {}),
        }

    def _places(self, containers: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
        places = {_key(recorded(each)): ASKED for each in containers}
        for name, (entry, _) in sorted(self.files.items()):
            for value in _values(name, entry):
                places.setdefault(_key(value), f"<as in {name}>")
        return places

    def _container(self, case: str, asked: t.Mapping[str, t.Any], first: Spark | None) -> t.Any:
        which = (asked["name"], asked.get("Labels", {}).get("dgx_spark.speculative.deployment", ""))
        earlier = self.containers.get(which)
        if earlier is None or earlier[0] != asked:
            self.containers[which] = (asked, case)
        written = [(earlier[0], f"<as in {earlier[1]}>")] if earlier else []
        return once(asked, written + (_on(first, first.containers.get(which)) if first else []), {})


def _earlier(before: t.Mapping[str, Written], name: str, entry: t.Mapping[str, t.Any]) -> list[Written]:
    # The number of two files that only a hash tells apart may be another one now.
    names = dict.fromkeys((name, NUMBER.sub("", name)))
    earlier = [(said, f"<as in {case}>") for said, case in (before[each] for each in names if each in before)]
    if not _is_record(entry):
        return earlier
    record = before.get(f"{name.rpartition('/')[0]}/{entry['json']['deployment']}/record.json")
    return [(record[0], f"<record.json of {record[1]}>"), *earlier] if record else earlier


def _on(first: Spark, written: Written | None) -> list[Written]:
    return [(written[0], f"<as on {first.name}>")] if written else []
