# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The rules for engine options of vLLM: what the collection sets itself, and what vLLM would refuse or misread.

Sources: vllm/utils/argparse_utils.py, vllm/engine/arg_utils.py and vllm/config of the releases 0.29.0 to 0.33.0. The
names and kinds of options.yml are those of one release; of another one, its image has the last word on what is not
among them.

The data in options.yml
    release  the release whose options the rules know by name
    read     all releases whose options are in the file
    kinds    its options by the kind of value that its parser takes
    shapes   what their types say more exactly, joined over all releases: choices, and the keys of mappings. Options
             of earlier releases alone are here, too
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from pathlib import Path

import yaml

from ....module_utils._data.numbers import is_number, positive_int
from ..._data.rows import Loader
from ..._data.spelling import did_you_mean, is_misspelt
from ..effects import adds_option
from ..findings import Report, seen, shown
from .spelling import LENGTH, spelt

Options = t.Mapping[str, t.Any]
SPECULATION = "speculative-config"
_DATA = yaml.load(Path(__file__).with_name("options.yml").read_text(encoding="utf-8"), Loader=Loader)
READ_RELEASE: str = _DATA["release"]
KINDS: dict[str, str] = {name: kind for kind, names in _DATA["kinds"].items() for name in names}
# What the configuration classes say of the values of the others.
SHAPES: dict[str, t.Any] = _DATA["shapes"]
NAME = re.compile(r"[a-z][a-z0-9-]*", re.IGNORECASE)
KIND_WORDS = {"switch": "true or false", "int": "a whole number", "number": "a number"}
# Sizes that vLLM also reads as 32k or auto. The memory plan counts with them.
SIZES = ("max-model-len", "max-num-seqs", "max-num-batched-tokens", "kv-cache-memory-bytes")
# More than this of a Spark's memory freezes it: vllm-project/vllm issues 56824 and 54200.
MOST_UTILIZATION = 0.91

PLACE = "It follows from the recipe's"
SECRET = "A secret does not belong into a file of options"
# What the collection sets, with the reason or the place to set it.
OWN: dict[str, str] = {
    **dict.fromkeys(("model", "tokenizer", "revision", "tokenizer-revision"), f"{PLACE} target_model"),
    "host": "Set speculative_serve_host",
    "port": "Set speculative_serve_port",
    **dict.fromkeys(("tensor-parallel-size", "nnodes", "node-rank", "headless"), f"{PLACE} sparks"),
    **dict.fromkeys(("master-addr", "master-port", "distributed-executor-backend"), f"{PLACE} sparks"),
    **dict.fromkeys(("spec-method", "spec-model", "spec-tokens"), f"{PLACE} method, draft_model and draft_length"),
    **dict.fromkeys(("api-key", "hf-token"), SECRET),
    **dict.fromkeys(("config", "uds", "root-path"), "The collection decides how the server is started and reached"),
}
# On the runner V1, which serves these methods in releases before 0.32.
NOT_ASYNCHRONOUS = ("ngram", "ngram_gpu", "suffix")


@dataclasses.dataclass(frozen=True)
class Subject:
    """Options, and the release that is to have them."""

    options: Options
    is_read: bool
    report: Report


def check_names(subject: Subject) -> None:
    """Check that each option is one of the release, in the one spelling that the collection understands."""
    for key in subject.options:
        if not isinstance(key, str):
            subject.report.error(str(key), "the name of an option must be a text")
        elif "_" in key:
            subject.report.error(key, f"write it with dashes, as 'vllm serve --help' does: {key.replace('_', '-')}")
        elif not NAME.fullmatch(key):
            subject.report.error(key, "the name of an option has letters, digits and dashes. Write keys as a mapping")
        elif key in OWN:
            subject.report.error(key, f"remove it. {OWN[key]}")
        elif key.startswith("no-") and key[3:] in KINDS:
            subject.report.error(key, f"write {key[3:]}: false")
        elif key not in KINDS:
            check_unknown(key, subject)


def check_unknown(key: str, subject: Subject) -> None:
    # vLLM also takes the beginning of a name.
    if subject.is_read or is_misspelt(key, KINDS) or any(name.startswith(key) for name in KINDS):
        subject.report.error(key, f"is not an option of vLLM {READ_RELEASE}{did_you_mean(key, KINDS)}")
    else:
        subject.report.warn(key, "is not known here; the image decides")


def check_kinds(subject: Subject) -> None:
    """Check the kind of each value. vLLM would read null as the text None."""
    for key, value in subject.options.items():
        kind = KINDS.get(key, "other")
        if key in OWN:
            continue
        if value is None:
            subject.report.error(key, "must not be null; remove the option to leave it to vLLM")
        elif adds_option(value):
            subject.report.error(key, "must not begin with a dash: vLLM reads the file as a command line")
        elif kind in KIND_WORDS and not is_of_kind(kind, value):
            subject.report.error(key, f"must be {KIND_WORDS[kind]}, not {seen(value)}")
        elif key in SIZES and positive_int(value) is None:
            subject.report.error(
                key, f"must be a whole number above 0, not {seen(value)}: the memory plan counts with it"
            )


def is_of_kind(kind: str, value: t.Any) -> bool:
    if isinstance(value, bool) or kind == "switch":
        return isinstance(value, bool) and kind == "switch"
    return isinstance(value, int) or (kind == "number" and isinstance(value, float))


def check_utilization(subject: Subject) -> None:
    """CPU and GPU share one memory, so a large share freezes the machine."""
    key = "gpu-memory-utilization"
    given = subject.options.get(key)
    if not is_number(given):
        return
    if not 0 < given <= 1:
        subject.report.error(key, f"must be above 0 and at most 1, not {shown(given)}")
    elif given > MOST_UTILIZATION:
        subject.report.error(
            key,
            f"is {given:g}, but CPU and GPU of a Spark share one memory, and more than {MOST_UTILIZATION:g} of it "
            "freezes the machine. Remove it, so that the memory plan decides",
        )


def check_tools(subject: Subject) -> None:
    key = "enable-auto-tool-choice"
    if subject.options.get(key) is True and not subject.options.get("tool-call-parser"):
        subject.report.error(key, "needs tool-call-parser with the parser for the model's tool calls")


def check_speculation(subject: Subject) -> None:
    """Check what holds of every method; the keys of each are the image's to judge."""
    section = subject.options.get(SPECULATION)
    if section is None:
        return
    if not isinstance(section, dict):
        subject.report.error(SPECULATION, f"must be a mapping, not {seen(section)}")
        return
    for key in section:
        if "-" in str(key):
            subject.report.error(f"{SPECULATION}.{key}", f"write it with underscores: {str(key).replace('-', '_')}")
    section = spelt(section)
    where = f"{SPECULATION}.{LENGTH}"
    if positive_int(section.get(LENGTH)) is None:
        subject.report.error(where, "is missing or no whole number above 0. Some models have no default for it")
    if "tensor_parallel_size" in section:
        subject.report.error(f"{SPECULATION}.tensor_parallel_size", "write draft_tensor_parallel_size")
    if section.get("method") in NOT_ASYNCHRONOUS and subject.options.get("async-scheduling") is True:
        subject.report.error("async-scheduling", f"remove it: with the method {section['method']} vLLM may refuse it")


RULES: tuple[t.Callable[[Subject], None], ...] = (
    check_names,
    check_kinds,
    check_utilization,
    check_tools,
    check_speculation,
)
