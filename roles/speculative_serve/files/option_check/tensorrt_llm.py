# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorRT-LLM's half of check_options.py: its own classes judge the options."""

from __future__ import annotations

import importlib
import os
import typing as t

# There is no model here; a complaint that names this path is about that and not about the options.
MODEL = "/nonexistent/model"
PATH_KEYS = ("speculative_model", "speculative_model_dir", "tokenizer", "custom_tokenizer", "checkpoint_dir")
# Whether the classes could be asked, the release, and the complaints, or why they could not be asked.
Judgement = tuple[bool, str, list[str]]


def paths_in(options: t.Any) -> list[str]:
    """Return the paths in the options that exist only in the serving container."""
    result: list[str] = []
    if isinstance(options, dict):
        for key, value in options.items():
            if key in PATH_KEYS and isinstance(value, str) and value:
                result.append(value)
            else:
                result += paths_in(value)
    return result


def complaints(error: Exception) -> list[str]:
    """Return an error as texts; a pydantic error has several. Their values are left out, because they contain paths."""
    list_errors = getattr(error, "errors", None)
    if not callable(list_errors):
        return [f"{type(error).__name__}: {error}" if str(error) else type(error).__name__]
    return [": ".join(filter(None, (".".join(map(str, error["loc"])), str(error["msg"])))) for error in list_errors()]


def about_options(texts: t.Sequence[str], missing: t.Sequence[str]) -> list[str]:
    """Return the complaints that are not about a file that is missing here on purpose."""
    return [text for text in texts if not any(path in text for path in missing)]


def build(llm_args: t.Any, options: dict[str, t.Any]) -> None:
    """Make the options' object as trtllm-serve does."""
    given: dict[str, t.Any] = {"model": MODEL, "backend": "pytorch"}
    merge = getattr(llm_args, "update_llm_args_with_extra_dict", None)
    if callable(merge):
        # Part of both families: it turns sections into objects where the class does not do so itself.
        given = merge(given, options)
    else:
        from_dict = getattr(getattr(llm_args, "DecodingBaseConfig", None), "from_dict", None)
        section = options.get("speculative_config")
        given.update(options)
        if callable(from_dict) and isinstance(section, dict):
            given["speculative_config"] = from_dict(dict(section))
    llm_args.TorchLlmArgs(**given)


def version_of(package: t.Any) -> str:
    return str(getattr(package, "__version__", None) or os.environ.get("TRT_LLM_VERSION", ""))


def judge(options: dict[str, t.Any]) -> Judgement:
    """Ask the classes. What they refuse, they refuse with ValueError (pydantic's is one) or an assertion."""
    try:
        version = version_of(importlib.import_module("tensorrt_llm"))
        llm_args = importlib.import_module("tensorrt_llm.llmapi.llm_args")
        if not hasattr(llm_args, "TorchLlmArgs"):
            return False, version, ["this TensorRT-LLM has no class TorchLlmArgs"]
    except Exception as error:  # A broken installation can raise anything.
        return False, "", [f"importing TensorRT-LLM failed: {type(error).__name__}: {error}"]
    missing = [MODEL, *paths_in(options)]
    try:
        build(llm_args, options)
    except (ValueError, AssertionError, FileNotFoundError) as error:
        return True, version, about_options(complaints(error), missing)
    except Exception as error:  # Another interface than the ones known here.
        return False, version, [f"its option classes failed: {type(error).__name__}: {error}"]
    return True, version, []
