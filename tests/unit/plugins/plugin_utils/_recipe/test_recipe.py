# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.utils.vars import merge_hash
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.break_even import bounds_from
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import (
    Built,
    Planned,
    Request,
    of_recipe,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.methods import CHOICES
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import engine_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import (
    RecipeError,
    check_inventory,
    check_method,
    check_run,
    find,
    load,
    validate,
    with_models,
    without_drafts,
)

SPARK_2 = "\n    spark-2:\n      ansible_host: ADDRESS\n      ansible_user: USER"
RECIPES = Path(__file__).parents[5] / "playbooks" / "recipes"


def recipe(**changes: t.Any) -> dict[str, t.Any]:
    """A small valid recipe; a change to None takes the key away."""
    base = {
        "title": "Two small models",
        "source": "https://example.com/recipe",
        "sparks": 1,
        "image": "registry.example.com/image:1.3.0rc12",
        "method": "eagle3",
        "draft_length": 3,
        "target_model": {"id": "example/target"},
        "draft_model": {"id": "example/draft"},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid(path: Path) -> None:
    recipe = load(path)
    assert recipe["name"] == path.stem
    assert recipe["repositories"][0]["id"] == recipe["target_model"]["id"]
    assert "chat" not in recipe["repositories"][0]
    assert recipe["source"].startswith("https://")
    # Each says what shows that a Spark serves it, and none only by the default.
    assert recipe["evidence"] == yaml.safe_load(path.read_text(encoding="utf-8")).get("evidence")


def rendered(recipe: t.Mapping[str, t.Any]) -> Built:
    """The engine options as a run has them, with what the memory plan adds to every recipe."""
    engine = engine_of(recipe)
    planned = Planned(recipe["concurrency"], recipe["context"], tokens=None, chunked=False)
    request = Request(
        release=recipe["image"],
        method=recipe["method"] or None,
        draft_model=recipe["draft"] or None,
        drafted=recipe["draft_length"] or None,
        options=merge_hash(engine.fill(recipe["options"], planned), recipe["options"]),
        family=recipe["family"],
        target_model=recipe["target"],
    )
    return engine.build(request)


@pytest.mark.parametrize("drafts", [True, False], ids=["with drafts", "without speculation"])
@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yml")), ids=lambda path: path.stem)
def test_the_image_of_every_shipped_recipe_knows_its_options(path: Path, drafts: bool) -> None:
    for variant in ("", *load(path)["variants"]):
        recipe = load(path, variant)
        assert rendered(recipe if drafts else without_drafts(recipe)).errors == []


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("single_draft_target", ("Draft_Target", "speculative_model")),
        ("single_draft_target_2025", ("DraftTarget", "speculative_model_dir")),
        ("single_eagle3_v3", ("Eagle3", "speculative_model")),
        ("single_eagle3_cutlass", ("Eagle", "speculative_model_dir")),
    ],
)
def test_drafting_is_spelt_for_the_image(name: str, spelling: tuple[str, str]) -> None:
    recipe = load(RECIPES / f"{name}.yml")
    section = rendered(recipe).options["speculative_config"]
    assert (section["decoding_type"], section[spelling[1]]) == (spelling[0], recipe["draft"])


def test_the_image_that_garbles_is_warned_of_and_its_baseline_is_not() -> None:
    with_head, baseline = (rendered(load(RECIPES / f"single_{name}.yml")) for name in ("eagle3_cutlass", "low_latency"))
    assert [issue.id for issue in with_head.known_issues] == ["eagle3-garbles-before-8944", "logprobs-12547"]
    assert baseline.warnings == []


@pytest.mark.parametrize(
    ("name", "best", "worst"),
    [
        # From the configurations: k drafts cost 0.318 k of a pass of gpt-oss-120b, and 0.123 k of one of Llama-3.3-70B.
        ("single_eagle3", 2.59, 4.32),
        ("single_eagle3_v3", 1.95, 3.03),
        ("single_eagle3_cutlass", 1.95, 3.03),
        ("single_draft_target", 1.49, 1.49),
        ("single_draft_target_2025", 1.49, 1.49),
    ],
)
def test_from_which_acceptance_length_on_drafts_pay(name: str, best: float, worst: float) -> None:
    recipe = load(RECIPES / f"{name}.yml")
    assert bounds_from(recipe["draft_length"], recipe["break_even"]) == {"best": best, "worst": worst}


