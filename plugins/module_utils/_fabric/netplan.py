# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Netplan's files: the one that is ours, and what the others say. Without a YAML parser, which a host may not have."""

from __future__ import annotations

import fnmatch
import json
import re
import typing as t
from pathlib import Path

FILE = Path("/etc/netplan/40-dgx-spark-speculative.yaml")
# A file of the same name here hides the other one until the next boot, which is what a trial needs.
TRIAL_FILE = Path("/run/netplan") / FILE.name
# The state file of the program that watches a change.
STATUS = Path("/run/dgx-spark-speculative/network.json")
# A change of the network that has not come to its end.
PENDING = ("starting", "applying", "waiting", "undoing")
NETPLAN_DIRECTORIES = ("etc/netplan", "run/netplan", "usr/lib/netplan", "lib/netplan")

MARKER = "# Written by the Ansible collection dgx_spark.speculative"
_EXPLANATION = (
    f"{MARKER} (role spark_network), which replaces and removes it:",
    "# the addresses of the cable between two DGX Sparks. By hand: delete this file, then run 'sudo netplan apply'.",
)
_BEFORE = "# before: "
# Keys of an entry without a decision of a user. link-local is the only setting of NVIDIA's page for two Sparks until
# July 2026 (its 40-cx7.yaml), and our file replaces it.
_BY_DEFAULT = {
    "accept-ra",
    "critical",
    "dhcp4",
    "dhcp6",
    "dhcp-identifier",
    "link-local",
    "optional",
    "renderer",
    "wakeonlan",
}
# The directory where NetworkManager of Ubuntu 24.04 stores a saved profile, and writes it again.
_SAVED = re.compile(r"90-NM-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-.*)?\.yaml")

Document = dict[str, t.Any]


def netplan_files(root: Path) -> list[Path]:
    """All files that netplan reads, in its order; one in the same place by two names only once."""
    result: dict[Path, Path] = {}
    for directory in NETPLAN_DIRECTORIES:
        try:
            names = sorted((root / directory).glob("*.yaml"))
        except OSError:
            continue
        for path in names:
            result.setdefault(path.resolve(), path)
    return sorted(result.values(), key=lambda path: path.name)


def _lines(text: str) -> list[str]:
    """Return the lines of a YAML text without comments."""
    return [re.sub(r"(^|\s)#.*$", "", line) for line in text.splitlines()]


