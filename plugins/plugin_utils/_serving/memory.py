# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan the memory of a Spark: the verdict, its lines for people, and the engine options that follow."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ...module_utils._data.text import amount, shorten
from ...module_utils._deployment.lines import width, wrap_text
from ...module_utils._engines.registry import LOGS
from .._engines.engine import Planned
from .._engines.registry import drafting
from .._recipe.recipe import FRACTION
from .sizes import (
    Memory,
    MemoryBudget,
    MemoryRequest,
    Model,
    Sizes,
    block_tokens,
    budget,
    bytes_per_token,
    conversation,
    fitting_context,
    fitting_tokens,
    follows_checkpoint,
    sizes,
    spare_tokens,
    weights,
)

FITS, LESS_CONTEXT, DOES_NOT_FIT, UNKNOWN = "fits", "less_context", "does_not_fit", "unknown"
# By whether two Sparks would suffice.
ON_TWO_SPARKS = {
    True: "; it would fit on two Sparks",
    False: "; it would not fit on two Sparks either",
    None: "",
}


def chunks_prefill(request: MemoryRequest, size: Sizes) -> bool:
    """Return whether chunked prefill is needed, not set by the user, and known to work."""
    if request.target.latent or request.is_set(request.engine.names.chunking):
        return False
    return longest_prompt(request, size) is not None


def longest_prompt(request: MemoryRequest, size: Sizes) -> int | None:
    """Return the most tokens of a prompt if these are less than the context, and the plan has decided on that."""
    return (
        None
        if request.kv_cache == FRACTION
        else LOGS[request.engine.name].longest_prompt(request.options, size.context)
    )


def share_of(request: MemoryRequest, size: Sizes, made: MemoryBudget) -> float | None:
    """Return the fraction of the memory that a server takes, in hundredths; None if the memory is unknown.

    It is what the server needs, or all that is usable if the KV cache takes a fraction of that.
    """
    total = request.memory.total
    if total is None:
        return None
    if size.by_fraction:
        return None if made.room is None else math.floor(100 * made.room / total) / 100
    return min(math.ceil(100 * made.needed / total), 100) / 100


def engine_options(request: MemoryRequest, size: Sizes, made: MemoryBudget) -> dict[str, t.Any]:
    """Return the options that the explicit ones leave open; they are merged over this."""
    planned = Planned(
        concurrency=size.concurrency,
        context=None if request.kv_cache == FRACTION else size.context,
        tokens=None if size.by_fraction else size.tokens,
        chunked=chunks_prefill(request, size),
        cache_bytes=None if size.by_fraction else made.cache,
        share=share_of(request, size, made),
    )
    return request.engine.fill(request.options, planned)


def warnings(request: MemoryRequest, size: Sizes) -> list[str]:
    result = [
        f"The files of {model.name} do not give {', '.join(model.missing)}: the memory plan cannot count it all."
        for model in request.models
        if model.missing
    ]
    speculation = request.engine.speculation
    raw = request.options.get(speculation)
    if request.draft is None and isinstance(raw, dict) and request.engine.section(raw).draft:
        result.append(f"The draft model in {speculation} is not part of the memory plan.")
    if request.memory.total is None and request.memory.free is None:
        result.append("The memory of this Spark is unknown, so it is unknown whether this fits.")
    elif request.memory.free is None:
        result.append(
            "The available memory, or that of the current deployment, is unknown: the memory plan counts everything "
            "but speculative_serve_reserve_gib as free."
        )
    if size.explicit_tokens and size.context and size.tokens < conversation(request, size.context):
        result.append(
            f"{request.engine.names.tokens} makes a KV cache of {size.tokens:,} tokens, which is less than one "
            f"request of {size.context:,} tokens takes; leave it out, or set speculative_serve_context to less."
        )
    return result + short_draft(request, size)


def free_for_gpu(memory: Memory) -> str:
    """Return CUDA's figure beside the kernel's; empty if CUDA was not asked."""
    cuda = memory.cuda
    return f"{amount(cuda.free)} according to CUDA, {amount(cuda.available)} available" if cuda else ""