def test_what_the_recipe_for_two_sparks_takes_a_draft_to_cost() -> None:
    recipe = load(RECIPES / "qwen3_235b_a22b_eagle3.yml")
    # From the configuration of nvidia/Qwen3-235B-A22B-FP4: NVFP4 but for output layer and routers, which are BF16.
    layers, hidden, experts, active, vocabulary = 94, 4096, 128, 8, 151_936
    attention = layers * (2 * hidden * 8192 + 2 * hidden * 512) * 0.5625
    read_experts = layers * active * 3 * hidden * 1536 * 0.5625
    read = attention + read_experts + 2 * hidden * (vocabulary + layers * experts)
    given = recipe["break_even"]
    assert given["expert_share"] == pytest.approx(read_experts / read, abs=0.005)
    # Each Spark reads half of the target, and all of the head, which has 0.3 billion values in BF16.
    assert given["draft_cost"] == pytest.approx(0.6e9 / (read / recipe["sparks"]), abs=0.0005)
    assert (given["experts"], given["active_experts"]) == (experts, active)


def test_the_plan_and_not_the_recipe_sets_the_batch() -> None:
    for path in RECIPES.glob("*.yml"):
        options = load(path)["options"]
        assert "max_batch_size" not in options
        assert "max_batch_size" not in options.get("cuda_graph_config", {})


def test_defaults_are_filled_in() -> None:
    result = validate(recipe(probe=None))
    assert result["target_model"] == {
        "id": "example/target",
        "directory": None,
        "revision": "main",
        "include": [],
        "exclude": [],
        "chat": True,
        "tools": False,
    }
    assert result["probe"] == {"prompt": None, "expect": [], "max_tokens": 1024}
    assert result["options"] == {}
    assert (result["context"], result["concurrency"], result["kv_cache"]) == (32768, 1, "planned")


