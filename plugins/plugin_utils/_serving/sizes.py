# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Compute what a deployment needs of the memory of a Spark, and what is available.

A DGX Spark has one memory for CPU and GPU, and a server that takes too much of it does not fail: the machine hangs.
So the weights, the KV cache of the wanted context, and a workspace have to fit into what is there and free.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ...module_utils._data.numbers import natural_int, positive_int, too_large
from ...module_utils._data.text import amount
from .._engines.engine import Engine, Limits, is_set
from .._engines.methods import ASSISTANT, HEAD, draft_model
from .._engines.registry import engine_of
from .._recipe.recipe import FRACTION, PLANNED

GIB = 1024**3
# The smallest useful context, and the step of proposed contexts.
LEAST_CONTEXT, CONTEXT_STEP = 2048, 1024
# Bytes of a value in the KV cache. NVFP4 keeps one byte of scale for 16 values.
BYTES = {"fp8": 1.0, "nvfp4": 0.5625, "float32": 4.0, "float": 4.0}
BF16 = 2.0
# Multi-head latent attention keeps another cache than keys and values, and chunked prefill is off for it on a GB10.
LATENT_ATTENTION = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2")


class PlanError(Exception):
    """Inputs that allow no plan. The message has every reason."""


@dataclasses.dataclass(frozen=True)
class States:
    """The states that layers of a hybrid model keep for each request, each with the last values of a convolution."""

    layers: int
    values: int
    channels: int
    width: int

    def layer_bytes(self, state_value: float, drafted: int) -> int:
        """Return the bytes of one layer; a drafted token widens the convolution, whose values are in BF16."""
        return math.ceil(self.values * state_value + self.channels * (self.width - 1 + drafted) * BF16)

    def request_bytes(self, state_value: float, drafted: int) -> int:
        """Return the bytes of a request.

        Each drafted token has a state of its own, since it may be rejected; one more is kept for the prefix cache
        (vllm/v1/kv_cache_interface.py).
        """
        return self.layers * self.layer_bytes(state_value, drafted) * (2 + drafted)


@dataclasses.dataclass(frozen=True)
class Model:
    """Facts of a model for the memory plan; None if its files lack them. Weights are in bytes."""

    name: str
    weights: int | None
    # Of all layers that keep keys and values, and of one of them.
    values_per_token: int | None
    values_per_layer: int | None
    max_context: int | None
    missing: tuple[str, ...] = ()
    fp8_cache: bool = False
    latent: bool = False
    attention_heads: int | None = None
    states: States | None = None
    prediction_layers: int = 0


@dataclasses.dataclass(frozen=True)
class Cuda:
    """Free memory in bytes according to CUDA in an otherwise idle container, and according to the kernel."""

    free: int
    unused: int
    available: int

    @property
    def files(self) -> int:
        """Return the bytes of the page cache: available memory that CUDA does not call free."""
        return max(0, self.available - self.unused)


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of the machine in bytes; None where it is unknown."""

    total: int | None
    available: int | None
    slot: int | None
    usage: tuple[str, ...] = ()
    cuda: Cuda | None = None

    @property
    def free(self) -> int | None:
        """Return the bytes that are free without the current deployment."""
        return None if self.available is None or self.slot is None else self.available + self.slot

    def ceiling(self, reserve: int = 0) -> int | None:
        """Return the bytes that a server can get with this reserve."""
        limits = [] if self.total is None else [self.total - reserve]
        limits += [] if self.free is None else [self.free]
        return max(0, min(limits)) if limits else None


# The values that the memory plan uses.
SERVED = ("method", "draft_length", "context", "concurrency", "kv_cache")


@dataclasses.dataclass(frozen=True)
class MemoryRequest:
    """The models, values and machine of a memory plan."""

    target: Model
    draft: Model | None
    method: str
    drafted: int
    context: int
    concurrency: int
    kv_cache: str
    reserve: int
    memory: Memory
    sparks: int
    engine: Engine
    options: t.Mapping[str, t.Any]
    limits: Limits
    # Layers of the target itself that draft.
    drafting_layers: int = 0

    @property
    def models(self) -> list[Model]:
        return [self.target, *([self.draft] if self.draft else [])]

    @property
    def heads(self) -> bool:
        """Return whether the draft model is a head, which continues from the target's hidden states."""
        return draft_model(self.method) in (HEAD, ASSISTANT)

    def is_set(self, option: str) -> bool:
        """Return whether an engine option is explicit."""
        return is_set(self.options, option)


def parse_positive_int(value: t.Any) -> int | None:
    """Return a positive whole number, also one that came as text from a command line."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        value = int(value.strip()) if len(value) < 20 else None
    return positive_int(value)


def parse_number(value: t.Any) -> float | None:
    """Return a finite number, also one that came as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def parse_reserve(value: t.Any) -> float | None:
    """Return a number of GiB that is not negative."""
    number = parse_number(value)
    return None if number is None or number < 0 else number


