# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import textwrap
import typing as t
from pathlib import Path

import pytest

from tools import house

Write = t.Callable[[str, str], None]
TASKS = "roles/kitchen/tasks/main.yml"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def into(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    return into


def test_internal_variables_are_what_no_role_takes(tmp_path: Path, write: Write) -> None:
    write("roles/kitchen/vars/main.yml", "# __kitchen_comment\n__kitchen_pan: 1\n")
    write(
        "roles/kitchen/meta/argument_specs.yml", "argument_specs: {main: {options: {kitchen_menu: {}, nested: {}}}}\n"
    )
    write("roles/kitchen/templates/card.j2", "{{ __kitchen_card }} {{ thing.__class__ }}\n")
    write("playbooks/recipes/a.yml", "__recipe: 1\n")
    write(
        TASKS,
        """
        - name: Cook
          block:
            - ansible.builtin.include_role: {name: cellar}
              vars: {kitchen_menu: 1, wine: 2, ansible_connection: local}
            - ansible.builtin.set_fact:
                kitchen_done: "{{ __kitchen_pan }}"
                kitchen_meal: "{{ __kitchen_pan }}"
                cacheable: true
        """,
    )
    write("plugins/plugin_utils/_recipe/inputs.py", 'OUTPUTS = ("kitchen_meal",)\nOTHERS = ("wine",)\n')
    assert house.role_variables(tmp_path).places == [
        "__kitchen_card",
        "__kitchen_pan",
        "kitchen_done",
        "wine",
    ]


def test_longest_jinja(tmp_path: Path, write: Write) -> None:
    write(
        "roles/kitchen/vars/main.yml",
        """
        __kitchen_plain:
          - 1
          - 2
          - 3
          - 4
        __kitchen_short: "{{ 1 }}"
        __kitchen_long: >-
          {{ 1
             + 2
             + 3 }}

        """,
    )
    assert house.jinja_lines(tmp_path) == (3, ["roles/kitchen/vars/main.yml: __kitchen_long"])


def test_roles_that_name_each_other(tmp_path: Path, write: Write) -> None:
    write(TASKS, 'a: "{{ __cellar_key }}"\n')
    write("roles/cellar/defaults/main.yml", 'cellar_key: "{{ larder_key }}" # kitchen_x\n')
    write("roles/larder/tasks/main.yml", "ansible.builtin.include_role:\n  name: dgx_spark.speculative.cellar\n")
    write("roles/shop/tasks/main.yml", "dgx_spark.speculative.kitchen_info:\nx: hostvars.kitchen_menu\n# cellar_key\n")
    assert house.role_arrows(tmp_path).places == [
        "cellar names kitchen",
        "cellar names larder",
        "kitchen names cellar",
        "larder names cellar",
    ]
    assert house.role_group(tmp_path) == (3, ["cellar", "kitchen", "larder"])


@pytest.mark.parametrize(
    "line",
    [
        "when: record.pair.rank | default(0) == 1",
        "when: labels['dgx_spark.speculative.rank'] == '0'",
        "when: groups['sparks'] | length > 1",
        "when: ansible_play_hosts_all[0] == inventory_hostname",
        "when: inventory_hostname == ansible_play_hosts | last",
        'delegate_to: "{{ other }}"',
    ],
)
def test_position_is_asked(tmp_path: Path, write: Write, line: str) -> None:
    write(TASKS, f"{line}\n")
    assert house.position_lines(tmp_path) == (1, [f"{TASKS}: {line}"])


@pytest.mark.parametrize(
    "line",
    [
        "# when: record.pair.rank | default(0) == 1",
        "- name: What groups[ and rank are",
        "delegate_to: localhost",
        "when: ansible_play_hosts_all | difference(ansible_play_hosts)",
        "when: hostvars[__kitchen_head].x",
    ],
)
def test_position_is_not_asked(tmp_path: Path, write: Write, line: str) -> None:
    write(TASKS, f"{line}\n")
    assert house.position_lines(tmp_path) == (0, [])


def test_documentation_is_free(tmp_path: Path, write: Write) -> None:
    code = "x = 1\n" * 350
    write("plugins/modules/fits.py", 'DOCUMENTATION = r"""\n' + "a\n" * 500 + '"""\n' + code)
    write("plugins/modules/long.py", code + "y = 2\n")
    assert house.long_modules(tmp_path).places == ["plugins/modules/long.py"]


def test_equal_functions_have_other_names_only(tmp_path: Path, write: Write) -> None:
    one = """
    def find(path: Path) -> Path:
        \"\"\"Find it.\"\"\"
        known: list[Path] = [path]
        while not path.exists():
            path = path.parent
        return path
    """
    write("plugins/module_utils/_one/one.py", one)
    write(
        "roles/kitchen/files/two.py",
        """
        class Cook:
            async def search(place):
                # Another word for it.
                found = [place]
                while not place.exists():
                    place = place.parent
                return place

            def differs(self, path):
                known = [path]
                while not path.exists():
                    path = path.anchor
                return path

            def is_short(self): return self.short

            def is_small(self): return self.short
        """,
    )
    assert house.equal_functions(tmp_path).places == [
        "plugins/module_utils/_one/one.py: find",
        "roles/kitchen/files/two.py: search",
    ]


def test_an_engine_is_named_in_code_only(tmp_path: Path, write: Write) -> None:
    write("plugins/plugin_utils/_serving/one.py", '"""For TensorRT-LLM."""\n\n# mpirun\nNAME = "trtllm-serve"\n')
    write("plugins/plugin_utils/_engines/tensorrt_llm/one.py", 'NAME = "trtllm-serve"\n')
    write("roles/speculative_serve/files/server/launchers/mpi/one.py", 'NAME = "mpirun"\nIMAGE = "TensorRT-LLM"\n')
    write("plugins/module_utils/_data/source.py", 'TRT_LLM = "TensorRT-LLM"\n')
    write(
        "plugins/module_utils/_problems/one.py",
        'from x._data.source import TRT_LLM\nROW = KnownProblem("a", "log", "vLLM ends", "Start it.", TRT_LLM)\n',
    )
    write(TASKS, "# TensorRT-LLM\nname: trtllm_container\n")
    assert house.engine_lines(tmp_path).places == [
        "plugins/module_utils/_problems/one.py: ROW = KnownProblem('a', 'log', 'vLLM ends', 'Start it.')",
        "plugins/plugin_utils/_serving/one.py: NAME = 'trtllm-serve'",
        f"{TASKS}: name: trtllm_container",
        "roles/speculative_serve/files/server/launchers/mpi/one.py: IMAGE = 'TensorRT-LLM'",
    ]


def test_a_fallen_figure_is_to_be_written_down() -> None:
    said = house.judge("modules", house.Measured(1, ["a"]), 2)
    assert said == "modules: the modules have fallen from 2 to 1: good. Write it down: python -m tools.house --record."


def test_the_ratchet(tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("README.md", "# One\n")
    write("tools/language.yml", "phrases: {nobody: no one}\npages: []\nbeginnings: {}\nlimits: {}\n")
    write("plugins/modules/a.py", "")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert house.main([], tmp_path) == 1
    assert "modules: nothing is written down of the modules, of which there are 1." in capsys.readouterr().err

    assert house.main(["--record"], tmp_path) == 0
    assert house.main([], tmp_path) == 0
    for command in (["add", "."], ["commit", "--quiet", "--message", "a"]):
        subprocess.run([*git, *command], check=True)
    capsys.readouterr()

    write("plugins/modules/b.py", "")
    assert house.main([], tmp_path) == 1
    shown = capsys.readouterr()
    assert "modules                                                               2         1    22" in shown.out
    assert shown.err.startswith("modules: the modules have risen from 1 to 2:")
    assert shown.err.endswith("\n    new: plugins/modules/b.py\n")

    assert house.main(["--record"], tmp_path) == 0
    assert house.main([], tmp_path) == 0


def test_every_figure_has_a_record() -> None:
    assert list(house.read_record(house.ROOT)) == list(house.FIGURES)