@pytest.mark.parametrize(
    ("key", "default"), [("options", {}), ("environment", {}), ("tiktoken_encodings", []), ("draft_length", 0)]
)
def test_a_key_without_a_value_is_left_to_its_default(key: str, default: t.Any) -> None:
    method = {"method": "none", "draft_model": None, "draft_length": None}
    assert validate({**recipe(**method), key: None})[key] == default


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"image": None}, "- image is missing"),
        ({"imgae": "x"}, "- imgae is not known; did you mean 'image'?"),
        ({"sparks": 0}, "- sparks is 0, but must be 1 or more"),
        (
            {"method": "eagle"},
            f"- method is 'eagle', but must be one of {', '.join(CHOICES)}; did you mean 'eagle3'?",
        ),
        (
            {"engine": "trtllm"},
            "- engine is 'trtllm', but must be one of tensorrt_llm, vllm; did you mean 'tensorrt_llm'?",
        ),
        ({"family": "1.4"}, "- family is '1.4', but must be one of auto, 1.2, 1.3; did you mean '1.3'?"),
        ({"options": ["x"]}, "- options must be a mapping, not ['x']"),
        (
            {"target_model": {"id": "a/b", "exlude": []}},
            "- target_model.exlude is not known; did you mean 'exclude'?",
        ),
        ({"target_model": {"id": "a/b", "exclude": [1]}}, "- target_model.exclude[0] must be a string, not 1"),
        (
            {"tiktoken_encodings": ["o200k"]},
            "- tiktoken_encodings[0] is 'o200k', but must be one of o200k_base, cl100k_base; did you mean "
            "'o200k_base'?",
        ),
        (
            {"target_model": {"id": "a/b\n"}},
            "- target_model.id is 'a/b\\n', but must be a Hub id such as 'organisation/model'",
        ),
        ({"context": 32768.5}, "- context must be a whole number, not 32768.5"),
        ({"concurrency": True}, "- concurrency must be a whole number, not True"),
        (
            {"target_model": {"tools": True}},
            "- target_model.id is missing; give it, or target_model.directory for a model that is on the Spark",
        ),
        (
            {"target_model": {"id": "a/b", "directory": "/models/b"}},
            "- target_model.id and target_model.directory both say where the model is: leave one of them out",
        ),
        (
            {"draft_model": {"directory": "/models/b", "revision": "main"}},
            "- draft_model.revision is given, but only a model from the Hub has it, "
            "and draft_model.directory is a directory",
        ),
        (
            {"target_model": {"id": "a/.."}},
            "- target_model.id is 'a/..', but must be a Hub id such as 'organisation/model'",
        ),
        (
            {"options": {"a": [{"b": datetime.date(2026, 1, 1)}]}},
            "- options.a.0.b must be a plain value, not datetime.date(2026, 1, 1); put it in quotes",
        ),
        ({"target_model": {"directory": 7}}, "- target_model.directory must be a string, not 7"),
        ({"environment": {"A;id": 1}}, "- environment.A;id is not the name of a variable"),
        (
            {"environment": {"DGX_SPARK_OPTIONS": "/a"}},
            "- environment.DGX_SPARK_OPTIONS would replace a decision of this collection. Remove it",
        ),
        ({"environment": {"A": None}}, "- environment.A must be a string or a number"),
        (
            {"probe": {"expect": ["("]}},
            "- probe.expect[0] is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        (
            {"title": "A\nPLAY RECAP ****"},
            "- title is 'A\\nPLAY RECAP ****', but must be one line of text without control characters",
        ),
        ({"source": "\x1b[2J"}, "- source is '\\x1b[2J', but must be one line of text without control characters"),
        ({"image": "r\x9b:1"}, "- image is 'r\\x9b:1', but must be one line of text without control characters"),
        (
            {"probe": {"prompt": "a\nb\x1b"}},
            "- probe.prompt is 'a\\nb\\x1b', but must be text without control characters",
        ),
        ({"environment": {"A": "a\0b"}}, "- environment.A must be one line of text without control characters"),
        ({"draft_model": None}, "- draft_model is missing, and method 'eagle3' needs one"),
        ({"draft_length": 10**9}, "- draft_length is 1000000000, but must be 1024 or less"),
        ({"draft_length": 0}, "- draft_length must be 1 or more for method 'eagle3'"),
        ({"method": "none", "draft_length": None}, "- draft_model is given, but method is 'none'"),
    ],
)
def test_a_wrong_recipe_says_where_and_what(changes: dict[str, t.Any], error: str) -> None:
    with pytest.raises(RecipeError) as caught:
        validate(recipe(**changes))
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "path", ["", "/", "//", "models/mine", "~/models", "/models/../mine", "/models/..", "/models/./b", "/m\nb", "/m\0b"]
)
def test_a_directory_is_an_absolute_path(path: str) -> None:
    with pytest.raises(RecipeError) as caught:
        validate(recipe(target_model={"directory": path}))
    assert str(caught.value) == (
        f"- target_model.directory is {path!r}, but must be the absolute path of a directory on the Spark, "
        "such as '/models/mine'"
    )


DIRECTORIES = """
title: A pair that is on the Spark already
source: https://example.com/cluster
sparks: 1
image: registry.example.com/image:1.3.0rc12
method: draft_target
draft_length: 4
target_model: {directory: /models/original//gpt-oss 120b/, tools: true}
draft_model: {directory: /models/a..b}
"""