def less_by_cuda(request: MemoryRequest, made: MemoryBudget) -> list[str]:
    """Return a warning if available memory suffices, but what CUDA calls free does not.

    Only a warning: on a GB10 CUDA counts as used what the kernel takes back from files when memory is asked for.
    """
    cuda = request.memory.cuda
    if cuda is None or cuda.free >= made.needed or made.needed > cuda.available:
        return []
    result = (
        f"CUDA calls {amount(cuda.free)} free, which is less than the {amount(made.needed)} that are needed, although "
        f"{amount(cuda.available)} are available."
    )
    if cuda.free + cuda.files >= made.needed:
        return [
            f"{result} Files that were read hold {amount(cuda.files)}. Those of the models are given back while they "
            "are loaded; should the KV cache become smaller than planned all the same, -e "
            """'{"speculative_serve_drop_caches": true}' gives back all of them before a start."""
        ]
    return [
        f"{result} Files that were read hold only {amount(cuda.files)}; the driver keeps the rest from programs. The "
        "server may run out of memory: see that nothing else uses the GPU ('nvidia-smi' lists it), reboot, or serve "
        "less with speculative_serve_context."
    ]


def short_draft(request: MemoryRequest, size: Sizes) -> list[str]:
    """Return a draft whose own positions end before the context does."""
    draft = request.draft
    if not draft or not draft.max_context or not size.context or draft.max_context >= size.context:
        return []
    what = "head" if request.heads else "draft model"
    beyond = f" {request.engine.beyond_head} there; speculative_serve_context: {draft.max_context} is on the safe side."
    return [
        f"The {what} {draft.name} was made for {draft.max_context:,} tokens, so its drafts are seldom accepted "
        f"between there and {size.context:,}.{beyond if request.heads else ''}"
    ]


# The answer, for programs and for people


def judge(made: MemoryBudget, fitting: int | None, size: Sizes, complete: bool) -> str:
    if made.room is None:
        return UNKNOWN
    if made.excess > 0:
        # With an explicit max_tokens fewer tokens are the way out, also where the context itself is small.
        less = size.explicit_tokens or size.context is None or (fitting or 0) < size.context
        return LESS_CONTEXT if fitting is not None and less and not size.by_fraction else DOES_NOT_FIT
    return FITS if complete else UNKNOWN


def short_name(model: Model) -> str:
    """Hub ids as they are; of a directory its own name."""
    name = model.name.rstrip("/").rsplit("/", 1)[-1] if model.name.startswith("/") else model.name
    return shorten(name, 60)


def per_cent(request: MemoryRequest) -> str:
    return f"{100 * request.limits.fraction:.0f}%"


def conversations(size: Sizes) -> str:
    many = "1 request" if size.concurrency == 1 else f"{size.concurrency:,} requests"
    return f"{many} of {size.context:,} tokens" if size.context else many


def cache_row(request: MemoryRequest, size: Sizes) -> str:
    if size.by_fraction:
        return f"KV cache: {per_cent(request)} of what is left, at least {size.tokens:,} tokens"
    if size.explicit_tokens:
        return f"KV cache of {size.tokens:,} tokens ({request.engine.names.tokens.rpartition('.')[2]})"
    return f"KV cache{' and states' if request.target.states else ''} for {conversations(size)}"


def rows(request: MemoryRequest, size: Sizes, made: MemoryBudget) -> list[dict[str, t.Any]]:
    """Return the needs of each node; null if unknown."""
    heavy = [
        {"name": f"weights of {short_name(model)}", "bytes": weights(model, request, request.sparks)}
        for model in request.models
    ]
    return [
        *heavy,
        {"name": cache_row(request, size), "bytes": made.cache},
        {"name": "workspace and CUDA graphs", "bytes": made.workspace},
    ]


def title(request: MemoryRequest) -> str:
    how = {"engine": request.engine.name, "method": request.method, "draft_length": request.drafted}
    return f"{short_name(request.target)} {drafting(how)}"


def held_by_others(request: MemoryRequest, made: MemoryBudget) -> bool:
    """Return whether the deployment would fit if nothing else used memory."""
    total, room = request.memory.total, made.room
    return total is not None and room is not None and room < made.needed <= total - request.reserve


def fits_on_two_sparks(request: MemoryRequest, size: Sizes) -> bool | None:
    """Return whether the deployment would fit on two Sparks like this one that run nothing else; None if unknown."""
    if request.sparks > 1 or request.memory.total is None or any(model.missing for model in request.models):
        return None
    alone = dataclasses.replace(request.memory, available=None, slot=None)
    return budget(request, size.tokens, 2, alone).excess <= 0


def setting(request: MemoryRequest, size: Sizes, fitting: int, tokens: int) -> str:
    """Return the setting with which it fits."""
    names, block = request.engine.names, block_tokens(request)
    if size.explicit_tokens:
        return f"{names.tokens}: {tokens // block * block} in speculative_serve_options"
    if request.is_set(names.context):
        return f"{names.context}: {fitting} in the engine options"
    return f"-e speculative_serve_context={fitting}"


