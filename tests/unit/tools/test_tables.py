# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from tools import tables


def test_the_page_shows_what_the_data_say() -> None:
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.written(text) == text, "a recipe, a method or a family has changed: make docs"


def test_a_table_takes_the_place_of_the_one_before() -> None:
    made = tables.written("before\n<!-- methods -->\nold\n<!-- end -->\nbehind")
    assert made == f"before\n<!-- methods -->\n\n{tables.methods()}\n\n<!-- end -->\nbehind"
    assert "| `eagle3` | EAGLE-3 | drafts with an EAGLE-3 head made for the target model |" in made


def test_families_say_their_releases() -> None:
    assert (
        "| 1.2 | 1.2.0rc1 to 1.2.0rc6, `spark-single-gpu-dev`, which moves | 1.2.0rc1 and 1.2.0rc6 |"
        in tables.families()
    )