def test_models_in_directories(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(DIRECTORIES, encoding="utf-8")
    result = load(tmp_path / "mine.yml")
    assert result["directories"] == ["/models/original/gpt-oss 120b", "/models/a..b"]
    assert (result["target"], result["draft"]) == ("/models/original/gpt-oss 120b", "/models/a..b")
    assert result["target_model"]["directory"] == result["target"]
    assert result["repositories"] == []
    assert without_drafts(result)["directories"] == ["/models/original/gpt-oss 120b"]


def test_one_model_in_a_directory_and_one_from_the_hub() -> None:
    result = with_models(validate(recipe(target_model={"directory": "/models/target"})))
    assert result["directories"] == ["/models/target"]
    assert result["repositories"] == [{"id": "example/draft", "revision": "main", "include": [], "exclude": []}]
    assert (result["target"], result["draft"]) == ("/models/target", "example/draft")


def test_without_drafts() -> None:
    alone = without_drafts({"name": "mine", **with_models(validate(recipe(options={"enable_autotuner": False})))})
    assert (alone["name"], alone["title"]) == ("mine", "Two small models without speculation")
    assert (alone["method"], alone["draft_model"], alone["draft_length"], alone["draft"]) == ("none", None, 0, "")
    assert alone["speculation"] is False
    assert [model["id"] for model in alone["repositories"]] == ["example/target"]
    assert alone["options"] == {"enable_autotuner": False}
    assert without_drafts(alone) == alone


def test_without_drafts_of_ones_own() -> None:
    alone = without_drafts(with_models(validate(recipe(**RAW, options={**SECTION, "enable_autotuner": False}))))
    assert (alone["method"], alone["options"]) == ("none", {"enable_autotuner": False})


@pytest.mark.parametrize("sparks", [1, 2, 3, 4, 8])
def test_a_recipe_for_any_number_of_sparks_is_valid_data(sparks: int) -> None:
    assert validate(recipe(sparks=sparks))["sparks"] == sparks


def test_a_text_may_be_folded_and_a_prompt_may_have_lines() -> None:
    validate(recipe(title="Größe: a folded one\n", probe={"prompt": "a\nb"}))


def test_all_errors_come_at_once() -> None:
    with pytest.raises(RecipeError) as caught:
        validate(recipe(image=None, sparks="one", titel="x"))
    assert str(caught.value).count("\n") == 2


def test_method_none_needs_no_draft() -> None:
    assert validate(recipe(method="none", draft_model=None, draft_length=None))["draft_model"] is None


# Aliases eight levels deep, as large as 9^8 words.
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh")
)


@pytest.mark.parametrize("b", ["b", "bb"])
def test_an_alias_that_is_merged_may_be_overridden(b: str, tmp_path: Path) -> None:
    """However long the names are: a Python keeps a name of one letter once, and PyYAML 6.0.4 asks for that."""
    options = (
        f"options:\n  a: &a {{{b}: 1, c: 2}}\n  d: &d {{<<: *a, {b}: 3}}\n  e: {{<<: *d, c: 4}}\n"
        f"  f: {{<<: [*a, *d], g: 5}}\n"
    )
    # An image that says no release leaves the names of the options alone.
    image = recipe(image="registry.example.com/image:mine")
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(image) + options, encoding="utf-8")
    assert load(tmp_path / "mine.yml")["options"] == {
        "a": {b: 1, "c": 2},
        "d": {b: 3, "c": 2},
        "e": {b: 3, "c": 4},
        "f": {b: 1, "c": 2, "g": 5},
    }


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("Mine.yml", "{}", "file name 'Mine.yml' names the deployment"),
        ("models.yml", "{}", "'models' is the name of another directory"),
        ("mine.yml", "a: [", "is not valid YAML: line 1, column "),
        ("mine.yml", "title: 2024-13-45", "is not valid YAML: month must be in 1..12"),
        ("mine.yml", "a: " + "[" * 3000, "is not valid YAML: "),
        ("mine.yml", "title: a\noptions:\n  b: 1\n  b: 2\n", "line 4, column 3: the key 'b' is there twice"),
        ("mine.yml", "title: a\nport: 1\ntitle: b\n", "line 3, column 1: the key 'title' is there twice"),
        ("mine.yml", BOMB, "line 5, column 4: with what its aliases stand for it has more than 10,000 parts"),
        ("mine.yml", "- a", "it must be a mapping of keys"),
        ("mine.yml", "{}", "title is missing"),
        ("mine.yml", yaml.safe_dump(recipe(options=None)) + "options: &all {a: [*all]}", "options.a.0 contains itself"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, name: str, text: str, error: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=error):
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        (
            {"options": {"enable_autotunr": True, "kv_cache_config": {"dtype": 8}}},
            [
                "options.enable_autotunr: is not a key of release family 1.3; did you mean 'enable_autotuner'?",
                "options.kv_cache_config.dtype: must be one of auto, fp8, ",
            ],
        ),
        (
            {
                **{"engine": "vllm", "image": "vllm/vllm-openai:v0.32.0"},
                "environment": {"VLLM_USE_V1": "1", "VLLM_USE_DEEP_GEMM": 0},
            },
            ["environment.VLLM_USE_V1: "],
        ),
        (
            {"sparks": 2, "options": {"tensor_parallel_size": 1}},
            ["options.tensor_parallel_size: "],
        ),
        ({"family": "1.2"}, ["family: 1.3.0rc12 belongs to release family 1.3, not 1.2; remove it"]),
        ({"image": "registry.example.com/image:mine", "options": {"enable_autotunr": True}}, []),
        (
            {"image": "registry.example.com/image:mine", "family": "1.3", "options": {"enable_autotunr": True}},
            ["options.enable_autotunr: is not a key of release family 1.3; did you mean 'enable_autotuner'?"],
        ),
        (
            {
                **{"method": None, "draft_length": None, "image": "registry.example.com/image:1.2.0rc6"},
                "options": {"speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 3}},
            },
            ["options.speculative_config.decoding_type: must be one of Eagle, "],
        ),
    ],
)
def test_the_options_are_those_of_the_image(tmp_path: Path, changes: dict[str, t.Any], errors: list[str]) -> None:
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(recipe(**changes)), encoding="utf-8")
    try:
        found = [] if load(tmp_path / "mine.yml") else ["nothing"]
    except RecipeError as error:
        found = str(error).splitlines()[1:]
    assert [line[: len(begin) + 2] for line, begin in zip(found, errors)] == [f"- {error}" for error in errors]
    assert len(found) == len(errors)