def read_model(data: t.Mapping[str, t.Any], head: bool = False) -> Model:
    """Return a model from its name and facts; an EAGLE head has one layer of KV cache unless it says otherwise."""
    facts: t.Mapping[str, t.Any] = data.get("facts") or {}
    shape = {key: positive_int(facts.get(key)) for key in ("layers", "kv_heads", "head_dim")}
    hybrid = positive_int(facts.get("state_layers"))
    if hybrid:
        shape["layers"] = positive_int(facts.get("attention_layers"))
    if head and shape["layers"] is None:
        shape["layers"] = 1
    known = [value for value in shape.values() if value is not None]
    counted = len(known) == len(shape) and facts.get("model_type") not in LATENT_ATTENTION
    states = read_states(facts)
    weights = positive_int(facts.get("weights_bytes"))
    latent = facts.get("model_type") in LATENT_ATTENTION
    return Model(
        name=str(data.get("name") or "the model"),
        weights=weights,
        # Keys and values, hence the 2.
        values_per_token=2 * math.prod(known) if counted else None,
        values_per_layer=2 * math.prod(known) // (shape["layers"] or 1) if counted else None,
        max_context=positive_int(facts.get("max_context")),
        missing=(
            *(() if weights else ("the size of its weights",)),
            *(("the size of its latent attention's cache",) if latent else ()),
            *(() if latent else tuple(key for key, value in shape.items() if value is None)),
            *(("the size of its states",) if hybrid and states is None else ()),
        ),
        fp8_cache=str(facts.get("kv_cache_dtype") or "").lower() == "fp8",
        latent=latent,
        attention_heads=positive_int(facts.get("attention_heads")),
        states=states,
        prediction_layers=positive_int(facts.get("prediction_layers")) or 0,
    )


def read_states(facts: t.Mapping[str, t.Any]) -> States | None:
    """Return the states of a hybrid model; None of any other model, or if its files do not give their size."""
    keys = ("state_layers", "state_values", "convolution_values", "convolution_width")
    layers, values, channels, width = (positive_int(facts.get(key)) for key in keys)
    return States(layers, values, channels, width) if layers and values and channels and width else None


def read_memory(data: t.Mapping[str, t.Any] | None) -> Memory:
    result = data or {}
    return Memory(
        total=positive_int(result.get("total")),
        available=natural_int(result.get("available")),
        slot=natural_int(result.get("slot")),
        usage=tuple(str(one) for one in result.get("usage") or ()),
        cuda=read_cuda(result.get("cuda") or {}),
    )


def read_cuda(found: t.Mapping[str, t.Any]) -> Cuda | None:
    """Return the memory that CUDA reported in the image; None without an answer."""
    free, unused, available = (natural_int(found.get(key)) for key in ("free", "unused", "available"))
    return None if free is None or unused is None or available is None else Cuda(free, unused, available)


def read(arguments: t.Mapping[str, t.Any]) -> MemoryRequest:
    """Return the memory request in a task's arguments; raises PlanError with all problems at once."""
    options: t.Mapping[str, t.Any] = arguments.get("options") or {}
    engine = engine_of(arguments)
    method = arguments.get("method") or ""
    memory = read_memory(arguments.get("memory"))
    errors = []
    numbers = {}
    for key, name, unit in (
        ("context", "speculative_serve_context", "tokens"),
        ("concurrency", "speculative_serve_concurrency", "requests"),
    ):
        numbers[key] = parse_positive_int(arguments[key])
        if numbers[key] is None:
            errors.append(f"{name} is {arguments[key]!r}, but must be a whole number of {unit} above 0.")
    reserve = parse_reserve(arguments["reserve_gib"])
    if reserve is None:
        errors.append(
            f"speculative_serve_reserve_gib is {arguments['reserve_gib']!r}, but must be a number of GiB, 0 or more."
        )
    elif memory.total is not None and reserve * GIB >= memory.total:
        errors.append(
            f"speculative_serve_reserve_gib keeps back {amount(reserve * GIB)}, but this Spark has "
            f"{amount(memory.total)} in all; set it to less."
        )
    given = {**options, "draft_length": arguments.get("draft_length")}
    errors += [
        f"{key} is a number of {len(str(value))} digits, which nothing can count with; correct it."
        for key, value in numbers_in(given)
        if too_large(value)
    ]
    if errors:
        raise PlanError(" ".join(errors))
    draft = arguments.get("draft") or {}
    raw = options.get(engine.speculation)
    section = engine.section(raw) if isinstance(raw, dict) else None
    written = section.length if section else None
    target = read_model(arguments["target"])
    drafts = draft_model(method or (section.method if section else ""))
    own_layers = drafts == ASSISTANT and not (draft.get("name") or (section and section.draft))
    request = MemoryRequest(
        target=target,
        draft=read_model(draft, head=drafts in (HEAD, ASSISTANT)) if draft.get("name") else None,
        method=method,
        drafted=max(0, int(arguments.get("draft_length") or written or 0)),
        context=t.cast(int, numbers["context"]),
        concurrency=t.cast(int, numbers["concurrency"]),
        kv_cache=arguments.get("kv_cache") or PLANNED,
        reserve=round(t.cast(float, reserve) * GIB),
        memory=memory,
        sparks=arguments.get("sparks") or 1,
        engine=engine,
        options=options,
        limits=engine.limits(options),
        # Not every config counts them; one is the least that drafts.
        drafting_layers=(target.prediction_layers or 1) if own_layers else 0,
    )
    check_context(request)
    check_heads(request)
    return request


