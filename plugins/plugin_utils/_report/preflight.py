# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Write the preflight for the user: what was checked, what was found, and the problems.

The values of two Sparks stand side by side.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import textwrap
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils._data.text import amount, join_words
from ...module_utils._deployment.cluster_view import cluster_of, describe_rail
from ...module_utils._deployment.lines import width, wrap_text

Facts = t.Mapping[str, t.Any]
Row = tuple[str, str]

NAMES = 16
NOT_SEEN = "not checked, see below"

FACTS: dict[str, t.Any] = {"type": "dict", "default": {}}
LINES: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
# The facts of a host: results of spark_info, registry_image_info and huggingface_snapshot, the memory plan, a text for
# each problem, and the rails and notes of the role spark_network. Only spark is required.
OF_ONE: dict[str, t.Any] = {
    "spark": {"type": "dict", "required": True},
    "docker": FACTS,
    "registry": FACTS,
    "models": FACTS,
    "facts": FACTS,
    "plan": LINES,
    "problems": LINES,
    "rails": {"type": "list", "elements": "dict", "default": []},
    "notes": LINES,
    "image_here": {"type": "bool"},
    "connection": {"type": "str", "default": ""},
}


@dataclasses.dataclass(frozen=True)
class Findings:
    """The facts as the modules returned them; empty where a check did not get that far."""

    spark: Facts
    docker: Facts
    registry: Facts
    models: Facts
    directories: t.Sequence[str]
    plan: t.Sequence[str]
    problems: t.Sequence[str]
    # alone, head or worker
    role: str = "alone"
    # For several Sparks: the planned rails, and notes about them.
    rails: t.Sequence[Facts] = ()
    notes: t.Sequence[str] = ()
    # A worker has the image already; None if not checked.
    image_here: bool | None = None
    # The machine that Ansible runs on.
    local: bool = False


def findings(host: str, found: Facts, hosts: t.Sequence[str]) -> Findings | None:
    """Of one of the hosts, or None if it could not be looked at; a ValueError for what is not known of a host."""
    looked = {name: value for name, value in found.items() if value != {}}
    if "spark" not in looked:
        return None
    validated = ArgumentSpecValidator(OF_ONE).validate(looked)
    if validated.error_messages:
        raise ValueError(f"hosts, {host}: {'; '.join(validated.error_messages)}")
    given = validated.validated_parameters
    local = given.pop("connection") == "local"
    role = "alone" if len(hosts) == 1 else "head" if host == hosts[0] else "worker"
    # Facts of models that are not on the Hub.
    fetched = {repository["id"] for repository in given["models"].get("repositories", [])}
    directories = [name for name in given.pop("facts") if name not in fetched]
    # A message with several problems has one on each line, with the name before each.
    said = [part for problem in given["problems"] for part in re.split(rf"\n(?={re.escape(host)}: )", problem)]
    return Findings(**{**given, "problems": said, "role": role, "local": local, "directories": directories})


def machine(spark: Facts) -> list[Row]:
    gpus = ", ".join(f"{gpu['name']}, driver {gpu['driver']}" for gpu in spark["gpus"])
    memory = f"{amount(spark['memory_available'])} of {amount(spark['memory_total'])} available"
    return [("GPU", gpus or ("does not answer" if spark["is_spark"] else "none")), ("memory", memory)]


def engine(docker: Facts) -> list[Row]:
    if not docker:
        return [("Docker", NOT_SEEN)]
    if docker["state"] != "usable":
        return [("Docker", docker["detail"])]
    rows = [("Docker", f"{docker['server_version']}, with GPU" if docker["gpu"] else f"{docker['server_version']}")]
    store = docker["image_store"]
    if store and store["free_bytes"] is not None:
        rows.append(("image disk", f"{amount(store['free_bytes'])} free at {store['path']}"))
    return rows


def listening(docker: Facts) -> list[Row]:
    port = docker.get("port") or {}
    if not port:
        return []
    holder = port.get("container") or port.get("process")
    return [("port", "free" if not port["in_use"] else f"in use by {holder or 'a process that only root may name'}")]


def image(name: str, docker: Facts, registry: Facts) -> list[Row]:
    if docker.get("image"):
        return [("image", f"{name}, present")]
    if not registry or registry.get("skipped") or registry.get("failed"):
        return [("image", f"{name}, {NOT_SEEN}")]
    size = registry.get("compressed_bytes")
    current = (docker.get("slot") or {}).get("image")
    return [
        ("image", f"{name}, to pull{'' if size is None else ': ' + amount(size) + ' compressed'}"),
        *([("", f"beside {current}, which stays for a rollback")] if current and current != name else []),
    ]