def test_a_recipe_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(recipe()), encoding="utf-8")
    assert find("single_eagle3", RECIPES, tmp_path) == RECIPES / "single_eagle3.yml"
    assert find("mine.yml", RECIPES, tmp_path) == tmp_path / "mine.yml"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("single_eagl3", "There is no recipe 'single_eagl3'; did you mean 'single_eagle3'?"),
        ("quite else", "There is no recipe 'quite else'."),
        ("~nobody-of-that-name/mine.yml", "There is no recipe '~nobody-of-that-name/mine.yml'."),
        ("/etc", "'/etc' is a directory: -e recipe= takes the path of a file"),
        ("a\0b", "There is no recipe 'a\0b'."),
        ("x" * 5000, f"There is no recipe '{'x' * 197}...'."),
    ],
)
def test_of_an_unknown_recipe_the_answer_is_not_followed_by_all_others(tmp_path: Path, name: str, error: str) -> None:
    with pytest.raises(RecipeError) as caught:
        find(name, RECIPES, tmp_path)
    assert str(caught.value).startswith(error)
    assert str(caught.value).endswith("recipes.yml lists all.")
    assert "single_eagle3_page" not in str(caught.value)


def test_who_gives_no_recipe_sees_the_names(tmp_path: Path) -> None:
    # Also of one that cannot be used.
    (tmp_path / "good.yml").write_text(yaml.safe_dump(recipe()), encoding="utf-8")
    (tmp_path / "bad.yml").write_text("{}", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"^No recipe was given\..*\nbad, good$"):
        find("", tmp_path, tmp_path)


RAW = {"method": None, "draft_model": None, "draft_length": None}
SECTION = {"speculative_config": {"decoding_type": "NGram", "max_draft_len": 3}}


