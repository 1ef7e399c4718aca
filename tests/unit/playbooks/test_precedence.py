# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A value gets stronger in this order: role default, recipe, a benchmark's choice, whatever is above a default."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import choice_record
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPES, load

ROOT = Path(__file__).parents[3]
INPUT = "speculative_serve_draft_length"
ROLE = {"name": "dgx_spark.speculative.speculative_serve", "tasks_from": "plan"}
SHOWN = (
    "{{ {'port': speculative_serve_port, 'length': speculative_serve_plan.served.draft_length,"
    " 'method': speculative_serve_plan.served.method, 'benchmark': speculative_serve_plan.served.benchmark,"
    " 'says': speculative_serve_plan.served.origins.values() | map(attribute='says') | list,"
    " 'lines': speculative_serve_plan.lines} | to_json }}"
)
RECIPE = [
    {"dgx_spark.speculative.recipe_info": {"recipe": "{{ recipe }}"}, "register": "__recipe"},
    {"ansible.builtin.set_fact": {"deployment_recipe": "{{ __recipe.recipe }}"}},
]
# What a benchmark has chosen for just this recipe and image.
REPORT = {"date": "2026-11-22", "verdict": {"kind": "use", "draft_length": 4, "sentence": "Use draft length 4."}}
MEASURED = load(RECIPES / "single_eagle3.yml")
CHOICE = choice_record(REPORT, {"image": {"reference": MEASURED["image"]}, "models": {}}, MEASURED, {})
CHOSEN: dict[str, t.Any] = {"__speculative_serve_facts": {"docker": {"slot": None}, "records": {"choice": CHOICE}}}


def asked(way: str, **variables: t.Any) -> list[dict[str, t.Any]]:
    """The role as somebody's own playbook may have it, and what it takes."""
    name = f"{{{{ directory }}}}/{{{{ inventory_hostname }}}}-{way}.json"
    include = {f"ansible.builtin.{way}_role": {**ROLE, **({"public": True} if way == "include" else {})}}
    return [
        {**include, "vars": {"speculative_serve_show_plan": False, **variables}},
        {"ansible.builtin.copy": {"content": SHOWN, "dest": name}},
    ]


def play(tasks: list[dict[str, t.Any]], **keywords: t.Any) -> dict[str, t.Any]:
    begin = {"name": "Play", "hosts": "sparks", "connection": "local", "gather_facts": False}
    return {**begin, "tasks": [*RECIPE, *tasks], **keywords}


BOTH = [*asked("include"), *asked("import")]