def model(repository: Facts, token_needed: bool) -> Row:
    """One model of the Hub: here, or how much of it is missing, and whether this user may have it."""
    access = ""
    if repository["gated"]:
        access = "; gated, token accepted" if token_needed else "; gated"
    if repository["verified"]:
        return "model", f"{repository['id']}, present, verified"
    if repository["complete"]:
        return "model", f"{repository['id']}, present, not verified{access}"
    return "model", f"{repository['id']}, to download: {amount(repository['bytes_missing'] or 0)}{access}"


def models(view: Facts, directories: t.Sequence[str]) -> list[Row]:
    rows = [("model", f"{path}, complete") for path in directories] if view or directories else [("models", NOT_SEEN)]
    if not view:
        return rows
    rows += [model(repository, view["token_needed"]) for repository in view["repositories"]]
    if any(repository["source"] == "hub" for repository in view["repositories"]):
        rows.append(("Hub", "reachable"))
    elif view["repositories"]:
        rows.append(("Hub", "not needed"))
    free = f"{amount(view['cache_free_bytes'])} free at {view['cache_filesystem']}"
    return [*rows, ("model disk", free)]


def objection(found: Findings, name: str = "") -> list[str]:
    """Return why this machine cannot serve at all; without a name it is called this machine."""
    reasons = ", and ".join(found.spark["problems"])
    if not reasons:
        return []
    if found.spark["is_spark"]:
        text = f"{name}: {reasons}" if name else f"{reasons[:1].upper()}{reasons[1:]}"
        return [f"{text}. {found.spark['remedy']}"]
    here = "It is the machine you are on (ansible_connection: local); give the address of your Spark in the inventory."
    hint = here if found.local else "Is the address in the inventory right?"
    return [f"{name or 'This'} is not a DGX Spark: {reasons}. {hint}"]


def obstacles(host: str, found: Findings) -> list[str]:
    """Return all problems; the wrong machine or a broken GPU comes first, because a run ends there."""
    return [*objection(found), *(problem.removeprefix(f"{host}: ") for problem in found.problems)]


def fabric(rails: t.Sequence[Facts], sparks: int) -> list[Row]:
    """Return the ways of so many Sparks through the cable as they are planned."""
    cluster = cluster_of({}, {}, {"cluster": {"rank": 0, "rails": list(rails)}})
    result = [("fabric", describe_rail(rail, None, sparks)) for rail in cluster.rails] if cluster else []
    return result or [("fabric", NOT_SEEN)]


def received(name: str, found: Findings) -> list[Row]:
    """Return the rows of what a worker gets from its head over the link; it needs no internet."""
    how = {True: "present", False: "from the head", None: "from the head, if it is not present"}[found.image_here]
    rows = [("image", f"{name}, {how}")]
    if not found.models:
        return [*rows, ("models", NOT_SEEN)]
    for repository in found.models["repositories"]:
        if repository["verified"] or repository["complete"]:
            how = "present, verified" if repository["verified"] else "present, not verified"
        else:
            how = f"from the head: {amount(repository['bytes_missing'] or 0)}"
        rows.append(("model", f"{repository['id']}, {how}"))
    free = f"{amount(found.models['cache_free_bytes'])} free at {found.models['cache_filesystem']}"
    return [*rows, ("model disk", free)]


def rows(name: str, found: Findings, sparks: int) -> list[Row]:
    """Return the rows of one Spark of the cluster; name is the image's."""
    common = [*machine(found.spark), *engine(found.docker)]
    if found.role == "worker":
        return [*common, *fabric(found.rails, sparks), *received(name, found)]
    return [
        *common,
        *(fabric(found.rails, sparks) if found.role == "head" else []),
        *listening(found.docker),
        *image(name, found.docker, found.registry),
        *models(found.models, found.directories),
    ]


def problem_lines(problem: str) -> list[str]:
    """One problem as an item; lines that it has of its own are kept."""
    lines = [part for line in problem.splitlines() for part in textwrap.wrap(line, width() - 4, break_long_words=False)]
    return [("  - " if number == 0 else "    ") + line for number, line in enumerate(lines)]


def _numbered(of_one: t.Sequence[Row]) -> dict[tuple[str, int], str]:
    """Rows by name and how often the name was there before."""
    seen: dict[str, int] = {}
    result = {}
    for name, text in of_one:
        seen[name] = seen.get(name, -1) + 1
        result[name, seen[name]] = text
    return result


