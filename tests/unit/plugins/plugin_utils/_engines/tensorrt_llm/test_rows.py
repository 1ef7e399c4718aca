# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A row that cannot be used is named with its file, with what is wrong and with what may stand there."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.rows import DataError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines import known_issues
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm import (
    schema,
    spelling,
    vocabulary,
)

METHOD = """
mine:
  words: Mine
  description: drafts by itself
  engines:
    tensorrt_llm: {decoding_type: {"1.3": NGram}}
"""
SPELLING = "mine.engines.tensorrt_llm"
ISSUE = """
mine-1:
  message: it ends
  url: https://example.org/1
"""
FAMILY = """
extends: "1.3"
first: 9.9.0rc1
known: [9.9.0rc1]
"""


def refused(read: t.Callable[[Path], t.Any], path: Path, named: Path | None = None) -> list[str]:
    """What is wrong, a line each, below the one that names the file."""
    with pytest.raises(DataError) as caught:
        read(path)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith(f"{named or path} ")
    return lines or [first.partition(f"{named or path} ")[2]]


def test_the_rows_that_the_others_change_are_good(tmp_path: Path) -> None:
    (tmp_path / "methods.yml").write_text(METHOD, encoding="utf-8")
    (tmp_path / "known_issues.yml").write_text(ISSUE, encoding="utf-8")
    assert spelling.read(tmp_path / "methods.yml")["mine"].length == "max_draft_len"
    assert [issue.id for issue in known_issues.read(tmp_path / "known_issues.yml")] == ["mine-1"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("words", "word", ["- mine.word is not known; did you mean 'words'?", "- mine.words is missing"]),
        ("  words: Mine\n", "", ["- mine.words is missing"]),
        ("Mine", "[Mine]", ["- mine.words must be a string, not ['Mine']"]),
        (
            '{"1.3": NGram}',
            "{1.3: NGram}",
            ["- mine.engines.tensorrt_llm.decoding_type.1.3 must be text; put it in quotes"],
        ),
        ("1.3", "9.9", ["- mine.engines.tensorrt_llm.decoding_type.9.9 is not known; there are 1.2, 1.3"]),
        (
            "engines",
            "draft_model: heads\n  engines",
            ["- mine.draft_model is 'heads', but must be one of head, model, assistant; did you mean 'head'?"],
        ),
        (
            "  engines:",
            "  not_offered: nobody has it\n  engines:",
            ["- mine must have either engines or not_offered"],
        ),
        ("mine", "off", ["- False must be text; put it in quotes"]),
        ("mine:", "none:", ["- none is the name of no method: give it another one"]),
        (METHOD, "mine: null", ["- mine is empty"]),
        (METHOD, "- mine", ["- the file must be a mapping, not ['mine']"]),
        (METHOD, METHOD + METHOD, ["is not valid YAML: line 8, column 1: the key 'mine' is there twice"]),
        ("Mine", "[Mine", ["is not valid YAML: line "]),
    ],
)
def test_a_method_that_cannot_be_used(tmp_path: Path, before: str, after: str, said: list[str]) -> None:
    path = tmp_path / "methods.yml"
    assert before in METHOD
    path.write_text(METHOD.replace(before, after), encoding="utf-8")
    found = refused(spelling.read, path)
    assert [line[: len(begin)] for line, begin in zip(found, said)] == said
    assert len(found) == len(said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("methods: eagle3", "- mine-1.methods is not known; did you mean 'method'?"),
        ("method: eagle", "- mine-1.method is 'eagle', but must be one of eagle3, "),
        ("first: 1.3", "- mine-1.first must be a string, not 1.3"),
        ("first: 1.3.x", "- mine-1.first is '1.3.x', but must be a release such as 1.3.0rc12"),
        ("last: 1.3.0rc1", "- mine-1.first is missing, and last is given: say from which release on"),
        ("models: '('", "- mine-1.models is not a regular expression: missing ), unterminated subpattern"),
        ("options: {a.b: 1}", "- mine-1.options.a.b must be a list, not 1"),
        ("unless: [a]", "- mine-1.unless must be a mapping, not ['a']"),
        ("sparks: 0", "- mine-1.sparks is 0, but must be 1 or more"),
        ("refuse: [a b]", "- mine-1.refuse[0] is 'a b', but must be the name of a field"),
    ],
)
def test_an_issue_that_cannot_be_used(tmp_path: Path, more: str, said: str) -> None:
    path = tmp_path / "known_issues.yml"
    path.write_text(f"{ISSUE}  {more}\n", encoding="utf-8")
    (line,) = refused(known_issues.read, path)
    assert line.startswith(said)


