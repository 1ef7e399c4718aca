# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between two runs of the same thing gets one name: times, hashes, homes, addresses, figures."""

from __future__ import annotations

import collections
import functools
import hashlib
import json
import re
import subprocess
import typing as t
from pathlib import Path

import yaml
from ansible_collections.dgx_spark.speculative.plugins.lookup.job import JOBS, file_of, program

from tests.twin.names import HOSTS

ROOT = Path(__file__).parents[2]
NAMES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        # A record has the place of the image's ID in the name of a volume, and Docker was asked for the ID.
        (r"(?<=-cache-)(?:\{image\}|[0-9a-f]{12})$", "<image>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16})\b", "<hash>"),
        (r"\b(?=\d*[a-f])[0-9a-f]{12}\b", "<hash>"),
        # A generation's may have no letter.
        (r"(?<=generations/)\d{12}\b|^\d{12}$", "<hash>"),
        (r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?", "<time>"),
        (rf"\b{re.escape(HOSTS)}\.1(\d)\b", r"<address of spark-\1>"),
        (rf"\b{re.escape(HOSTS)}\.2\b", "<address of the internet>"),
        (r"-----BEGIN OPENSSH PRIVATE KEY-----[^-]*-----END OPENSSH PRIVATE KEY-----", "<private key>"),
        (r"\bAAAA[\w+/]{40,}=*", "<public key>"),
        (r"/home/spark\b", "~"),
        # NCCL puts the number of its process in.
        (r"/nccl\.([\w-]+)\.\d+$", r"/nccl.\1.<process>"),
    )
)
# Of what is measured, what a server answers and what the machine under the twin is only the shape can be held.
MEASURED = {
    *("measurements", "compared", "answer", "break_even", "findings", "outcome", "memory_available", "gbps", "boot"),
    *("cores", "cores_here", "memory_gib"),
}
# Docker's command line hands these over in any order.
SETS = {"Binds", "Env"}
# These tell what happens while it happens: that they are there, whose and how readable they are.
LIVING = re.compile(r"(\.log(\.\d+)?|/log|/job\.json|/state\.json|\.pid|/nccl\.[\w-]+\.<process>)$")
# Models and compiled code are others' files, and many: how many of which mode is in a directory.
CACHES = re.compile(r"^(~/\.cache/.+)/[^/]+$")
# Where a container has the files of its deployment.
DEPLOYMENT = "/deployment"
SHORT = 200
FLOW = 110


