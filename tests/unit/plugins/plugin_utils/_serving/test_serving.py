# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is served, whether it fits, and what the engine is told; the parts have tests of their own."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import choice_record
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.engine import TENSORRT_LLM
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import (
    SIZED_BY_BYTES,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.serving import (
    check_request,
    decide,
    in_container,
    with_memory,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.sizes import GIB, PlanError

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
RECIPE: dict[str, t.Any] = {
    "name": "mine",
    "image": IMAGE,
    "target": "a/target",
    "draft": "a/draft",
    "method": "eagle3",
    "draft_length": 5,
    "context": 32768,
    "concurrency": 1,
    "kv_cache": "planned",
    "family": "auto",
    "sparks": 1,
    "options": {"kv_cache_config": {"free_gpu_memory_fraction": 0.8}},
}
GIVEN = {**RECIPE, "method": None, "draft_length": None}
SHAPE = {"layers": 36, "kv_heads": 8, "head_dim": 64, "max_context": 131_072}
FACTS = {"a/target": {"weights_bytes": 65_200_000_000, **SHAPE}, "a/draft": {"weights_bytes": 431_000_000, **SHAPE}}
MEMORY = {"total": 128_000_000_000, "available": 120_000_000_000, "slot": 0, "usage": []}


def choice() -> dict[str, t.Any]:
    verdict = {"kind": "use", "draft_length": 3, "sentence": "Do it."}
    record = {"image": {"reference": IMAGE}, "models": {"a/target": {"commit": "one"}}}
    return choice_record({"date": "2026-11-22", "verdict": verdict}, record, RECIPE, {})


def arguments(given: t.Mapping[str, t.Any] | None = None, **changes: t.Any) -> dict[str, t.Any]:
    return {
        "recipe": RECIPE,
        "repositories": [],
        "given": {**GIVEN, **(given or {})},
        "options": {},
        "use_benchmark": True,
        "reserve_gib": 12,
        "memory_guard": True,
        "memory": MEMORY,
        "records": {},
        "models": {},
        "slot": {},
        # The others have asked nobody.
        "facts": {"spark-1": FACTS, "spark-2": {}},
        **changes,
    }


def made(given: t.Mapping[str, t.Any] | None = None, **changes: t.Any) -> dict[str, t.Any]:
    return decide(arguments(given, **changes), "spark-2")


def test_it_is_planned_and_the_engine_is_told() -> None:
    plan = made(options={"max_batch_size": 2})
    assert (plan["verdict"], plan["served"]["draft_length"], plan["sparks"]) == ("fits", 5, 1)
    options = plan["config"]["options"]
    assert options["speculative_config"]["max_draft_len"] == 5
    # Given ones win over those of the plan, and go with the recipe's.
    assert (options["max_batch_size"], options["max_seq_len"]) == (2, 32768)
    assert options["kv_cache_config"]["free_gpu_memory_fraction"] == 0.8
    assert plan["config"]["text"].endswith("\n")
    assert len(plan["checked"]) == 64


@pytest.mark.parametrize(
    ("release", "target", "options", "limit"),
    [
        # 2 x (36 layers of the target, 36 of the draft) x 8 heads x 64 x 2 bytes, for the tokens that max_tokens has.
        ("1.3.0rc29", "openai/gpt-oss-120b", {}, 147_456),
        ("1.3.0rc29", "a/target", {}, None),
        ("1.3.0rc12", "openai/gpt-oss-120b", {}, None),
        # Who says it himself is not overruled.
        ("1.3.0rc29", "openai/gpt-oss-120b", {"max_gpu_total_bytes": 0}, 0),
        ("1.3.0rc29", "openai/gpt-oss-120b", {"use_kv_cache_manager_v2": False}, None),
        ("1.3.0rc29", "openai/gpt-oss-120b", {"max_tokens": None}, None),
    ],
)
def test_where_a_release_sizes_the_kv_cache_by_bytes_it_is_told_them(
    release: str, target: str, options: dict[str, t.Any], limit: int | None
) -> None:
    given = {"image": f"nvcr.io/nvidia/tensorrt-llm/release:{release}", "target": target}
    facts = {"spark-1": {**FACTS, target: FACTS["a/target"]}}
    plan = made(given, options={"kv_cache_config": options}, facts=facts)
    cache = plan["config"]["options"]["kv_cache_config"]
    assert cache.get("max_gpu_total_bytes") == (limit and limit * cache["max_tokens"])
    # Only then the issue is gone.
    told = [issue["id"] for issue in plan["config"]["known_issues"]]
    assert (SIZED_BY_BYTES in told) == (options == {"max_gpu_total_bytes": 0})


MTP = {"decoding_type": "MTP", "num_nextn_predict_layers": 3}


@pytest.mark.parametrize(
    ("given", "options", "target", "refused"),
    [
        ({"method": "mtp"}, {}, SHAPE, True),
        # The options of the engine say it, too.
        ({"method": ""}, {"speculative_config": MTP}, SHAPE, True),
        ({"method": "mtp"}, {}, {**SHAPE, "prediction_layers": 1}, False),
        # Nothing is known of a model that could not be asked about.
        ({"method": "mtp"}, {}, {}, False),
        # Some targets have an assistant for it.
        ({"method": "mtp", "draft": "a/draft"}, {}, SHAPE, False),
        ({"method": "ngram"}, {}, SHAPE, False),
    ],
)
def test_mtp_needs_layers_that_predict(
    given: dict[str, t.Any], options: dict[str, t.Any], target: dict[str, t.Any], refused: bool
) -> None:
    facts = {"spark-1": {**FACTS, "a/target": target}}
    asked: dict[str, t.Any] = {
        "given": {"draft": "", "draft_length": 3, **given},
        "options": options,
        "facts": facts,
        "use_benchmark": False,
    }
    recipe = {**RECIPE, **given, "draft": given.get("draft", "")}
    if not refused:
        assert made(**asked, recipe=recipe)["config"]["method"] in ("mtp", "ngram", "raw")
        return
    with pytest.raises(PlanError, match=r"the config\.json of a/target names none\. Choose a checkpoint that has them"):
        made(**asked, recipe=recipe)


def test_the_memory_is_counted_again_with_what_cuda_calls_free() -> None:
    plan, asked = made(), arguments(memory={**MEMORY, "cuda": {"free": 1, "unused": 1, "available": 90_000_000_000}})
    again = with_memory(plan, asked, "spark-2")
    assert (plan["free_for_gpu"], again["free_for_gpu"] != "") == ("", True)
    assert any("CUDA calls" in warning for warning in again["warnings"])
    # What is served does not depend on it.
    assert {key: again[key] for key in ("served", "config", "checked", "options")} == {
        key: plan[key] for key in ("served", "config", "checked", "options")
    }
    too_little = with_memory(plan, arguments(memory={**MEMORY, "available": 20_000_000_000}), "spark-2")
    assert (too_little["message"] != "", too_little["config"]) == (True, plan["config"])


@pytest.mark.parametrize("release", ["1.2.0", "1.3.0rc12"])
def test_the_container_finds_the_draft_model_by_its_path(release: str) -> None:
    plan = made({"image": f"nvcr.io/nvidia/tensorrt-llm/release:{release}"})
    config = in_container(TENSORRT_LLM, plan["config"], plan["engine_options"], "a/draft", "/cache/draft")
    before, after = (each["options"]["speculative_config"] for each in (plan["config"], config))
    (key,) = [name for name, value in before.items() if value == "a/draft"]
    assert after == {**before, key: "/cache/draft"}
    assert config["text"] == plan["config"]["text"].replace("a/draft", "/cache/draft")


def test_a_draft_model_of_the_users_own_options_stays_as_it_is() -> None:
    own = {"decoding_type": "Eagle", "max_draft_len": 3, "speculative_model_dir": "a/draft"}
    plan = made({"method": ""}, options={"speculative_config": own})
    config = in_container(TENSORRT_LLM, plan["config"], plan["engine_options"], "a/draft", "/cache/draft")
    assert config["text"] == plan["config"]["text"]


def test_what_the_recipe_says_of_its_image_is_told_with_that_image_only() -> None:
    noted = {**RECIPE, "note": "Nobody has tried it."}
    assert made(recipe=noted)["warnings"] == ["Nobody has tried it.", *made()["warnings"]]
    other = {"image": f"{IMAGE}.post1"}
    assert made(other, recipe=noted)["warnings"] == made(other)["warnings"]


def test_what_was_checked_is_for_an_image_and_its_options() -> None:
    assert made()["checked"] == made({"concurrency": "1"})["checked"]
    others = {made({"draft_length": 3})["checked"], made({"image": f"{IMAGE}.post1"})["checked"]}
    assert len({made()["checked"], *others}) == 3


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 3),
        ({"use_benchmark": False}, 5),
        ({"models": {"spark-1": {"a/target": {"commit": "two"}}}}, 5),
        ({"models": {"spark-1": {"a/target": {"commit": "one"}}}}, 3),
    ],
)
def test_the_heads_benchmark_chooses_for_all(changes: dict[str, t.Any], length: int) -> None:
    records = {"spark-1": {"choice": choice()}, "spark-2": {"choice": None}}
    plan = made(records=records, **changes)
    assert plan["served"]["draft_length"] == length
    assert ("draft length 3, chosen by the benchmark" in "".join(plan["lines"])) == (length == 3)


