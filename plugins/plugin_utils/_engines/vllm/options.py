# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Build, validate and render the options of vLLM, a file for 'vllm serve --config'."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ....module_utils._docker.release import Range, Version, release_of, version_of
from ..engine import Built, Request, render_yaml
from ..findings import Report, seen, shown
from ..known_issues import Case, read, report_issues
from ..methods import NONE, needs_draft_model
from .environment import check_environment
from .rules import READ_RELEASE, RULES, SPECULATION, Subject
from .spelling import SPELLINGS, decided_keys, method_of, section_of, spelt

# Before it, the page cache counts as used memory: vllm-project/vllm pull request 48140.
FIRST = "0.24.0"
# From here on an answer may have the counts of its own drafts (vllm/engine/arg_utils.py).
COUNTING, COUNTS = "0.29.0", "per-request-spec-decode-metrics"
# The variable by which vLLM chooses its model runner; by default that is V2 where V2 has everything.
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
RANGES: list[Range] = [[FIRST, None]]
# Such images have kernels for compute capability 12.0 alone, say builders of images for Sparks. A GB10 has 12.1.
NO_GB10 = "-cu129"
KNOWN_ISSUES = read(Path(__file__).with_name("known_issues.yml"))
UNREAD = "options are judged by the image only"
HEADER = "# Managed by Ansible, collection dgx_spark.speculative; local edits are overwritten.\n"


def is_before(version: Version | None, first: str) -> bool:
    """Return whether a version is known, and older than a release."""
    limit = version_of(first)
    return version is not None and limit is not None and version < limit


def check_release(name: str, version: Version | None, is_read: bool, report: Report) -> None:
    """Check the release. One whose options are not known here is judged by its own parser."""
    if NO_GB10 in name:
        report.error("release", f"{name} has no kernels for a GB10: use the image without {NO_GB10} in its tag")
    if version is None:
        report.warn("release", f"{shown(name)} names no release of vLLM: {UNREAD}")
    elif is_before(version, FIRST):
        report.error(
            "release", f"{name} is older than {FIRST}, which counts the page cache of a Spark as used; use a newer one"
        )
    elif not is_read:
        report.warn("release", f"{name} is not the release whose options are known here ({READ_RELEASE}): {UNREAD}")


def further_keys(method: str, section: t.Any, report: Report) -> dict[str, t.Any]:
    """Return the keys of an explicit speculative-config beside a method; those that the method decides are errors."""
    if not isinstance(section, dict):
        if section is not None:
            report.error(SPECULATION, f"must be a mapping, not {seen(section)}")
        return {}
    decided = [key for key in section if str(key).replace("-", "_") in decided_keys(method)]
    for key in decided:
        report.error(f"{SPECULATION}.{key}", f"remove it: it follows from method {method} and its inputs")
    return {key: value for key, value in section.items() if key not in decided}


def merged(request: Request, version: Version | None, report: Report) -> dict[str, t.Any]:
    """Return the free options together with the neutral inputs."""
    options, method = dict(request.options), request.method
    if method is not None:
        further = further_keys(method, options.pop(SPECULATION, None), report)
        if method not in (NONE, *SPELLINGS):
            report.error("method", f"vLLM does not have {method}; it has {', '.join(SPELLINGS)}")
        elif needs_draft_model(method) and not request.draft_model:
            report.error("draft_model", f"is missing, and the method {method} needs one")
        elif section := section_of(method, request.drafted, request.draft_model, further):
            options[SPECULATION] = section
    if request.target_model and "served-model-name" not in options:
        options["served-model-name"] = request.target_model.rpartition("/")[2]
    if not options.get(SPECULATION):
        # Without drafts vLLM refuses to count them, also if that was asked for with drafts.
        options.pop(COUNTS, None)
    elif version is not None and not is_before(version, COUNTING):
        options.setdefault(COUNTS, "summary")
    return options


def check_method(request: Request, section: t.Any, version: Version | None, report: Report) -> None:
    """Check that the release and the environment let vLLM use the method."""
    name = method_of(section)
    spelling = SPELLINGS.get(name)
    if spelling is None:
        return
    if is_before(version, spelling.since):
        report.error(
            "method", f"{name} needs vLLM {spelling.since} or later, and {request.release} is older. Use a newer image"
        )
    if spelling.runner and str(request.environment.get(RUNNER)) == "0":
        report.error(
            "environment", f"{RUNNER} is 0, but only the model runner {spelling.runner} has {name}. Remove the variable"
        )


def misfits(request: Request, target: t.Mapping[str, t.Any], draft: t.Mapping[str, t.Any]) -> list[str]:
    """Return as sentences why vLLM cannot use the method with models of these facts."""
    name = request.method or method_of(request.options.get(SPECULATION))
    spelling = SPELLINGS.get(name)
    if spelling is None:
        return []
    problems = []
    if spelling.garbles_hybrids and target.get("state_layers"):
        problems.append(
            f"Method {name} makes vLLM garble the text of {request.target_model}, a hybrid model of type "
            f"{target.get('model_type')}: see {spelling.garbles_hybrids}. Choose another method, or none."
        )
    kind = draft.get("architecture")
    first = spelling.drafts.get(kind or "", "")
    if is_before(version_of(release_of(request.release)), first):
        problems.append(
            f"{request.draft_model} is a {kind}, but the image {request.release} is older than vLLM {first}, the first "
            "that has it. Use a newer image."
        )
    return problems


def build(request: Request) -> Built:
    """Return the options of a request, with all errors and warnings."""
    report = Report()
    tag = release_of(request.release)
    version = version_of(tag)
    name = request.release if version is None else tag.removeprefix("v")
    known = version_of(READ_RELEASE)
    is_read = version is not None and known is not None and version[:3] == known[:3]
    check_release(name, version, is_read, report)
    if request.world_size < 1:
        report.error("world_size", f"must be at least 1, not {request.world_size}")
    check_environment(request.environment, version, report)
    options = merged(request, version, report)
    check_method(request, options.get(SPECULATION), version, report)
    subject = Subject(options, is_read, report)
    for rule in RULES:
        rule(subject)
    section = options.get(SPECULATION)
    drafting = method_of(section) or NONE
    as_read = {**options, SPECULATION: spelt(section)} if isinstance(section, dict) else options
    case = Case(version, drafting, as_read, request.target_model or "", request.world_size)
    issues = report_issues(KNOWN_ISSUES, case, report)
    method = request.method or (NONE if options.get(SPECULATION) is None else "raw")
    return Built(name, "", method, options, report.errors, report.warnings, issues)


def render(options: t.Mapping[str, t.Any]) -> str:
    return render_yaml(options, HEADER, sort_keys=True)
