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
from pathlib import Path

from ansible.utils.vars import merge_hash

from ....module_utils._docker.release import release_of
from ..engine import Built, Options, Request, render_yaml
from ..findings import Finding, Report, seen
from ..known_issues import Case, read, report_issues
from ..methods import METHODS, NONE
from .checker import ROOT, Checker
from .releases import Release, find_release
from .rules import PARALLEL_SIZES, RULES, Subject, spec
from .schema import FAMILIES, Family
from .spelling import SPELLINGS, Spelling, decided_keys, method_of
from .vocabulary import SPECULATION

RAW = "raw"
HEADER = "# Managed by Ansible, module dgx_spark.speculative.trtllm_config; local edits are overwritten.\n"
# A decoding type stands for itself where it is that of no method.
TYPES = (name for family in FAMILIES for name in family["sections"][SPECULATION]["variants"])
KNOWN_ISSUES = read(Path(__file__).with_name("known_issues.yml"), TYPES)
# The issue of releases that size the KV cache by bytes. Its row has the models; the plan has the bytes.
SIZED_BY_BYTES = "kv-cache-manager-v2-16942"


def _effective_method(request: Request) -> str:
    """Return the method, or the one that the options have."""
    return request.method or (NONE if request.options.get("speculative_config") is None else RAW)


def _merged(request: Request, family: Family, report: Report) -> dict[str, t.Any]:
    """Return the free options together with the neutral inputs; an option that comes from both sides is an error."""
    options = dict(request.options)
    section = options.get("speculative_config")
    if request.method == NONE and section is not None:
        report.error(
            "speculative_config",
            "conflicts with method none. Remove it to serve without speculation, or remove method to use it",
        )
    spelling = SPELLINGS.get(request.method or NONE)
    kind = spelling.in_family(family) if spelling else None
    if spelling and kind:
        further = _further_keys(request, spelling, report)
        decided = {"decoding_type": kind, **_speculation(request, spelling, family)}
        options["speculative_config"] = {**decided, **spelling.adds, **further}
    elif request.method not in (None, NONE):
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


def _further_keys(request: Request, spelling: Spelling, report: Report) -> Options:
    """Return the keys of an explicit section beside a method; those that follow from the method are errors."""
    section = request.options.get("speculative_config") or {}
    if not isinstance(section, dict):
        report.error("speculative_config", f"must be a mapping, not {seen(section)}")
        return {}
    decided = decided_keys(spelling.length)
    for key in (key for key in section if key in decided):
        report.error("speculative_config", f"remove {key}: it follows from method {request.method} and its inputs")
    return {key: value for key, value in section.items() if key not in decided}


def _speculation(request: Request, spelling: Spelling, family: Family) -> dict[str, t.Any]:
    draft_model = request.draft_model if METHODS[request.method or NONE].draft_model else None
    inputs = {spelling.length: request.drafted, family["draft_model_key"]: draft_model or None}
    return {key: value for key, value in inputs.items() if value is not None}


def _with_draft_model(section: t.Mapping[str, t.Any], draft_model: str | None, family: Family) -> t.Mapping[str, t.Any]:
    """Return the explicit section; if its type needs a draft model and names none, add that of the parameter."""
    needed = section.get("decoding_type") in family["needs_model"]
    if not draft_model or not needed or any(key in section for key in ("speculative_model", "speculative_model_dir")):
        return section
    return {**section, family["draft_model_key"]: draft_model}


def _as_parameters(findings: t.Iterable[Finding], request: Request, family: Family) -> list[Finding]:
    """Return the findings about speculation that came from parameters, under the parameters' names."""
    spelling = SPELLINGS.get(request.method or NONE)
    if spelling is None:
        return list(findings)
    names = {spec(spelling.length): "max_draft_len", spec(family["draft_model_key"]): "draft_model"}
    return [dataclasses.replace(finding, path=names.get(finding.path, finding.path)) for finding in findings]


def _case(request: Request, release: Release, subject: Subject) -> Case:
    named = subject.options.get("model")
    model = request.target_model or (named if isinstance(named, str) else "")
    return Case(release.about, method_of(subject.decoding_type), subject.options, model, subject.world_size)


def build(request: Request) -> Built:
    """Return the engine options of a request, with all errors and warnings."""
    built = _build(request)
    if request.kv_cache_bytes is None or SIZED_BY_BYTES not in [issue.id for issue in built.known_issues]:
        return built
    sized = {"kv_cache_config": {"max_gpu_total_bytes": request.kv_cache_bytes}}
    return _build(dataclasses.replace(request, options=merge_hash(sized, dict(request.options))))


def _build(request: Request) -> Built:
    report = Report()
    release = find_release(request.release, request.family, report)
    method = _effective_method(request)
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
    issues = report_issues(KNOWN_ISSUES, _case(request, release, subject), report)
    errors, warnings = (_as_parameters(found, request, family) for found in (report.errors, report.warnings))
    return Built(release.name, family["name"], method, options, errors, warnings, issues)


def render(options: t.Mapping[str, t.Any]) -> str:
    return render_yaml(options, HEADER, sort_keys=False)