def numbers_in(options: t.Mapping[str, t.Any], path: str = "") -> t.Iterator[tuple[str, t.Any]]:
    """Yield the values of options, each with its path."""
    for key, value in options.items():
        if isinstance(value, dict):
            yield from numbers_in(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def check_heads(request: MemoryRequest) -> None:
    """Each Spark takes as many of the target's attention heads as any other."""
    heads = request.target.attention_heads
    if not heads or heads % request.sparks == 0:
        return
    dividing = [str(number) for number in range(1, heads + 1) if heads % number == 0]
    raise PlanError(
        f"The recipe is for {request.sparks} Sparks, but {request.target.name} has {heads} attention heads, which "
        "cannot be "
        f"divided among so many. Set its sparks to one of {', '.join(dividing)}."
    )


def check_context(request: MemoryRequest) -> None:
    """More than the model was made for is only served if the engine's own option asks for it."""
    longest, option = request.target.max_context, request.engine.names.context
    if request.kv_cache == FRACTION or request.is_set(option) or longest is None or request.context <= longest:
        return
    raise PlanError(
        f"speculative_serve_context is {request.context:,} tokens, but {request.target.name} was made for "
        f"{longest:,}: set "
        f"speculative_serve_context to {longest} or less. If the model supports longer contexts by RoPE scaling, set "
        f"{option} in speculative_serve_options."
    )


# Arithmetic


def round_up(value: int, step: int) -> int:
    return -(-value // step) * step


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Context, concurrency and tokens, with explicit engine options applied."""

    context: int | None
    concurrency: int
    # Tokens that the KV cache has to hold.
    tokens: int
    # The KV cache takes a fraction of the free memory, independent of the context.
    by_fraction: bool
    # The tokens are explicit.
    explicit_tokens: bool


def state_block(request: MemoryRequest) -> int | None:
    """Return the tokens of a block of the KV cache that also holds the state of a layer; None if none does."""
    limits, target = request.limits, request.target
    if not limits.blocks_hold_states or target.states is None or not target.values_per_layer:
        return None
    token = target.values_per_layer * bytes_per_value(request, target)
    state = target.states.layer_bytes(limits.state_value, request.drafted)
    return max(limits.block, round_up(math.ceil(state / token), limits.block))


def block_tokens(request: MemoryRequest) -> int:
    """Return the tokens of a block of the KV cache."""
    return state_block(request) or request.limits.block


def state_bytes(request: MemoryRequest, sparks: int) -> int:
    """Return the bytes of the states of all conversations on each node."""
    states, many = request.target.states, request.limits.concurrency or request.concurrency
    if states is None:
        return 0
    return -(-many * states.request_bytes(request.limits.state_value, request.drafted) // sparks)


def conversation(request: MemoryRequest, context: int) -> int:
    """Return the tokens of one conversation in the KV cache, in whole blocks and one more."""
    block = block_tokens(request)
    return round_up(context + request.limits.per_drafted * request.drafted, block) + block


def spare_tokens(request: MemoryRequest) -> int:
    """Return the tokens beside those of the conversations, in whole blocks.

    A dummy request that fills up CUDA graphs' batches takes a block. The size of blocks that hold states follows from
    formulas of the engine, which differ between releases: two more keep the plan valid.
    """
    return (3 if state_block(request) else 1) * block_tokens(request)


def cache_tokens(request: MemoryRequest, context: int, concurrency: int) -> int:
    """Return the tokens of so many conversations, and the spare ones."""
    return concurrency * conversation(request, context) + spare_tokens(request)


def tokens_in(request: MemoryRequest, size: int | None) -> int | None:
    """Return the tokens of a KV cache of so many bytes on each Spark; None if that is unknown."""
    each = bytes_per_token(request, request.sparks)
    return max(0, size - state_bytes(request, request.sparks)) // each if size and each else None


def sizes(request: MemoryRequest) -> Sizes:
    """Return the served sizes: explicit engine options win over the inputs."""
    limits, option = request.limits, request.engine.names.context
    by_fraction = request.kv_cache == FRACTION or limits.by_fraction
    concurrency = limits.concurrency or request.concurrency
    unlimited = request.kv_cache == FRACTION or (request.is_set(option) and request.options[option] is None)
    context = limits.context or (request.target.max_context if unlimited else request.context)
    explicit = None if by_fraction else limits.tokens or tokens_in(request, limits.cache_bytes)
    tokens = (
        LEAST_CONTEXT if by_fraction else explicit or cache_tokens(request, context or request.context, concurrency)
    )
    return Sizes(context, concurrency, tokens, by_fraction, explicit is not None)


def weights(model: Model, request: MemoryRequest, sparks: int) -> int | None:
    """Bytes on each node: the target is split; a draft is counted in full."""
    if model.weights is None:
        return None
    return -(-model.weights // sparks) if model is request.target else model.weights


def all_weights(request: MemoryRequest, sparks: int) -> int:
    """Of all models whose size is known."""
    return sum(weights(model, request, sparks) or 0 for model in request.models)


def follows_checkpoint(request: MemoryRequest, model: Model) -> bool:
    """Return whether the KV cache is in FP8 because the checkpoint says so. An EAGLE head follows its target."""
    return request.limits.cache_type == "auto" and (request.target if request.heads else model).fp8_cache


def bytes_per_value(request: MemoryRequest, model: Model) -> float:
    """Return the bytes of one value by the options; `auto` follows the checkpoint, and BF16 without one."""
    if follows_checkpoint(request, model):
        return BYTES["fp8"]
    return BYTES.get(request.limits.cache_type, BF16)


def bytes_per_token(request: MemoryRequest, sparks: int) -> int | None:
    """Return the bytes of target and draft together on each node; None if one of them is unknown.

    A layer with a sliding window counts as much as the others. Layers of the target that draft are of its kind.
    """
    target = request.target
    if any(model.values_per_token is None for model in request.models):
        return None
    total = sum((model.values_per_token or 0) * bytes_per_value(request, model) for model in request.models)
    total += request.drafting_layers * (target.values_per_layer or 0) * bytes_per_value(request, target)
    return math.ceil(total / sparks)


@dataclasses.dataclass(frozen=True)
class MemoryBudget:
    """Bytes on each node: weights, workspace, KV cache, usable memory, and the limit of the KV cache.

    The states of a hybrid model are a part of the KV cache that does not depend on the context.
    """

    weights: int
    workspace: int
    cache: int | None
    room: int | None
    cache_limit: int | None
    states: int = 0

    @property
    def needed(self) -> int:
        """Return the sum of the known parts."""
        return self.weights + (self.cache or 0) + self.workspace

    @property
    def excess(self) -> int:
        """Return the bytes over the limit; at most 0 if it fits."""
        over = [] if self.room is None else [self.needed - self.room]
        over += [] if self.cache_limit is None or self.cache is None else [self.cache - self.cache_limit]
        return max(over, default=0)


def budget(request: MemoryRequest, tokens: int, sparks: int, memory: Memory) -> MemoryBudget:
    heavy, each, ceiling = all_weights(request, sparks), bytes_per_token(request, sparks), memory.ceiling()
    states, limits = state_bytes(request, sparks), request.limits
    hybrid = limits.hybrid_workspace if request.target.states else None
    return MemoryBudget(
        weights=heavy,
        workspace=hybrid or limits.workspace,
        states=states,
        cache=None if each is None else each * tokens + states,
        room=memory.ceiling(request.reserve),
        # The server takes at most this fraction of the memory that is free after loading, whatever the tokens are.
        cache_limit=None if ceiling is None else int(request.limits.fraction * max(0, ceiling - heavy)),
    )


def fitting_tokens(made: MemoryBudget, each: int | None) -> int | None:
    """Return the tokens that fit into the KV cache; None if unknown."""
    if not each or made.room is None or made.cache_limit is None:
        return None
    return max(0, min(made.room - made.weights - made.workspace, made.cache_limit) - made.states) // each


def fitting_context(request: MemoryRequest, concurrency: int, tokens: int | None) -> int | None:
    """Return the largest context of so many conversations in so many tokens; None below one that is any use."""
    if tokens is None:
        return None
    size = block_tokens(request)
    blocks = (tokens - spare_tokens(request)) // concurrency // size - 1
    most = blocks * size - request.limits.per_drafted * request.drafted
    if request.target.max_context is not None:
        most = min(most, request.target.max_context)
    most = most // CONTEXT_STEP * CONTEXT_STEP
    return most if most >= LEAST_CONTEXT else None