class Site:
    """A directory with an inventory and playbooks."""

    def __init__(self, directory: Path, *hosts: str) -> None:
        self.directory, self.hosts = directory, hosts or ("spark-1",)
        self.of_host: dict[str, dict[str, t.Any]] = {host: {} for host in self.hosts}
        self.variables: dict[str, t.Any] = {"recipe": "single_eagle3", "directory": str(directory)}
        self.arguments: list[str] = []
        self.plays: list[dict[str, t.Any]] = [play(BOTH)]

    def write(self, name: str, content: t.Any) -> Path:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    def run(self) -> subprocess.CompletedProcess[str]:
        python = {"ansible_python_interpreter": sys.executable}
        group = {"hosts": self.of_host, "vars": {**python, **self.variables}}
        inventory, playbook = self.write("hosts.yml", {"sparks": group}), self.write("play.yml", self.plays)
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [str(program), "-i", str(inventory), str(playbook), *self.arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def taken(self, way: str = "include") -> list[dict[str, t.Any]]:
        """What the role has taken on each host."""
        names = [self.directory / f"{host}-{way}.json" for host in self.hosts]
        return [json.loads(name.read_text(encoding="utf-8")) for name in names]

    def done(self) -> dict[str, t.Any]:
        outcome = self.run()
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return self.taken()[0]


# Who may give a value. A function is handed the place and the value; an expression, where the hosts' values differ.


def host_variable(site: Site, _value: t.Any) -> None:
    for host, value in zip(site.hosts, (3, 2)):
        site.of_host[host][INPUT] = value


def group_variable(site: Site, value: t.Any) -> None:
    site.write("group_vars/sparks.yml", {INPUT: value})


def play_variable(site: Site, value: t.Any) -> None:
    site.plays = [play(BOTH, vars={INPUT: value})]


def variables_file(site: Site, value: t.Any) -> None:
    site.plays = [play(BOTH, vars_files=[str(site.write("given.yml", {INPUT: value}))])]


def imported_playbook(site: Site, value: t.Any) -> None:
    site.write("inner.yml", site.plays)
    site.plays = [{"ansible.builtin.import_playbook": "inner.yml", "vars": {INPUT: value}}]


def role_parameter(site: Site, value: t.Any) -> None:
    given = {INPUT: value}
    site.plays = [play([*asked("include", **given), *asked("import", **given)])]


def fact(site: Site, value: t.Any) -> None:
    site.plays = [play([{"ansible.builtin.set_fact": {INPUT: value}}, *BOTH])]


def command_line(site: Site, value: t.Any) -> None:
    site.arguments = ["-e", f"{INPUT}={value}"]


def file_of_the_command_line(site: Site, value: t.Any) -> None:
    site.arguments = ["-e", f"@{site.write('given.yml', {INPUT: value})}"]


SOURCES: dict[t.Callable[[Site, t.Any], None], str] = {
    host_variable: "hosts.yml",
    group_variable: "in sparks.yml, line 1",
    play_variable: "play.yml",
    variables_file: "given.yml, line 1",
    imported_playbook: "play.yml",
    role_parameter: "play.yml",
    fact: "play.yml",
    command_line: "with -e",
    file_of_the_command_line: "given.yml, line 1",
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_whoever_gives_a_value_is_stronger_than_recipe_and_benchmark(
    tmp_path: Path, source: t.Callable[[Site, t.Any], None]
) -> None:
    site = Site(tmp_path)
    site.variables.update(CHOSEN)
    source(site, 3)
    site.done()
    for (one,) in (site.taken("include"), site.taken("import")):
        assert (one["length"], one["method"], one["benchmark"]) == (3, "eagle3", {})
        (said,) = one["says"]
        assert said.startswith("draft length 3, given ")
        assert SOURCES[source] in said
        assert one["lines"][-1] == f"  not from the recipe: {said}"


@pytest.mark.parametrize("source", [host_variable, role_parameter, command_line], ids=lambda source: source.__name__)
def test_two_hosts_may_have_different_values(tmp_path: Path, source: t.Callable[[Site, t.Any], None]) -> None:
    site = Site(tmp_path, "spark-1", "spark-2")
    site.variables.update(CHOSEN, lengths={"spark-1": 3, "spark-2": 2})
    source(site, "{{ lengths[inventory_hostname] }}")
    site.done()
    for one, other in (site.taken("include"), site.taken("import")):
        assert (one["length"], other["length"]) == (3, 2)
        assert one["benchmark"] == other["benchmark"] == {}


@pytest.mark.parametrize(
    ("variables", "arguments", "expected", "said"),
    [
        ({"speculative_serve_port": 8001}, [], (8001, 5), ["port 8001, given in hosts.yml, line 8"]),
        (CHOSEN, [], (8000, 4), ["draft length 4, chosen by the benchmark of 2026-11-22"]),
        ({**CHOSEN, "speculative_serve_use_benchmark": False}, [], (8000, 5), []),
        ({INPUT: 3}, ["-e", f"{INPUT}=2"], (8000, 2), ["draft length 2, given with -e"]),
    ],
    ids=["the recipe", "a benchmark beats it", "but not where it is not wanted", "-e beats the inventory"],
)
def test_precedence(
    tmp_path: Path, variables: dict[str, t.Any], arguments: list[str], expected: tuple[int, int], said: list[str]
) -> None:
    site = Site(tmp_path)
    site.variables.update(variables)
    site.arguments = arguments
    site.plays = [play(asked("include"))]
    taken = site.done()
    assert (taken["port"], taken["length"], taken["says"]) == (*expected, said)
    assert bool(taken["benchmark"]) == (taken["length"] == 4)


def test_a_recipe_of_ones_own_beats_the_one_of_the_inventory(tmp_path: Path) -> None:
    text = (ROOT / "playbooks" / "recipes" / "single_eagle3.yml").read_text(encoding="utf-8")
    (tmp_path / "mine.yml").write_text(text.replace("draft_length: 5", "draft_length: 7"), encoding="utf-8")
    site = Site(tmp_path)
    site.arguments = ["-e", f"recipe={tmp_path / 'mine.yml'}"]
    site.plays = [play(asked("include"))]
    assert site.done()["length"] == 7


def test_a_value_that_leads_nowhere_is_no_open_value(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.of_host["spark-1"][INPUT] = "{{ nowhere }}"
    site.plays = [play(asked("include"))]
    outcome = site.run()
    assert outcome.returncode != 0
    assert "'nowhere' is undefined" in outcome.stdout + outcome.stderr
