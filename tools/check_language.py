# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the words of pages, specs and titles against tools/language.yml. Run as: python -m tools.check_language.

Phrases in other files, such as comments, are a figure of tools/house.py, which may only fall.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
DATA = "tools/language.yml"
WRITTEN = ("*.py", "*.yml", "*.md", "*.j2", "*.sh")
READ = ("plugins", "roles", "playbooks", "docs", "tools", "inventory", "meta", "README.md", "CONTRIBUTING.md")
# The story prints a role or a file of tasks as a step.
STEPS = tuple(f"ansible.builtin.{verb}_{what}" for verb in ("include", "import") for what in ("role", "tasks"))
SPECS = ("plugins/*/*.py", "plugins/*/*.yml", "roles/*/meta/argument_specs.yml")
PROGRAMS = ("plugins/**/*.py", "roles/*/files/**/*.py", "tools/*.py", "tests/twin/**/*.py")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DESCRIPTIONS = ("short_description", "description", "details", "notes")
# Text whose words do not count: code, tables, headings, addresses.
NO_SENTENCE = re.compile(
    r"```.*?```|`[^`]*`|^\|.*?$|^#.*?$|^<!--.*?-->$|<https?://\S+>|\(https?://\S+\)", re.DOTALL | re.MULTILINE
)
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")


@dataclasses.dataclass(frozen=True)
class Rules:
    """The data file: phrases with their replacement, globs of pages, words that begin no text, and limits."""

    phrases: t.Mapping[str, str]
    pages: t.Sequence[str]
    beginnings: t.Mapping[str, t.Sequence[str]]
    limits: t.Mapping[str, int]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Match any phrase as whole words."""
        return re.compile(rf"(?<![\w-])(?:{'|'.join(self.phrases)})(?![\w-])", re.IGNORECASE)

    def instead(self, phrase: str) -> str:
        """Return what to write instead of a phrase that was found."""
        return next(use for rule, use in self.phrases.items() if re.fullmatch(rule, phrase, re.IGNORECASE))


def read_rules(root: Path = ROOT) -> Rules:
    """Read the data file."""
    return Rules(**yaml.safe_load((root / DATA).read_text(encoding="utf-8")))


def files(root: Path, *globs: str) -> list[str]:
    """Return the tracked files that match."""
    command = ["git", "ls-files", "--", *(f":(glob){glob}" for glob in globs)]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (root / name).is_file()]


def phrases(rules: Rules, root: Path = ROOT) -> t.Iterator[tuple[str, int, str]]:
    """Yield the phrases in all files that people read: file, line and phrase."""
    globs = [name if "." in name else f"{name}/**/{suffix}" for name in READ for suffix in WRITTEN]
    for name in sorted({*files(root, *globs)} - {DATA}):
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), start=1):
            yield from ((name, number, found[0]) for found in rules.pattern.finditer(line))


def named(value: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield all mappings with a name in a file of plays or tasks, also in loops."""
    if isinstance(value, list):
        for item in value:
            yield from named(item)
    elif isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value
        for key in ("tasks", "block", "rescue", "always", "loop", "pre_tasks", "post_tasks", "handlers"):
            yield from named(value.get(key))


def title_errors(rules: Rules, root: Path = ROOT) -> t.Iterator[str]:
    """Yield an error for each title that is too long for the lines of the story."""
    for name in files(root, "playbooks/*.yml", "playbooks/tasks/*.yml", "roles/*/tasks/*.yml"):
        for item in named(yaml.safe_load((root / name).read_text(encoding="utf-8"))):
            is_step = name.startswith("playbooks/") and ("role" in item or any(key in item for key in STEPS))
            kind = "step" if is_step else "task"
            if len(item["name"]) > rules.limits[kind] and "{{" not in item["name"]:
                yield f"{name}: the title of a {kind} has more than {rules.limits[kind]} characters: {item['name']}"


