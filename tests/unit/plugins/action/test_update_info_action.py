# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import update_info
from ansible_collections.dgx_spark.speculative.plugins.action.update_info import recipe_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.releases import RANGES
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RecipeError

from tests.unit import actions

RECORD = {
    "deployment": "single_eagle3",
    "method": "eagle3",
    "target_model": "openai/gpt-oss-120b",
    "draft_model": "nvidia/gpt-oss-120b-Eagle3-long-context",
}


@pytest.mark.parametrize(("name", "asked"), [("single_eagle3", ""), ("mine", "single_eagle3")])
def test_the_recipe_is_that_of_the_deployments_name_or_the_one_given(name: str, asked: str) -> None:
    path, recipe = recipe_of({**RECORD, "deployment": name}, asked)
    assert path.endswith("/playbooks/recipes/single_eagle3.yml")
    assert recipe["name"] == "single_eagle3"


def test_a_deployment_without_speculation_has_its_recipe() -> None:
    assert recipe_of({**RECORD, "method": "none", "draft_model": ""}, "")[1]["method"] == "none"


def test_a_deployment_of_a_variant_has_that_variant() -> None:
    record = {**RECORD, "variant": "qa", "draft_model": "nvidia/gpt-oss-120b-Eagle3"}
    assert recipe_of(record, "")[1]["variant"] == "qa"
    # What newer versions are deployed with is the whole recipe.
    assert recipe_of({**record, "variant": ""}, "") == ("", {})


@pytest.mark.parametrize("changes", [{"deployment": "mine"}, {"target_model": "a/b"}, {"draft_model": "a/b"}])
def test_a_deployment_of_another_name_or_other_models_has_no_known_recipe(changes: dict[str, str]) -> None:
    assert recipe_of({**RECORD, **changes}, "") == ("", {})


def test_a_given_recipe_has_to_exist_and_have_the_models() -> None:
    with pytest.raises(RecipeError, match="Recipe 'single_gpt_oss_20b' has other models than the deployment 'single_"):
        recipe_of(RECORD, "single_gpt_oss_20b")
    with pytest.raises(RecipeError, match="There is no recipe 'single_eagel3'"):
        recipe_of(RECORD, "single_eagel3")


def test_the_spark_is_given_the_releases_that_have_rules() -> None:
    record = {**RECORD, "image": {"reference": "x:1.2.1"}}
    action = actions.made(update_info, {"record": record}, lambda *_: {"rows": []})
    action.run()
    ((_name, sent),) = action.calls
    assert sent["families"] == RANGES
