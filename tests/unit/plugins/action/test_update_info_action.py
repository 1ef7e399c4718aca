# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action.update_info import known
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RecipeError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.updates import nothing

RECORD = {"deployment": "single_eagle3", "method": "eagle3", "files": {"a": "b"}, "container": {}, "answer": "x"}


def test_of_what_serves_the_shipped_recipe_of_its_name_is_known() -> None:
    path, given = known(RECORD, "")
    assert path.endswith("/playbooks/recipes/single_eagle3.yml")
    assert given["record"] == {"deployment": "single_eagle3", "method": "eagle3"}
    assert given["recipe"]["name"] == "single_eagle3"
    assert not {"environment", "probe"} & given["recipe"].keys()
    assert given["subject"] == "record"
    assert ["single_eagle3_v3", "openai/gpt-oss-120b"] in [row[:2] for row in given["recipes"]]


def test_a_recipe_that_is_asked_about_is_the_subject() -> None:
    path, given = known({**RECORD, "deployment": "mine"}, "single_gpt_oss_20b")
    assert path.endswith("/single_gpt_oss_20b.yml")
    assert (given["recipe"]["name"], given["subject"]) == ("single_gpt_oss_20b", "recipe")
    with pytest.raises(RecipeError, match="single_eagel3"):
        known({}, "single_eagel3")


def test_what_serves_without_drafts_is_compared_without_them() -> None:
    assert known({**RECORD, "method": "none"}, "")[1]["recipe"]["method"] == "none"


def test_of_another_deployment_no_recipe_is_known() -> None:
    path, given = known({**RECORD, "deployment": "mine"}, "")
    assert (path, given["recipe"]) == ("", {})


def test_nothing_is_deployed_and_nothing_asked() -> None:
    assert known({}, "")[1]["recipe"] == {}
    answer = nothing("spark-1")
    assert (answer["newer"], answer["recipe_fits"], answer["rows"]) == (False, False, [])
    assert answer["lines"][0] == "spark-1: nothing is deployed here that could be newer."
