# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the complexity of the collection in figures that may fall but not rise.

Run as: python -m tools.house

This is a ratchet: tools/house.yml has the recorded figures. If a figure has risen, reduce it. If it has fallen, record
it with: python -m tools.house --record. Comments, recipes and meta/ of roles do not count.

Each figure is defined at the function that measures it. Figures that need a run (such as the time of make test) or a
judgement (such as the effort of a new recipe) are not included. Ruff and import-linter, set in pyproject.toml, check
the length of functions and the imports.
"""

from __future__ import annotations

import argparse
import ast
import collections
import dataclasses
import re
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import yaml

from tools import check_language

ROOT = Path(__file__).resolve().parent.parent
RECORD = "tools/house.yml"
REMEDY = "Write it down: python -m tools.house --record."
RISEN = "What is meant to stay is written down in the same way."
HEADER = """---
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The figures of tools/house.py, which may fall and may not rise. Written by: python -m tools.house --record
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef

MODULE_LINES = 350
EQUAL_LINES = 3
TASK_LINES = 70
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}

INTERNAL = re.compile(r"(?<![\w.])__[a-z]\w+")
# Code that depends on the Spark's position: the rank, a place in a list of hosts, a delegated task.
POSITION = re.compile(
    r"\brank\b"
    r"|\bgroups\[|\bansible_play_hosts(?:_all)?(?:\[| *\| *(?:first|last|length))"
    r"|\bdelegate_to: *(?!localhost)\S"
)

# Names of engines, each of which has a package, a role and plugins of its own, and of a launcher of ranks.
ENGINE = re.compile(r"trt_?llm|tensor_?rt|trt-llm|vllm", re.IGNORECASE)
LAUNCHER = re.compile(r"\bmpirun|\bprterun|open.?mpi|\bompi_", re.IGNORECASE)
ENGINE_OWN = re.compile(
    r"^plugins/(?:module|plugin)_utils/_engines/(?:registry|tensorrt_llm\b|vllm\b)"
    r"|^plugins/(?:action|modules)/trtllm_config\.py|^roles/trtllm_container/"
    r"|^roles/speculative_serve/files/(?:server/engines|option_check)/|^roles/speculative_serve/templates/serve_\w+\.sh"
)
LAUNCHER_OWN = re.compile(rf"{ENGINE_OWN.pattern}|^roles/speculative_serve/files/server/launchers/mpi/")
# Citations, which are documentation: this module, and a position in each row of the catalogue.
CITATIONS = "_data.source"
ROW, CITATION = "KnownProblem", 4

Graph = dict[str, set[str]]


class Measured(t.NamedTuple):
    """A figure and its places. They have no line numbers, so that other changes of a file do not move them."""

    value: int
    places: list[str]


@dataclasses.dataclass(frozen=True)
class Figure:
    """Something to keep small: its name, as in `there are 12 ...`, and its aim."""

    words: str
    aim: int
    measure: t.Callable[[Path], Measured]


def count(places: t.Iterable[str]) -> Measured:
    """Count the places."""
    found = sorted(places)
    return Measured(len(found), found)


# Files


def texts(root: Path, *patterns: str) -> dict[str, str]:
    """Return the texts of the files by their paths below the root."""
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(found)}


def ansible_files(root: Path, *suffixes: str) -> dict[str, str]:
    """Return the files of roles and playbooks, without recipes, which are data, and specs, which are documentation."""
    patterns = [f"{folder}/**/*{suffix}" for folder in ("roles", "playbooks") for suffix in suffixes or (".yml",)]
    without = re.compile(r"^playbooks/recipes/|/meta/")
    return {name: text for name, text in texts(root, *patterns).items() if not without.search(name)}


def lines(files: dict[str, str]) -> t.Iterator[tuple[str, str]]:
    """Yield the lines with their file, without blank lines and comments."""
    for name, text in files.items():
        for line in text.splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield name, line.strip()