def test_a_section_of_ones_own_takes_the_place_of_the_method() -> None:
    result = validate(recipe(**RAW, options=SECTION))
    assert result["method"] == ""
    assert result["options"] == SECTION


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {**RAW, "options": SECTION, "draft_length": 3},
            "draft_length is given, but options.speculative_config says it",
        ),
        (RAW, f"method is missing: it must be one of {', '.join(CHOICES)}"),
        ({"figures": {"download_gb": {"value": 3}}}, "figures.download_gb.source is missing"),
        ({"figures": {"download_gb": 3}}, "figures.download_gb must be a mapping"),
        (
            {"figures": {"download_gb": {"value": 3, "source": "a friend"}}},
            "figures.download_gb.source is 'a friend', but must be the https address of a page",
        ),
        (
            {"figures": {"memory_gb": {"value": -1, "source": "https://example.com"}}},
            "figures.memory_gb.value must be above 0",
        ),
        ({"break_even": {"draft_cost": True}}, "break_even.draft_cost must be a number, not True"),
        ({"break_even": {"experts": 128}}, "break_even.draft_cost is missing"),
        ({"break_even": {"draft_cost": float("nan")}}, "break_even.draft_cost must be above 0"),
        ({"break_even": {"draft_cost": 0.1, "expert_share": 2}}, "break_even.expert_share must be from 0 to 1"),
        ({"break_even": {"draft_cost": 0.1, "active_experts": 4}}, "break_even.active_experts must be from 0 to"),
        ({**RAW, "options": {"speculative_config": "Eagle3"}}, "options.speculative_config must be a mapping"),
        ({**RAW, "options": {"speculative_config": {}}}, "options.speculative_config must be a mapping"),
    ],
)
def test_who_says_how_to_draft(changes: dict[str, t.Any], error: str) -> None:
    with pytest.raises(RecipeError, match=error):
        validate(recipe(**changes))


def test_a_method_that_the_engine_lacks_is_refused() -> None:
    assert check_method({"method": "lookup", "draft_length": 3}) == [
        "TensorRT-LLM does not have method lookup. Choose one of eagle3, draft_target, mtp, ngram"
    ]


def test_a_method_that_is_not_offered_is_refused_with_the_reason() -> None:
    with pytest.raises(
        RecipeError, match=r"^- method is 'suffix', which is not offered: vLLM needs the package arctic"
    ):
        validate(recipe(engine="vllm", method="suffix"))


def test_further_keys_of_the_speculation_of_vllm_go_with_a_method() -> None:
    options = {"speculative-config": {"moe_backend": "triton"}}
    changes = {"engine": "vllm", "image": "vllm/vllm-openai:v0.32.0", "draft_model": None, "options": options}
    result = validate(recipe(method="mtp", **changes))
    assert (result["method"], result["draft_length"], result["options"]) == ("mtp", 3, options)
    assert without_drafts(with_models(result))["options"] == {}


@pytest.mark.parametrize(
    ("tag", "says"),
    [
        ("v0.26.0", r"- method: dspark needs vLLM 0\.27\.0 or later"),
        ("v0.20.0", "- image: "),
        ("v0.28.0-cu129", r"- image: \S+ has no kernels for a GB10"),
    ],
)
def test_an_image_that_cannot_serve_a_recipe_is_refused(tmp_path: Path, tag: str, says: str) -> None:
    path = tmp_path / "mine.yml"
    made = recipe(engine="vllm", image=f"vllm/vllm-openai:{tag}", method="dspark")
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    with pytest.raises(RecipeError, match=says):
        load(path)


def test_a_model_without_a_revision_is_that_of_its_main_branch() -> None:
    asked = {**with_models(validate(recipe())), "repositories": [{"id": "example/target"}]}
    assert of_recipe(asked).revisions == {"example/target": "main"}


def test_an_assistant_may_be_given_or_left_out() -> None:
    changes = {"engine": "vllm", "method": "mtp"}
    assert validate(recipe(**changes))["draft_model"]["id"] == "example/draft"
    assert validate(recipe(**changes, draft_model=None))["draft_model"] is None


@pytest.mark.parametrize(
    ("sparks", "hosts", "remedy"),
    [
        (1, ["a", "b"], "For one of them add --limit, such as --limit a."),
        (2, ["a", "b", "c"], "To choose them add --limit, such as --limit a,b."),
        (2, ["spark-1"], f"Add to the hosts in mine.yml:{SPARK_2}"),
        (
            1,
            [],
            "The inventory is mine.yml. Edit it ('make setup' makes inventory/hosts.yml from the example) or give "
            "another inventory with -i.",
        ),
    ],
)
def test_the_inventory_has_as_many_sparks_as_the_recipe_needs(sparks: int, hosts: list[str], remedy: str) -> None:
    with pytest.raises(RecipeError) as error:
        check_inventory({"name": "mine", "sparks": sparks}, hosts, ["mine.yml"])
    assert str(error.value) == (
        f"Recipe 'mine' needs {sparks} host(s) in the inventory's group 'sparks', but it has {len(hosts)}. {remedy}"
    )
    check_inventory({"name": "mine", "sparks": len(hosts)}, hosts, [])


