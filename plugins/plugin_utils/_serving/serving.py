# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Decide what is deployed: the values and their sources, the memory plan, and the engine options."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
from pathlib import Path

from ansible.utils.vars import merge_hash

from ...module_utils._deployment import names
from ...module_utils._deployment.lines import wrap_text
from .._engines.engine import Engine, Request, answer, of_recipe
from .._engines.methods import ASSISTANT, draft_model
from .._engines.registry import build, engine_of
from . import containers, memory, sizes, values
from . import memory_guard as guard

Mapping = t.Mapping[str, t.Any]
# The label with the hash of a container's engine options.
OPTIONS = f"{names.LABEL}options"


def from_head(nodes: t.Mapping[str, t.Any]) -> t.Any:
    """Return the head's facts, which hold for all nodes; empty if it has none."""
    return next(iter(nodes.values()), {})


def merged_values(args: Mapping) -> dict[str, t.Any]:
    """Return the values and their sources. A benchmark's choice applies to the models that it measured."""
    records = from_head(args["records"]) or {}
    choice = records.get("choice") if args["use_benchmark"] else None
    own, present = records.get("latest"), records.get("present")
    # Another deployment's values say nothing of this one's.
    before = own if own and present and own.get("deployment") == present.get("deployment") else None
    try:
        return values.merge(args["recipe"], args["given"], choice, from_head(args["models"]), before)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise sizes.PlanError(f"The inputs do not fit together: {error}.") from None


def without_tags(value: t.Any) -> t.Any:
    """Return a value of plain types: YAML writes none that carries Ansible's tags."""
    return json.loads(json.dumps(value, default=str))


def engine_request(args: Mapping, served: Mapping, options: Mapping, sparks: int) -> Request:
    """Return the request for the engine options of a deployment."""
    environment = args["given"].get("environment")
    own = {"options": options, "sparks": sparks, "environment": environment if isinstance(environment, dict) else {}}
    return of_recipe(without_tags({**served, **own, "repositories": args["repositories"]}))


def without_layers(engine: Engine, request: Request, target: Mapping) -> list[str]:
    """Return why a method that drafts with layers of the target model cannot; empty if it can, or nothing is known."""
    method = request.method or engine.section(request.options.get(engine.speculation) or {}).method
    if draft_model(method) != ASSISTANT or request.draft_model or not target.get("layers"):
        return []
    if target.get("prediction_layers"):
        return []
    return [
        f"Method {method} drafts with prediction layers of the target model, but the config.json of "
        f"{request.target_model} names none. Choose a checkpoint that has them, a draft_model made for it, or another "
        "method."
    ]


def check_models(engine: Engine, request: Request, args: Mapping) -> None:
    """Raise PlanError if the engine cannot draft with these models, as far as their facts are known."""
    facts = from_head(args["facts"]) or {}
    target, draft = (facts.get(name) or {} for name in (request.target_model, request.draft_model))
    if problems := [*without_layers(engine, request, target), *engine.misfits(request, target, draft)]:
        raise sizes.PlanError(" ".join(problems))


def notes(recipe: Mapping, served: Mapping) -> list[str]:
    """Return the recipe's note on its image; empty if another image is deployed."""
    return [recipe["note"]] if recipe.get("note") and served["image"] == recipe["image"] else []


def explicit_options(args: Mapping) -> dict[str, t.Any]:
    """Return the engine options that the recipe and a user have written."""
    return dict(merge_hash(args["recipe"].get("options") or {}, args["options"]))


def memory_request(args: Mapping, served: Mapping) -> dict[str, t.Any]:
    """Return the request for the memory plan, with what the options leave open."""
    facts = from_head(args["facts"]) or {}
    models = {use: {"name": served[use], "facts": facts.get(served[use]) or {}} for use in ("target", "draft")}
    sparks = int(args["recipe"].get("sparks", 1))
    return {
        **{key: served[key] for key in sizes.SERVED},
        **{key: args[key] for key in ("reserve_gib", "memory")},
        **{**models, "sparks": sparks, "options": explicit_options(args), "engine": engine_of(args["recipe"]).name},
    }


