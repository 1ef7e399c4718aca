# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `served`: the values of a deployment, its engine options and memory plan, and which steps are done."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ansible.module_utils.common.validation import check_type_bool, check_type_dict
from ansible.utils.display import Display

from .._query import host_vars
from .._query.query import EMPTY, Form, Forms, Mapping, Result, Run
from .._recipe import fallback
from . import option_check, serving, steps

display = Display()

# Inputs with the same names as values of the deployment.
SAME_NAMES = (
    "method",
    "draft_length",
    "context",
    "concurrency",
    "kv_cache",
    "family",
    "break_even",
    "options",
    "environment",
    "port",
)


def user_inputs(run: Run) -> Result:
    """Return the recipe and all inputs that change it. The values of `given` carry their sources."""
    serve = run.inputs("speculative_serve")
    given = {
        "image": run.inputs("engine_container").get("image", run.recipe["image"]),
        "target": serve["target_model"],
        "draft": serve["draft_model"],
        **{name: serve.get(name) for name in SAME_NAMES},
    }
    return {
        "recipe": run.recipe,
        "repositories": run.inputs("huggingface_cache").get("repositories", run.recipe.get("repositories", [])),
        "given": given,
        "options": check_type_dict(serve["options"]),
        "use_benchmark": check_type_bool(serve["use_benchmark"]),
        "overcommit": check_type_bool(serve["overcommit"]),
        "reserve_gib": serve["reserve_gib"],
        "memory_guard": serve["memory_guard"],
    }


def decision_inputs(run: Run, inputs: Mapping, facts: Mapping) -> Result:
    """Return the inputs and the facts for the decision, most of them by host."""
    return {
        **inputs,
        **facts,
        "slot": facts["slots"].get(run.host) or {},
        "memory": run.inputs("engine_container").get("facts", {}).get("memory") or {},
        # Missing facts are reported already.
        "incomplete": bool(run.variables.get("deployment_failed_checks")),
    }


def digest(inputs: Mapping) -> str:
    """Return the hash of the inputs, by which a decision is known to be made from them."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def alternative(run: Run, recipe: Mapping, image: str) -> str:
    """Return what to run instead of an image; empty if nothing is known."""
    return fallback.advice(recipe, image, host_vars.limit(run.variables))


def checked_plan(run: Run, plan: Result, overcommit: bool) -> Result:
    """Return a plan, or the refusal of one that does not fit, which is shown with it."""
    if overcommit or not plan.get("message"):
        return plan
    display.display("\n".join(["", *plan["lines"], ""]))
    return {"lines": plan["lines"], **run.refusal_result(plan["message"])}


def decide(
    run: Run, slots: Mapping = EMPTY, records: Mapping = EMPTY, facts: Mapping = EMPTY, models: Mapping = EMPTY
) -> Result:
    inputs = user_inputs(run)
    gathered = {"slots": slots, "records": records, "facts": facts, "models": models}
    plan = serving.decide(decision_inputs(run, inputs, gathered), run.host)
    plan["inputs"] = digest(inputs)
    if "served" in plan:
        instead = alternative(run, run.recipe, plan["served"]["image"])
        plan["fix"] = f"Correct the options, and open an issue about the difference. {instead}".rstrip()
    return checked_plan(run, plan, inputs["overcommit"])


def registered(plan: Mapping) -> Result:
    """Return a plan as it was made: Ansible registers no empty list of warnings."""
    return {"warnings": [], **plan}


def reuse_or_decide(run: Run, plan: Mapping, **gathered: Mapping) -> Result:
    """Return the plan if it was made from the inputs as they are here; otherwise decide, as for a role by itself."""
    return registered(plan) if plan.get("inputs") == digest(user_inputs(run)) else decide(run, **gathered)


def memory(run: Run, plan: Mapping, facts: Mapping) -> Result:
    """Return a plan with the memory plan that follows from what is known of the memory by now."""
    inputs = user_inputs(run)
    result = serving.with_memory(
        registered(plan), decision_inputs(run, inputs, {"slots": {}, "facts": facts}), run.host
    )
    return checked_plan(run, result, inputs["overcommit"])


def check(run: Run, plan: Mapping, models: Mapping, programs: str) -> Result:
    """Return the files and the mounts with which the image judges the options of a plan."""
    cache = run.inputs("huggingface_cache")["resolved_directory"]
    return serving.check_request(plan, serving.from_head(models), cache, Path(programs))


def judged(run: Run, plan: Mapping, answer: Mapping) -> Result:
    """Fail if the image rejects the options of a plan, and warn of what it did not judge."""
    warnings = option_check.warnings(plan["served"]["image"], answer)
    return {"warnings": warnings, **run.refusal_result(option_check.refusal(plan, answer))}


def completed_steps(
    _run: Run, docker_facts: Mapping, snapshots: Mapping, plans: Mapping, cluster_facts: Mapping, link_steps: Mapping
) -> Result:
    return {"steps": steps.completed_steps(docker_facts, snapshots, plans, cluster_facts, link_steps)}


FORMS: Forms = {
    "decide": Form(decide),
    "memory": Form(memory),
    "check": Form(check, host_vars.MODELS_SOURCE),
    "judged": Form(judged),
    "completed_steps": Form(completed_steps),
}