def python_files(root: Path) -> dict[str, str]:
    """Return the Python files that run on a user's machines."""
    return texts(root, "plugins/**/*.py", "roles/*/files/**/*.py")


# Roles


def mappings(node: yaml.Node | None) -> t.Iterator[tuple[str, yaml.Node]]:
    """Yield each key of a YAML document with its value, at any depth."""
    for child in node.value if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) else ():
        if isinstance(child, tuple):
            yield child[0].value, child[1]
            yield from mappings(child[1])
        else:
            yield from mappings(child)


def scalars(node: yaml.Node) -> t.Iterator[yaml.Node]:
    """Yield the scalar values of a YAML node, at any depth."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    for child in node.value if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) else ():
        yield from scalars(child[1] if isinstance(child, tuple) else child)


def definitions(root: Path) -> t.Iterator[tuple[str, str, list[str]]]:
    """Yield the variables that vars/ of roles, `vars:` and `set_fact` define: name, file and sources of the values."""
    for file, text in ansible_files(root).items():
        document = yaml.compose(text, Loader=yaml.SafeLoader)
        blocks = [value for key, value in mappings(document) if key == "vars" or key.endswith("set_fact")]
        if re.search(r"^roles/\w+/vars/", file) and document is not None:
            blocks.append(document)
        for block in blocks:
            for key, value in block.value if isinstance(block, yaml.MappingNode) else ():
                yield key.value, file, [text[one.start_mark.index : one.end_mark.index] for one in scalars(value)]


def role_inputs(root: Path) -> set[str]:
    """Return the inputs of all roles. A variable with such a name is passed to a role, not internal."""
    specifications = texts(root, "roles/*/meta/argument_specs.yml").values()
    documents = [yaml.compose(text, Loader=yaml.SafeLoader) for text in specifications]
    options = [value for document in documents for key, value in mappings(document) if key == "options"]
    return {key.value for option in options if isinstance(option, yaml.MappingNode) for key, _ in option.value}


def exports(root: Path) -> set[str]:
    """Return the documented exports of all roles, which a test compares with the tasks."""
    parsed = [ast.parse(text) for text in texts(root, "plugins/plugin_utils/_recipe/inputs.py").values()]
    found = [node for module in parsed for node in module.body if isinstance(node, ast.Assign)]
    values = [ast.literal_eval(node.value) for node in found if ast.unparse(node.targets[0]) == "OUTPUTS"]
    return {name for value in values for name in value}


def inputs(root: Path) -> Measured:
    """Measure the inputs of roles: options with the role's own prefix in its specs, without those for other roles."""
    found = set()
    for name, text in texts(root, "roles/*/meta/argument_specs.yml").items():
        entries = yaml.safe_load(text)["argument_specs"].values()
        own = f"{name.split('/')[1]}_"
        found |= {option for entry in entries for option in entry.get("options", {}) if option.startswith(own)}
    return count(name for name in found if not name.endswith("_handover"))


def role_variables(root: Path) -> Measured:
    """Measure the internal variables: `__x`, and other names from `vars:` and `set_fact`.

    Inputs of roles and documented exports do not count.
    """
    said = {name for _, line in lines(ansible_files(root, ".yml", ".j2")) for name in INTERNAL.findall(line)}
    defined = {name for name, _, _ in definitions(root) if not name.startswith(("ansible_", "cacheable"))}
    return count(said | (defined - role_inputs(root) - exports(root)))


def jinja_lines(root: Path) -> Measured:
    """Measure the lines of the longest Jinja value in vars/, `vars:` or `set_fact`."""
    longest: dict[str, int] = {}
    for name, file, sources in definitions(root):
        for source in sources:
            if "{{" in source or "{%" in source:
                body = [line for line in source.splitlines() if line.strip() and not re.fullmatch(r"[>|][+-]?", line)]
                longest[f"{file}: {name}"] = max(len(body), longest.get(f"{file}: {name}", 0))
    value = max(longest.values(), default=0)
    return Measured(value, [name for name, size in longest.items() if size == value])


