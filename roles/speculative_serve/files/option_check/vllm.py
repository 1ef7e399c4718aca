# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's half of check_options.py: its own parser judges the options, its own configuration those with the models.

The parser finds options, values of options and parsers that the release does not know. The configuration is made from
the files of the models without their weights, as the server does first. It also needs what may be missing here, such as
a GPU. So an exception refuses the options if the classes of vllm/config raise it, in a release that the tests asked.
Of other releases only texts are refusals that are known to be about options and models.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import tempfile
import traceback
import typing as t
from pathlib import Path

import yaml

# The parser's module and that of the server: since 0.33, before it, and up to 0.28.
MODULES = (
    ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.common.launcher"),
    ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.launchers.launcher"),
    ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.openai.api_server"),
)
# The releases whose parser and configuration tests/verdicts asks.
ASKED = ("0.24.0", "0.27.1", "0.28.0", "0.32.0")
SPECULATION = "speculative-config"
MODEL = "/nonexistent/model"
Judgement = tuple[bool, str, list[str]]
# What any release says of options that do not fit the models, with the file that says it.
REFUSALS = {
    "same vocabulary size": "vllm/config/speculative.py",
    "must be divisible by n_predict": "vllm/config/speculative.py",
    "Unsupported speculative method": "vllm/config/speculative.py",
    "cannot be other value than 1 or target model": "vllm/config/speculative.py",
    "greater than the derived max_model_len": "vllm/config/model.py",
    r"attention heads \(\d+\) must be divisible by": "vllm/config/model.py",
    "Unknown quantization method": "vllm/config/model.py",
    "does not match the quantization method specified": "vllm/config/model.py",
    "are not supported for now": "vllm/model_executor/models/registry.py",
    "does not have enough slots": "vllm/config/vllm.py",
}
# What the classes of vllm/config say without a GPU or Triton, with the file that says it.
PLATFORM = {
    "Failed to infer device type": "vllm/config/device.py",
    "requires Triton": "vllm/config/vllm.py",
    "(is only supported on|requires|supports) NVIDIA CUDA": "vllm/config/mamba.py and vllm.py",
    "only supported on CUDA": "vllm/config/lora.py and parallel.py",
    "currently requires CUDA": "vllm/config/model.py",
    "not supported on current platform": "vllm/config/model.py",
    r"available GPUs \(0\)": "vllm/config/parallel.py",
}


def arguments_modules() -> list[t.Any]:
    """Return the modules that parse and validate; raise ImportError if this release has none of them."""
    for names in MODULES:
        with contextlib.suppress(ModuleNotFoundError):
            first = importlib.import_module(names[0])
            with contextlib.suppress(ImportError):
                return [first, importlib.import_module(names[1])]
            return [first]
    raise ImportError("its parser is in none of the known modules")


def parse(modules: list[t.Any], options: dict[str, t.Any], model: str = MODEL, words: t.Sequence[str] = ()) -> t.Any:
    """Return the options as `vllm serve` validates them; raise SystemExit or an exception of vLLM if it refuses."""
    module = modules[0]
    utils = importlib.import_module("vllm.utils.argparse_utils")
    root = utils.FlexibleArgumentParser(prog="vllm serve")
    parser = module.make_arg_parser(root.add_subparsers(dest="subparser").add_parser("serve"))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(options, file)
        file.flush()
        given = parser.parse_args(["--model", model, "--config", file.name, *words])
    given.subparser = "serve"
    for name in ("validate_parsed_serve_args", "validate_api_server_args"):
        for owner in modules:
            if check := getattr(owner, name, None):
                check(given)
                break
    return given


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


def says(error: Exception) -> list[tuple[str, bool]]:
    """Return the texts of an exception, each with whether the classes of vllm/config say it.

    A pydantic error has a text for each field or validator, and the exception that a validator raised.
    """
    list_errors = getattr(error, "errors", None)
    if not callable(list_errors):
        return [(str(error), is_raised_in_config(error))]
    checks_fields = is_configuration(str(getattr(error, "title", "")))
    result = []
    for row in list_errors():
        cause = (row.get("ctx") or {}).get("error")
        by_config = is_raised_in_config(cause) if isinstance(cause, Exception) else checks_fields
        result.append((str(row["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, "), by_config))
    return result


def is_raised_in_config(error: Exception) -> bool:
    """Return whether code of vllm/config raised an exception that is not about a missing file or package."""
    frames = traceback.extract_tb(error.__traceback__)
    is_inside = bool(frames) and Path(frames[-1].filename).parts[-3:-1] == ("vllm", "config")
    return is_inside and not isinstance(error, (ImportError, OSError))


def is_configuration(name: str) -> bool:
    """Return whether the class with this name is one of vllm/config."""
    kind = getattr(importlib.import_module("vllm.config"), name, None)
    return str(getattr(kind, "__module__", "")).startswith("vllm.config")


def has_any(text: str, patterns: t.Iterable[str]) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)


def refusals(error: Exception, release: str) -> list[str]:
    """Return what an exception says of options that a release does not serve with the models."""
    return [
        text
        for text, by_config in says(error)
        if has_any(text, REFUSALS) or (by_config and release in ASKED and not has_any(text, PLATFORM))
    ]


def judge_models(options: dict[str, t.Any], models: dict[str, t.Any]) -> Judgement:
    """Have vLLM make the configuration of the server on the first Spark."""
    sparks = str(models["sparks"])
    # The address is that of the head, which nothing connects to here.
    ranks = ("--tensor-parallel-size", sparks, "--nnodes", sparks, "--node-rank", "0", "--master-addr", "127.0.0.1")
    # `vllm serve` does so before it makes the configuration, which may refuse another method.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    version = str(importlib.import_module("vllm").__version__)
    try:
        given = parse(arguments_modules(), options, models["target"], ranks if models["sparks"] > 1 else ())
        arguments = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(given)
        usage = importlib.import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
        arguments.create_engine_config(usage_context=usage)
    except Exception as error:  # Such as that there is no GPU, or a file is missing.
        texts = refusals(error, version.partition("+")[0])
        return bool(texts), version, texts or [" ".join(f"{type(error).__name__}: {error}".split())]
    return True, version, []
