# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

from tools import check_language

DATA = """
phrases: {"what serves": the server, "go(es)? on": continue}
pages: [README.md, docs/*.md]
beginnings: {description: [What, How], docstring: [How]}
limits: {step: 10, task: 20, sentence: 5}
"""
Write = t.Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)

    def into(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        subprocess.run(["git", "add", name], cwd=tmp_path, check=True)

    into(check_language.DATA, DATA)
    return into


def errors(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    status = check_language.main(root)
    lines = capsys.readouterr().out.splitlines()
    assert status == int(lines != ["The pages, specs and titles follow the glossary."])
    return lines if status else []


def test_a_phrase_is_an_error_on_a_page_only(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("plugins/action/one.py", "# What serves goes on.\n")
    assert errors(tmp_path, capsys) == []
    assert len(list(check_language.phrases(check_language.read_rules(tmp_path), tmp_path))) == 2
    write("docs/use.md", "It goes on.\nOngoing on-goes.\n")
    assert errors(tmp_path, capsys) == ["docs/use.md:1: 'goes on'; write: continue"]


def test_titles_of_steps_are_shorter_than_those_of_tasks(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = "- name: Check fifteen..\n  ansible.builtin.{}: {{}}\n"
    write("roles/one/tasks/main.yml", tasks.format("include_tasks"))
    write("playbooks/two.yml", f"- name: Play\n  tasks:\n    {tasks.format('fail').replace(chr(10), chr(10) + '    ')}")
    assert errors(tmp_path, capsys) == []
    write("playbooks/tasks/two.yml", tasks.format("include_tasks"))
    (error,) = errors(tmp_path, capsys)
    assert error.startswith("playbooks/tasks/two.yml: the title of a step has more than 10 characters")
    write("playbooks/tasks/two.yml", "- name: Loop\n  loop: [{name: A step of twelve, role: x}]\n")
    assert "A step of twelve" in errors(tmp_path, capsys)[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One two three four five.\n", 0),
        ("One two three four five six.\n", 6),
        ("One two three four `a b c` five.\n", 0),
        ("- One two three\n- four five six\n", 0),
        ("# One two three four five six\n\n| one | two | three | four | five | six |\n", 0),
    ],
)
def test_sentences_of_pages(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: int
) -> None:
    write("README.md", text)
    found = errors(tmp_path, capsys)
    assert found == ([f"README.md: {words} words in one sentence: One two three four five six. ..."] if words else [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Name of the thing. Seconds.", ""),
        ("One two three four five six.", "6 words in one sentence: One two three four five six. ..."),
        ("Seconds. How it is done.", "begin with a noun or a verb: How it is done. ..."),
    ],
)
def test_sentences_of_descriptions(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    spec = f"options:\n  one:\n    description:\n      - {text}\n    default: What is one two three four five.\n"
    sources = {
        "plugins/modules/one.py": f'DOCUMENTATION = r"""\n{spec}"""\nEXAMPLES = "description: What"\nNUMBER = 1\n',
        "plugins/doc_fragments/one.py": f'class One:\n    PART = r"""\n{spec}"""\n',
        "plugins/filter/one.yml": f"DOCUMENTATION: {{}}\n{spec}",
        "roles/one/meta/argument_specs.yml": f"argument_specs:\n  main: {{description: [{text}]}}\n",
    }
    for name, content in sources.items():
        write(name, content)
    expected = [f"{name}: {error}" for name in sorted(sources)] if error else []
    assert sorted(errors(tmp_path, capsys)) == expected


def test_a_docstring_begins_with_a_noun_or_a_verb(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("plugins/plugin_utils/one.py", '"""Return it."""\n\n\ndef one() -> None:\n    """How it is."""\n')
    write("tests/unit/test_one.py", '"""How it is."""\n')
    assert errors(tmp_path, capsys) == [
        "plugins/plugin_utils/one.py: begin the docstring with a noun or a verb: How it is."
    ]


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def one() -> None:\n    {}", True),
        ("class One:\n    {}", True),
        ("class One:\n    def __init__(self):\n        {}", True),
        ("def one() -> int | None:\n    {}", False),
    ],
)
def test_only_what_returns_a_value_says_return(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, wrong: bool
) -> None:
    write("tests/one.py", source.format('"""Return it."""\n'))
    expected = ["tests/one.py: 'Return it.' is the docstring of what returns nothing"]
    assert errors(tmp_path, capsys) == (expected if wrong else [])
