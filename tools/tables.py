# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generate the tables in docs/ and in the READMEs of roles from their data.

Run as: make docs

A table, a list of entries or an example is between `<!-- name -->` and `<!-- end -->`. The table of a role's inputs has
the role's name. --check only names the pages that are out of date.
"""

from __future__ import annotations

import argparse
import functools
import sys
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.methods import (
    NOT_OFFERED,
    ROWS,
    Method,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.releases import in_words
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.schema import FAMILIES
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.spelling import (
    NAME,
    SPELLINGS,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.vocabulary import SPECULATION
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.spelling import SPELLINGS as OF_VLLM
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import load, shipped
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.table import COLUMNS, cells, figure

from tools import clients, examples, first_inputs, recovery
from tools.role_inputs import SPECIFICATIONS, inputs
from tools.troubleshooting import known_issues, problems

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    *sorted((ROOT / "docs").glob("*.md")),
    *(path.parents[1] / "README.md" for role, path in SPECIFICATIONS.items() if inputs(role)),
)

EVIDENCE = {
    "published": "published by its source",
    "reported": "reported on a Spark",
    "rendered": "rendered only",
}

# Columns of figures: the key of a recipe, and the unit.
FIGURES = {
    "download": ("download_gb", "GB"),
    "memory": ("memory_gb", "GB"),
    "speed": ("tokens_per_second", "tokens/s"),
}

Rows = t.Iterable[t.Sequence[str]]


def table(heading: t.Sequence[str], rows: Rows) -> str:
    """Return rows of cells as a Markdown table."""
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (heading, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(heading)}", *lines[1:]])


def listed(words: t.Iterable[str]) -> str:
    """Return words as code, separated by commas."""
    return ", ".join(f"`{word}`" for word in words)


def recipes() -> str:
    """Return the table of the shipped recipes with their sources."""
    rows = []
    for path in shipped(ROOT / "playbooks" / "recipes").values():
        recipe = load(path)
        name, *others = cells(recipe)
        figures = (figure(recipe, key, unit) for key, unit in FIGURES.values())
        rows.append(
            (
                f"[`{name}`](../playbooks/recipes/{name}.yml)",
                *others,
                *(f"[{text}]({source})" if text else "-" for text, source in figures),
                EVIDENCE[recipe["evidence"]],
                f"[source]({recipe['source']})",
            )
        )
    return table((*COLUMNS, *FIGURES, "evidence", "source"), rows)


def options_only(row: Method) -> str:
    """Return what TensorRT-LLM calls a method that is not offered for it, with the first release known to have it."""
    kind = row.options_only.get(NAME)
    for family in FAMILIES:
        section = family["sections"].get(family["sections"][SPECULATION]["variants"].get(kind))
        if section:
            return f"`{kind}`, in `options` only, from {section.get('since', family['known'][0])} on"
    return "-"


def methods() -> str:
    """Return the table of the methods: description, draft model, and what each engine calls them.

    The description of a method that no recipe can name has the reason.
    """
    needs = {None: "none", "head": "draft head", "model": "model", "assistant": "some targets have one"}
    rows = [
        (
            f"`{name}`",
            row.words,
            row.description + (f"; no value of `method`: {row.not_offered}" if name in NOT_OFFERED else ""),
            needs[row.draft_model],
            listed(dict.fromkeys(SPELLINGS[name].decoding_type.values())) if name in SPELLINGS else options_only(row),
            f"`{OF_VLLM[name].method}`" if name in OF_VLLM else "-",
        )
        for name, row in ROWS.items()
    ]
    return table(("method", "name", "description", "draft model", "TensorRT-LLM", "vLLM"), rows)


def families() -> str:
    """Return the table of the families: releases, and spelling of the engine options."""
    rows = []
    for number, family in enumerate(FAMILIES):
        types = [kind for spelling in SPELLINGS.values() if (kind := spelling.in_family(family))]
        releases = ", ".join([in_words(number), *(f"`{tag}` (a moving tag)" for tag in family["tags"])])
        rows.append(
            (family["name"], releases, " and ".join(family["known"]), listed([*types, family["draft_model_key"]]))
        )
    return table(("family", "releases", "written for", "spelling"), rows)


def promises() -> str:
    """Return the table of the classes of faults: time until the server works again, and the action of a user."""
    return table(("fault", "one Spark", "two Sparks", "your action"), recovery.rows())


def role_inputs(role: str) -> str:
    """Return the inputs of a role with their meaning."""
    return table(("input", "default", "meaning"), inputs(role))


TABLES: dict[str, t.Callable[[], str]] = {
    "recipes": recipes,
    "methods": methods,
    "families": families,
    "promises": promises,
    "faults": recovery.faults,
    "problems": problems,
    "known_issues": known_issues,
    "benchmark_example": examples.benchmark,
    "addresses_example": examples.addresses,
    "clients": lambda: table(("package", "version", "tried"), clients.packages()),
    "vllm_deviations": lambda: table((f"route of vLLM {clients.VLLM}", "difference"), clients.deviations()),
    "first_inputs": lambda: table(("input", "default", "meaning"), first_inputs.first()),
    "input_roles": lambda: table(("role", "inputs"), first_inputs.roles()),
    **{role: functools.partial(role_inputs, role) for role in SPECIFICATIONS if inputs(role)},
}


def written(text: str) -> str:
    """Return the text of a page with current tables."""
    for name, make in TABLES.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _old, end, behind = rest.partition("<!-- end -->")
        text = f"{before}{begin}\n{make()}\n\n{end}{behind}" if end else text
    return text


def main(arguments: t.Sequence[str] | None = None) -> int:
    """Write the pages, or with --check name those that are out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.tables", description="The tables of the pages in docs/.")
    parser.add_argument("--check", action="store_true", help="only name the pages that are out of date")
    check = parser.parse_args(arguments).check
    stale = 0
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = written(before)
        if after != before and check:
            print(f"{page} does not show what its data say: make docs", file=sys.stderr)
            stale += 1
        elif after != before:
            page.write_text(after, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