def role_edges(root: Path) -> Graph:
    """Return the roles that each role names: by a variable (`other_x`, `__other_x`) or by name, outside of meta/."""
    roles = sorted(path.name for path in root.glob("roles/*") if path.is_dir())
    edges: Graph = {role: set() for role in roles}
    for name, line in lines(ansible_files(root, ".yml", ".j2")):
        here = name.split("/")[1]
        for other in roles if name.startswith("roles/") else ():
            if other != here and re.search(rf"(?<![\w.])(?:__)?{other}_[a-z]|\.speculative\.{other}\b", line):
                edges[here].add(other)
    return edges


def role_arrows(root: Path) -> Measured:
    """Measure the pairs of roles of which one names the other."""
    return count(f"{role} names {other}" for role, others in role_edges(root).items() for other in others)


def role_group(root: Path) -> Measured:
    """Measure the largest group of roles that all reach each other (a strongly connected component)."""
    largest: set[str] = max(groups(role_edges(root)), key=len, default=set())
    return count(largest)


def groups(graph: Graph) -> list[set[str]]:
    """Split a graph into its strongly connected components."""
    reach = {start: reachable(graph, start) for start in graph}
    return [set(group) for group in {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in graph}]


def reachable(graph: Graph, start: str) -> set[str]:
    """Return the nodes that can be reached, the start included."""
    found, todo = {start}, [start]
    while todo:
        new = graph.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def position_lines(root: Path) -> Measured:
    """Measure the lines that depend on head, worker, rank or position, or delegate to a Spark, without hostvars."""
    said = [(name, line) for name, line in lines(ansible_files(root, ".yml", ".j2")) if "hostvars" not in line]
    return count(f"{name}: {line}" for name, line in said if POSITION.search(line) and not line.startswith("- name:"))


def hostvars_lines(root: Path) -> Measured:
    """Measure the lines of YAML and templates that read another host's variables."""
    return count(f"{name}: {line}" for name, line in lines(ansible_files(root, ".yml", ".j2")) if "hostvars" in line)


def serve_tasks(root: Path) -> Measured:
    """Measure the task files of the role speculative_serve."""
    return count(texts(root, "roles/speculative_serve/tasks/**/*.yml"))


def long_tasks(root: Path) -> Measured:
    """Measure the task files of more than 70 lines, in roles and playbooks."""
    found = texts(root, "roles/*/tasks/**/*.yml", "playbooks/tasks/*.yml")
    return count(name for name, text in found.items() if len(text.splitlines()) > TASK_LINES)


# Plugins


def modules(root: Path) -> Measured:
    """Measure the files in plugins/modules."""
    return count(texts(root, "plugins/modules/*.py"))


def filters(root: Path) -> Measured:
    """Measure the Python files in plugins/filter."""
    return count(texts(root, "plugins/filter/*.py"))


def long_modules(root: Path) -> Measured:
    """Measure the modules and actions of more than 350 lines, without DOCUMENTATION, EXAMPLES and RETURN."""
    found = texts(root, "plugins/modules/*.py", "plugins/action/*.py")
    return count(name for name, text in found.items() if len(code(text).splitlines()) > MODULE_LINES)


def code(text: str) -> str:
    """Return a plugin without its documentation."""
    kept = dict(enumerate(text.splitlines(), 1))
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & DOCUMENTATION:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                del kept[line]
    return "\n".join(kept.values())


# Functions


class Renamed(ast.NodeTransformer):
    """Name arguments and local variables of a function by the order in which they appear; remove annotations."""

    def __init__(self, function: Function) -> None:
        parts = list(ast.walk(function))
        self._local = {part.arg for part in parts if isinstance(part, ast.arg)}
        self._local |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        self._names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = self._names.setdefault(node.id, f"_{len(self._names)}") if node.id in self._local else node.id
        return ast.Name(name, node.ctx)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value, lineno=0) if node.value else ast.Pass()


