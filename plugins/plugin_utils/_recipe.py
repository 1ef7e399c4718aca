# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read and validate recipes: the data that says which models are served, and how."""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing as t
from pathlib import Path

import yaml

METHODS = ("eagle3", "draft_target", "none")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
# A deployment's directory is named after it and lies beside these, which hold watched jobs and receipts.
TAKEN_NAMES = ("jobs", "models")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
VOCABULARIES = ("o200k_base", "cl100k_base")


class RecipeError(Exception):
    """A recipe that cannot be used; the message holds every reason, one a line."""


@dataclasses.dataclass(frozen=True)
class Field:
    """What a key of a recipe may hold."""

    kind: type
    required: bool = False
    default: t.Any = None
    choices: tuple[t.Any, ...] = ()
    pattern: re.Pattern[str] | None = None
    elements: type | None = None
    fields: t.Mapping[str, Field] | None = None


MODEL: dict[str, Field] = {
    "id": Field(str, required=True, pattern=HUB_ID),
    "revision": Field(str, default="main"),
    "include": Field(list, default=[], elements=str),
    "exclude": Field(list, default=[], elements=str),
}

RECIPE: dict[str, Field] = {
    "title": Field(str, required=True),
    "source": Field(str, required=True),
    "sparks": Field(int, required=True, choices=(1, 2)),
    "image": Field(str, required=True),
    "method": Field(str, required=True, choices=METHODS),
    "draft_length": Field(int, default=0),
    "target_model": Field(dict, required=True, fields={**MODEL, "chat": Field(bool, default=True)}),
    "draft_model": Field(dict, fields=MODEL),
    "vocabularies": Field(list, default=[], elements=str, choices=VOCABULARIES),
    "environment": Field(dict, default={}),
    "options": Field(dict, default={}),
    "probe": Field(
        dict,
        default={},
        fields={
            "prompt": Field(str),
            "expect": Field(list, default=[], elements=str),
            "max_tokens": Field(int, default=1024),
        },
    ),
}


def nearest(word: str, known: t.Iterable[str]) -> str:
    """The end of a sentence that offers the nearest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def type_name(kind: type) -> str:
    return {dict: "a mapping", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}[kind]


def has_type(value: t.Any, kind: type) -> bool:
    """Whether a YAML value has a type; true is not a whole number."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def check_value(path: str, value: t.Any, field: Field) -> list[str]:
    if not has_type(value, field.kind):
        return [f"{path} must be {type_name(field.kind)}, not {value!r}"]
    if field.fields is not None:
        return check_mapping(path, value, field.fields)
    if field.elements is not None:
        return [
            error
            for index, item in enumerate(value)
            for error in check_value(f"{path}[{index}]", item, Field(field.elements, choices=field.choices))
        ]
    if field.choices and value not in field.choices:
        choices = ", ".join(str(choice) for choice in field.choices)
        return [f"{path} is {value!r}, but must be one of {choices}{nearest(str(value), map(str, field.choices))}"]
    if field.pattern and not field.pattern.fullmatch(value):
        return [f"{path} is {value!r}, but must be a Hub id such as 'organisation/model'"]
    return []


def check_mapping(path: str, data: t.Mapping[t.Any, t.Any], fields: t.Mapping[str, Field]) -> list[str]:
    prefix = f"{path}." if path else ""
    errors = [f"{prefix}{key} is not a key of a recipe{nearest(str(key), fields)}" for key in data if key not in fields]
    for key, field in fields.items():
        if data.get(key) is not None:
            errors += check_value(f"{prefix}{key}", data[key], field)
        elif field.required:
            errors.append(f"{prefix}{key} is missing")
    return errors


