# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Convert a recipe of another launcher into one of ours. Nothing of it is executed."""

from __future__ import annotations

import typing as t

from ...module_utils._data.numbers import positive_int
from ...module_utils._diagnosis.redaction import SECRET
from ...module_utils._docker.registry import DOCKER_HUB, RegistryError, parse_reference
from .._engines.effects import UNKNOWN, variable_effect
from .._engines.engine import Request
from .._engines.methods import NONE, draft_model, needs_draft_model
from .._engines.registry import ENGINES, build
from .._recipe.recipe import RECIPE, RecipeError, complete
from .._recipe.text import count
from .command import Command, add, expand_escaped, expand_named, parse, text_of, value_of
from .formats import FORMATS, RecipeImportError
from .imported import LEAVE_OUT, Choices, Imported, Options, Part
from .permissions import Refusal, check_code, check_effects, check_patches, leave_out, way_to
from .source import Source, check_values

ENGINE = ENGINES[FORMATS.engine]
CONTEXT, CONCURRENCY = ENGINE.names.context, ENGINE.names.concurrency
TOOLS = ("tool-call-parser", "enable-auto-tool-choice")
DRAFT_RANKS = "draft_tensor_parallel_size"
# Requests at once of a file without a number. Its launchers leave that to vLLM, which takes 256 or more.
DEFAULT_CONCURRENCY = 4
MOST_VARIABLES = 200


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


def image_of(source: Source, choices: Choices, imported: Imported) -> Part:
    """Return the image to pull; one of another publisher needs permission, because its code runs on the Spark."""
    given = source.text("container")
    image = FORMATS.images.get(given.removesuffix(":latest"), given)
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
    allowed = [given, repository, repository.removeprefix(f"{DOCKER_HUB}/")]
    built = "" if image == given else f", the published build of {given}"
    if not repository.startswith(tuple(FORMATS.trusted)) and not {*choices.allow_code_of} & {*allowed}:
        imported.refuse(
            f"Its image is {image}{built}. It is published neither for {ENGINE.words} nor by NVIDIA. Its code would "
            "run on the Spark.",
            allow_code_of=allowed[-1:],
        )
    if image != given:
        imported.notes.append(f"{given} is built by its launcher; the image is its published build.")
    if not reference.digest:
        imported.notes.append("The image has no digest. The registry says which one its tag has when you plan.")
    return {"image": image}


def model_of(source: Source, command: Command, choices: Choices, imported: Imported) -> Part:
    """Return the target model. Without a revision, the Hub decides it when the deployment is planned."""
    options = command.options
    served = command.model or str(options.pop("model", "")) or source.text("model")
    if not served:
        raise RecipeImportError("Its model is missing. Write the model's Hub id under 'model'.")
    if source.text("model") not in ("", served):
        imported.notes.append(f"The command serves {served}, and not {source.text('model')}, which is its model.")
    own = source.text("model_revision") or str(options.pop("revision", ""))
    revision = choices.revision or own
    if not revision:
        imported.notes.append("The model has no revision. The Hub says which commit its branch main has when you plan.")
    for name in ("tokenizer", "revision"):
        if options.get(name) in (served, own):
            del options[name]
    tools = {"tools": True} if all(options.get(name) for name in TOOLS) else {}
    return {"target_model": {"id": served, **({"revision": revision} if revision else {}), **tools}}


def whole(name: str, value: t.Any) -> int:
    """Return a positive whole number; raises RecipeImportError."""
    if number := positive_int(value_of(name, text_of(value))):
        return number
    raise RecipeImportError(f"{name} is {value!r}, but must be a whole number above 0.")


def sparks_of(source: Source, options: Options, choices: Choices, imported: Imported) -> Part:
    """Return the number of Sparks, each of which has one GPU."""
    kinds = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    tensor, pipeline, data = (whole(name, options.pop(name, 1)) for name in kinds)
    if data > 1:
        raise RecipeImportError(f"data-parallel-size is {data}, but a deployment has one copy of its model.")
    if pipeline > 1 and choices.sparks is None:
        raise RecipeImportError(
            f"pipeline-parallel-size is {pipeline}, but a deployment divides each layer among its Sparks. If the "
            "attention heads of the model can be divided by a number of Sparks, add -e sparks=NUMBER."
        )
    least, most = (
        whole(name, source.data.get(name) or limit) for name, limit in (("min_nodes", 1), ("max_nodes", 1024))
    )
    if source.is_set("cluster_only") or source.text("mode") == "cluster":
        least = max(2, least)
    if source.is_set("solo_only") or source.text("mode") == "solo":
        most = 1
    sparks = max(least, min(tensor, most)) if choices.sparks is None else choices.sparks
    if not least <= sparks <= most:
        raise RecipeImportError(f"It is not for {sparks} Sparks, which is the value of sparks. Leave sparks out.")
    if sparks != tensor:
        imported.drop(f"--tensor-parallel-size {tensor}", f"the number of Sparks is {sparks}")
    elif sparks > least:
        imported.hint = f"Its launcher also serves it on {count(least)}: to import it for that, add -e sparks={least}."
        imported.notes.append(imported.hint)
    if pipeline > 1:
        imported.drop(f"--pipeline-parallel-size {pipeline}", f"the number of Sparks is {sparks}")
    check_draft_ranks(options.get(ENGINE.speculation), tensor, sparks, imported)
    return {"sparks": sparks}