@functools.cache
def shipped() -> dict[str, str]:
    """The programs of this repository, by their text; the zip applications, by their checksum."""
    listed = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run([*listed, "roles", "plugins"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in names.split("\0") if name.endswith((".py", ".sh"))]
    stems = [path.stem for path in file_of(f"{JOBS}x").parent.glob("*.py")]
    jobs = {hashlib.sha256(program(name)).hexdigest(): f"{name}.pyz" for name in stems}
    return {path.read_text(encoding="utf-8").rstrip(): path.name for path in paths if path.is_file()} | jobs


def text(value: str) -> str:
    for pattern, name in NAMES:
        value = pattern.sub(name, value)
    return value


def shape(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return "<varies>"


def asked_for(value: t.Any) -> t.Any:
    """Without what is empty, which is as good as not there; what a program is told as JSON is data as well."""
    if isinstance(value, dict):
        kept = {key: asked_for(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is False or each not in (None, "", 0, [], {})}
    if isinstance(value, list):
        return [asked_for(each) for each in value]
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


class Normal:
    """Puts the data of one Spark into names; what a file of the Spark says is not said again elsewhere."""

    def __init__(self, files: t.Mapping[str, t.Mapping[str, t.Any]] | None = None) -> None:
        self._files = files or {}
        long = {
            look["text"].rstrip(): path
            for path, look in sorted(self._files.items())
            if len(look.get("text", "")) > SHORT
        }
        self._elsewhere = {said: f"<as in {text(path)}>" for said, path in long.items()}
        self._elsewhere.update({said: f"<as shipped: {name}>" for said, name in shipped().items() if said})

    def data(self, value: t.Any, key: str = "") -> t.Any:
        if key in MEASURED:
            return shape(value)
        if isinstance(value, dict):
            return {text(str(name)): self.data(each, str(name)) for name, each in value.items()}
        if isinstance(value, list):
            return [self.data(each) for each in (sorted(value) if key in SETS else value)]
        if isinstance(value, str):
            return self._elsewhere.get(value.rstrip()) or text(value)
        if isinstance(value, (int, float)) and "bytes" not in key and (1.7e9 < value < 2.2e9 or value > 1.7e18):
            return "<time>"
        return value

    def container(self, asked: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """A request for a container, without what was left to Docker."""
        return t.cast("dict[str, t.Any]", self.data(asked_for({"name": asked["name"], **asked["body"]})))

    def file(self, path: str, look: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        entry = {key: value for key, value in look.items() if key not in ("text", "directory", "bytes")}
        said = look.get("text")
        if said is None or LIVING.search(path):
            return self.data(entry | ({"bytes": look["bytes"]} if "bytes" in look else {}))
        if said.rstrip() in shipped():
            return {**entry, "as shipped": shipped()[said.rstrip()]}
        if path.endswith(".json"):
            return {**entry, "json": self.data(self._record(json.loads(said)))}
        return {**entry, "text": text(said)}

    def _record(self, said: t.Any) -> t.Any:
        """Return a record without the texts of its files, if they are on disk: all of them, and no other."""
        if not isinstance(said, dict) or not isinstance(said.get("container"), dict) or "files" not in said:
            return said
        for mount in said["container"]["mounts"]:
            if mount["target"] == DEPLOYMENT:
                place = f"{mount['source']}/"
                texts = {
                    path.removeprefix(place): look["text"].rstrip()
                    for path, look in self._files.items()
                    if path.startswith(place) and "text" in look
                }
                if {name: each.rstrip() for name, each in said["files"].items()} == texts:
                    return {**said, "files": "<as on disk>"}
        return said


def files(found: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """All files of a Spark by their names."""
    normal = Normal(found)
    named: dict[str, list[t.Any]] = collections.defaultdict(list)
    cached: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for path, look in found.items():
        name = text(path)
        directory = CACHES.match(name)
        if directory:
            kind = "directory" if look.get("directory") else "link" if "link" in look else "file"
            cached[directory[1]][" ".join(filter(None, (look.get("mode"), look.get("owner"), kind)))] += 1
        elif look.get("directory"):
            named[f"{name}/"].append({"mode": look["mode"], "owner": look["owner"]})
        else:
            named[name].append(normal.file(name, look))
    said: dict[str, t.Any] = {name: dict(sorted(count.items())) for name, count in cached.items()}
    for name, entries in named.items():
        # Two files that only a hash tells apart.
        for number, entry in enumerate(sorted(entries, key=json.dumps), start=1):
            said[name if number == 1 else f"{name} ({number})"] = entry
    return dict(sorted(said.items()))


class Dumper(yaml.SafeDumper):
    """Lines as lines; what is short stands on one line, what is long one below the other."""

    def represent_mapping(self, tag: str, mapping: t.Any, flow_style: bool | None = None) -> yaml.MappingNode:
        return self._laid_out(super().represent_mapping(tag, mapping, flow_style), mapping)

    def represent_sequence(self, tag: str, sequence: t.Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        return self._laid_out(super().represent_sequence(tag, sequence, flow_style), sequence)

    def _laid_out(self, node: t.Any, value: t.Any) -> t.Any:
        node.flow_style = node.flow_style and len(str(value)) <= FLOW
        return node

    def ignore_aliases(self, data: t.Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Dumper.add_representer(str, _string)


def document(data: t.Any) -> str:
    return yaml.dump(data, Dumper=Dumper, sort_keys=True, width=10_000, allow_unicode=True, default_flow_style=None)
