# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from tools import tables


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_the_data_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.written(text) == text, "what a table is written from has changed: make docs"


def test_each_table_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert [name for name in tables.TABLES if f"<!-- {name} -->" not in text] == []


def test_a_table_takes_the_place_of_the_one_before() -> None:
    made = tables.written("before\n<!-- methods -->\nold\n<!-- end -->\nbehind")
    assert made == f"before\n<!-- methods -->\n\n{tables.methods()}\n\n<!-- end -->\nbehind"
    assert "| `eagle3` | EAGLE-3 | drafts with an EAGLE-3 head made for the target model |" in made
