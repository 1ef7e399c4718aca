# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the arguments of tasks for this collection's modules against documentation and specs; no linter does."""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.action import benchmark, report
from ansible_collections.dgx_spark.speculative.plugins.action.deployment_plan import QUERIES
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._query.query import query_spec

ROOT = Path(__file__).parents[3]
PREFIX = "dgx_spark.speculative."
FILES = sorted(
    [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("tests/system/**/*.yml")]
)


PLUGINS = sorted([*ROOT.glob("plugins/*/*.py"), *ROOT.glob("plugins/*/*.yml")])
# Actions without a module, whose documentation leaves out suboptions.
SPECS = {
    "benchmark": benchmark.OPERATIONS,
    "deployment_plan": {name: query_spec(forms) for name, forms in QUERIES.items()},
    "report": report.REPORTS,
}


def documented(path: Path) -> dict[str, t.Any]:
    """The DOCUMENTATION of a module, or of a fragment, which has it in a class."""
    assigned = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Assign))
    text = next(node.value for node in assigned if getattr(node.targets[0], "id", "") == "DOCUMENTATION")
    return dict(yaml.safe_load(ast.literal_eval(text)))


def options(module: str) -> dict[str, t.Any]:
    own = documented(ROOT / "plugins" / "modules" / f"{module}.py")
    found = dict(own.get("options") or {})
    for name in own.get("extends_documentation_fragment", []):
        # A fragment may have parts, of which only the attributes' one has any.
        fragment = documented(ROOT / "plugins" / "doc_fragments" / f"{name.removeprefix(PREFIX).partition('.')[0]}.py")
        found |= fragment.get("options") or {}
    for name, spec in SPECS.get(module, {}).items():
        found[name] = {**found[name], "suboptions": suboptions(spec)}
    return found


def suboptions(spec: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the suboptions of an argument spec in the form of a documentation."""
    return {name: {**part, "suboptions": suboptions(part)} for name, part in spec.get("options", {}).items()}


def tasks(of: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Every mapping that may be a task, also inside of blocks and plays."""
    if isinstance(of, dict):
        yield of
    for each in of.values() if isinstance(of, dict) else of if isinstance(of, list) else ():
        yield from tasks(each)


def unknown(given: t.Any, known: dict[str, t.Any], path: str = "") -> list[str]:
    """The options that are given and not there; what is a template as a whole is not looked into."""
    found = []
    for name, value in given.items() if isinstance(given, dict) else ():
        if name not in known:
            found.append(f"{path}{name}")
        elif known[name].get("suboptions"):
            for each in value if isinstance(value, list) else [value]:
                found += unknown(each, known[name]["suboptions"], f"{path}{name}.")
    return found


def wrong_arguments(content: t.Any) -> list[str]:
    """Return the arguments in a file of tasks or plays that are no options of their modules."""
    return [
        f"{name}: {', '.join(found)}"
        for task in tasks(content)
        for name, given in task.items()
        if str(name).startswith(PREFIX) and (ROOT / "plugins/modules" / f"{name.removeprefix(PREFIX)}.py").exists()
        if (found := unknown(given, options(name.removeprefix(PREFIX))))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_argument_is_an_option_of_its_module(path: Path) -> None:
    assert wrong_arguments(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def examples(path: Path) -> t.Any:
    """Return the tasks that the documentation of a plugin shows."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yml":
        return yaml.safe_load(yaml.safe_load(text)["EXAMPLES"])
    assigned = (node for node in ast.parse(text).body if isinstance(node, ast.Assign))
    found = [node.value for node in assigned if getattr(node.targets[0], "id", "") == "EXAMPLES"]
    return [task for node in found for task in yaml.safe_load(ast.literal_eval(node)) or []]


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_argument_of_an_example_is_an_option_of_its_module(path: Path) -> None:
    assert wrong_arguments(examples(path)) == []


def test_an_argument_that_is_none_is_found() -> None:
    (wrong,) = unknown({"gather": ["records"], "host": "spark-1"}, options("deployment_info"))
    assert wrong == "host"
    container = {"name": "web", "publish": {"network": "bridge", "host": "spark-1"}}
    found = unknown({"placement": {"container": container}}, options("deployment_plan"))
    assert found == ["placement.container.publish.host"]