def normalized_body(function: Function) -> str:
    """Return the statements of a function, without documentation and names of its own."""
    renamed = Renamed(function)
    body = [renamed.visit(part) for part in function.body if not is_documentation(part)]
    return "\n".join(map(ast.unparse, body))


def equal_functions(root: Path) -> Measured:
    """Measure the functions of three lines or more whose body another function has, too."""
    places: dict[str, list[str]] = collections.defaultdict(list)
    for name, text in python_files(root).items():
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, Function):
                body = normalized_body(part)
                places[body if len(body.splitlines()) >= EQUAL_LINES else ""].append(f"{name}: {part.name}")
    places.pop("", None)
    return count(place for equal in places.values() if len(equal) > 1 for place in equal)


# Engines


class Undocumented(ast.NodeTransformer):
    """Remove docstrings, the documentation of plugins, and citations."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if getattr(node.func, "id", "") == ROW:
            del node.args[CITATION:]
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not is_documentation(part)] or [ast.Pass()]  # type: ignore[attr-defined]
        return super().generic_visit(node)


def is_documentation(node: ast.AST) -> bool:
    """Return whether a statement is a text by itself, the documentation of a plugin, or imports citations."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").endswith(CITATIONS)
    if isinstance(node, ast.Assign):
        return bool({getattr(target, "id", "") for target in node.targets} & DOCUMENTATION)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def engine_lines(root: Path) -> Measured:
    """Measure the lines of code that name an engine or a launcher outside of what is its own."""
    code = {
        name: text
        for name, text in python_files(root).items()
        if not name.endswith(f"{CITATIONS.replace('.', '/')}.py")
    }
    files = {name: ast.unparse(Undocumented().visit(ast.parse(text))) for name, text in code.items()}
    files |= ansible_files(root, ".yml", ".j2")
    rules = ((ENGINE, ENGINE_OWN), (LAUNCHER, LAUNCHER_OWN))
    return count(
        f"{name}: {line}"
        for name, line in lines(files)
        if any(names.search(line) and not own.search(name) for names, own in rules)
    )


# The front page


def readme_lines(root: Path) -> Measured:
    """Measure the lines of README.md."""
    return Measured(len((root / "README.md").read_text(encoding="utf-8").splitlines()), [])


def readme_words(root: Path) -> Measured:
    """Measure the words of README.md, as wc counts them."""
    return Measured(len((root / "README.md").read_text(encoding="utf-8").split()), [])


# Words


def foreign_phrases(root: Path) -> Measured:
    """Measure the phrases of tools/language.yml in all files."""
    rules = check_language.read_rules(root)
    return count(f"{name}: {phrase}" for name, _number, phrase in check_language.phrases(rules, root))


FIGURES = {
    "inputs": Figure("inputs of roles", 140, inputs),
    "role_variables": Figure("internal role variables", 100, role_variables),
    "jinja_lines": Figure("lines of Jinja in the longest variable", 3, jinja_lines),
    "role_edges": Figure("role-to-role edges", 8, role_arrows),
    "role_group": Figure("roles in the largest group that need each other", 1, role_group),
    "position_lines": Figure("lines of YAML that ask head, paired, rank or position", 8, position_lines),
    "hostvars_lines": Figure("lines of YAML with hostvars", 2, hostvars_lines),
    "modules": Figure("modules", 22, modules),
    "filters": Figure("filters", 3, filters),
    "serve_tasks": Figure("task files of speculative_serve", 12, serve_tasks),
    "long_modules": Figure(
        f"modules and actions of more than {MODULE_LINES} lines without documentation", 0, long_modules
    ),
    "long_tasks": Figure(f"task files of more than {TASK_LINES} lines", 0, long_tasks),
    "equal_functions": Figure("functions whose body another one has, too", 0, equal_functions),
    "engine_lines": Figure("lines of code that name an engine outside its own package", 0, engine_lines),
    "readme_lines": Figure("lines of README", 100, readme_lines),
    "readme_words": Figure("words of README", 700, readme_words),
    "foreign_phrases": Figure("phrases that tools/language.yml replaces", 0, foreign_phrases),
}


