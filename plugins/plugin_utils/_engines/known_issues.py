# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Combinations of release, method, model and options that public threads report as bad.

Each engine has its rows in its known_issues.yml.

They are warnings, not errors: each was seen on one machine, and may be fixed in an image whose tag does not show it.
The range of releases is what the thread reports, not what may be affected.

A row, under a name with the thread's number
    path         the option under which it is reported; default: release
    message      effect and fix, as the second half of a sentence
    url          the report
    first, last  the releases; all without first, and all later ones without last
    models       a regular expression that is searched in the target model's name, which may be empty
    method       the speculation method
    sparks       the minimum number of Sparks in the cluster
    nccl         the first and the last version of NCCL; reported when the ranks have reported theirs
    options      by path, values of an engine option, one of which must match; null for an option that is not set
    unless       the same, none of which may match
    refuse       the fields of a request that bring it about, which the API proxy refuses
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t
from pathlib import Path

from ...module_utils._docker.release import RELEASE, Version, within
from .._data.rows import Field, load, refuse
from .findings import Report
from .methods import CHOICES

Values = t.Mapping[str, t.Sequence[t.Any]]


@dataclasses.dataclass(frozen=True)
class Case:
    """The deployment that issues are compared with. Without a target model, issues of single models do not match."""

    version: Version | None
    method: str
    options: t.Mapping[str, t.Any]
    target_model: str = ""
    # Number of Sparks in the cluster.
    sparks: int = 1

    def has_one_of(self, path: str, values: t.Sequence[t.Any]) -> bool:
        """Return whether the option at a path like `moe_config.backend` has one of these values."""

        def below(found: t.Any, key: str) -> t.Any:
            return found.get(key) if isinstance(found, dict) else None

        return functools.reduce(below, path.split("."), self.options) in values


@dataclasses.dataclass(frozen=True)
class KnownIssue:
    """One row."""

    id: str
    message: str
    url: str
    path: str = "release"
    first: str | None = None
    last: str | None = None
    models: str = ""
    method: str | None = None
    sparks: int = 1
    nccl: t.Sequence[str] = ()
    options: Values = dataclasses.field(default_factory=dict)
    unless: Values = dataclasses.field(default_factory=dict)
    refuse: t.Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.message}; see {self.url}"

    def matches(self, case: Case) -> bool:
        """Return whether a deployment is affected."""
        return (
            not self.nccl
            and self._is_of(case.version)
            and bool(re.search(self.models, case.target_model, re.I))
            and self.method in (None, case.method)
            and case.sparks >= self.sparks
            and all(case.has_one_of(path, values) for path, values in self.options.items())
            and not any(case.has_one_of(path, values) for path, values in self.unless.items())
        )

    def is_of_nccl(self, version: str) -> bool:
        """Return whether a version of NCCL has it."""
        return bool(self.nccl) and _numbers(self.nccl[0]) <= _numbers(version) <= _numbers(self.nccl[1])

    def _is_of(self, version: Version | None) -> bool:
        return self.first is None or (version is not None and within(version, self.first, self.last))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


FIRST_LAST = Field(str, pattern=RELEASE, form="a release such as 1.3.0rc12 or 0.28.0")
VALUES = Field(dict, each=Field(list, required=True))
ROW: dict[str, Field] = {
    "message": Field(str, required=True),
    "url": Field(str, required=True),
    "path": Field(str),
    "first": FIRST_LAST,
    "last": FIRST_LAST,
    "models": Field(str),
    "sparks": Field(int, least=1),
    "nccl": Field(list, each=Field(str, pattern=re.compile(r"\d+\.\d+\.\d+"), form="a version such as 2.28.9")),
    "options": VALUES,
    "unless": VALUES,
    "refuse": Field(list, each=Field(str, pattern=re.compile("[a-z_]+"), form="the name of a field")),
}


def _errors(name: str, row: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors of a row that no single key shows."""
    errors = []
    if "nccl" in row and len(row["nccl"]) != 2:
        errors.append(f"{name}.nccl has to be two versions, the first and the last")
    if row.get("last") and not row.get("first"):
        errors.append(f"{name}.first is missing, and last is given: say from which release on")
    try:
        re.compile(row.get("models") or "")
    except re.error as error:
        errors.append(f"{name}.models is not a regular expression: {error}")
    return errors


def read(path: Path, own_methods: t.Iterable[str] = ()) -> tuple[KnownIssue, ...]:
    """Return the issues of an engine, which has methods of its own besides ours; raises DataError."""
    method = Field(str, choices=tuple(dict.fromkeys((*CHOICES, *own_methods))))
    rows = load(path, Field(dict, each=Field(dict, required=True, fields={**ROW, "method": method})))
    refuse(path, [error for name, row in rows.items() for error in _errors(name, row)])
    return tuple(KnownIssue(id=name, **row) for name, row in rows.items())


def report_issues(issues: t.Iterable[KnownIssue], case: Case, report: Report) -> list[KnownIssue]:
    """Return the issues that a deployment runs into, in the order of the rows, and report each as a warning."""
    found = [issue for issue in issues if issue.matches(case)]
    for issue in found:
        report.warn(issue.path, str(issue))
    return found


def issues_of_ranks(issues: t.Sequence[KnownIssue], ranks: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the issues of the NCCL that the ranks of several Sparks have, by what they said of themselves."""
    versions = {str((rank.get("versions") or {}).get("NCCL") or "") for rank in ranks if isinstance(rank, dict)}
    return [
        f"NCCL {version}: {issue}"
        for version in sorted(filter(None, versions))
        for issue in issues
        if len(ranks) >= issue.sparks and issue.is_of_nccl(version)
    ]
