# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The interface of an engine: all that the rest of the collection asks about the program that serves a model."""

from __future__ import annotations

import dataclasses
import re
import typing as t

import yaml

from ...module_utils._docker.release import Range
from .effects import Effects
from .findings import Finding
from .known_issues import KnownIssue

Mapping = t.Mapping[str, t.Any]
Options = dict[str, t.Any]
# The release family is the one of the image's tag.
AUTO = "auto"
# Routes of OpenAI's API, which every engine has. Clients send requests there with POST.
OPENAI_ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses")


@dataclasses.dataclass(frozen=True)
class Request:
    """The neutral inputs, and explicit engine options.

    Without a method the options may have their own speculation. `kv_cache_bytes` is the planned size, if there is one.
    """

    release: str
    method: str | None = None
    draft_model: str | None = None
    drafted: int | None = None
    revision: str | None = None
    options: Mapping = dataclasses.field(default_factory=dict)
    world_size: int = 1
    family: str = AUTO
    target_model: str | None = None
    kv_cache_bytes: int | None = None
    environment: Mapping = dataclasses.field(default_factory=dict)
    # The models from the Hub: the requested revision of each, by its id.
    revisions: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Built:
    """The answer to a request; the options are complete only without errors."""

    release: str
    family: str
    method: str
    options: Options
    errors: list[Finding]
    warnings: list[Finding]
    known_issues: t.Sequence[KnownIssue] = ()


@dataclasses.dataclass(frozen=True)
class Section:
    """Speculation as engine options write it: the method, the draft model, the draft length, and the option for that.

    The method is the engine's own name where it belongs to no method of ours; empty if it is unknown.
    """

    method: str
    draft: str | None
    length: int | None
    length_key: str
    # The keys of the option that follow from the method and its inputs.
    decided: t.Collection[str] = ()


@dataclasses.dataclass(frozen=True)
class Limits:
    """The memory that engine options ask for. A number is None where they leave it to the plan."""

    # Tokens of a conversation.
    context: int | None
    # Conversations at once.
    concurrency: int | None
    # Tokens of the KV cache; `by_fraction` if it takes a fraction of the free memory.
    tokens: int | None
    by_fraction: bool
    fraction: float
    # Values of the KV cache: auto follows the checkpoint.
    cache_type: str
    # Tokens of a block, and tokens that a conversation takes beyond its context for each drafted token.
    block: int
    per_drafted: int
    # Bytes besides weights and KV cache.
    workspace: int
    # Bytes of the KV cache on each Spark, of an engine that counts it so.
    cache_bytes: int | None = None
    # Of hybrid models: bytes of a value of a state, bytes besides weights and cache, and whether a block of the cache
    # is as large as the state of a layer.
    state_value: float = 4.0
    hybrid_workspace: int | None = None
    blocks_hold_states: bool = False


@dataclasses.dataclass(frozen=True)
class OptionNames:
    """The names of the engine options that the memory plan's messages mention."""

    context: str
    concurrency: str
    tokens: str
    fraction: str
    cache_type: str
    prompt: str
    chunking: str


@dataclasses.dataclass(frozen=True)
class Planned:
    """The decisions of the memory plan for options that are not set; None without a decision."""

    concurrency: int
    context: int | None
    tokens: int | None
    chunked: bool
    # Bytes of the KV cache on each Spark, and the fraction of its memory that the server takes.
    cache_bytes: int | None = None
    share: float | None = None


@dataclasses.dataclass(frozen=True)
class Ends:
    """A Spark's ends of the fabric: interfaces, their addresses and their networks, a rail each."""

    interfaces: t.Sequence[str]
    addresses: t.Sequence[str]
    subnets: t.Sequence[str]


