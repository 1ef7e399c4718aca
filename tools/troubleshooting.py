# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generate the entries of docs/troubleshooting.md: known problems and known issues, each with its id as an anchor."""

from __future__ import annotations

import re
import textwrap
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.problem import (
    DOCKER,
    INFORMATION,
    JOB,
    KERNEL,
    LOG,
    MACHINE,
    MEMORY_LOG,
    RECORD,
    WARNING,
    KnownProblem,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._problems.catalogue import CATALOGUE
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.known_issues import KnownIssue, Values
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES

WIDTH = 100
# Titles of the page in order, each with the places of evidence of its problems.
SECTIONS = {
    "Docker and the container": (DOCKER,),
    "The Spark": (MACHINE,),
    "The kernel's log": (KERNEL,),
    "Downloads of images and models": (JOB,),
    "The server's log": (LOG,),
    "The deployment": (RECORD, MEMORY_LOG),
}
HARMLESS = {WARNING: "The server runs.", INFORMATION: "The server runs, and this is often taken for an error."}
# Warnings that do not mean that a server runs.
SERVERLESS = ("stopped", "download_under_way")
THREAD = re.compile(r"\b([\w.-]+/[\w.-]+) (issue|pull request) (\d+)\b")


def item(name: str, text: str) -> str:
    """Return a text as a list item. Code stays on one line, so that a search finds it."""
    whole = re.sub("`[^`]+`", lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        f"- **{name}:** {whole}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\0", " ")


def entry(anchor: str, title: str, rows: t.Iterable[tuple[str, str]]) -> str:
    """Return a title with an anchor, and the items with a text below it."""
    items = "\n".join(item(name, text) for name, text in rows if text)
    return f'### <a id="{anchor}"></a>{title}\n\n{items}'


def prose(text: str) -> str:
    """Convert a sentence of the catalogue to Markdown: quoted commands become code, and placeholders are escaped."""
    parts = re.split(r"(?<!\w)'([^']+)'(?!\w)", text)
    return "".join(f"`{part}`" if number % 2 else part.replace("<", r"\<") for number, part in enumerate(parts))


def code(words: t.Iterable[t.Any]) -> str:
    """Return words as code, joined with or."""
    return " or ".join(f"`{word}`" for word in words)


def linked(source: str) -> str:
    """Return a source with a link for each thread that it names."""

    def link(found: re.Match[str]) -> str:
        kind = "issues" if found[2] == "issue" else "pull"
        return f"[{found[0]}](https://github.com/{found[1]}/{kind}/{found[3]})"

    return THREAD.sub(link, source)


def symptom(row: KnownProblem) -> str:
    """Return the symptom of a problem."""
    texts = [text.strip() for text in (*row.substrings, row.pattern) if text]
    shown = f"a message or log contains {code(texts)}" if texts else f"`diagnose.yml` reports `{row.id}`"
    return f"{shown}. {HARMLESS[row.severity]}" if row.severity in HARMLESS and row.id not in SERVERLESS else shown


def problems() -> str:
    """Return the entries of the known problems, by place of evidence."""
    parts = []
    for title, places in SECTIONS.items():
        parts.append(f"## {title}")
        for row in CATALOGUE:
            if row.where in places:
                rows = (("Symptom", symptom(row)), ("Fix", prose(row.fix)), ("Source", linked(row.source)))
                parts.append(entry(row.id, prose(row.cause), rows))
    return "\n\n".join(parts)


def span(first: t.Any, last: t.Any) -> str:
    """Return a range of versions as text. It may be open."""
    if first == last:
        return str(first)
    return f"{first} to {last}" if last else f"{first} and later"


def options(values: Values, conjunction: str) -> str:
    """Return engine options with their values in YAML's spelling. Null means that the option is not set."""
    rows = []
    for path, found in values.items():
        words = ["not given" if one is None else str(one).lower() if isinstance(one, bool) else one for one in found]
        rows.append(f"`{path}` is {code(words)}")
    return conjunction.join(rows)


def applies(issue: KnownIssue) -> str:
    """Return the deployments with a known issue as text."""
    facts = [
        f"releases {span(issue.first, issue.last)}" if issue.first else "",
        f"NCCL {span(*issue.nccl)}" if issue.nccl else "",
        f"method `{issue.method}`" if issue.method else "",
        f"target models that match `{issue.models}`" if issue.models else "",
        f"{issue.sparks} or more Sparks" if issue.sparks > 1 else "",
        options(issue.options, " and "),
    ]
    unless = f", unless {options(issue.unless, ' or ')}" if issue.unless else ""
    return ("; ".join(filter(None, facts)) or "any deployment") + unless


def known_issue(issue: KnownIssue) -> str:
    """Return the entry of a known issue."""
    rows = (
        ("Applies to", applies(issue)),
        ("Effect", prose(f"{issue.message}.")),
        ("Refused by the API proxy", ", ".join(f"`{name}`" for name in issue.refuse)),
        ("Source", f"<{issue.url}>"),
    )
    return entry(issue.id, f"`{issue.id}`", rows)


def known_issues() -> str:
    """Return the entries of the known issues, by engine."""
    parts = []
    for engine in ENGINES.values():
        parts += [f"## Known issues of {engine.words}", *map(known_issue, engine.known_issues)]
    return "\n\n".join(parts)
