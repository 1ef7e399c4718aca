# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._problems.catalogue import CATALOGUE
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES

from tests.soak.promises import NO_ACTION, PROMISES
from tools import recovery, tables, troubleshooting


def test_the_pages_show_what_the_data_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert (tables.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_a_page_that_does_not_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "recipes.md"
    page.write_text("<!-- methods -->\nold\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(tables, "PAGES", (page,))
    assert tables.main(["--check"]) == 1
    assert str(page) in capsys.readouterr().err
    assert "old" in page.read_text(encoding="utf-8")
    assert tables.main([]) == 0
    assert tables.main(["--check"]) == 0


def test_each_table_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert [name for name in tables.TABLES if f"<!-- {name} -->" not in text] == []


def test_a_table_takes_the_place_of_the_one_before() -> None:
    made = tables.written("before\n<!-- methods -->\nold\n<!-- end -->\nbehind")
    assert made == f"before\n<!-- methods -->\n\n{tables.methods()}\n\n<!-- end -->\nbehind"
    assert "| `eagle3` | EAGLE-3 | drafts with an EAGLE-3 draft head made for the target model |" in made


def test_a_method_that_only_options_can_have_says_since_when() -> None:
    (row,) = [line for line in tables.methods().splitlines() if line.startswith("| `dflash` |")]
    assert "`DFlash`, in `options` only, from 1.3.0rc27 on" in row


def test_each_problem_and_issue_has_an_anchor() -> None:
    text = tables.problems() + tables.known_issues()
    issues = [issue.id for engine in ENGINES.values() for issue in engine.known_issues]
    names = [*(row.id for row in CATALOGUE), *issues]
    assert [name for name in names if text.count(f'<a id="{name}"></a>') != 1] == []


def test_a_placeholder_is_no_tag_and_a_command_is_code() -> None:
    assert troubleshooting.prose("Add <user> with 'sudo adduser <user>', the Spark's.") == (
        r"Add \<user> with `sudo adduser <user>`, the Spark's."
    )


def test_each_promise_is_in_one_class_of_faults() -> None:
    assert sorted(name for names in recovery.CLASSES.values() for name in names) == sorted(PROMISES)


@pytest.mark.parametrize("names", recovery.CLASSES.values(), ids=recovery.CLASSES)
def test_faults_of_one_class_need_one_action(names: tuple[str, ...]) -> None:
    assert len({PROMISES[name].by for name in names} - {NO_ACTION}) <= 1


def test_the_longest_time_of_a_class_counts() -> None:
    assert recovery.longest(["power cut", "worker's power cut"], 1) == "boot + load"
    assert recovery.longest(["power cut", "worker's power cut"], 2) == "boot + 60 s + 5 s + load"
    assert recovery.longest(["cable out"], 1) == "-"