@dataclasses.dataclass(frozen=True)
class Engine:
    """A program that serves a model. Its functions are pure.

    `speculation` is its option for that, which may have further keys beside a method.
    """

    name: str
    words: str
    # Pattern of the beginning of images whose entrypoint prepares the container. That of others starts the server by
    # itself, and is cleared.
    keeps_entrypoint_of: str
    speculation: str
    # The option by which it runs Python of a model's authors.
    remote_code: str
    # Routes that take requests of clients. The API proxy forwards these only.
    routes: tuple[str, ...]
    # Names of the speculation methods that it has.
    methods: tuple[str, ...]
    # Release families, and the releases of each.
    families: tuple[str, ...]
    ranges: t.Sequence[Range]
    names: OptionNames
    # All names at the top of its options.
    options: t.Collection[str]
    # What its options and variables do beyond tuning the server.
    effects: t.Callable[[], Effects]
    # What it does beyond the length that a head was made for.
    beyond_head: str
    # Whether its image judges options with the configuration of the models, before the weights are downloaded.
    judges_models: bool
    # Options of a release, with errors and warnings, and their text.
    build: t.Callable[[Request], Built]
    render: t.Callable[[Mapping], str]
    # Speculation in options; the memory that options want; the options that a plan adds.
    section: t.Callable[[Mapping], Section]
    # Reasons why a request does not fit its target and draft model, from the facts of their files.
    misfits: t.Callable[[Request, Mapping, Mapping], list[str]]
    limits: t.Callable[[Mapping], Limits]
    fill: t.Callable[[Mapping, Planned], Options]
    # The role that makes the image for several Sparks, and whether the ranks are started through SSH.
    container_role: str
    ranks_by_ssh: bool
    # The environment of a rank on several Sparks.
    fabric: t.Callable[[Ends], dict[str, str]]
    # What public threads report of its releases.
    known_issues: t.Sequence[KnownIssue]

    def keeps_entrypoint(self, image: str) -> bool:
        """Return whether containers of an image keep its entrypoint."""
        return re.match(self.keeps_entrypoint_of, image) is not None


def is_set(options: Mapping, path: str) -> bool:
    """Return whether an option with a path like `kv_cache_config.max_tokens` is given, also as null."""
    *above, key = path.split(".")
    for name in above:
        options = options.get(name) or {}
        if not isinstance(options, dict):
            return False
    return key in options


def render_yaml(options: Mapping, header: str, sort_keys: bool) -> str:
    """Return engine options as YAML. Equal options always give the same text."""
    return header + yaml.dump(
        dict(options),
        Dumper=yaml.SafeDumper,
        sort_keys=sort_keys,
        default_flow_style=False,
        allow_unicode=True,
        width=4096,
    )


def failure(engine: Engine, built: Built) -> str:
    """Return a headline and one line for each error."""
    count = "1 error" if len(built.errors) == 1 else f"{len(built.errors)} errors"
    headline = f"Validating the engine options for {engine.words} {built.release} found {count}, to be corrected:"
    return "\n".join([headline, *(f"- {error}" for error in built.errors)])


def answer(engine: Engine, built: Built) -> dict[str, t.Any]:
    """Return the result of a task about engine options; with errors it fails."""
    about = {
        "release": built.release,
        "family": built.family,
        "method": built.method,
        "warnings": [str(warning) for warning in built.warnings],
    }
    if built.errors:
        errors = [{"path": error.path, "message": error.message} for error in built.errors]
        return {**about, "failed": True, "msg": failure(engine, built), "errors": errors}
    issues = [
        {"id": issue.id, "message": issue.message, "url": issue.url, "refuse": list(issue.refuse)}
        for issue in built.known_issues
    ]
    return {
        **about,
        "changed": False,
        "known_issues": issues,
        "options": built.options,
        "text": engine.render(built.options),
    }


def of_recipe(recipe: Mapping) -> Request:
    """Return the request of a recipe or of a deployment's values. An empty value becomes None."""
    return Request(
        **{key: recipe[key] for key in ("options", "family")},
        release=recipe["image"],
        method=recipe["method"] or None,
        draft_model=recipe["draft"] or None,
        drafted=recipe["draft_length"] or None,
        target_model=recipe["target"],
        world_size=recipe["sparks"],
        environment=recipe.get("environment") or {},
        revisions={model["id"]: model.get("revision") or "main" for model in recipe["repositories"]},
    )