def check_environment(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Variables are exported by a shell, so their names have to be names, and their values plain."""
    errors = []
    for name, value in (recipe.get("environment") or {}).items():
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            errors.append(f"environment.{name} is not the name of a variable")
        elif not isinstance(value, (str, int, float)):
            errors.append(f"environment.{name} must be a string or a number, not {value!r}")
    return errors


def check_expectations(recipe: t.Mapping[str, t.Any]) -> list[str]:
    errors = []
    for index, pattern in enumerate((recipe.get("probe") or {}).get("expect") or []):
        try:
            re.compile(pattern)
        except re.error as error:
            errors.append(f"probe.expect[{index}] is not a regular expression: {error}")
    return errors


def check_method(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """The rules between method, draft model and draft length."""
    method, length = recipe.get("method"), recipe.get("draft_length")
    if method == "none":
        surplus = [key for key in ("draft_model", "draft_length") if recipe.get(key)]
        return [f"{key} is given, but method is 'none'" for key in surplus]
    errors = []
    if not recipe.get("draft_model"):
        errors.append(f"draft_model is missing, and method '{method}' needs one")
    if not isinstance(length, int) or length < 1:
        errors.append(f"draft_length must be 1 or more for method '{method}'")
    return errors


def with_defaults(data: t.Mapping[str, t.Any], fields: t.Mapping[str, Field]) -> dict[str, t.Any]:
    filled = {}
    for key, field in fields.items():
        value = data.get(key)
        # A key without a value, as in "options:", is one left to its default.
        value = field.default if value is None else value
        filled[key] = with_defaults(value, field.fields) if field.fields and value is not None else value
    return filled


def validate(data: t.Any) -> dict[str, t.Any]:
    """The recipe with every key present; raises RecipeError with all errors at once."""
    if not isinstance(data, dict):
        raise RecipeError("it must be a mapping of keys such as 'target_model' and 'method'")
    errors = check_mapping("", data, RECIPE)
    if not errors:
        errors = [*check_method(data), *check_environment(data), *check_expectations(data)]
    if errors:
        raise RecipeError("\n".join(f"- {error}" for error in errors))
    return with_defaults(data, RECIPE)


def repositories(recipe: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """What a recipe needs from the Hub, without what only matters for serving."""
    models = [recipe[key] for key in ("target_model", "draft_model") if recipe[key]]
    return [{key: model[key] for key in MODEL} for model in models]


def describe(error: Exception) -> str:
    """Where a YAML text is wrong, and how."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', None) or 'it ends too early'}"


def load(path: Path) -> dict[str, t.Any]:
    """Read one recipe file, with `name` (the file's, without the ending) and `repositories` added."""
    name = path.stem
    if not NAME.match(name):
        raise RecipeError(
            f"The recipe's file name '{path.name}' names the deployment, so it must be lower-case letters, digits and "
            "underscores, and begin with a letter"
        )
    if name in TAKEN_NAMES:
        raise RecipeError(
            f"The recipe's file name '{path.name}' names the deployment, and '{name}' is the name of another directory "
            "beside the deployments; give the file another name"
        )
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The recipe {path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise RecipeError(f"The recipe {path} is not valid YAML: {describe(error)}") from error
    try:
        recipe = validate(data)
        return {"name": name, **recipe, "repositories": repositories(recipe)}
    except RecipeError as error:
        raise RecipeError(f"The recipe {path} cannot be used:\n{error}") from error


def shipped(directory: Path) -> dict[str, Path]:
    """The recipes in a directory, by name."""
    return {path.stem: path for path in sorted(directory.glob("*.yml"))}


def find(recipe: str, directory: Path, working_directory: Path) -> Path:
    """The file of a recipe given by shipped name or by path; raises RecipeError with the names that exist."""
    known = shipped(directory)
    if not recipe:
        raise RecipeError(f"No recipe was given; set recipe to a path or to one of: {', '.join(known)}")
    if recipe in known:
        return known[recipe]
    path = (working_directory / Path(recipe).expanduser()).resolve()
    if path.is_file():
        return path
    raise RecipeError(
        f"There is no recipe '{recipe}'{nearest(recipe, known) or '.'} "
        f"Give the path of a file or one of the shipped recipes: {', '.join(known)}"
    )