# The ratchet


def judge(key: str, now: Measured, recorded: int | None, before: t.Sequence[str] = ()) -> str:
    """Return a sentence about a changed figure, and its new places; an empty text if it is unchanged."""
    words = FIGURES[key].words
    if recorded is None:
        return f"{key}: nothing is written down of the {words}, of which there are {now.value}. {REMEDY}"
    if now.value < recorded:
        return f"{key}: the {words} have fallen from {recorded} to {now.value}: good. {REMEDY}"
    if now.value == recorded:
        return ""
    new = (collections.Counter(now.places) - collections.Counter(before)).elements() if before else ()
    sentence = (
        f"{key}: the {words} have risen from {recorded} to {now.value}: take as much away, or say why not. {RISEN}"
    )
    return "\n".join([sentence, *(f"    new: {place}" for place in new)])


def places_then(root: Path, keys: t.Collection[str]) -> dict[str, list[str]]:
    """Return the places of the figures in the commit that last recorded them; nothing without such a commit."""
    git = ["git", "-c", "safe.directory=*", "-C", str(root)]
    log = subprocess.run([*git, "log", "-1", "--format=%H", "--", RECORD], capture_output=True, text=True)
    if not keys or not log.stdout.strip():
        return {}
    archive = subprocess.run([*git, "archive", log.stdout.strip()], check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)
        # Some figures are of the files that Git knows.
        for command in (["init", "--quiet"], ["add", "--all"]):
            subprocess.run(["git", "-C", folder, *command], check=True)
        return {key: FIGURES[key].measure(Path(folder)).places for key in keys}


def read_record(root: Path) -> dict[str, int]:
    """Read the recorded figures."""
    path = root / RECORD
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


def write_record(root: Path, measured: dict[str, Measured]) -> None:
    """Record the figures."""
    body = "".join(f"{key}: {now.value}\n" for key, now in measured.items())
    (root / RECORD).write_text(HEADER + body, encoding="utf-8")


def table(measured: dict[str, Measured], recorded: dict[str, int]) -> str:
    """Return a table of the figures with their recorded values and aims."""
    rows = [("figure", "now", "recorded", "aim")]
    rows += [
        (FIGURES[key].words, str(now.value), str(recorded.get(key, "-")), str(FIGURES[key].aim))
        for key, now in measured.items()
    ]
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{words:{width}} {now:>6} {then:>9} {aim:>5}" for words, now, then, aim in rows)


def main(arguments: t.Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Print the table. Return 1 if a figure differs from the recorded one, or record all of them."""
    parser = argparse.ArgumentParser(prog="python -m tools.house", description="The figures of the house.")
    parser.add_argument("--record", action="store_true", help=f"write today's figures into {RECORD}")
    parser.add_argument("--places", metavar="FIGURE", choices=FIGURES, help="list where one figure comes from")
    args = parser.parse_args(arguments)
    if args.places:
        print("\n".join(FIGURES[args.places].measure(root).places))
        return 0
    measured = {key: figure.measure(root) for key, figure in FIGURES.items()}
    recorded = read_record(root)
    print(table(measured, recorded))
    if args.record:
        write_record(root, measured)
        return 0
    before = places_then(root, [key for key, now in measured.items() if now.value > recorded.get(key, now.value)])
    wrong = [judge(key, now, recorded.get(key), before.get(key, ())) for key, now in measured.items()]
    print("\n".join(filter(None, wrong)), file=sys.stderr, end="\n" if any(wrong) else "")
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