def lower_concurrency(request: MemoryRequest, size: Sizes, tokens: int) -> str:
    """Return the setting for the largest concurrency that fits with this context; empty if none does."""
    if size.context is None or size.explicit_tokens or size.by_fraction:
        return ""
    many = (tokens - spare_tokens(request)) // conversation(request, size.context)
    if not 0 < many < size.concurrency:
        return ""
    option = request.engine.names.concurrency
    if request.is_set(option):
        return f"{option}: {many} in the engine options"
    return f"-e speculative_serve_concurrency={many}"


def refusal(request: MemoryRequest, size: Sizes, made: MemoryBudget, verdict: str, fitting: int | None) -> str:
    """Return the problem and its fix; empty if the plan is accepted."""
    if verdict not in (LESS_CONTEXT, DOES_NOT_FIT) or made.room is None:
        return ""
    tokens = fitting_tokens(made, bytes_per_token(request, request.sparks)) or 0
    node = " on each Spark" if request.sparks > 1 else ""
    served = f"{title(request)}, with {conversations(size)}," if made.cache is not None else title(request)
    if made.needed > made.room:
        short = amount(made.needed - made.room)
        wrong = f"{served} needs {amount(made.needed)} of memory{node}, {short} more than is available."
    else:
        wrong = (
            f"{served} needs a KV cache of {amount(made.cache or 0)}, but {request.engine.names.fraction} "
            f"allows {amount(made.cache_limit or 0)}; raise it."
        )
    parts = [wrong]
    others = held_by_others(request, made)
    if others and request.memory.usage:
        parts.append(". ".join(request.memory.usage) + ".")
    elif others:
        parts.append("Other programs hold what is missing; 'ps aux --sort -rss' lists them.")
    ways = []
    if verdict == LESS_CONTEXT:
        ways.append(setting(request, size, fitting or 0, tokens))
    ways += [many] if (many := lower_concurrency(request, size, tokens)) else []
    if ways:
        parts.append(f"{'Until then it' if others else 'It'} fits with {', or with '.join(ways)}.")
    elif not others and made.needed > made.room:
        parts.append(f"Choose a smaller model{ON_TWO_SPARKS[fits_on_two_sparks(request, size)]}.")
    if request.memory.total is not None and made.needed <= request.memory.total:
        parts.append("-e speculative_serve_overcommit=true tries it anyway, and may hang the machine.")
    return " ".join(parts)


def verdict_line(request: MemoryRequest, size: Sizes, made: MemoryBudget, verdict: str, fitting: int | None) -> str:
    if verdict == FITS and size.by_fraction:
        return "Fits."
    if verdict == FITS:
        longer = size.context is not None and (fitting or 0) > size.context
        asked = longer and not size.explicit_tokens
        more = f"; up to {fitting:,} tokens of context would fit" if asked else ""
        return f"Fits with {amount((made.room or 0) - made.needed)} to spare{more}."
    if verdict == LESS_CONTEXT:
        tokens = fitting_tokens(made, bytes_per_token(request, request.sparks)) or 0
        two = not held_by_others(request, made) and fits_on_two_sparks(request, size)
        also = f"{ON_TWO_SPARKS[True]} unchanged" if two else ""
        return f"Fits only with a shorter context: {setting(request, size, fitting or 0, tokens)}{also}."
    if verdict == DOES_NOT_FIT:
        if held_by_others(request, made):
            return f"Does not fit: {amount(made.excess)} short; other programs use that much."
        return f"Does not fit: {amount(made.excess)} short{ON_TWO_SPARKS[fits_on_two_sparks(request, size)]}."
    return "Whether it fits is unknown."


def notes(request: MemoryRequest, size: Sizes) -> list[str]:
    """Return notes on what the figures do not show."""
    result, names = [], request.engine.names
    if any(follows_checkpoint(request, model) for model in request.models):
        result.append(
            f"The KV cache is counted in FP8, which the checkpoint asks for and {request.engine.words} follows unless "
            f"{names.cache_type} says otherwise."
        )
    if chunks_prefill(request, size):
        result.append(
            "Chunked prefill is switched on, since longer prompts would be refused; it is the first thing to switch "
            f"off if answers to long prompts are bad ({names.chunking}: false in the engine options)."
        )
    elif longest := longest_prompt(request, size):
        result.append(
            f"Prompts of more than {longest:,} tokens are refused: one pass takes no more ({names.prompt}), and "
            "chunked prefill is off."
        )
    if size.by_fraction:
        result.append(
            f"The KV cache takes {per_cent(request)} of what the weights leave, including the memory that is "
            "reserved for the system."
        )
    return result


