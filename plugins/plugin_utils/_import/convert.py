# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Convert a recipe of another launcher into one of ours. Nothing of it is executed."""

from __future__ import annotations

import dataclasses
import fnmatch
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.registry import (
    DOCKER_HUB,
    RegistryError,
    parse_reference,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.numbers import positive_int
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.methods import (
    NONE,
    draft_model,
    needs_draft_model,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES, build
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.command import (
    Command,
    add,
    expand_escaped,
    expand_named,
    parse,
    text_of,
    value_of,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.formats import FORMATS, RecipeImportError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.source import Source
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPE
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.text import count

ENGINE = ENGINES[FORMATS.engine]
CONTEXT, CONCURRENCY = ENGINE.names.context, ENGINE.names.concurrency
TOOLS = ("tool-call-parser", "enable-auto-tool-choice")
Options = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Choices:
    """The decisions of the user; None or empty without one."""

    context: int | None = None
    sparks: int | None = None
    without_mods: bool = False
    # Repositories of images and models.
    allow_code_of: t.Sequence[str] = ()


@dataclasses.dataclass
class Imported:
    """The recipe, what was left out with the reason, notes for the user, and an input if it cannot be served."""

    recipe: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    dropped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    hint: str = ""

    def drop(self, name: str, reason: str) -> None:
        self.dropped.append((name, reason))


def check_runtime(source: Source) -> None:
    runtime = source.text("runtime")
    if runtime and runtime not in FORMATS.runtimes:
        raise RecipeImportError(f"Its runtime is {runtime}, but only recipes for {ENGINE.words} can be imported.")


def generated_command(source: Source, imported: Imported) -> Command:
    """Return the command of a file that has only defaults."""
    command = Command()
    for key, value in source.mapping("defaults").items():
        text = text_of(value)
        if key not in FORMATS.generated:
            imported.drop(f"defaults.{key}", "without a command no option is made of it")
        elif text.lower() not in ("false", "none"):
            add(command, f"--{FORMATS.generated[key]}", [] if text.lower() == "true" else [text])
    return command


def written_command(source: Source, imported: Imported) -> Command:
    """Return the command of a file, with its defaults filled in."""
    template, defaults = source.text("command"), source.mapping("defaults")
    expand = expand_escaped if source.format == "1" else expand_named
    command = parse(expand(template, {"model": source.text("model") or None, **defaults}))
    name, option = "served_model_name", "served-model-name"
    if source.format != "1" and name in defaults:
        # Its launcher adds this option by itself.
        command.options.setdefault(option, value_of(option, text_of(defaults[name])))
    used = " ".join([template, *map(text_of, defaults.values())])
    for key in defaults:
        if f"{{{key}}}" not in used and key != name:
            imported.drop(f"defaults.{key}", "the command does not use it")
    return command


def without_patches(source: Source, options: Options, choices: Choices, imported: Imported) -> dict[str, str]:
    """Refuse what changes the image or runs commands. If the user leaves it out, return the recipe's note of that."""
    patches = [key for key in FORMATS.patches if source.data.get(key)]
    files = [name for name in FORMATS.files if name in options]
    names = [*patches, *(f"--{name}" for name in files)]
    if names and not choices.without_mods:
        raise RecipeImportError(
            f"It changes the image or runs commands of its own ({', '.join(names)}), which is not imported. Choose an "
            "image that has these changes, or import the rest with -e without_mods=true."
        )
    for name in names:
        imported.drop(name, "changes the image, or runs commands or code of its own")
    for name in files:
        del options[name]
    if not names:
        return {}
    imported.notes.append("Patched upstream, not verified: the image may not serve this model without the patches.")
    return {"note": f"Imported: patched upstream, not verified without its {', '.join(names)}"}


def image_of(source: Source, choices: Choices, imported: Imported) -> str:
    """Return the image to pull; one of another publisher needs permission, because its code runs on the Spark."""
    given = source.text("container")
    image = FORMATS.images.get(given, given)
    if not given or "/" not in image:
        raise RecipeImportError(
            f"Its container is '{given}', which no registry has: its launcher builds it. Write a published image there."
        )
    try:
        reference = parse_reference(image)
    except RegistryError as error:
        raise RecipeImportError(f"Its container is no image: {error}") from None
    host = DOCKER_HUB if reference.host.endswith(f".{DOCKER_HUB}") else reference.host
    repository = f"{host}/{reference.repository}"
    allowed = [repository, repository.removeprefix(f"{DOCKER_HUB}/")]
    if not repository.startswith(tuple(FORMATS.trusted)) and not {*choices.allow_code_of} & {*allowed}:
        raise RecipeImportError(
            f"Its image is {image}, which is published neither for {ENGINE.words} nor by NVIDIA. Its code would run on "
            "the Spark. "
            f"If you trust it, add -e allow_code_of={allowed[-1]}."
        )
    if image != given:
        imported.notes.append(f"{given} is built by its launcher; the image is its published build.")
    if not reference.digest:
        imported.notes.append("The image has no digest. The registry says which one its tag has when you plan.")
    return image


def model_of(source: Source, command: Command, imported: Imported) -> dict[str, t.Any]:
    """Return the target model. Without a revision, the Hub decides it when the deployment is planned."""
    options = command.options
    served = command.model or str(options.pop("model", "")) or source.text("model")
    if not served:
        raise RecipeImportError("Its model is missing. Write the model's Hub id under 'model'.")
    if source.text("model") not in ("", served):
        imported.notes.append(f"The command serves {served}, and not {source.text('model')}, which is its model.")
    revision = source.text("model_revision") or str(options.pop("revision", ""))
    if not revision:
        imported.notes.append("The model has no revision. The Hub says which commit its branch main has when you plan.")
    for name in ("tokenizer", "revision"):
        if options.get(name) in (served, revision):
            del options[name]
    tools = {"tools": True} if all(options.get(name) for name in TOOLS) else {}
    return {"id": served, **({"revision": revision} if revision else {}), **tools}


def whole(name: str, value: t.Any) -> int:
    """Return a positive whole number; raises RecipeImportError."""
    if number := positive_int(value_of(name, text_of(value))):
        return number
    raise RecipeImportError(f"{name} is {value!r}, but must be a whole number above 0.")


def sparks_of(source: Source, options: Options, choices: Choices, imported: Imported) -> int:
    """Return the number of Sparks, each of which has one GPU."""
    kinds = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    tensor, pipeline, data = (whole(name, options.pop(name, 1)) for name in kinds)
    if data > 1:
        raise RecipeImportError(f"data-parallel-size is {data}, but a deployment has one copy of its model.")
    least, most = (
        whole(name, source.data.get(name) or limit) for name, limit in (("min_nodes", 1), ("max_nodes", 1024))
    )
    if source.is_set("cluster_only") or source.text("mode") == "cluster":
        least = max(2, least)
    if source.is_set("solo_only") or source.text("mode") == "solo":
        most = 1
    sparks = max(least, min(tensor * pipeline, most)) if choices.sparks is None else choices.sparks
    if not least <= sparks <= most:
        raise RecipeImportError(f"It is not for {sparks} Sparks, which is the value of sparks. Leave sparks out.")
    if sparks != tensor * pipeline:
        imported.drop(f"--tensor-parallel-size {tensor}", f"the number of Sparks is {sparks}")
    elif sparks > least:
        imported.hint = f"Its launcher also serves it on {count(least)}: to import it for that, add -e sparks={least}."
        imported.notes.append(imported.hint)
    if pipeline > 1:
        imported.notes.append(f"--pipeline-parallel-size {pipeline} became part of the number of Sparks.")
    return sparks


def context_of(options: Options, choices: Choices, imported: Imported) -> dict[str, int]:
    """Return the context length, for which the memory plan needs a number."""
    given = options.pop(CONTEXT, None)
    if choices.context is not None:
        return {"context": choices.context}
    if given is None:
        imported.notes.append(f"It has no {CONTEXT}. The context is {RECIPE['context'].default} tokens.")
        return {}
    if not positive_int(given):
        raise RecipeImportError(f"{CONTEXT} is {given}, but the memory plan needs a number. Add -e context=N.")
    return {"context": given}


def concurrency_of(options: Options, imported: Imported) -> dict[str, int]:
    if CONCURRENCY in options:
        return {"concurrency": whole(CONCURRENCY, options.pop(CONCURRENCY))}
    imported.notes.append(f"It has no {CONCURRENCY}. One request is served at once.")
    return {}


def speculation_of(target: str, options: Options, imported: Imported) -> dict[str, t.Any]:
    """Return method, draft length and draft model. Further keys stay in the engine's own option."""
    name = ENGINE.speculation
    given = options.pop(name, None)
    if not given:
        return {"method": NONE}
    if not isinstance(given, dict):
        raise RecipeImportError(f"--{name} must be a mapping, not {given!r}.")
    if str(given.get("method")).endswith("_mtp"):
        imported.notes.append(f"The method {given['method']} has the name mtp today.")
        given = {**given, "method": "mtp"}
    if given.get("model") == target:
        given = {key: value for key, value in given.items() if key != "model"}
    section = ENGINE.section(given)
    model = {"id": section.draft} if section.draft else {}
    model |= {"revision": given["revision"]} if model and given.get("revision") else {}
    draft = {"draft_model": model} if model else {}
    fits = draft_model(section.method) if model else not needs_draft_model(section.method)
    if section.method not in ENGINE.methods or not fits:
        options[name] = given
        imported.notes.append(
            f"The method {section.method or 'of the draft model'} stays as an option of {ENGINE.words}."
        )
        return draft
    if further := {key: value for key, value in given.items() if key not in ("revision", *section.decided)}:
        options[name] = further
    length = {} if section.length is None else {"draft_length": section.length}
    return {"method": section.method, **length, **draft}


def check_code(model: str, options: Options, choices: Choices, imported: Imported) -> None:
    """Keep the option that runs Python of the model's authors only with permission."""
    name = ENGINE.remote_code
    if model not in choices.allow_code_of and options.pop(name, None) is True:
        imported.drop(
            f"--{name}", f"runs Python of {model}; if the model needs it and you trust it: -e allow_code_of={model}"
        )


def without_effect(image: str, environment: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the variables that the engine of an image refuses, with the reasons."""
    prefix = "environment."
    errors = build(ENGINE, Request(image, environment=environment)).errors
    return {error.path.removeprefix(prefix): error.message for error in errors if error.path.startswith(prefix)}


def environment_of(source: Source, image: str, imported: Imported) -> dict[str, t.Any]:
    """Return the environment without the variables that nothing reads, or that the collection sets."""
    kept = {}
    environment = source.mapping("env")
    refused = without_effect(image, environment)
    for name, value in environment.items():
        ours = [reason for pattern, reason in FORMATS.variables.items() if fnmatch.fnmatchcase(name, pattern)]
        if ours or name in refused:
            imported.drop(name, ours[0] if ours else refused[name])
        elif value is None or isinstance(value, (dict, list)):
            raise RecipeImportError(f"env.{name} must be text or a number, not {value!r}.")
        elif "$" in str(value):
            imported.drop(name, "its value comes from a shell")
        else:
            kept[name] = str(value)
    return kept


def drop_options(options: Options, imported: Imported) -> None:
    """Leave out the options that the collection decides, or does not have."""
    for name in [name for name in options if name in FORMATS.dropped]:
        value = options.pop(name)
        shown = "" if value is True or name in FORMATS.secrets else f" {text_of(value)}"
        imported.drop(f"--{name}{shown}", FORMATS.dropped[name])


def convert(source: Source, choices: Choices) -> Imported:
    """Return a file as a recipe of ours; raises RecipeImportError."""
    imported = Imported()
    check_runtime(source)
    make = written_command if source.text("command") else generated_command
    command = make(source, imported)
    options = command.options
    note = without_patches(source, options, choices, imported)
    target = model_of(source, command, imported)
    imported.recipe = {
        "title": title_of(source, target["id"]),
        "source": f"{source.name}, a recipe of {FORMATS.formats[source.format]}",
        "engine": FORMATS.engine,
        "sparks": sparks_of(source, options, choices, imported),
        "image": image_of(source, choices, imported),
        **note,
        **speculation_of(target["id"], options, imported),
        **context_of(options, choices, imported),
        **concurrency_of(options, imported),
        "target_model": target,
    }
    drop_options(options, imported)
    check_code(target["id"], options, choices, imported)
    # The draft model beside the target model, as in a shipped recipe.
    if draft := imported.recipe.pop("draft_model", None):
        imported.recipe["draft_model"] = draft
    environment = environment_of(source, imported.recipe["image"], imported)
    for key, value in (("environment", environment), ("options", options)):
        imported.recipe |= {key: value} if value else {}
    for key in source.data:
        if key not in (*FORMATS.read, *FORMATS.patches):
            imported.drop(str(key), FORMATS.unread.get(key, "this import does not know it"))
    for name in [*source.doubles, *command.doubles]:
        imported.notes.append(f"{name} is there twice. The last one counts, as for its launcher.")
    return imported


def title_of(source: Source, model: str) -> str:
    """Return a line for people: the description, the name or the model."""
    own = source.data.get("metadata")
    described = own.get("description") if isinstance(own, dict) else ""
    return " ".join(str(source.text("description") or described or source.text("name") or model).split())