def check_draft_ranks(section: t.Any, tensor: int, sparks: int, imported: Imported) -> None:
    """Check that the draft model is on one Spark or on all of them; vLLM refuses any other number."""
    given = section.get(DRAFT_RANKS) if isinstance(section, dict) else None
    name = f"{ENGINE.speculation}.{DRAFT_RANKS}"
    if given == tensor:
        del section[DRAFT_RANKS]
        imported.drop(f"--{name} {given}", f"the number of Sparks is {sparks}")
    elif given not in (None, 1, sparks):
        imported.refuse(f"{name} is {given}, but must be 1 or the number of Sparks, which is {sparks}.")


def context_of(options: Options, choices: Choices, imported: Imported) -> Part:
    """Return the context length, for which the memory plan needs a number."""
    given, default = options.pop(CONTEXT, None), RECIPE["context"].default
    if choices.context is not None:
        return {"context": choices.context}
    if given is None:
        imported.notes.append(f"It has no {CONTEXT}. The context is {default} tokens.")
        return {}
    if not positive_int(given):
        imported.refuse(f"{CONTEXT} is {given}, but the memory plan needs a number.", context=default)
        return {}
    return {"context": given}


def concurrency_of(options: Options, choices: Choices, imported: Imported) -> Part:
    """Return the number of requests at once, for which the memory plan needs a number."""
    given = options.pop(CONCURRENCY, None)
    if choices.concurrency is not None:
        return {"concurrency": choices.concurrency}
    if given is not None:
        return {"concurrency": whole(CONCURRENCY, given)}
    imported.notes.append(
        f"It has no {CONCURRENCY}: {DEFAULT_CONCURRENCY} requests are served at once (-e concurrency=NUMBER)."
    )
    return {"concurrency": DEFAULT_CONCURRENCY}


def check_purpose(options: Options, imported: Imported) -> None:
    """Refuse a server that does not generate text."""
    for name, values in FORMATS.chat.items():
        if options.get(name) not in (None, *values):
            imported.refuse(f"--{name} {options[name]} makes a server that generates no text, which is not deployed.")


def speculation_of(target: str, options: Options, imported: Imported) -> Part:
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