def memory_rows(request: MemoryRequest) -> list[tuple[str, int | None]]:
    memory = request.memory
    made = [("memory of this Spark", memory.total), ("reserved for the system", request.reserve)]
    slot = ", including the current deployment's" if memory.slot else ""
    made.append((f"available{slot}", memory.free))
    return [*made, ("free according to CUDA", memory.cuda.free)] if memory.cuda else made


def table(parts: t.Sequence[tuple[str, int | None]], widest: int) -> list[str]:
    return [f"  {name:<{widest}}  {'unknown' if count is None else amount(count):>9}" for name, count in parts]


def render(
    host: str,
    request: MemoryRequest,
    size: Sizes,
    made: MemoryBudget,
    found: t.Sequence[t.Mapping[str, t.Any]],
    end: str,
) -> list[str]:
    """Return the plan as a table with its verdict."""
    complete = all(row["bytes"] is not None for row in found)
    needs = [(row["name"], row["bytes"]) for row in found]
    needs.append(("needed" if complete else "needed (known part)", made.needed))
    has = [*memory_rows(request), ("usable", made.room)]
    widest = max(len(name) for name, _size in [*needs, *has])
    where = f"{host}, " if host else ""
    each = f" (each of {request.sparks} Sparks)" if request.sparks > 1 else ""
    heading = wrap_text(f"{where}memory{each}: {title(request)}", columns=width() - 2)
    ruler = f"  {'-' * (widest + 11)}"
    body = [*table(needs[:-1], widest), ruler, *table(needs[-1:], widest), ""]
    body += [*table(has[:-1], widest), ruler, *table(has[-1:], widest), ""]
    sentences = [end, *notes(request, size)]
    return [
        *heading,
        "",
        *body,
        *(line for sentence in sentences for line in wrap_text(sentence, "  ", "  ", width() - 2)),
    ]


def server_bytes(request: MemoryRequest, size: Sizes, made: MemoryBudget, complete: bool) -> dict[str, t.Any]:
    """Return the bytes that the server takes, and the share of the rest that a KV cache takes which is not planned."""
    if not complete:
        return {"takes": None, "share": 0.0}
    if size.by_fraction:
        return {"takes": made.weights + made.workspace, "share": request.limits.fraction}
    return {"takes": made.needed, "share": 0.0}


def tightest(plans: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the lines for all Sparks of a deployment.

    It needs the same of each Spark, so the one with the least memory decides.
    """
    made = [one for one in plans if one.get("lines")]
    least = min(made, key=lambda one: math.inf if one["room"] is None else one["room"] - one["needed"], default=None)
    others = ["", "  The other Sparks need the same and have at least as much memory."] if len(made) > 1 else []
    return [*least["lines"], *others] if least else []


def plan(request: MemoryRequest, host: str = "") -> dict[str, t.Any]:
    """Return the memory plan of a Spark. Sizes are in bytes, contexts in tokens, and None is not known.

    The verdict, about the `needed` bytes and the `room` for them, is one of FITS to UNKNOWN. `rows` add up to needed;
    `takes` is what the server takes, without its KV cache if that is a `share` of the rest. `options` fill in what the
    engine options leave open. `message` is why the plan is refused, or empty.
    """
    size = sizes(request)
    made = budget(request, size.tokens, request.sparks, request.memory)
    complete = not any(model.missing for model in request.models)
    tokens = fitting_tokens(made, bytes_per_token(request, request.sparks)) if complete else None
    fitting = fitting_context(request, size.concurrency, tokens)
    verdict = judge(made, fitting, size, complete)
    options = engine_options(request, size, made)
    result = rows(request, size, made)
    return {
        "verdict": verdict,
        "rows": result,
        "lines": render(host, request, size, made, result, verdict_line(request, size, made, verdict, fitting)),
        "options": options,
        "context": size.context,
        "fitting_context": fitting,
        "needed": made.needed,
        "kv_cache_bytes": made.cache,
        **server_bytes(request, size, made, complete),
        "room": made.room,
        "free_for_gpu": free_for_gpu(request.memory),
        "message": refusal(request, size, made, verdict, fitting),
        "warnings": warnings(request, size) + less_by_cuda(request, made),
    }
