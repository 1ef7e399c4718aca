# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the release and the options of the installed vLLM as JSON. Runs where vLLM is, without this collection.

The arguments are the modules where releases have the parser. An option is a kind (switch, int, number, other), the list
of its choices, or a mapping of its keys, each the same. A key * stands for any. A list, set or tuple of values is
written as its values are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import json
import sys
import types
import typing as t

PLACES = sys.argv[1:]
sys.argv = ["vllm", "serve"]

import vllm  # noqa: E402
import vllm.config  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

KINDS: dict[t.Any, str] = {bool: "switch", int: "int", float: "number"}
LISTS = (list, set, tuple, frozenset)
# Options that the parser takes as a free mapping, although the engine makes one of these classes of it.
CLASSES = {
    "speculative-config": "SpeculativeConfig",
    "diffusion-config": "DiffusionConfig",
    "watermark-config": "WatermarkConfig",
}
UNWRITTEN = ("ModelConfig", "ParallelConfig")
SWITCHES = ("BooleanOptionalAction", "_StoreTrueAction")


def parser_module() -> t.Any:
    """Return the module of the parser, in the first place that this release has."""
    for place in PLACES:
        with contextlib.suppress(ImportError):
            return importlib.import_module(place)
    raise ImportError(f"vLLM {vllm.__version__} has none of the modules {', '.join(PLACES)}.")


cli_args = parser_module()


def alternatives(hint: t.Any) -> list[t.Any]:
    """Return the types that a hint allows, without None and without annotations."""
    origin, arguments = t.get_origin(hint), t.get_args(hint)
    if origin is t.Annotated:
        return alternatives(arguments[0])
    if origin in (t.Union, types.UnionType):
        return [one for argument in arguments for one in alternatives(argument)]
    return [] if hint is type(None) else [hint]


def shape(hint: t.Any, above: tuple[t.Any, ...] = ()) -> t.Any:
    """Return what a type allows; of a union without a class, that of all its members if they are choices or numbers."""
    shapes = [shape_of_one(one, above) for one in alternatives(hint)]
    mappings = [one for one in shapes if isinstance(one, dict)]
    if mappings:
        return mappings[0]
    if not shapes or "other" in shapes:
        return "other"
    choices = sorted({choice for one in shapes if isinstance(one, list) for choice in one}, key=str)
    kinds = [one for one in shapes if isinstance(one, str)]
    if choices:
        return ["other"] if kinds else choices
    return "number" if set(kinds) == {"int", "number"} else kinds[0] if len(set(kinds)) == 1 else "other"


def shape_of_one(hint: t.Any, above: tuple[t.Any, ...]) -> t.Any:
    origin, arguments = t.get_origin(hint), t.get_args(hint)
    if origin is t.Literal:
        return [json.loads(json.dumps(one)) for one in arguments]
    if origin in LISTS:
        items = [shape(one, above) for one in arguments if one is not ...]
        return items[0] if items and all(one == items[0] for one in items) else "other"
    if origin is dict:
        values = shape(arguments[1], above)
        return "other" if values == "other" else {"*": values}
    if not isinstance(hint, type):
        return "other"
    if issubclass(hint, enum.Enum):
        # Some values are classes by their path.
        values = [one.value for one in hint if isinstance(one.value, int) or str(one.value or "").isidentifier()]
        return [*hint.__members__, *values]
    if dataclasses.is_dataclass(hint):
        # Of the whole models and of the types of numbers there is nothing to set in a file.
        if hint in above or hint.__name__ in UNWRITTEN or not hint.__module__.startswith("vllm.config."):
            return "other"
        hints, own = hints_of(hint), [field.name for field in dataclasses.fields(hint) if field.init]
        return {name: shape(hints[name], (*above, hint)) for name in own if not name.startswith("_")}
    return KINDS.get(hint, "other")


def kind_of(action: t.Any) -> str:
    """Return the kind of value that an action of the parser takes."""
    if type(action).__name__ in SWITCHES:
        return "switch"
    return KINDS.get(action.type, "other") if not action.nargs and action.type in (int, float) else "other"


def hints_of(owner: t.Any) -> dict[str, t.Any]:
    """Return the types of a class by field. Names for type checkers alone are in the modules of vllm.config."""
    modules = [module for name, module in sys.modules.items() if name.startswith("vllm.config.")]
    known = {name: one for module in modules for name, one in vars(module).items() if not name.startswith("_")}
    return t.get_type_hints(owner, {**known, **vars(sys.modules[owner.__module__])}, include_extras=True)


def options() -> tuple[dict[str, str], dict[str, t.Any]]:
    """Return the kind of each option, as the parser has it, and its shape, by the types behind it."""
    parser = FlexibleArgumentParser(prog="vllm").add_subparsers(dest="s").add_parser("serve")
    parser = cli_args.make_arg_parser(parser)
    hints: dict[str, t.Any] = {}
    for owner in (EngineArgs, *(one for one in vars(cli_args).values() if dataclasses.is_dataclass(one))):
        hints |= hints_of(owner)
    kinds: dict[str, str] = {}
    shapes: dict[str, t.Any] = {}
    for action in parser._actions:
        own = CLASSES.get(action.dest.replace("_", "-"))
        hint = getattr(vllm.config, own, None) if own else hints.get(action.dest)
        kind = kind_of(action)
        made: t.Any = shape(hint) if kind == "other" and hint is not None else kind
        if action.choices:
            made = [choice for choice in action.choices if choice is not None]
        for name in action.option_strings:
            if name.startswith("--") and not name.startswith("--no-") and name != "--help":
                kinds[name[2:]] = kind
                shapes[name[2:]] = made
    return kinds, shapes


print("\n" + json.dumps([vllm.__version__, *options()], sort_keys=True))
