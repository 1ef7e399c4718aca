# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Refuse what can do more than tune the server, unless the user allows it or leaves it out."""

from __future__ import annotations

import posixpath
import re
import typing as t

from .._engines.effects import CODE, FILE, OTHER_MODEL, option_effects
from .._engines.registry import ENGINES
from .._serving.containers import HUB
from .formats import FORMATS
from .imported import LEAVE_OUT, Choices, Imported, Options, Part
from .source import Source

ENGINE = ENGINES[FORMATS.engine]
# A path, or the name of a file.
PATH = re.compile(r"(?:^|=)[~/.]|\.(?:gguf|jinja2?|json|py|so|toml|txt|ya?ml)$")
# An option that a command can name without quotes.
PLAIN_PATH = re.compile(r"[\w.-]+", re.ASCII)
# The reason, and the inputs that allow it.
Refusal = tuple[str, t.Mapping[str, t.Any]]


def check_patches(source: Source, choices: Choices, imported: Imported) -> list[str]:
    """Refuse what changes the image or runs commands. Return the names of what the user leaves out."""
    names = [key for key in FORMATS.patches if source.data.get(key)]
    if names and not choices.without_mods:
        imported.refuse(
            f"It changes the image or runs commands of its own ({', '.join(names)}), which is not imported. Choose an "
            "image that has these changes, or import the rest without them.",
            **LEAVE_OUT,
        )
    for name in names:
        imported.drop(name, "changes the image, or runs commands of its own")
    return names


def check_effects(
    options: Options, models: t.Container[str], choices: Choices, imported: Imported
) -> tuple[list[str], dict[str, Refusal]]:
    """Return the names of options that the user leaves out, and the refusals of others, by their paths.

    These are the options that can do more than tune the server. The ids and revisions of the recipe's own models are
    not other ones.
    """
    left_out: list[str] = []
    refused: dict[str, Refusal] = {}
    for effect in option_effects(ENGINE.effects(), options):
        way = way_to(options, effect.path)
        place, key = way[-1]
        is_allowed = effect.path in choices.allow_options
        # The permission for it is another one. Several effects may be in a list, which is left out as a whole.
        if (
            effect.path == ENGINE.remote_code
            or key not in place
            or (effect.kind == OTHER_MODEL and place[key] in models)
        ):
            continue
        file = absent_file(place[key]) if effect.kind in (CODE, FILE) else ""
        if choices.without_mods and not is_allowed:
            left_out.append(f"--{'.'.join(name for _place, name in way)}")
            imported.drop(left_out[-1], effect.words)
            leave_out(way)
        elif file:
            reason = f"--{effect.path} {effect.words}, but the container has no {file}."
            refused[effect.path] = reason, ({} if is_allowed else LEAVE_OUT)
        elif not is_allowed:
            keep = {"allow_options": [effect.path]} if PLAIN_PATH.fullmatch(effect.path) else LEAVE_OUT
            refused[effect.path] = f"--{effect.path} {effect.words}.", keep
    return left_out, refused


def way_to(options: Options, path: str) -> list[tuple[Options, str]]:
    """Return the mappings down to the option of a path, each with the next name, which may have dots itself.

    A list, or a mapping that is written as a text, counts as a whole.
    """
    parts = path.split(".")
    beginnings = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    key = next((beginning for beginning in beginnings if beginning in options), path)
    below, value = path[len(key) + 1 :], options.get(key)
    return [(options, key), *(way_to(value, below) if below and isinstance(value, dict) else ())]


def leave_out(way: t.Sequence[tuple[Options, str]]) -> None:
    """Remove an option, and each mapping that is empty without it."""
    for place, key in reversed(way):
        del place[key]
        if place:
            break


def absent_file(value: t.Any) -> str:
    """Return the first file in a value that the container does not have: it has the models of the cache only."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return next(filter(None, map(absent_file, parts)), "")
    text = str(value)
    is_file = PATH.search(text) and not posixpath.normpath(text).startswith(f"{HUB}/")
    return text if is_file else ""


def check_code(target: Part, options: Options, choices: Choices, imported: Imported) -> None:
    """Keep the option that runs Python of the model's authors only with permission, and with a commit of it."""
    name, model = f"--{ENGINE.remote_code}", target["id"]
    if options.get(ENGINE.remote_code, False) is False:
        return
    given = options.pop(ENGINE.remote_code)
    commit = "" if target.get("revision") else " -e revision=COMMIT"
    if model not in choices.allow_code_of:
        imported.drop(
            name, f"runs Python of {model}; if the model needs it and you trust it: -e allow_code_of={model}{commit}"
        )
    elif commit:
        imported.refuse(
            f"{name} runs Python of {model}, which may change any day. Choose a commit of it at "
            f"https://huggingface.co/{model}/commits/main.",
            revision="COMMIT",
        )
    else:
        options[ENGINE.remote_code] = given
