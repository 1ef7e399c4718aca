# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What README.md and docs/ say of this repository: links that lead somewhere, names of what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.inputs import HANDED_OVER, OUTPUTS, inputs

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("roles/*/README.md")])
PLAYBOOKS = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
# Others import these.
INNER = {"request", "require_sparks"}
INPUTS = inputs(ROOT / "roles")


def anchor(heading: str) -> str:
    """What a heading is called in a link, as GitHub has it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, place = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    if not place:
        return True
    text = target.read_text(encoding="utf-8")
    return place in (*map(anchor, re.findall(r"^#+ (.*)", text, re.M)), *re.findall(r'<a id="([^"]+)"></a>', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not leads_somewhere(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_playbooks_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"\bplaybooks/(\w+)\.yml", page.read_text(encoding="utf-8")))
    assert named <= PLAYBOOKS


def test_each_playbook_is_explained() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    said = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert sorted(name for name in PLAYBOOKS - INNER if not re.search(rf"\b{name}(?:\.yml|`)", said)) == []


def test_modules_with_common_defaults_exist_and_are_explained() -> None:
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    for group, modules in groups.items():
        assert f"group/dgx_spark.speculative.{group}:" in page
        assert [name for name in modules if f"| `{name}` |" not in page] == []


def test_the_list_of_plugins_says_which_are_internal() -> None:
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    public = {
        name for row in re.findall(r"^\| (`\w+`[^|]*)\|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    described = {
        path.stem: line
        for path in [*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/lookup/*.py")]
        for line in re.findall(r"^short_description: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {name for name, line in described.items() if not line.endswith(" (internal)")} == public & described.keys()


def test_the_readme_leads_to_each_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted(ROOT.glob("docs/*.md")) if f"](docs/{page.name})" not in readme] == []


def test_the_readme_shows_the_last_step_of_a_run() -> None:
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/deploy.yml").read_text(encoding="utf-8"))
    (steps,) = [task["block"][0]["loop"] for task in tasks if "block" in task]
    *_earlier, last = [step["name"] for step in steps if step["of"] == "all"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^(?:ok|changed) +(\S.*?)  ", readme, re.MULTILINE) == [last]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_inputs_that_are_named_exist(page: Path) -> None:
    text = re.sub(r"\]\([^)]*\)", "]", page.read_text(encoding="utf-8"))
    named = set(re.findall(rf"(?<![\w./-])(?:{'|'.join(INPUTS)})_\w+", text))
    known = {name for of_role in INPUTS.values() for name in of_role}
    assert sorted(name for name in named - known - {*OUTPUTS} if not HANDED_OVER.fullmatch(name)) == []


def test_steps_that_pages_show_are_those_of_playbooks() -> None:
    plays = [path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").rglob("*.yml")]
    steps = {name for play in plays for name in re.findall(r"\bname: \"?([^\",}\n]+)", play)}
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    shown = {name for page in pages for name in re.findall(r"^(?:ok|changed|failed) +(\S.*?)  ", page, re.M)}
    assert shown
    assert sorted(shown - steps) == []


def test_nothing_in_plugins_names_a_file_that_is_not_there() -> None:
    there = {path.stem for path in (ROOT / "plugins").rglob("*.py")}
    wrong = []
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        named = re.findall(r"\b_[a-z]\w*(?=\.py\b)", path.read_text(encoding="utf-8"))
        wrong += [(path.name, name) for name in named if name not in there]
    assert wrong == []


def test_the_documentation_of_plugins_has_each_key_once_and_names_what_is_there() -> None:
    twice, gone = [], []
    for path in sorted((ROOT / "plugins/modules").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        keys = re.findall(r"^(\w+):", text.partition('RETURN = r"""')[2], re.M)
        twice += [f"{path.stem}: {key}" for key in keys if keys.count(key) > 1]
        for name, kind in re.findall(r"- plugin: dgx_spark\.speculative\.(\w+)\n +plugin_type: (\w+)", text):
            gone += [] if (ROOT / f"plugins/{kind}/{name}.py").exists() else [f"{path.stem}: {name}"]
        for name in re.findall(r"- module: dgx_spark\.speculative\.(\w+)", text):
            gone += [] if (ROOT / f"plugins/modules/{name}.py").exists() else [f"{path.stem}: {name}"]
    assert (twice, gone) == ([], [])
