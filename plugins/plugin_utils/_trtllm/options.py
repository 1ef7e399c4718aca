# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Build, validate and render the engine options of a TensorRT-LLM release.

`build()` turns a request into the mapping that trtllm-serve reads, with everything the server would refuse (errors)
and everything that works but is unwise on a DGX Spark (warnings). `render()` writes that mapping as YAML.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import release_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.checker import ROOT, Checker
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.findings import Finding, Report
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.known_issues import (
    Case,
    KnownIssue,
    known_issues,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.methods import (
    CHOICES,
    METHODS,
    NONE,
    Method,
    method_of,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.releases import (
    AUTO,
    FAMILY_NAMES,
    Release,
    find_release,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.rules import (
    PARALLEL_SIZES,
    RULES,
    Subject,
    spec,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.schema import Family

RAW = "raw"
# Arguments of the action trtllm_config. The choices come from the data.
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "release": {"type": "str", "required": True},
    "family": {"type": "str", "choices": [AUTO, *FAMILY_NAMES], "default": AUTO},
    "method": {"type": "str", "choices": list(CHOICES)},
    "draft_model": {"type": "str"},
    "max_draft_len": {"type": "int"},
    "target_model": {"type": "str"},
    "revision": {"type": "str"},
    "options": {"type": "dict", "default": {}},
    "world_size": {"type": "int", "default": 1},
}
HEADER = "# Managed by Ansible, module dgx_spark.speculative.trtllm_config; local edits are overwritten.\n"


@dataclasses.dataclass(frozen=True)
class Request:
    """The neutral inputs, and explicit engine options.

    Without a method the options may have their own speculative_config.
    """

    release: str
    method: str | None = None
    draft_model: str | None = None
    drafted: int | None = None
    revision: str | None = None
    options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    world_size: int = 1
    family: str = AUTO
    target_model: str | None = None

    @property
    def effective_method(self) -> str:
        """Return the method, or the one that the options have."""
        return self.method or (NONE if self.options.get("speculative_config") is None else RAW)


@dataclasses.dataclass(frozen=True)
class Built:
    """The answer to a request; the options are complete only without errors."""

    release: str
    family: str
    method: str
    options: dict[str, t.Any]
    errors: list[Finding]
    warnings: list[Finding]
    known_issues: list[KnownIssue] = dataclasses.field(default_factory=list)


def _merged(request: Request, family: Family, report: Report) -> dict[str, t.Any]:
    """Return the free options together with the neutral inputs; an option that comes from both sides is an error."""
    options = dict(request.options)
    section = options.get("speculative_config")
    if request.method is not None and section is not None:
        report.error("speculative_config", _excluded(request.method))
    method = METHODS.get(request.method or NONE)
    spelling = method.spelling(family) if method else None
    if method and spelling:
        options["speculative_config"] = {"decoding_type": spelling, **_speculation(request, method, family)}
    elif method:
        report.error("method", f"release family {family['name']} does not have {request.method}")
    elif isinstance(section, dict):
        options["speculative_config"] = _with_draft_model(section, request.draft_model, family)
    if request.revision is not None:
        given = [key for key in ("revision", "hf_revision") if options.pop(key, None) not in (None, request.revision)]
        if given:
            report.error(given[0], "is given as the parameter revision too, with another value")
        options["revision"] = request.revision
    if request.world_size > 1 and not any(key in options for key in PARALLEL_SIZES):
        options["tensor_parallel_size"] = request.world_size
    return options


def _excluded(method: str) -> str:
    if method == NONE:
        return "conflicts with method none. Remove it to serve without speculation, or remove method to use it"
    return f"conflicts with method {method}. Remove it to use the method, or remove method to use it"


def _speculation(request: Request, method: Method, family: Family) -> dict[str, t.Any]:
    draft_model = request.draft_model if method.draft_model else None
    inputs = {method.length: request.drafted, family["draft_model_key"]: draft_model or None}
    return {key: value for key, value in inputs.items() if value is not None}


def _with_draft_model(section: t.Mapping[str, t.Any], draft_model: str | None, family: Family) -> t.Mapping[str, t.Any]:
    """Return the explicit section; if its type needs a draft model and names none, add that of the parameter."""
    needed = section.get("decoding_type") in family["needs_model"]
    if not draft_model or not needed or any(key in section for key in ("speculative_model", "speculative_model_dir")):
        return section
    return {**section, family["draft_model_key"]: draft_model}


def _as_parameters(findings: t.Iterable[Finding], request: Request, family: Family) -> list[Finding]:
    """Return the findings about speculation that came from parameters, under the parameters' names."""
    if request.method not in METHODS:
        return list(findings)
    names = {spec(METHODS[request.method].length): "max_draft_len", spec(family["draft_model_key"]): "draft_model"}
    return [dataclasses.replace(finding, path=names.get(finding.path, finding.path)) for finding in findings]


def _case(request: Request, release: Release, subject: Subject) -> Case:
    named = subject.options.get("model")
    model = request.target_model or (named if isinstance(named, str) else "")
    return Case(release.about, method_of(subject.decoding_type), subject.options, model, subject.world_size)


def build(request: Request) -> Built:
    """Return the engine options of a request, with all errors and warnings."""
    report = Report()
    release = find_release(request.release, request.family, report)
    method = request.effective_method
    if release is None:
        return Built(release_of(request.release), "", method, {}, report.errors, report.warnings)
    family = release.family
    if request.world_size < 1:
        report.error("world_size", f"must be at least 1, not {request.world_size}")
    options = Checker(release, report).section(ROOT, _merged(request, family, report), "")
    subject = Subject(
        family, options, max(request.world_size, 1), report, request.target_model or "", release.is_unread
    )
    for rule in RULES:
        rule(subject)
    issues = known_issues(_case(request, release, subject))
    for issue in issues:
        report.warn(issue.path, str(issue))
    errors, warnings = (_as_parameters(found, request, family) for found in (report.errors, report.warnings))
    return Built(release.name, family["name"], method, options, errors, warnings, issues)


def render(options: t.Mapping[str, t.Any]) -> str:
    """Return the engine options as YAML. Equal options always give the same text."""
    # Only rendering needs PyYAML; a module reports if it is missing.
    import yaml

    body = yaml.dump(
        dict(options), Dumper=yaml.SafeDumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=4096
    )
    return HEADER + body


def requested(arguments: t.Mapping[str, t.Any]) -> Request:
    """Return the request in validated arguments."""
    return Request(**{"drafted" if name == "max_draft_len" else name: arguments[name] for name in ARGUMENTS})


def of_recipe(recipe: t.Mapping[str, t.Any]) -> Request:
    """Return the request of a recipe or of a deployment's values. An empty value becomes None."""
    return Request(
        **{key: recipe[key] for key in ("options", "family")},
        release=recipe["image"],
        method=recipe["method"] or None,
        draft_model=recipe["draft"] or None,
        drafted=recipe["draft_length"] or None,
        target_model=recipe["target"],
        world_size=recipe["sparks"],
    )


def failure(built: Built) -> str:
    """Return a headline and one line for each error."""
    count = "1 error" if len(built.errors) == 1 else f"{len(built.errors)} errors"
    headline = f"Validating the engine options for TensorRT-LLM {built.release} found {count}, to be corrected:"
    return "\n".join([headline, *(f"- {error}" for error in built.errors)])


def answer(built: Built) -> dict[str, t.Any]:
    """Return the result of a task, whether it fails or not."""
    about = {"release": built.release, "family": built.family, "method": built.method}
    if built.errors:
        errors = [{"path": error.path, "message": error.message} for error in built.errors]
        return {**about, "msg": failure(built), "errors": errors}
    issues = [{"id": issue.id, "message": issue.message, "url": issue.url} for issue in built.known_issues]
    return {
        **about,
        "changed": False,
        "known_issues": issues,
        "options": built.options,
        "text": render(built.options),
    }
