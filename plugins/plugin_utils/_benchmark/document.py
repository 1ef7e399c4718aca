# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A benchmark's report as a file: without what strangers need not know, written whole, read with care."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import typing as t
from pathlib import Path

from ...module_utils._data.numbers import is_number, is_whole
from ...module_utils._deployment.records import nodes_of
from ...module_utils._diagnosis.redaction import Redactor, Secrets
from .._engines.registry import engine_of
from .analyse import SCHEMA

Report = dict[str, t.Any]

ADDRESS = "<address>"
# Public registries. The name of another one would identify its owner.
PUBLIC_REGISTRIES = ("nvcr.io", "docker.io", "ghcr.io", "quay.io")
# Names of hosts that say nothing, and would be found in sentences that mean something else.
ORDINARY_NAMES = ("localhost", "spark", "sparks", "dgx", "dgx-spark", "head", "worker")
SHORTEST_WORD = 4
ADDRESSES = ("inventory_hostname", "ansible_host", "ansible_ssh_host")
FACTS = ("hostname", "nodename", "fqdn")
USERS = ("ansible_user", "ansible_ssh_user")
# No figure is as large.
MOST = 10**12
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s\"'<>]*[^\s\"'<>.,;:!?)\]}]")
_LOOPBACK = re.compile(
    r"(?<![\w.:])(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\]|::1)(?::\d{1,5})?(?![\w.:]*\w)"
)
_HOME = re.compile(r"(/Users/)([^/\s\"'\\:,]+)")


class DocumentError(Exception):
    """A file cannot be read or written; the text is one sentence for the user."""


def tells_something(name: str) -> bool:
    """Return whether a host's name differs from all words of this collection."""
    plain = name.isalpha() and len(name) < SHORTEST_WORD
    return bool(name) and not plain and name.lower() not in ORDINARY_NAMES


def registry_of(reference: t.Any) -> str:
    """Return the host in an image's reference, if it is no public registry."""
    host, slash, _path = str(reference or "").partition("/")
    is_host = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return host if is_host and host not in PUBLIC_REGISTRIES else ""


def context(record: Report, plan: Report, machine: Report, results: Report, date: str) -> Report:
    """Return the context of a report, without anything that identifies the Spark or its owner.

    The record of the deployment, what the plan and spark_info (as `machine`) returned, and the day.
    """
    gpu = machine["gpus"][0]
    return {
        "recipe": record["deployment"],
        "engine": engine_of(record).name,
        **{key: record[key] for key in ("title", "deployment", "draft_length", "method", "image")},
        "models": {name: model.get("commit") for name, model in record["models"].items()},
        "hardware": {
            "gpu": gpu["name"],
            "driver": gpu["driver"],
            "memory_bytes": machine["memory_total"],
            "sparks": len(nodes_of(record.get("cluster") or {})) or 1,
        },
        "versions": {"collection": plan["collection_version"], engine_of(record).name: results.get("version")},
        "date": date,
        "settings": plan["settings"],
        "prompts": hashlib.sha256(json.dumps(plan["prompts"], sort_keys=True).encode()).hexdigest()[:12],
        "roofline": record.get("break_even_figures") or {},
    }


