# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read and validate recipes: data files with the models and settings of a deployment."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import re
import typing as t
from pathlib import Path

import yaml
from ansible.utils.vars import merge_hash

from ...module_utils._data.text import join_words, shorten
from ...module_utils._deployment.records import NOT_DEPLOYMENTS
from .._data.rows import CONTROL, Field, check_mapping, check_value, describe, refuse_doubles
from .._data.spelling import did_you_mean
from .._engines.effects import OWN_VARIABLES
from .._engines.engine import AUTO, failure, of_recipe
from .._engines.methods import CHOICES as METHOD_NAMES
from .._engines.methods import NONE, NOT_OFFERED, draft_model, needs_draft_model
from .._engines.registry import DEFAULT, ENGINES, build, engine_of, refused_method

# Recipes ship with the playbooks; this way they are found from a clone, installed, and from a user's own playbook.
RECIPES = Path(__file__).resolve().parents[3] / "playbooks" / "recipes"
PLANNED, FRACTION = "planned", "fraction"
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
HUB_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][\w.-]*/[\w-][\w.-]*", re.ASCII)
# Neither the root nor .., which would lead elsewhere through a link.
DIRECTORY = re.compile(r"(?!.*/\.\.?(?:/|$))/+[^\x00-\x1f/][^\x00-\x1f]*")
VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# The vocabularies of TikToken, and the checksum of each.
TIKTOKEN_ENCODINGS = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
# Nothing drafts as many tokens; what is larger is a slip, and not a question of memory.
MOST_DRAFTED = 1024
# A recipe has some hundred keys and values. Aliases of aliases make a short file endless.
MOST_PARTS = 10_000
# The names of these keys in the rules of the engine options; all others are in the options.
ENGINE_NAMES = {
    "release": "image",
    "max_draft_len": "draft_length",
    "world_size": "sparks",
    "family": "family",
    "method": "method",
    "draft_model": "draft_model",
    "environment": "environment",
}


MERGE = "tag:yaml.org,2002:merge"


class RecipeError(Exception):
    """An unusable recipe. The message has every reason, one a line."""


class Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which the last would win, and aliases that make it endless."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # The number of parts of a node, by its identity. An alias is as large as its anchor.
        self._sizes: dict[int, int] = {}

    def compose_sequence_node(self, anchor: t.Any) -> t.Any:
        node = super().compose_sequence_node(anchor)
        self._count(node, node.value)
        return node

    def compose_mapping_node(self, anchor: t.Any) -> t.Any:
        node = super().compose_mapping_node(anchor)
        self._count(node, [part for cluster in node.value for part in cluster])
        self.check_keys(node)
        return node

    def check_keys(self, node: yaml.MappingNode) -> None:
        """Refuse a key that is there twice."""
        refuse_doubles(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge by yaml.org/type/merge.html: a mapping's own key has precedence, then that of the first merged one.

        PyYAML 6.0.4 compares merged keys by their identity in memory, and may prefer another one.
        """
        own, merged = [], []
        # Emptied meanwhile, for one that is to be merged into itself.
        pairs, node.value = node.value, []
        for key, value in pairs:
            if key.tag != MERGE:
                own.append((key, value))
                continue
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(source, yaml.MappingNode):
                    raise yaml.MarkedYAMLError(problem="only mappings can be merged", problem_mark=source.start_mark)
                self.flatten_mapping(source)
                merged += source.value
        result = {(key.tag, str(key.value)): (key, value) for key, value in reversed(own + merged)}
        node.value = [*reversed(result.values())] if merged else own

    def _count(self, node: yaml.Node, parts: t.Sequence[yaml.Node]) -> None:
        self._sizes[id(node)] = 1 + sum(self._sizes.get(id(part), 1) for part in parts)
        if self._sizes[id(node)] > MOST_PARTS:
            problem = f"with what its aliases stand for it has more than {MOST_PARTS:,} parts"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


# Keys of a model from the Hub.
HUB: dict[str, Field] = {
    "revision": Field(str, default="main"),
    "include": Field(list, default=[], each=Field(str)),
    "exclude": Field(list, default=[], each=Field(str)),
}
# One of id and directory.
MODEL: dict[str, Field] = {
    "id": Field(str, pattern=HUB_ID, form="a Hub id such as 'organisation/model'"),
    "directory": Field(
        str, pattern=DIRECTORY, form="the absolute path of a directory on the Spark, such as '/models/mine'"
    ),
    **HUB,
}

RECIPE: dict[str, Field] = {
    "title": Field(str, required=True),
    "source": Field(str, required=True),
    # What shows that a Spark serves it: its source is a publisher's or an owner's, or our tests alone render it.
    "evidence": Field(str, default="rendered", choices=("published", "reported", "rendered")),
    # Among how many the attention heads of the target are divided; whether they can be, its own files say.
    "sparks": Field(int, required=True, least=1),
    "engine": Field(str, default=DEFAULT, choices=tuple(ENGINES)),
    "image": Field(str, required=True),
    # The shipped recipe to serve if this image cannot be had, or refuses the options.
    "fallback": Field(str, default=""),
    # A note on this image, in a sentence.
    "note": Field(str, default=""),
    "port": Field(int, default=8000, least=1, most=65535),
    # The release family of an image whose tag does not have it.
    "family": Field(str, default=AUTO),
    # Absent if the engine options have the speculation.
    "method": Field(str, default="", choices=METHOD_NAMES, refused=NOT_OFFERED),
    "draft_length": Field(int, default=0, most=MOST_DRAFTED),
    "target_model": Field(
        dict,
        required=True,
        fields={**MODEL, "chat": Field(bool, default=True), "tools": Field(bool, default=False)},
    ),
    "draft_model": Field(dict, fields=MODEL),
    # Tokens of one conversation, prompt and answer together, and how many conversations there may be at once.
    "context": Field(int, default=32768, least=1),
    "concurrency": Field(int, default=1, least=1),
    # The KV cache is made for these two, or takes a fraction of what is free, as the engine options say.
    "kv_cache": Field(str, default=PLANNED, choices=(PLANNED, FRACTION)),
    "tiktoken_encodings": Field(list, default=[], each=Field(str, choices=tuple(TIKTOKEN_ENCODINGS))),
    "environment": Field(dict, default={}),
    "options": Field(dict, default={}),
    "probe": Field(
        dict,
        default={},
        fields={
            "prompt": Field(str, lines=True),
            "expect": Field(list, default=[], each=Field(str)),
            "max_tokens": Field(int, default=1024),
        },
    ),
    # The cost of a drafted token, for the break-even.
    "break_even": Field(
        dict,
        fields={
            # The bytes that a pass of the target model reads for one token, on all Sparks together.
            "target_gb": Field(float),
            # One pass of the draft model by one pass of the target model.
            "draft_cost": Field(float, required=True),
            # Of a mixture of experts: the experts' share of what a pass reads, all experts, and those a token uses.
            "expert_share": Field(float, default=0.0),
            "experts": Field(int, default=0),
            "active_experts": Field(int, default=0),
        },
    ),
}
# A figure and the page that has it. What no page has is left out, and a run asks the Hub for it.
FIGURE = {
    "value": Field(float, required=True),
    "source": Field(str, required=True, pattern=re.compile(r"https://\S+"), form="the https address of a page"),
}
# The bytes of the models, what the memory plan needs on each Spark, and the speed of one stream on a Spark.
RECIPE["figures"] = Field(
    dict,
    default={},
    fields={name: Field(dict, fields=FIGURE) for name in ("download_gb", "memory_gb", "tokens_per_second")},
)
# What a variant may change.
VARIANT = {
    **{name: RECIPE[name] for name in ("evidence", "note", "figures", "method", "draft_length", "draft_model")},
    **{name: RECIPE[name] for name in ("context", "concurrency", "options", "break_even")},
    **dict.fromkeys(("title", "source", "image"), Field(str)),
}
# Other ways to serve the same target model.
RECIPE["variants"] = Field(dict, default={}, each=Field(dict, required=True, fields=VARIANT))
# Keys that a variant with its own method does not take over.
OF_THE_METHOD = ("method", "draft_length", "draft_model", "break_even")


def check_environment(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Variables are exported by a shell, so their names have to be names, and their values plain."""
    errors = []
    for name, value in (recipe.get("environment") or {}).items():
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            errors.append(f"environment.{name} is not the name of a variable")
        elif name.startswith(OWN_VARIABLES):
            errors.append(f"environment.{name} would replace a decision of this collection. Remove it")
        # The value may be a token, which is not repeated.
        elif not isinstance(value, (str, int, float)):
            errors.append(f"environment.{name} must be a string or a number")
        elif CONTROL.search(str(value)):
            errors.append(f"environment.{name} must be one line of text without control characters")
    return errors


def check_fallback(name: str, recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Return why a fallback is not another recipe that a command can name."""
    fallback, known = recipe["fallback"], shipped(RECIPES)
    if fallback == name:
        return ["fallback names the recipe itself; name another one"]
    if fallback and fallback not in known:
        return [f"fallback: there is no shipped recipe '{fallback}'{did_you_mean(fallback, known) or '.'}"]
    return []


def check_expectations(recipe: t.Mapping[str, t.Any]) -> list[str]:
    errors = []
    for index, pattern in enumerate((recipe.get("probe") or {}).get("expect") or []):
        try:
            re.compile(pattern)
        except re.error as error:
            errors.append(f"probe.expect[{index}] is not a regular expression: {error}")
    return errors


def check_plain(path: str, value: t.Any, above: tuple[int, ...] = ()) -> list[str]:
    """Check that options for the engine's file are text, numbers, lists and mappings without cycles."""
    if not isinstance(value, (dict, list)):
        plain = value is None or isinstance(value, (str, int, float))
        return [] if plain else [f"{path} must be a plain value, not {value!r}; put it in quotes"]
    if id(value) in above:
        return [f"{path} contains itself"]
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return [error for key, part in parts for error in check_plain(f"{path}.{key}", part, (*above, id(value)))]


def check_break_even(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Shares and counts that cannot be would only be noticed after the deployment."""
    given = recipe.get("break_even") or {}
    errors = []
    if not 0 < (given.get("target_gb") or 1) < math.inf:
        errors.append("break_even.target_gb must be above 0")
    if not 0 < given.get("draft_cost", 1) < math.inf:
        errors.append("break_even.draft_cost must be above 0")
    if not 0 <= (given.get("expert_share") or 0) <= 1:
        errors.append("break_even.expert_share must be from 0 to 1")
    if not 0 <= (given.get("active_experts") or 0) <= (given.get("experts") or 0):
        errors.append("break_even.active_experts must be from 0 to break_even.experts")
    return errors


def check_figures(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Check that each figure is a number that a page can have."""
    given = {name: figure for name, figure in (recipe.get("figures") or {}).items() if figure is not None}
    return [
        f"figures.{name}.value must be above 0" for name, figure in given.items() if not 0 < figure["value"] < math.inf
    ]


def check_models(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Check that a model comes from the Hub or is a directory.

    A directory has neither revisions nor files to choose.
    """
    errors = []
    for key in ("target_model", "draft_model"):
        model = recipe.get(key)
        if not model:
            continue
        given = [name for name in ("id", "directory") if model.get(name) is not None]
        if not given:
            errors.append(f"{key}.id is missing; give it, or {key}.directory for a model that is on the Spark")
        elif len(given) == 2:
            errors.append(f"{key}.id and {key}.directory both say where the model is: leave one of them out")
        elif given == ["directory"]:
            errors += [
                f"{key}.{name} is given, but only a model from the Hub has it, and {key}.directory is a directory"
                for name in HUB
                if model.get(name)
            ]
    return errors


def check_method(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Check method, draft model and draft length against each other and against the engine."""
    method, length, engine = recipe.get("method"), recipe.get("draft_length"), engine_of(recipe)
    raw, option = (recipe.get("options") or {}).get(engine.speculation), f"options.{engine.speculation}"
    if raw is not None and not (isinstance(raw, dict) and raw):
        return [f"{option} must be a mapping that says how to draft"]
    if raw and not method:
        return [f"draft_length is given, but {option} says it"] if length else []
    if not method:
        return [
            f"method is missing: it must be one of {', '.join(METHOD_NAMES)}, or options must have {engine.speculation}"
        ]
    if refusal := refused_method(engine, method):
        return [refusal]
    errors = []
    if needs_draft_model(method) and not recipe.get("draft_model"):
        errors.append(f"draft_model is missing, and method '{method}' needs one")
    if not draft_model(method) and recipe.get("draft_model"):
        errors.append(f"draft_model is given, but method is '{method}'")
    if method == NONE:
        return [*errors, "draft_length is given, but method is 'none'"] if length else errors
    if not isinstance(length, int) or length < 1:
        errors.append(f"draft_length must be 1 or more for method '{method}'")
    return errors


def check_variants(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Return the variants that a command could not name."""
    return [
        f"variants.{name} must be lower-case letters, digits and underscores, and begin with a letter"
        for name in recipe.get("variants") or {}
        if not NAME.match(name)
    ]


def with_variant(data: t.Mapping[str, t.Any], name: str) -> dict[str, t.Any]:
    """Return the data of a recipe with the changes of a variant. Engine options are replaced one by one."""
    changes = data["variants"][name]
    foreign = OF_THE_METHOD if changes.get("method") else ()
    kept = {key: value for key, value in data.items() if key not in ("variants", "figures", *foreign)}
    options = {**(data.get("options") or {}), **(changes.get("options") or {})}
    return {**kept, "title": f"{data['title']}, variant {name}", **changes, "options": options}


def missing_variant(recipe: t.Mapping[str, t.Any], variant: str) -> str:
    """Return why a recipe cannot be served as a variant."""
    names = list(recipe["variants"])
    has = f"It has {', '.join(names)}" if names else "It has none, so leave variant out"
    end = did_you_mean(variant, names) or "."
    return f"Recipe '{recipe['name']}' has no variant '{variant}'{end} {has}. Nothing was changed."


def check_family(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Check the family, whose names depend on the engine."""
    family = recipe.get("family") or AUTO
    return check_value("family", family, Field(str, choices=(AUTO, *engine_of(recipe).families)))


def with_defaults(data: t.Mapping[str, t.Any], fields: t.Mapping[str, Field]) -> dict[str, t.Any]:
    filled = {}
    for key, field in fields.items():
        value = data.get(key)
        # A key without a value, as in "options:", is one left to its default.
        value = field.default if value is None else value
        filled[key] = with_defaults(value, field.fields) if field.fields and value is not None else value
    return filled


def refuse(errors: t.Sequence[str]) -> None:
    if errors:
        raise RecipeError("\n".join(f"- {error}" for error in errors))


def validate(data: t.Any) -> dict[str, t.Any]:
    """Return the recipe with every key present; raises RecipeError with all errors at once."""
    if not isinstance(data, dict):
        raise RecipeError("it must be a mapping of keys such as 'target_model' and 'method'")
    errors = check_mapping("", data, RECIPE)
    if not errors:
        errors = [
            *check_family(data),
            *check_models(data),
            *check_method(data),
            *check_break_even(data),
            *check_figures(data),
            *check_environment(data),
            *check_expectations(data),
            *check_plain("options", data.get("options")),
            *check_variants(data),
        ]
    refuse(errors)
    recipe = with_defaults(data, RECIPE)
    for model in models(recipe):
        if model["directory"]:
            # Spelt in one way, since it names the model.
            model["directory"] = "/" + "/".join(filter(None, model["directory"].split("/")))
    return recipe


def models(recipe: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    return [recipe[key] for key in ("target_model", "draft_model") if recipe[key]]


def model_name(model: t.Mapping[str, t.Any] | None) -> str:
    """Return the name of a model: its Hub id or the path of its directory; empty if there is none."""
    return (model["id"] or model["directory"]) if model else ""


def with_models(recipe: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the recipe with what follows from its engine and its models: their names, and where they come from."""
    wanted = models(recipe)
    return {
        **recipe,
        "container_role": engine_of(recipe).container_role,
        "target": model_name(recipe["target_model"]),
        "draft": model_name(recipe["draft_model"]),
        # Without what only matters for serving.
        "repositories": [{key: model[key] for key in ("id", *HUB)} for model in wanted if model["id"]],
        "directories": list(dict.fromkeys(model["directory"] for model in wanted if model["directory"])),
    }


def without_drafts(recipe: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the same recipe with its target model alone."""
    if recipe["method"] == NONE:
        return dict(recipe)
    options = {key: value for key, value in recipe["options"].items() if key != engine_of(recipe).speculation}
    changes = {"method": NONE, "draft_model": None, "draft_length": 0, "options": options, "speculation": False}
    return with_models({**recipe, **changes, "title": f"{recipe['title']} without speculation"})


def check_engine(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Return what the recipe's own image would reject; empty if its rules are unknown."""
    built = build(engine_of(recipe), of_recipe(recipe))
    # The user may name the release whose rules an image follows, if its tag does not show it.
    has_rules = built.family or not engine_of(recipe).families
    told = [error for error in built.errors if has_rules or error.path != "release"]
    return [f"{recipe_key(error.path)}: {error.message}" for error in told]


def recipe_key(path: str) -> str:
    """Return the recipe's key for the path of a finding: its own name, a variable, or an engine option."""
    return path if path.startswith("environment.") else ENGINE_NAMES.get(path) or f"options.{path}"


def check_given(recipe: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any], image: str, family: str) -> None:
    """Raise RecipeError for engine options, given beside a recipe, that the server would refuse.

    Only these options count: the deployment may have another method or draft length than the recipe.
    """
    wanted, engine = {**recipe, "options": merge_hash(recipe["options"], dict(options))}, engine_of(recipe)
    changed = {**wanted, "image": image or recipe["image"], "family": family or recipe["family"]}
    built = build(engine, of_recipe(changed))
    wrong = [error for error in built.errors if re.split(r"[.\[]", error.path)[0] in options]
    if wrong:
        raise RecipeError(f"speculative_serve_options: {failure(engine, dataclasses.replace(built, errors=wrong))}")


def check_name(path: Path) -> None:
    """Raise RecipeError if a file's name cannot be the name of a deployment."""
    name = path.stem
    if not NAME.match(name):
        raise RecipeError(
            f"The recipe's file name '{path.name}' names the deployment, so it must be lower-case letters, digits and "
            "underscores, and begin with a letter"
        )
    if name in NOT_DEPLOYMENTS:
        raise RecipeError(
            f"The recipe's file name '{path.name}' names the deployment, and '{name}' is the name of another directory "
            "beside the deployments; give the file another name"
        )


def complete(name: str, data: t.Any, variant: str = "") -> dict[str, t.Any]:
    """Return a recipe with its name, its variant, and what follows from its models.

    Raises RecipeError with a line for each error.
    """
    recipe = {"name": name, "variant": variant, **with_models(validate(data))}
    refuse([*check_fallback(name, recipe), *check_engine(recipe)])
    return recipe


def variants_of(recipe: t.Mapping[str, t.Any], data: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """Return the variants of a recipe by name, each as a recipe; raises RecipeError."""
    result = {}
    for variant in recipe["variants"]:
        try:
            result[variant] = complete(recipe["name"], with_variant(data, variant), variant)
        except RecipeError as error:
            raise RecipeError(str(error).replace("- ", f"- variants.{variant}: ")) from None
    return result


def load(path: Path, variant: str = "") -> dict[str, t.Any]:
    """Read one recipe file, or a variant in it.

    `name` (the file's, without the ending), `variant` and what follows from its models are added.
    """
    check_name(path)
    try:
        data = Loader(path.read_text(encoding="utf-8")).get_single_data()
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The recipe {path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise RecipeError(f"The recipe {path} is not valid YAML: {describe(error)}") from error
    try:
        recipe = complete(path.stem, data)
        variants = variants_of(recipe, data)
    except RecipeError as error:
        raise RecipeError(f"The recipe {path} cannot be used:\n{error}") from error
    if variant and variant not in variants:
        raise RecipeError(missing_variant(recipe, variant))
    return variants[variant] if variant else recipe


def shipped(directory: Path) -> dict[str, Path]:
    """Return the recipes in a directory, by name."""
    return {path.stem: path for path in sorted(directory.glob("*.yml"))}


def usable(directory: Path) -> tuple[dict[str, dict[str, t.Any]], list[str]]:
    """Return a user's recipes by their paths, as -e recipe= takes them, and the errors of those that cannot be used."""
    recipes, problems = {}, []
    for path in shipped(directory).values():
        try:
            recipes[str(path)] = load(path)
        except RecipeError as error:
            problems.append(str(error))
    return recipes, problems


def find(recipe: str, directory: Path, working_directory: Path) -> Path:
    """Return the file of a recipe given by shipped name or by path; raises RecipeError, which says where all are."""
    known = shipped(directory)
    if recipe in known:
        return known[recipe]
    is_directory = False
    # A path may also be too long, have an invalid byte, or name the home of an unknown user.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        path = (working_directory / Path(recipe).expanduser()).resolve()
        if recipe and path.is_file():
            return path
        is_directory = path.is_dir()
    recipe = shorten(recipe, 200)
    remedy = "-e recipe= takes the path of a file or a shipped name; recipes.yml lists all."
    if not recipe:
        names = ", ".join(known)
        raise RecipeError(f"No recipe was given. Add -e recipe= with the path of a file, or one of these:\n{names}")
    if is_directory:
        raise RecipeError(f"'{recipe}' is a directory: {remedy}")
    raise RecipeError(f"There is no recipe '{recipe}'{did_you_mean(recipe, known) or '.'}\n{remedy}")


def check_inventory(recipe: t.Mapping[str, t.Any], hosts: t.Sequence[str], sources: t.Sequence[str]) -> None:
    """Raise RecipeError if the inventory, read from these sources, has another number of Sparks than a recipe needs."""
    needed = recipe["sparks"]
    if len(hosts) == needed:
        return
    if len(hosts) > needed:
        limit = ",".join(hosts[:needed])
        remedy = f"{'For one of them' if needed == 1 else 'To choose them'} add --limit, such as --limit {limit}."
    elif hosts:
        names = (name for number in itertools.count(1) if (name := f"spark-{number}") not in hosts)
        added = "".join(
            f"\n    {name}:\n      ansible_host: ADDRESS\n      ansible_user: USER"
            for name in itertools.islice(names, needed - len(hosts))
        )
        remedy = f"Add to the hosts in {join_words(sources)}:{added}"
    else:
        remedy = (
            f"The inventory is {join_words(sources)}. Edit it ('make setup' makes inventory/hosts.yml from the "
            "example) or give another inventory with -i."
        )
    raise RecipeError(
        f"Recipe '{recipe['name']}' needs {needed} host(s) in the inventory's group 'sparks', but it has {len(hosts)}. "
        f"{remedy}"
    )


def check_run(recipe: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> None:
    """Raise RecipeError if a run has another number of Sparks than its recipe needs."""
    if len(hosts) != recipe["sparks"]:
        raise RecipeError(
            f"Recipe '{recipe['name']}' needs {recipe['sparks']} host(s) of the inventory's group 'sparks', but this "
            f"run has {len(hosts)} ({', '.join(hosts)}). Choose them with --limit, or in the inventory."
        )
