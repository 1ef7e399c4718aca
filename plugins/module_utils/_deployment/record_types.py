# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The types of a record's keys, as far as they are read. Other keys are kept as they are.

A user may have edited the file, and parts may be lost. Without a key that has no default, a deployment cannot be
restored.
"""

# Python 3.9 cannot evaluate X | None.
# ruff: noqa: UP007, UP045

from __future__ import annotations

import operator
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from .._data.typed import Check


def has_port(url: str) -> bool:
    """Return whether it is the URL of a server."""
    try:
        return urllib.parse.urlsplit(url).port is not None
    except ValueError:
        return False


Url = t.Annotated[str, Check(has_port, "the URL of a server")]
Positive = t.Annotated[int, Check(lambda value: value > 0, "greater than 0")]
Empty = t.Annotated[dict, Check(operator.not_, "empty")]
Word = t.Union[str, int]


@dataclass(frozen=True)
class Finding:
    id: str
    message: str


@dataclass(frozen=True)
class Model:
    snapshot: str


@dataclass(frozen=True)
class EngineOptions:
    speculative_config: t.Optional[dict] = None


@dataclass(frozen=True)
class Image:
    id: str
    reference: str
    digests: t.Optional[list] = None


@dataclass(frozen=True)
class Answer:
    text: t.Optional[str] = None
    reasoning: t.Optional[str] = None


@dataclass(frozen=True)
class Request:
    prompt: t.Optional[str] = None
    max_tokens: t.Optional[Positive] = None


@dataclass(frozen=True)
class Measurements:
    ttft_s: t.Optional[float] = None
    tokens_per_second: t.Optional[float] = None
    acceptance_length: t.Optional[float] = None
    request: t.Optional[Request] = None


@dataclass(frozen=True)
class Comparison:
    """With the deployment that it replaced, which differed in the speculation only."""

    speculation: t.Optional[str] = None
    tokens_per_second: t.Optional[float] = None


@dataclass(frozen=True)
class Verdict:
    date: t.Optional[str] = None
    sentence: t.Optional[str] = None


@dataclass(frozen=True)
class BreakEven:
    best: t.Optional[float] = None
    worst: t.Optional[float] = None


@dataclass(frozen=True)
class Mount:
    source: str
    target: str


@dataclass(frozen=True)
class Container:
    image: str
    labels: dict[str, str]
    mounts: list[Mount]
    command: list
    ulimits: list
    devices: list
    device_requests: list
    published_ports: list
    environment: dict
    healthcheck: dict
    network: Word
    ipc_mode: Word
    stop_timeout: Word
    log_max_size: Word
    log_max_files: Word


@dataclass(frozen=True)
class Rail:
    address: str
    interface: str


@dataclass(frozen=True)
class Cluster:
    rank: int
    nodes: list[str]
    image: str
    rails: list[Rail]
    ranks: t.Optional[list] = None


@dataclass(frozen=True)
class RecordedDeployment:
    deployment: str
    deployed_at: str
    url: Url
    listens_on: str
    image: Image
    models: dict[str, Model]
    options: EngineOptions
    script: dict
    findings: list[Finding]
    container: Container
    files: dict[str, str]
    variant: t.Optional[str] = None
    title: t.Optional[str] = None
    source: t.Optional[str] = None
    method: t.Optional[str] = None
    target_model: t.Optional[str] = None
    draft_model: t.Optional[str] = None
    served_model: t.Optional[str] = None
    draft_length: t.Optional[int] = None
    context: t.Optional[int] = None
    # By value, who had the last word where that was not the recipe.
    origins: t.Optional[dict] = None
    checks: t.Optional[list] = None
    warnings: t.Optional[list] = None
    answer: t.Optional[Answer] = None
    measurements: t.Optional[Measurements] = None
    compared: t.Optional[Comparison] = None
    memory_available: t.Optional[float] = None
    benchmark: t.Optional[Verdict] = None
    verdict: t.Optional[Verdict] = None
    break_even: t.Optional[BreakEven] = None
    # Of two Sparks that serve as one; empty, or not there, for one Spark.
    cluster: t.Union[Cluster, Empty] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A benchmark's choice for a deployment."""

    draft_length: int
    method: str
    date: str
    sentence: str
    recipe: str
    image: str
    models: dict