def test_what_serves_with_just_these_options_is_known() -> None:
    plan = made()
    assert plan["options_served"] is False
    for checked, served in ((plan["checked"], True), ("other", False)):
        slot = {"labels": {"dgx_spark.speculative.options": checked}}
        assert made(slot=slot)["options_served"] is served


def test_options_that_the_engine_would_refuse_are_refused_as_they_are_written() -> None:
    found = made(options={"max_sequence": 1})
    assert found["failed"]
    assert "max_sequence" in found["msg"]
    assert "lines" not in found


def test_an_environment_that_the_engine_does_not_read_is_refused() -> None:
    vllm = {
        **RECIPE,
        "engine": "vllm",
        "image": "vllm/vllm-openai:v0.32.0",
        "method": "mtp",
        "draft": "",
        "options": {},
    }
    environment = {"NCCL_DEBUG": "INFO", "VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    refused = made({"image": vllm["image"], "environment": environment}, recipe=vllm)
    assert refused["errors"][0]["path"] == "environment.VLLM_ATTENTION_BACKEND"
    assert "lines" not in refused
    assert "errors" not in made({"image": vllm["image"], "environment": {"NCCL_DEBUG": "INFO"}}, recipe=vllm)
    # Another engine has another half.
    assert "errors" not in made({"environment": environment})


def test_what_does_not_fit_is_no_failure() -> None:
    plan = made(memory={**MEMORY, "total": 60_000_000_000, "available": 55_000_000_000})
    assert plan["verdict"] == "does_not_fit"
    assert plan["message"]
    assert plan["config"]["text"]


def test_the_memory_guard_is_told_its_limits_and_what_the_server_takes() -> None:
    plan = made()
    assert (plan["memory_guard"], plan["takes"], plan["share"]) == (f"floor={4 * GIB} seconds=3", plan["needed"], 0.0)
    # Where less is kept for everything else, it leaves as much of it.
    assert made(reserve_gib="6")["memory_guard"] == f"floor={2 * GIB} seconds=3"
    assert made(memory_guard=False, reserve_gib=6)["memory_guard"] == "off"
    with pytest.raises(PlanError, match=r"memory_guard\.floor_gib is 7, but must be a number from 0\.5 to 6"):
        made(memory_guard={"floor_gib": 7}, reserve_gib=6)


@pytest.mark.parametrize(
    "given", [{"draft_length": "many"}, {"draft_length": 10**400, "break_even": {"draft_cost": 0.1}}]
)
def test_what_is_not_clear_is_said(given: dict[str, t.Any]) -> None:
    with pytest.raises(PlanError, match="The inputs do not fit together: "):
        made(given)


@pytest.mark.parametrize(
    "unseen",
    [
        # Docker could not be reached, and a gated model not be read: each is told of where it failed.
        {"memory": {}},
        {"facts": {"spark-1": {}}},
        {"facts": {"spark-1": {"a/target": FACTS["a/target"]}}},
    ],
)
def test_what_could_not_be_looked_at_is_not_told_of_again(unseen: dict[str, t.Any]) -> None:
    plan = made({"draft_length": 3}, incomplete=True, **unseen)
    assert plan["lines"] == ["  not from the recipe: draft length 3, given in the inventory, a playbook or with -e"]
    assert not [one for one in plan["warnings"] if "not known" in one or "do not give" in one]
    assert plan["message"] == ""
    # Nobody has told of it where nothing has failed.
    assert "  Whether it fits is unknown." in made(**unseen)["lines"]


def test_files_that_do_not_say_what_is_needed_are_told_of() -> None:
    plan = made(facts={"spark-1": {**FACTS, "a/target": {"model_type": "mine"}}})
    assert any("The files of a/target do not give" in one for one in plan["warnings"])
    assert "  Whether it fits is unknown." in plan["lines"]


def test_a_value_that_this_run_puts_back_is_told_with_the_plan() -> None:
    record = {"deployment": "mine", "draft_length": 3, "origins": {"draft_length": {"from": "given", "says": "so"}}}
    assert (
        "  changed: draft length 3 -> 5, as the recipe has it"
        in made(records={"spark-1": {"latest": record, "present": record}})["lines"]
    )
    # What serves is another deployment.
    other = {**record, "deployment": "other"}
    assert "changed:" not in "".join(made(records={"spark-1": {"latest": record, "present": other}})["lines"])


def test_a_method_that_does_not_suit_the_models_is_refused_before_they_are_downloaded() -> None:
    recipe = {**RECIPE, "engine": "vllm", "image": "vllm/vllm-openai:v0.32.0", "draft": "", "method": "ngram"}
    recipe["options"] = {}
    facts = {"a/target": {**FACTS["a/target"], "model_type": "nemotron_h", "state_layers": 3}}
    given = {"image": recipe["image"], "draft": ""}
    with pytest.raises(PlanError, match=r"a hybrid model of type nemotron_h: see https://\S+39273"):
        made(given, recipe=recipe, facts={"spark-1": facts})
    assert "config" in made(given, recipe=recipe)


def test_the_environment_is_judged_with_the_method() -> None:
    recipe = {**RECIPE, "engine": "vllm", "image": "vllm/vllm-openai:v0.32.0", "method": "dspark", "options": {}}
    given = {"image": recipe["image"], "environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
    assert [error["path"] for error in made(given, recipe=recipe)["errors"]] == ["environment"]


VLLM = {
    **RECIPE,
    "engine": "vllm",
    "image": "vllm/vllm-openai:v0.32.0",
    "method": "draft_target",
    "draft": "/models/draft",
    "options": {},
}
PROGRAMS = Path(__file__).parents[5] / "roles/speculative_serve/files/option_check"
MODELS = {"a/target": {"commit": "1" * 40}, "/models/draft": {"commit": None, "fingerprint": "f"}}


def for_vllm(models: dict[str, t.Any], recipe: t.Mapping[str, t.Any] = VLLM, **given: t.Any) -> dict[str, t.Any]:
    given = {"image": recipe["image"], "draft": recipe["draft"], **given}
    return made(given, recipe=recipe, models={"spark-1": models}, facts={"spark-1": {}})


def test_an_engine_that_judges_models_gets_them_as_the_server_does() -> None:
    plan = for_vllm(MODELS, environment={"A": 1})
    target, draft = f"/cache/huggingface/hub/models--a--target/snapshots/{'1' * 40}", "/models/draft/draft"
    assert plan["judged"] == {"target": target, "draft": draft, "sparks": 1, "environment": {"A": "1"}}
    request = check_request(plan, MODELS, "/home/me/hub", PROGRAMS)
    texts = {file["name"]: file["content"] for file in request["files"]}
    assert f"model: {draft}\n" in texts["options.yml"]
    assert json.loads(texts["models.json"]) == plan["judged"]
    assert texts["judge.py"] == (PROGRAMS / "vllm.py").read_text(encoding="utf-8")
    places = {mount["source"]: mount["target"] for mount in request["mounts"] if mount["read_only"]}
    assert places == {"/home/me/hub": "/cache/huggingface/hub", "/models/draft": draft}


@pytest.mark.parametrize(("release", "known"), [("0.25.1", ["nccl-hang-42354"]), ("0.28.0", [])])
def test_the_plan_tells_the_known_issues_of_vllm(release: str, known: list[str]) -> None:
    recipe = {**VLLM, "image": f"vllm/vllm-openai:v{release}", "sparks": 2}
    plan = for_vllm(MODELS, recipe)
    assert [issue["id"] for issue in plan["config"]["known_issues"]] == known
    assert len([warning for warning in plan["warnings"] if "/issues/42354" in warning]) == len(known)


def test_what_was_checked_with_models_is_for_their_commits() -> None:
    other = {**MODELS, "a/target": {"commit": "2" * 40}}
    two = {**VLLM, "sparks": 2}
    checked = {for_vllm(models, recipe)["checked"] for models in (MODELS, other, {}) for recipe in (VLLM, two)}
    # Unknown models are the same for one Spark and two.
    assert len(checked) == 5


def test_an_engine_that_judges_no_models_gets_none() -> None:
    models = {"a/target": {"commit": "1" * 40}, "a/draft": {"commit": "2" * 40}}
    plan = made(models={"spark-1": models})
    request = check_request(plan, models, "/home/me/hub", PROGRAMS)
    assert (plan["judged"], request["mounts"]) == ({}, [])
    assert request["files"][0] == {"name": "options.yml", "content": plan["config"]["text"]}
    assert plan["checked"] == made()["checked"]


def test_code_of_a_model_is_that_of_a_commit() -> None:
    recipe = {**VLLM, "method": "none", "draft": "", "options": {"trust-remote-code": True}}
    pinned, branch = ([{"id": "a/target", "revision": revision}] for revision in ("c" * 40, "main"))
    given = {"image": recipe["image"], "draft": ""}
    assert f"runs Python from a/target@{'c' * 40}" in str(made(given, recipe=recipe, repositories=pinned)["warnings"])
    refused = made(given, recipe=recipe, repositories=branch)
    assert [error["path"] for error in refused["errors"]] == ["trust-remote-code"]