def without_effect(image: str, environment: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the variables that the engine of an image refuses, with the reasons."""
    prefix = "environment."
    errors = build(ENGINE, Request(image, environment=environment)).errors
    return {error.path.removeprefix(prefix): error.message for error in errors if error.path.startswith(prefix)}


def environment_of(source: Source, image: str, choices: Choices, imported: Imported) -> Part:
    """Return the variables that tune the engine, or that the user allows. All others are left out."""
    kept, has_unknown = {}, False
    environment = source.mapping("env")
    if len(environment) > MOST_VARIABLES:
        raise RecipeImportError(f"env has more than {MOST_VARIABLES} variables, which no recipe has.")
    refused = without_effect(image, environment)
    for name, value in environment.items():
        effect = variable_effect(ENGINE.effects(), name, value)
        if SECRET.search(name):
            imported.drop(name, "a secret does not belong in a recipe")
        elif name in refused:
            imported.drop(name, refused[name])
        elif value is None or isinstance(value, (dict, list)):
            imported.refuse(f"env.{name} must be text or a number.")
        elif "$" in str(value):
            imported.drop(name, "its value comes from a shell")
        elif effect and effect.path not in choices.allow_options:
            imported.drop(name, effect.words)
            has_unknown = has_unknown or effect.kind == UNKNOWN
        else:
            kept[name] = str(value)
    if has_unknown:
        imported.notes.append("To keep an unknown variable, add -e allow_options=environment.NAME.")
    return {"environment": kept} if kept else {}


def drop_options(options: Options, imported: Imported) -> None:
    """Leave out the options that the collection decides, or does not have."""
    for name in [name for name in options if name in FORMATS.dropped]:
        value = options.pop(name)
        shown = "" if value is True or name in FORMATS.secrets else f" {text_of(value)}"
        imported.drop(f"--{name}{shown}", FORMATS.dropped[name])


def command_of(source: Source, imported: Imported) -> Part:
    """Return the command of a file, with values that are safe to look at."""
    command = (written_command if source.text("command") else generated_command)(source, imported)
    shapes = ENGINE.effects().shapes
    for name, value in command.options.items():
        # A switch has none.
        if value is True and name in shapes and shapes[name] != "switch" and name not in FORMATS.dropped:
            raise RecipeImportError(f"--{name} has no value. Write one behind it, or remove the option.")
    check_values({"model": command.model, **command.options})
    return {"command": command}


def options_of(source: Source, command: Command, choices: Choices, imported: Imported) -> Part:
    """Return the parts of the recipe that follow from the command."""
    attempt, options = imported.attempt, command.options
    target = attempt(model_of, source, command, choices)
    model = target.get("target_model", {"id": ""})
    check_purpose(options, imported)
    parts = {
        **attempt(sparks_of, source, options, choices),
        **attempt(speculation_of, model["id"], options),
        **attempt(context_of, options, choices),
        **attempt(concurrency_of, options, choices),
        **target,
    }
    # The draft model beside the target model, as in a shipped recipe.
    parts |= {"draft_model": parts.pop("draft_model")} if "draft_model" in parts else {}
    drop_options(options, imported)
    check_code(model, options, choices, imported)
    return parts


def leave_out_errors(image: str, options: Options, imported: Imported) -> list[str]:
    """Leave out the options that the rules of the engine refuse, and return their names."""
    names = []
    for error in build(ENGINE, Request(image, options=options)).errors:
        way = way_to(options, error.path)
        place, key = way[-1]
        if key in place:
            names.append(f"--{error.path}")
            imported.drop(names[-1], error.message)
            leave_out(way)
    return names


def check_result(refused: t.Mapping[str, Refusal], choices: Choices, imported: Imported) -> None:
    """Refuse options, and what each recipe is refused for. No permission keeps an option that a recipe cannot have."""
    errors: list[str] = []
    try:
        if not imported.has_failed:
            complete("imported", imported.recipe)
    except RecipeError as error:
        errors = [line.removeprefix("- ") for line in str(error).splitlines()]
    for path, (reason, inputs) in refused.items():
        better = next((line for line in errors if line.startswith(f"options.{path}: ")), "")
        imported.refuse(better or reason, **(LEAVE_OUT if better else inputs))
        errors = [line for line in errors if line != better]
    for line in errors:
        is_option = line.startswith("options.") and not choices.without_mods
        imported.refuse(line, **(LEAVE_OUT if is_option else {}))
    imported.refusals += [imported.hint] * bool(errors and imported.hint)


def convert(source: Source, choices: Choices) -> Imported:
    """Return a file as a recipe of ours; raises RecipeImportError with all reasons against it."""
    imported = Imported()
    check_runtime(source)
    left_out = check_patches(source, choices, imported)
    image = imported.attempt(image_of, source, choices)
    command = imported.attempt(command_of, source).get("command")
    parts = options_of(source, command, choices, imported) if command else {}
    options = command.options if command else {}
    models = [text for model in ("target_model", "draft_model") for text in parts.get(model, {}).values()]
    more, refused = check_effects(options, models, choices, imported)
    left_out += more
    if choices.without_mods:
        left_out += leave_out_errors(image.get("image", ""), options, imported)
    environment = imported.attempt(environment_of, source, image.get("image", ""), choices)
    note = f"Imported: not verified without its {', '.join(left_out)}" if left_out else ""
    if note:
        imported.notes.append(f"Not verified: the image may not serve this model without {', '.join(left_out)}.")
    imported.recipe = {
        "title": title_of(source, parts),
        "source": f"{source.name}, a recipe of {FORMATS.formats[source.format]}",
        "engine": FORMATS.engine,
        "sparks": parts.get("sparks"),
        **image,
        **({"note": note} if note else {}),
        **parts,
        **environment,
        **({"options": options} if options else {}),
    }
    check_result(refused, choices, imported)
    if imported.refusals:
        raise RecipeImportError(*imported.refusals, inputs=imported.inputs, is_enough=imported.is_enough)
    for key in source.data:
        if key not in (*FORMATS.read, *FORMATS.patches):
            imported.drop(str(key), FORMATS.unread.get(key, "this import does not know it"))
    for name in [*source.doubles, *(command.doubles if command else ())]:
        imported.notes.append(f"{name} is there twice. The last one counts, as for its launcher.")
    return imported


def title_of(source: Source, parts: Part) -> str:
    """Return a line for people: the description, the name or the model."""
    data, own, model = source.data, source.data.get("metadata"), parts.get("target_model", {}).get("id")
    described = own.get("description") if isinstance(own, dict) else ""
    texts = (text for text in (data.get("description"), described, data.get("name")) if isinstance(text, str))
    return " ".join(str(next(filter(str.strip, texts), model)).split())