def memory_plan(args: Mapping, served: Mapping, wish: sizes.MemoryRequest, host: str) -> dict[str, t.Any]:
    """Return the memory plan; empty if memory or models are missing since a check failed."""
    plan, facts = memory.plan(wish, host), from_head(args["facts"]) or {}
    known = args["memory"] and all(facts.get(served[use]) for use in ("target", "draft") if served[use])
    seen = known or not args.get("incomplete")
    told_of = {name: plan[name] if seen else [] for name in ("lines", "warnings")}
    own = [line for text in served["lines"] for line in wrap_text(text, "  ", "    ")]
    return {**plan, **told_of, "lines": [*told_of["lines"], *([""] if own and seen else []), *own]}


def unique(texts: t.Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def with_memory(plan: Mapping, args: Mapping, host: str) -> dict[str, t.Any]:
    """Return a plan whose memory is counted again; values and engine options do not depend on what is free."""
    result = memory_plan(args, plan["served"], sizes.read(memory_request(args, plan["served"])), host)
    return {**plan, **result, "warnings": unique([*plan["warnings"], *result["warnings"]])}


def in_container(engine: Engine, config: Mapping, options: Mapping, draft: str, path: str) -> dict[str, t.Any]:
    """Return the config with the draft model's path in the container, unless the options name it themselves."""
    own = (options.get(engine.speculation) or {}).values()
    result = without_tags(config)
    section = result["options"].get(engine.speculation) or {}
    for key in [key for key, value in section.items() if value == draft and draft not in own]:
        section[key] = path
    return {**result, "text": engine.render(result["options"])}


def judged_models(engine: Engine, request: Request, served: Mapping, models: Mapping) -> dict[str, t.Any]:
    """Return what the image needs to judge the options with the models; empty if it does not, or they are unknown."""
    if not engine.judges_models or not all(name in models for name in (served["target"], served["draft"]) if name):
        return {}
    paths = containers.model_paths(models, served)
    environment = {name: str(value) for name, value in request.environment.items()}
    return {**paths, "sparks": request.world_size, "environment": environment}


def decide(asked: Mapping, host: str) -> dict[str, t.Any]:
    """Return the plan of the memory with the values, the engine's options as `config`, and their hash as `checked`.

    Validated are the options and the environment as they are written, and the options again with what the plan adds.
    """
    served, engine = merged_values(asked), engine_of(asked["recipe"])
    wanted = memory_request(asked, served)
    request = engine_request(asked, served, wanted["options"], wanted["sparks"])
    written = answer(engine, build(engine, request))
    if "errors" in written:
        return written
    check_models(engine, request, asked)
    wish = sizes.read(wanted)
    plan = {
        **memory_plan(asked, served, wish, host),
        "memory_guard": guard.handed_over(asked["memory_guard"], wish.reserve),
    }
    options = merge_hash(plan["options"], wanted["options"])
    complete = dataclasses.replace(
        request, options=without_tags(options), kv_cache_bytes=plan["kv_cache_bytes"] or None
    )
    config = answer(engine, build(engine, complete))
    plan = {
        **plan,
        "warnings": unique(
            [*notes(asked["recipe"], served), *written["warnings"], *plan["warnings"], *config["warnings"]]
        ),
        "served": served,
        "sparks": wanted["sparks"],
        "engine": engine.name,
        "engine_words": engine.words,
        "engine_options": options,
    }
    if "errors" in config:
        return {**plan, **config, "warnings": plan["warnings"]}
    judged = judged_models(engine, request, served, from_head(asked["models"]))
    with_models = json.dumps(judged, sort_keys=True) if judged else ""
    checked = hashlib.sha256(f"{served['image']}{config['text']}{with_models}".encode()).hexdigest()
    labels = asked["slot"].get("labels") or {}
    return {
        **plan,
        "config": config,
        "judged": judged,
        "checked": checked,
        "options_served": labels.get(OPTIONS) == checked,
    }


def check_request(plan: Mapping, models: Mapping, cache: str, programs: Path) -> dict[str, t.Any]:
    """Return the files and the mounts with which the image judges the options; paths are those of the server."""
    config, judged, mounts = plan["config"], plan["judged"], []
    if judged:
        served = plan["served"]
        config = in_container(engine_of(plan), config, plan["engine_options"], served["draft"], judged["draft"])
        mounts = containers.model_mounts(cache, models, served)
    halves = {"check_options.py": "check_options.py", "judge.py": f"{plan['engine']}.py"}
    texts = {
        "options.yml": config["text"],
        "models.json": json.dumps(judged),
        **{name: (programs / half).read_text(encoding="utf-8") for name, half in halves.items()},
    }
    return {"files": [{"name": name, "content": text} for name, text in texts.items()], "mounts": mounts}