def host_names(known: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return all names and addresses of hosts, from their variables."""
    return [*_values(known, ADDRESSES), *_values(map(_facts, known), FACTS)]


def user_names(known: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the names of the users of hosts, from their variables."""
    return [*_values(known, USERS), *_values(map(_facts, known), ["user_id"])]


def _facts(variables: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return variables.get("ansible_facts") or {}


def _values(known: t.Iterable[t.Mapping[str, t.Any]], names: t.Iterable[str]) -> list[str]:
    """Return the values that variables of these names have anywhere."""
    return sorted({str(variables[name]) for variables in known for name in names if variables.get(name)})


def redacted(report: t.Mapping[str, t.Any], hosts: t.Iterable[str], users: t.Iterable[str]) -> Report:
    """Return the report without tokens, addresses, and names of hosts and users."""
    image = report.get("image") or {}
    named = {part for host in hosts for part in (host, host.partition(".")[0])}
    registries = {registry_of(one) for one in (image.get("reference"), *(image.get("digests") or []))}
    known = tuple(name for name in sorted(named) if tells_something(name)) + tuple(registries)
    redactor = Redactor(Secrets(hosts=known, users=tuple(users)))

    def of_text(text: str) -> str:
        text = redactor.redact(_URL.sub(ADDRESS, text))
        return _HOME.sub(r"\1<user>", _LOOPBACK.sub(ADDRESS, text))

    def of_key(key: str) -> str:
        # The report's own keys are plain words; what models, categories and versions are called comes from elsewhere.
        return key if key.isidentifier() else of_text(key)

    def of_any(value: t.Any) -> t.Any:
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, t.Mapping):
            return {of_key(str(key)): of_any(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [of_any(item) for item in value]
        return value

    return t.cast(Report, of_any(report))


# Reading


class Optional(t.NamedTuple):
    """A value that may be unknown."""

    shape: t.Any


def number(value: t.Any) -> bool:
    return is_number(value) and abs(value) < MOST


def is_share(value: t.Any) -> bool:
    return number(value) and 0 <= value <= 1


def count(value: t.Any) -> bool:
    return is_whole(value) and 0 <= value < MOST


def schema(value: t.Any) -> bool:
    return value is not True and value == SCHEMA


def text(value: t.Any) -> bool:
    return isinstance(value, str)


def flag(value: t.Any) -> bool:
    return isinstance(value, bool)


def mapping(value: t.Any) -> bool:
    return isinstance(value, dict)


def by_category(value: t.Any) -> bool:
    """Return whether the speeds of the prompts can be compared, where there are any."""
    return mapping(value) and all(
        mapping(its) and mapping(speeds := its.get("speeds", {})) and all(number(x) and x > 0 for x in speeds.values())
        for its in value.values()
    )


FIGURE = {"mean": number, "low": Optional(number), "high": Optional(number), "n": count}
POINT = {
    "draft_length": count,
    "serving": flag,
    "error": Optional(text),
    "n": count,
    "tokens_per_second": Optional(FIGURE),
    "ttft_s": Optional(FIGURE),
    "pass_ms": Optional(FIGURE),
    "acceptance_length": Optional(FIGURE),
    "server_acceptance_length": Optional(FIGURE),
    "by_position": Optional([is_share]),
    "speedup": Optional(FIGURE),
    "identical": Optional({"compared": count, "same": count}),
    "theory": Optional({"a": is_share, "break_even_best": Optional(number), "break_even_worst": Optional(number)}),
    "by_category": Optional(by_category),
    "lengths": [{"prompt_tokens": Optional(count), "ttft_s": Optional(number)}],
}
# The keys of an earlier report that a comparison uses.
SHAPE = {
    "schema": schema,
    "title": text,
    "deployment": text,
    "date": text,
    "engine": Optional(text),
    "method": Optional(text),
    "draft_length": Optional(count),
    "image": Optional(mapping),
    "models": Optional(mapping),
    "hardware": Optional(mapping),
    "versions": Optional(mapping),
    "prompts": Optional(text),
    "settings": Optional(mapping),
    "points": [POINT],
    "verdict": {"kind": text, "draft_length": Optional(count), "sentence": text},
}


class MisfitError(ValueError):
    """A value is not what it should be."""


def valid_part(value: t.Any, shape: t.Any) -> t.Any:
    """Return a value read from a file, if it is what it should be; what is missing in it is unknown."""
    if isinstance(shape, Optional):
        return None if value is None else valid_part(value, shape.shape)
    if isinstance(shape, dict) and isinstance(value, dict):
        return {**value, **{key: valid_part(value.get(key), part) for key, part in shape.items()}}
    if isinstance(shape, list) and isinstance(value, list):
        return [valid_part(item, shape[0]) for item in value]
    if callable(shape) and shape(value):
        return value
    raise MisfitError


def read(path: Path) -> Report:
    """Return an earlier report of ours; refuses whatever else is there."""
    try:
        return t.cast(Report, valid_part(json.loads(path.read_bytes()), SHAPE))
    except OSError as error:
        reason = error.strerror or error
        raise DocumentError(f"The report to compare with, {path}, cannot be read ({reason}).") from None
    except (ValueError, RecursionError):
        raise DocumentError(
            f"{path} is no report of a benchmark of this collection: compare with the JSON file that an earlier "
            "benchmark.yml wrote."
        ) from None


# Writing


def check_writable(paths: t.Iterable[Path]) -> None:
    """Refuse a place where a file could not be written; makes nothing."""
    for path in paths:
        place = next(parent for parent in path.parents if parent.exists())
        if path.is_dir() or not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            raise DocumentError(f"The report {path} cannot be written there; choose another path.")


def write(files: t.Mapping[Path, str]) -> None:
    """Write files so that each is there whole or as it was, and none if one of them cannot be written."""
    finished: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise DocumentError(f"The report {path} cannot be written (it is a directory); choose another path.")
            # mkstemp makes it with mode 0600.
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            finished[path] = Path(name)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
        for path, temporary in finished.items():
            temporary.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise DocumentError(f"The report {path} cannot be written ({reason}); choose another path.") from None
    finally:
        for temporary in finished.values():
            with contextlib.suppress(OSError):
                temporary.unlink()