def side_by_side(columns: t.Sequence[t.Sequence[Row]]) -> list[str]:
    """Rows of the same name beside each other, each wrapped in its column."""
    tables = [_numbered(column) for column in columns]
    # Of two beside each other.
    cell = (width() - 2 - NAMES - 2) // 2
    keys = list(dict.fromkeys(key for column in tables for key in column))
    # A row that only one of them has stands behind the one it follows there.
    order = sorted(keys, key=lambda key: (_place(key[0], columns), key[1]))
    lines = []
    for key in order:
        cells = [textwrap.wrap(table.get(key, ""), cell) or [""] for table in tables]
        for number, parts in enumerate(itertools.zip_longest(*cells, fillvalue="")):
            label = "" if number or key[1] else key[0]
            lines.append(f"  {label:<{NAMES}}{'  '.join(f'{part:<{cell}}' for part in parts)}".rstrip())
    return lines


def _place(name: str, columns: t.Sequence[t.Sequence[Row]]) -> int:
    return max([row for row, _text in column].index(name) for column in columns if name in dict(column))


def _shared(said: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Sentences of several hosts, each once, with whose they are: often that is how they begin."""
    whose: dict[str, list[str]] = {}
    named = set()
    begins = tuple(f"{name}{end}" for name in said for end in " ,:")
    for host, sentences in said.items():
        for sentence in sentences:
            start, colon, rest = sentence.partition(": ")
            owners = re.split(", | and ", start)
            names, text = (owners, rest) if colon and said.keys() >= set(owners) else ([host], sentence)
            # The removed name is restored, because the rest may begin with another host's name.
            if text == sentence and text.startswith(begins):
                named.add(text)
            known = whose.setdefault(text, [])
            known += [name for name in names if name not in known]
    return [
        text if text in named else f"{join_words([name for name in said if name in names])}: {text}"
        for text, names in whose.items()
    ]


def _items(sentences: t.Iterable[str]) -> list[str]:
    return [line for sentence in sentences for line in problem_lines(sentence)]


def all_problems(hosts: t.Mapping[str, Findings | None]) -> list[str]:
    """Return the problems of all Sparks; each has a name if there are several."""
    if len(hosts) == 1:
        return [problem for host, found in hosts.items() if found for problem in obstacles(host, found)]
    return [
        *_unseen(hosts),
        *_shared({host: [*objection(found), *found.problems] for host, found in hosts.items() if found}),
    ]


def _unseen(hosts: t.Mapping[str, Findings | None]) -> list[str]:
    lost = "could not be checked; see the Ansible error above."
    return [f"{host} {lost}" for host, found in hosts.items() if not found]


def refusals(hosts: t.Mapping[str, Findings | None]) -> list[str]:
    """Return the problems as sentences that need no report around them: each names its Spark."""
    said = {host: [*objection(found, host), *found.problems] for host, found in hosts.items() if found}
    if len(hosts) > 1:
        return [*_unseen(hosts), *_shared(said)]
    problems = [problem for of_one in said.values() for problem in of_one]
    return problems if len(problems) == 1 else all_problems(hosts)


def refusal(problems: t.Sequence[str], left: str = "the running server was not touched") -> str:
    """Return the message of a refused run: one problem alone, several as a list."""
    if len(problems) == 1:
        return problems[0]
    items = [f"- {problem}".replace("\n", "\n  ") for problem in problems]
    return "\n".join([f"{len(problems)} problems; {left}:", *items])


def worth_knowing(hosts: t.Mapping[str, Findings | None]) -> list[str]:
    """Return the notes on what works but may surprise; equal ones of several hosts are merged."""
    notes = dict.fromkeys(note for host in hosts.values() if host for note in host.notes)
    return ["  Notes:", *(f"  {line}" for line in _items(notes))] if notes else []


def render(title: str, name: str, hosts: t.Mapping[str, Findings | None]) -> list[str]:
    """Return the whole report, a line each; name is the image's."""
    seen = {host: found for host, found in hosts.items() if found}
    lines = [*wrap_text(f"{join_words(list(hosts))}: preflight for {title}"), ""]
    if len(hosts) == 1:
        of_one = [row for found in seen.values() for row in rows(name, found, 1)]
        lines += [line for label, text in of_one for line in wrap_text(text, f"  {label:<{NAMES}}", " " * (2 + NAMES))]
    else:
        titles = [("", f"{host}{'' if found.role == 'alone' else f', {found.role}'}") for host, found in seen.items()]
        columns = [[title, *rows(name, found, len(hosts))] for title, found in zip(titles, seen.values())]
        # Two of them are as wide as a screen.
        for first in range(0, len(columns), 2):
            lines += [*([""] if first else []), *side_by_side(columns[first : first + 2])]
    plan = next((found.plan for found in seen.values() if found.plan), ())
    if plan:
        lines += ["", *(f"  {line}" if line else "" for line in plan)]
    notes = worth_knowing(hosts)
    # The problems are the reason with which the run ends, and are printed there.
    end = [] if all_problems(hosts) else ["", "No problems. Nothing was changed."]
    return [*lines, *[""] * bool(notes), *notes, *end]