KINDS = ", ".join(vocabulary.KINDS)
FIELDS = "sections: {KvCacheConfig: {fields: {mine: %s}}}"
MINE = "- sections.KvCacheConfig.fields.mine"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("frist: 9.9.0rc1", "- frist is not known; did you mean 'first'?"),
        ("first: 9.9", "- first must be a string, not 9.9"),
        ("first: '9.9'", "- first is '9.9', but must be a release such as 1.3.0rc12"),
        ("known: 9.9.0rc1", "- known must be a list, not '9.9.0rc1'"),
        ("extends: '1.1'", "- extends is '1.1', but must be '1.2' or '1.3'"),
        ("extends: 1.3", "- extends is 1.3, but must be '1.2' or '1.3'"),
        ("needs_model: [Eagel]", "- needs_model names the decoding type 'Eagel', but there are Eagle3, "),
        ("sections: {TorchLlmArgs: null}", "- sections.TorchLlmArgs is missing"),
        (
            "sections: {KvCacheConfig: {field: {}}}",
            "- sections.KvCacheConfig.field is not known; did you mean 'fields'?",
        ),
        (
            "sections: {KvCacheConfig: {tag: kind}}",
            "- sections.KvCacheConfig must have tag and variants, or none of them",
        ),
        (
            "sections: {CpConfig: null}",
            "- sections.TorchLlmArgs.fields.cp_config names the section 'CpConfig', which there is not",
        ),
        (FIELDS % "itn", f"{MINE} is 'itn', but must be one of bool, bool or null, int, "),
        (FIELDS % "{is: size, mn: 1}", f"{MINE}.mn is not known; did you mean 'min'?"),
        (FIELDS % "{min: 1}", f"{MINE} must have one of {KINDS}, but has none of them"),
        (FIELDS % "{is: int, values: [a]}", f"{MINE} must have one of {KINDS}, but has is and values"),
        (FIELDS % "{values: [on, off]}", f"{MINE}.values[0] must be a string, not True"),
        (FIELDS % "{list: {map: itn}}", f"{MINE} is 'itn', but must be one of bool, "),
        (FIELDS % "{list: {section: Mine}}", f"{MINE} names the section 'Mine', which there is not"),
        (
            FIELDS % "{is: int, after: max_token}",
            f"{MINE}.after is 'max_token', which is no other field of the section",
        ),
        (FIELDS % "{is: int, since: 9}", f"{MINE}.since must be a string, not 9"),
    ],
)
def test_a_family_that_cannot_be_used(tmp_path: Path, change: str, said: str) -> None:
    directory = Path(shutil.copytree(schema.DIRECTORY, tmp_path / "families"))
    lines = [line for line in FAMILY.splitlines() if not line.startswith(change.partition(" ")[0])]
    (directory / "9.9.yml").write_text("\n".join([*lines, change]), encoding="utf-8")
    found = refused(schema.read, directory, directory / "9.9.yml")
    assert [line for line in found if line.startswith(said)], found


def test_families_that_extend_each_other(tmp_path: Path) -> None:
    (tmp_path / "1.yml").write_text("extends: '2'\n", encoding="utf-8")
    (tmp_path / "2.yml").write_text("extends: '1'\n", encoding="utf-8")
    (line,) = refused(schema.read, tmp_path, tmp_path / "2.yml")
    assert line == "- extends is '1', but must be left out"


def test_a_family_by_itself_says_everything(tmp_path: Path) -> None:
    (tmp_path / "9.9.yml").write_text("first: 9.9.0rc1\nsections: {A: {fields: {a: newer}}}\n", encoding="utf-8")
    found = refused(schema.read, tmp_path, tmp_path / "9.9.yml")
    assert "- needs_model is missing" in found
