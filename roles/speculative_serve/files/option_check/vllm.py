# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's half of check_options.py: its own parser judges the options.

There is no model here, and vLLM builds its configuration from one. So this finds options, values of options and parsers
that the release does not know. Options that do not fit the model end the server while it starts.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import tempfile
import typing as t

import yaml

# The parser's module and that of the server, since 0.33 and before.
MODULES = (
    ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.common.launcher"),
    ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.launchers.launcher"),
)
SPECULATION = "speculative-config"
MODEL = "/nonexistent/model"
Judgement = tuple[bool, str, list[str]]


def arguments_modules() -> list[t.Any]:
    """Return the modules that parse and validate; raise ImportError if this release has none of them."""
    for names in MODULES:
        with contextlib.suppress(ModuleNotFoundError):
            first = importlib.import_module(names[0])
            with contextlib.suppress(ImportError):
                return [first, importlib.import_module(names[1])]
            return [first]
    raise ImportError("its parser is in none of the known modules")


def parse(modules: list[t.Any], options: dict[str, t.Any]) -> None:
    """Parse and validate the options as `vllm serve` does; raise SystemExit or an exception of vLLM if it refuses."""
    module = modules[0]
    utils = importlib.import_module("vllm.utils.argparse_utils")
    root = utils.FlexibleArgumentParser(prog="vllm serve")
    parser = module.make_arg_parser(root.add_subparsers(dest="subparser").add_parser("serve"))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(options, file)
        file.flush()
        given = parser.parse_args(["--model", MODEL, "--config", file.name])
    given.subparser = "serve"
    for name in ("validate_parsed_serve_args", "validate_api_server_args"):
        for owner in modules:
            if check := getattr(owner, name, None):
                check(given)
                break


def about_speculation(section: dict[str, t.Any]) -> list[str]:
    """Return what the release does not know of a speculative-config, which is otherwise checked with the model."""
    speculative = importlib.import_module("vllm.config.speculative")
    fields = speculative.SpeculativeConfig.__dataclass_fields__
    unknown = [f"{SPECULATION}.{key}: unknown key" for key in section if key.replace("-", "_") not in fields]
    methods, method = words_in(speculative.SpeculativeMethod), section.get("method")
    if method is not None and method not in methods:
        unknown.append(f"{SPECULATION}.method: '{method}' is none of {', '.join(sorted(methods))}")
    return unknown


def words_in(kind: t.Any) -> set[str]:
    """Return the texts of nested Literals."""
    return {kind} if isinstance(kind, str) else {word for part in t.get_args(kind) for word in words_in(part)}


def judge(options: dict[str, t.Any]) -> Judgement:
    """Ask the parser."""
    said = io.StringIO()
    try:
        version = str(importlib.import_module("vllm").__version__)
        modules = arguments_modules()
    except Exception as error:  # A broken installation can raise anything.
        return False, "", [f"importing vLLM failed: {type(error).__name__}: {error}"]
    try:
        with contextlib.redirect_stderr(said):
            parse(modules, options)
    except SystemExit:
        lines = said.getvalue().strip().splitlines() or ["it ended without a reason"]
        return True, version, [lines[-1].partition("error: ")[2] or lines[-1]]
    except (ValueError, TypeError, KeyError) as error:
        return True, version, [str(error.args[0] if error.args else error)]
    except Exception as error:  # Such as that there is no GPU, which its parser asks for.
        return False, version, [f"its parser failed: {type(error).__name__}: {error}"]
    section = options.get(SPECULATION)
    return True, version, about_speculation(section) if isinstance(section, dict) else []