def sentence_errors(rules: Rules, root: Path = ROOT) -> t.Iterator[str]:
    """Yield an error for each sentence of a page that is too long."""
    for name in files(root, *(page for page in rules.pages if page.endswith(".md"))):
        text = NO_SENTENCE.sub(" ", (root / name).read_text(encoding="utf-8"))
        for sentence in SENTENCE_END.split(text):
            if len(words := sentence.split()) > rules.limits["sentence"]:
                yield f"{name}: {len(words)} words in one sentence: {' '.join(words[:8])} ..."


def specs(name: str, text: str) -> t.Iterator[t.Any]:
    """Yield the documentation of a plugin or a role."""
    if name.endswith(".yml"):
        yield yaml.safe_load(text)
        return
    for node in ast.walk(ast.parse(text)):
        target = getattr(node.targets[0], "id", "") if isinstance(node, ast.Assign) else ""
        # The parts of a fragment have names of their own.
        if target in ("DOCUMENTATION", "RETURN") or (target.isupper() and "/doc_fragments/" in name):
            yield yaml.safe_load(ast.literal_eval(t.cast("ast.Assign", node).value))


def descriptions(value: t.Any) -> t.Iterator[str]:
    """Yield all paragraphs of a documentation, which also has samples and defaults."""
    if isinstance(value, list):
        for item in value:
            yield from descriptions(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            texts = [item] if isinstance(item, str) else item
            if key in DESCRIPTIONS and isinstance(texts, list):
                yield from (text for text in texts if isinstance(text, str))
            elif key not in ("sample", "default"):
                yield from descriptions(item)


def description_errors(rules: Rules, root: Path = ROOT) -> t.Iterator[str]:
    """Yield an error for each sentence of a description that is too long or names no thing."""
    for name in files(root, *SPECS):
        for spec in specs(name, (root / name).read_text(encoding="utf-8")):
            for words in (part.split() for text in descriptions(spec) for part in SENTENCE_END.split(text)):
                if len(words) > rules.limits["sentence"]:
                    yield f"{name}: {len(words)} words in one sentence: {' '.join(words[:8])} ..."
                if words and words[0] in rules.beginnings["description"]:
                    yield f"{name}: begin with a noun or a verb: {' '.join(words[:8])} ..."


def docstring_errors(rules: Rules, root: Path = ROOT) -> t.Iterator[str]:
    """Yield an error for each docstring that begins with a clause instead of a noun or a verb."""
    for name in files(root, *PROGRAMS):
        for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
            text = (ast.get_docstring(node) or "") if isinstance(node, DOCUMENTED) else ""
            if text and text.split()[0] in rules.beginnings["docstring"]:
                yield f"{name}: begin the docstring with a noun or a verb: {text.splitlines()[0]}"


def returns_nothing(node: ast.AST) -> bool:
    """Return whether it is a class, or a function that has no value to return."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name == "__init__" or (isinstance(node.returns, ast.Constant) and node.returns.value is None)
    return isinstance(node, ast.ClassDef)


def return_errors(_rules: Rules, root: Path = ROOT) -> t.Iterator[str]:
    """Yield an error for each docstring that says "Return" of a class or of a function without a value."""
    for name in files(root, "plugins/**/*.py", "roles/**/*.py", "tools/**/*.py", "tests/**/*.py"):
        for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
            text = (ast.get_docstring(node) or "") if isinstance(node, DOCUMENTED) and returns_nothing(node) else ""
            if re.match(r"Returns?\b", text):
                yield f"{name}: {text.splitlines()[0]!r} is the docstring of what returns nothing"


def main(root: Path = ROOT) -> int:
    """Print the errors, and return whether there are any."""
    rules = read_rules(root)
    pages = set(files(root, *rules.pages))
    errors = [
        f"{name}:{number}: {phrase!r}; write: {rules.instead(phrase)}"
        for name, number, phrase in phrases(rules, root)
        if name in pages
    ]
    for check in (title_errors, sentence_errors, description_errors, docstring_errors, return_errors):
        errors += check(rules, root)
    print("\n".join(errors) if errors else "The pages, specs and titles follow the glossary.")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