def test_a_run_has_as_many_sparks_as_its_recipe_needs() -> None:
    with pytest.raises(RecipeError) as error:
        check_run({"name": "mine", "sparks": 1}, ["a", "b"])
    assert str(error.value) == (
        "Recipe 'mine' needs 1 host(s) of the inventory's group 'sparks', but this run has 2 (a, b). Choose them with "
        "--limit, or in the inventory."
    )
    check_run({"name": "mine", "sparks": 2}, ["a", "b"])


VARIANTS = {
    "other": {"method": "draft_target", "draft_length": 4, "draft_model": {"id": "example/small"}},
    "longer": {"draft_length": 5, "title": "Longer drafts", "options": {"max_num_tokens": 4096}},
}


def with_variants(tmp_path: Path, **changes: t.Any) -> Path:
    path = tmp_path / "mine.yml"
    options = {"kv_cache_config": {"enable_block_reuse": True}, "max_num_tokens": 1024}
    figures = {"draft_cost": 0.3, "target_gb": 5.0}
    written = recipe(**{"variants": VARIANTS, "options": options, "break_even": figures, **changes})
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    return path


def test_a_variant_changes_a_recipe(tmp_path: Path) -> None:
    path = with_variants(tmp_path)
    base, longer = load(path), load(path, "longer")
    assert (base["name"], base["variant"], list(base["variants"])) == ("mine", "", ["longer", "other"])
    assert (longer["name"], longer["variant"], longer["title"]) == ("mine", "longer", "Longer drafts")
    changed = {key for key, value in base.items() if value != longer[key]}
    assert changed == {"variant", "variants", "title", "draft_length", "options"}
    # One option by another.
    assert longer["options"] == {"kv_cache_config": {"enable_block_reuse": True}, "max_num_tokens": 4096}


def test_a_variant_with_a_method_of_its_own_takes_over_nothing_of_the_recipes(tmp_path: Path) -> None:
    other = load(with_variants(tmp_path), "other")
    assert (other["method"], other["draft_length"], other["draft"]) == ("draft_target", 4, "example/small")
    assert [model["id"] for model in other["repositories"]] == ["example/target", "example/small"]
    # What a draft costs was computed for another one.
    assert other["break_even"] is None
    assert other["title"] == "Two small models, variant other"


@pytest.mark.parametrize(
    ("variant", "variants", "error"),
    [
        ("langer", VARIANTS, "Recipe 'mine' has no variant 'langer'; did you mean 'longer'? It has longer, other. No"),
        ("x", VARIANTS, "Recipe 'mine' has no variant 'x'. It has longer, other. Nothing was changed."),
        ("x", None, "Recipe 'mine' has no variant 'x'. It has none, so leave variant out. Nothing was changed."),
    ],
)
def test_a_variant_that_does_not_exist(tmp_path: Path, variant: str, variants: t.Any, error: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(error)):
        load(with_variants(tmp_path, variants=variants), variant)


@pytest.mark.parametrize(
    ("variants", "error"),
    [
        ({"Mine": {"draft_length": 2}}, "- variants.Mine must be lower-case letters, digits and underscores"),
        ({"mine": None}, "- variants.mine is empty"),
        ({"mine": {"sparks": 2}}, "- variants.mine.sparks is not known; there are "),
        ({"mine": {"method": "draft_target"}}, "- variants.mine: draft_model is missing, and method 'draft_target' ne"),
        ({"mine": {"options": {"max_batch": 1}}}, "- variants.mine: options.max_batch: is not a key of release family"),
    ],
)
def test_a_variant_that_cannot_be_used(tmp_path: Path, variants: t.Any, error: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(error)):
        load(with_variants(tmp_path, variants=variants))