def _block(lines: t.Sequence[str], start: int) -> list[str]:
    """Return the text of the key in this line: the rest of it, and the deeper lines below."""
    depth = len(lines[start]) - len(lines[start].lstrip())
    result = [lines[start].partition(":")[2]]
    for line in lines[start + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        result.append(line)
    return result


def claims(file: str, text: str, name: str, mac: str = "") -> bool:
    """Return whether a netplan file of this name configures the interface in a way that ours must not change.

    An installer writes an entry with DHCP for every interface. Our file is read later and takes precedence.
    """
    lines = _lines(text)
    own = [n for n, line in enumerate(lines) if re.match(rf"""\s*["']?{re.escape(name)}["']?\s*:""", line)]
    if len(own) != 1 or file >= FILE.name:
        return names_interface(text, name, mac)
    block = _block(lines, own[0])
    keys = re.findall(r"""([\w-]+)["']?\s*:""", "\n".join(block))
    rest = lines[: own[0]] + lines[own[0] + len(block) :]
    return not set(keys) <= _BY_DEFAULT or names_interface("\n".join(rest), name, mac)


def way_out(files: t.Sequence[str], names: str) -> str:
    """Return how to remove interfaces from other netplan files, so that ours can configure them."""
    saved = {file: match.group(1) for file in files if (match := _SAVED.fullmatch(file.rpartition("/")[2]))}
    ways = [f"delete NetworkManager's profile with 'sudo nmcli connection delete {uuid}'" for uuid in saved.values()]
    others = [file for file in files if file not in saved]
    if others:
        which = f" of {' and '.join(others)}" if saved else " of it"
        ways.append(f"take {names} out{which}, run 'sudo netplan apply'")
    return f"{', '.join(ways)}, then run again."


def names_interface(text: str, name: str, mac: str = "") -> bool:
    """Return whether a netplan file configures this interface: by name, pattern, address or driver."""
    for line in _lines(text):
        # An interface's own entry, and a mention in a bond or bridge.
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", line):
            return True
        for key, value in re.findall(r"""\b(name|driver|macaddress)["']?\s*:\s*["']?([^"'\s,}\]]+)""", line):
            wanted = {"name": name, "driver": "mlx5_core", "macaddress": mac.lower()}[key]
            if wanted and fnmatch.fnmatchcase(wanted, value.lower() if key == "macaddress" else value):
                return True
    return False


def declared_renderer(texts: t.Iterable[str]) -> str | None:
    """Return the renderer that files name for the whole host, the last one; one of a single interface stands deeper."""
    result = None
    for text in texts:
        for line in _lines(text):
            match = re.match(r"""(\s*)(?:network:\s*\{.*\b)?renderer["']?\s*:\s*["']?(\w+)""", line)
            if match and len(match.group(1)) <= 4:
                result = match.group(2)
    return result


def _scalar(value: t.Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return str(value) if re.fullmatch(r"[A-Za-z][\w-]*|\d+(\.\d+){3}/\d+", str(value)) else json.dumps(str(value))


def _yaml(value: t.Mapping[str, t.Any], depth: int = 0) -> t.Iterator[str]:
    for key, item in value.items():
        start = f"{'  ' * depth}{key}:"
        if isinstance(item, dict):
            yield start
            yield from _yaml(item, depth + 1)
        elif isinstance(item, (list, tuple)):
            yield f"{start} [{', '.join(map(_scalar, item))}]"
        else:
            yield f"{start} {_scalar(item)}"


def render(document: Document, before: t.Mapping[str, t.Any]) -> str:
    """Return the file's text. It carries what was there before, so that it can be put back without any other file."""
    comments = [*_EXPLANATION, _BEFORE + json.dumps(before, sort_keys=True)]
    return "\n".join([*comments, *_yaml(document)]) + "\n"


def is_ours(text: str) -> bool:
    return text.startswith(MARKER)


def before_of(text: str) -> dict[str, t.Any]:
    """Return the state of the interfaces before the file was first written."""
    line = next((line for line in text.splitlines() if line.startswith(_BEFORE)), _BEFORE + "{}")
    try:
        data = json.loads(line[len(_BEFORE) :])
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def document_of(text: str) -> Document:
    """Return the interfaces, addresses and renderers in a file of ours.

    The file must have the shape that render() gives it.
    """
    entries: dict[str, t.Any] = {}
    name = ""
    for line in _lines(text):
        interface = re.fullmatch(r" {4}([\w.-]+):", line)
        if interface:
            name = interface.group(1)
            entries[name] = {"addresses": []}
        value = re.fullmatch(r" {6}(addresses|renderer): (.*)", line)
        if value and name:
            words = [word.strip(' "') for word in value.group(2).strip("[]").split(",")]
            entries[name][value.group(1)] = words[0] if value.group(1) == "renderer" else [w for w in words if w]
    return {"network": {"ethernets": entries}}


def named_in(texts: t.Iterable[str]) -> set[str]:
    """Return the interfaces in files of ours."""
    return {name for text in texts for name in addresses_of(document_of(text))}


def generated_for(name: str, file: t.Any) -> bool:
    """Return whether netplan generated this file of NetworkManager or networkd for the interface of that name.

    The login user cannot read our file, and learns its interfaces by this. Another file that only root can read may
    have the interface instead; only root can distinguish them.
    """
    made = rf"(10-)?netplan-{re.escape(name)}\.(nmconnection|network)"
    return re.fullmatch(made, str(file or "").rpartition("/")[2]) is not None


def addresses_of(document: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """Return the addresses in a document, by interface."""
    interfaces = (document.get("network") or {}).get("ethernets") or {}
    return {name: list(entry.get("addresses") or []) for name, entry in interfaces.items()}
