# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the cause of a failure in the evidence with the catalogue. An unrecognised failure is unknown, never healthy."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._data.problem import (
    CAUSE,
    DOCKER,
    HINT,
    INFORMATION,
    JOB,
    KERNEL,
    LOG,
    MACHINE,
    RECORD,
    WARNING,
    WRAPPER,
    KnownProblem,
)
from .._data.text import one_line
from .._deployment.cluster_view import RANK_RUNS
from .._deployment.lines import WIDTH
from .._problems.catalogue import CATALOGUE, MEMORY, known
from .._server.log import Reason, after_last_end, last_lines, reason, remarks
from .._server.server_facts import TRIAL_FAILED
from .evidence import Evidence
from .facts import FACTS, superseded, undone

COLUMN = 13
LONGEST = 400
MOST_CAUSES = 3
SHOWN_LINES = 8
# Without a container, only the last hour of the kernel log counts.
KERNEL_WINDOW_S = 3600.0
FAILURE = "message"
# A failure that no row recognises; every row has an anchor on the generated page.
UNKNOWN = "unknown"
PAGE = "docs/troubleshooting.md"
# Nothing is wrong, but the server does not generate text now.
BENIGN = ("trial", "still_loading", "busy", "stopped", "download_under_way", "waits_for_other")
# States in which the server's log and last exit are irrelevant: the benchmark reports the end of a trial.
PAST = ("running", "stopped", RANK_RUNS, TRIAL_FAILED)
PLACES = {DOCKER: "Docker", RECORD: "the deployment", MACHINE: "this machine", FAILURE: "the message"}
HEADLINES = {
    "healthy": "healthy: the server generates text",
    "warning": "no fault found, see the notes",
    "problem": "problem found",
    "unknown": "cause unknown",
    "nothing_deployed": "nothing is deployed here",
}
WORKER_HEALTHY = "healthy: rank {rank} runs; the head shows whether the server generates text"


@dataclasses.dataclass
class Finding:
    """A recognised row with its evidence."""

    row: KnownProblem
    evidence: str
    where: str
    severity: str
    order: int = 0
    consequence: bool = False

    @property
    def id(self) -> str:
        """Return the id of the row."""
        return self.row.id

    def as_result(self) -> dict[str, str]:
        row = self.row
        return {
            "id": row.id,
            "cause": row.cause,
            "fix": row.fix,
            "evidence": self.evidence,
            "where": self.where,
            "source": row.source,
            "severity": self.severity,
        }


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Verdict, findings and report."""

    verdict: str
    findings: tuple[Finding, ...]
    lines: tuple[str, ...]


ORDER = {row.id: 10 * number for number, row in enumerate(CATALOGUE)}
# The server's own log is better evidence than a view from outside, but worse than Docker and the kernel.
LOG_ORDER = ORDER[next(row.id for row in CATALOGUE if row.where == LOG)]
LAST = 10 * len(CATALOGUE)


def finding_of(row: KnownProblem, evidence: str, where: str, order: int) -> Finding:
    return Finding(row, one_line(evidence, LONGEST), where, row.severity, order, row.consequence)


def of_log(row: KnownProblem, line: str, where: str) -> Finding:
    """Return the finding of a line of the server's log; one that names no reason comes last."""
    finding = finding_of(row, line, where, LOG_ORDER)
    if row.severity == WRAPPER:
        finding.severity, finding.order = HINT, LAST
    return finding


class Diagnoser:
    """Match the catalogue against the evidence."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._found: dict[str, Finding] = {}
        # Errors that no row recognises, with their place.
        self.unexplained: list[tuple[str, str]] = []
        self.tail: list[str] = []

    def search(self) -> list[Finding]:
        self._failure()
        self._logs()
        self._docker()
        self._kernel()
        self._jobs()
        self._state()
        for row in CATALOGUE:
            shown = FACTS[row.id](self._evidence) if row.id in FACTS else None
            if shown:
                self._add(finding_of(row, shown, row.where, ORDER[row.id]))
        return list(self._found.values())

    def _add(self, finding: Finding) -> None:
        self._found.setdefault(finding.id, finding)

    def _rows(self, text: str, where: str, places: t.Container[str]) -> bool:
        """Add the rows that recognise a line of a text; return whether there is one."""
        rows = list(known(text, places))
        for row in rows:
            self._add(finding_of(row, matching_line(text, row), where, ORDER[row.id]))
        return bool(rows)

    def _failure(self) -> None:
        text = self._evidence.failure
        if not text:
            return
        rows = [row for row in CATALOGUE if row.knows(text) and (row.where != LOG or row.severity == CAUSE)]
        for row in rows:
            if row.where == LOG:
                # A rejected option is named in the line before.
                self._add(finding_of(row, through_match(text, row), FAILURE, -LAST))
            else:
                self._add(finding_of(row, matching_line(text, row), FAILURE, ORDER[row.id] - 2 * LAST))
        if not rows:
            self.unexplained.append((FAILURE, one_line(text, LONGEST)))

    def _logs(self) -> None:
        evidence = self._evidence
        if undone(evidence) and (evidence.failure or not evidence.running):
            self._log(evidence.failed_log, "failed.log", True)
        if evidence.said in PAST:
            # The log is out of date.
            pass
        elif evidence.server_log:
            ended = bool((evidence.state or {}).get("last_exit")) or not evidence.running
            # A server may also have ended because it was replaced on purpose.
            log = evidence.server_log if ended else after_last_end(evidence.server_log)
            self._log(log, "server.log", ended)
        elif evidence.docker_log:
            self._log(evidence.docker_log, "container output", not evidence.running)
        for remark in remarks(evidence.server_log):
            if remark.problem and not remark.problem.standing:
                self._add(of_log(remark.problem, remark.line, "server.log"))

    def _log(self, text: str, where: str, ended: bool) -> None:
        cause: Reason | None = reason(text)
        if cause and cause.problem:
            self._add(of_log(cause.problem, cause.line, where))
            if cause.problem.severity == WRAPPER:
                self.tail = last_lines(text, SHOWN_LINES)
        elif ended and text.strip():
            self.unexplained.append((where, cause.line if cause else "the log does not show why the server ended"))
            self.tail = last_lines(text, SHOWN_LINES)

    def _docker(self) -> None:
        evidence = self._evidence
        error = str(((evidence.slot or {}).get("State") or {}).get("Error") or "")
        if error and not self._rows(error, DOCKER, {DOCKER, KERNEL, MACHINE}):
            self.unexplained.append((DOCKER, one_line(error, LONGEST)))
        if evidence.said not in ("running", RANK_RUNS):
            self._rows(evidence.docker_log, "container output", {DOCKER})

    def _kernel(self) -> None:
        evidence = self._evidence
        since = evidence.started if evidence.started is not None else evidence.now - KERNEL_WINDOW_S
        text = "\n".join(line.text for line in evidence.kernel if line.at is None or line.at >= since - 1)
        self._rows(text, "kernel log", {KERNEL})

    def _jobs(self) -> None:
        for name, job in self._evidence.jobs.items():
            error = str(job.get("error") or "")
            if not error or superseded(self._evidence, job):
                continue
            places = {JOB, DOCKER, MACHINE}
            tail = "\n".join(self._evidence.job_logs.get(name, "").splitlines()[-20:])
            # The log also has temporary errors, so it is searched only if the error is not recognised.
            if not self._rows(error, f"job {name}", places) and not self._rows(tail, f"job {name}", places):
                self.unexplained.append((f"job {name}", one_line(error, LONGEST)))

    def _state(self) -> None:
        state = self._evidence.state or {}
        last_exit = state.get("last_exit")
        reasons = [state.get("reason"), last_exit.get("reason") if isinstance(last_exit, dict) else None]
        if self._evidence.said not in PAST:
            self._rows("\n".join(str(text) for text in reasons if text), "state.json", {RECORD, DOCKER})


def matching_line(text: str, row: KnownProblem) -> str:
    """Return the last line that a row recognises."""
    lines = [line for line in text.splitlines() if row.knows(line)]
    return lines[-1].strip() if lines else text


def through_match(text: str, row: KnownProblem) -> str:
    """Return a text up to the end of the first sentence with which a row recognises it."""
    for end in re.finditer(r"\.\s", text):
        if row.knows(text[: end.end()]):
            return text[: end.end()].rstrip()
    return text


def clear_causes(findings: t.Sequence[Finding]) -> None:
    """Lower the severities if the server generates text, because then nothing is the cause of a failure."""
    for finding in findings:
        if finding.severity == CAUSE or (finding.severity == HINT and finding.where == "kernel log"):
            finding.severity = WARNING
        elif finding.severity == HINT or finding.where == "server.log":
            finding.severity = INFORMATION


def consequences(findings: t.Sequence[Finding]) -> set[str]:
    """Return the findings that another one explains, with everything that they explain themselves."""
    by_id = {finding.id: finding for finding in findings}
    result = set()
    for finding in findings:
        for other in (by_id[name] for name in finding.row.explains if name in by_id):
            beyond = set(other.row.explains) & set(by_id) - set(finding.row.explains) - {finding.id}
            if not beyond and finding.id not in other.row.explains:
                result.add(other.id)
    return result


def order_by_root_cause(findings: t.Sequence[Finding]) -> None:
    """Mark findings that another one explains as consequences, and move their cause up."""
    by_id = {finding.id: finding for finding in findings}
    explained_away = consequences(findings)
    for finding in findings:
        explained = [by_id[name] for name in finding.row.explains if name in by_id]
        if finding.id in explained_away:
            finding.severity, finding.consequence = HINT, True
        elif explained:
            finding.severity = CAUSE
            finding.order = min(finding.order, *(other.order - 1 for other in explained))


def promote(findings: t.Sequence[Finding], failure: str) -> None:
    """Make the best hint the cause if there is no better one."""
    if any(finding.severity == CAUSE for finding in findings):
        return
    hints = [
        finding
        for finding in findings
        if finding.severity == HINT and not finding.consequence and not finding.row.context
    ]
    if failure:
        # The run may have failed before it created the container.
        hints = [hint for hint in hints if hint.id != "container_missing"]
    if hints:
        min(hints, key=lambda finding: finding.order).severity = CAUSE


def is_broken(evidence: Evidence, findings: t.Sequence[Finding]) -> bool:
    """Return whether something failed, so that hints matter."""
    ids = {finding.id for finding in findings}
    failed = ids & {
        "container_exited",
        "container_missing",
        "crash_loop",
        "server_refuses",
        "server_silent",
        "worker_failed",
        "ranks_silent",
    }
    ended = evidence.said == "failed" or (
        evidence.said in ("restarting", "loading") and bool((evidence.state or {}).get("last_exit"))
    )
    return bool(evidence.failure or failed or ended or ids & {"machine_restarted", "state_contradicts"})


def verdict_of(evidence: Evidence, findings: t.Sequence[Finding], unexplained: bool) -> str:
    severities = {finding.severity for finding in findings}
    if evidence.serves and not evidence.failure:
        return "warning" if WARNING in severities else "healthy"
    if CAUSE in severities:
        return "problem"
    if unexplained or is_broken(evidence, findings):
        return "unknown"
    if any(finding.id in BENIGN for finding in findings):
        return "warning"
    if evidence.docker == "usable" and evidence.slot is None and not evidence.recorded:
        return "nothing_deployed"
    return "unknown"


def unknown_finding(unexplained: t.Sequence[tuple[str, str]], tail: t.Sequence[str]) -> Finding:
    """Return a finding without a guess: the log lines can be searched for or reported."""
    where, line = unexplained[0] if unexplained else ("", "")
    row = KnownProblem(
        UNKNOWN,
        where,
        "The error matches no known problem" if line else "The evidence shows no cause",
        "Read the server's log with logs.yml. 'diagnose.yml -e bundle=report.tar.gz' collects everything for a report.",
        "",
    )
    return Finding(row, line or (tail[-1] if tail else ""), where, HINT)


def diagnose(evidence: Evidence, host: str = "") -> Diagnosis:
    """Return the diagnosis of the evidence."""
    search = Diagnoser(evidence)
    findings = search.search()
    if evidence.serves and not evidence.failure:
        clear_causes(findings)
    else:
        order_by_root_cause(findings)
        # An unrecognised error is not explained by a common side effect.
        if is_broken(evidence, findings) and not [where for where, _line in search.unexplained if where != FAILURE]:
            promote(findings, evidence.failure)
    rank = {CAUSE: 0, WARNING: 1, HINT: 2, INFORMATION: 3}
    findings.sort(key=lambda finding: (rank[finding.severity], finding.order))
    verdict = verdict_of(evidence, findings, bool(search.unexplained))
    if verdict == "unknown":
        findings.insert(0, unknown_finding(search.unexplained, search.tail))
    lines = render(verdict, findings, search.tail, evidence, host)
    return Diagnosis(verdict, tuple(findings), tuple(lines))


def row_of_text(name: str, text: str) -> list[str]:
    """Return a name and its text in two columns, as one line; nothing without a text."""
    text = " ".join(text.split())
    return [f"  {name:<{COLUMN}}{text}"] if text else []


def describe(finding: Finding) -> list[str]:
    where = PLACES.get(finding.where, finding.where)
    seen = f"{where}: {finding.evidence}" if where else finding.evidence
    lines = row_of_text("cause", finding.row.cause) + row_of_text("evidence", seen)
    lines += row_of_text("fix", finding.row.fix) + row_of_text("source", finding.row.source)
    return lines + (row_of_text("more", f"{PAGE}#{finding.id}") if finding.id != UNKNOWN else [])


def render(
    verdict: str, findings: t.Sequence[Finding], tail: t.Sequence[str], evidence: Evidence, host: str
) -> list[str]:
    """Return the short report."""
    headline = (
        WORKER_HEALTHY.format(rank=evidence.rank) if verdict == "healthy" and evidence.rank else HEADLINES[verdict]
    )
    lines = [f"{host}: {headline}" if host else headline]
    main = [finding for finding in findings if finding.severity == CAUSE][:MOST_CAUSES]
    if verdict == "unknown":
        main = [finding for finding in findings if finding.id == UNKNOWN]
    for finding in main:
        lines += describe(finding)
    if tail and (verdict == "unknown" or (main and main[0].row.severity == WRAPPER)):
        lines += ["  last log lines:", *(f"    {line[: WIDTH - 4]}" for line in tail)]
    known = [finding for finding in findings if finding not in main]
    worth = (WARNING, HINT) if verdict == "unknown" else (WARNING,)
    memory = any(finding.id in MEMORY for finding in main)
    for finding in known:
        beside = finding.id in ("page_cache", "kernel_no_memory") and memory
        if finding.severity in worth or finding.id == "earlier_attempt" or beside:
            lines += row_of_text(
                "also" if main else "note", f"{finding.row.cause} ({finding.evidence}). {finding.row.fix}"
            )
    unread = [f"{source.name} ({source.detail})" for source in evidence.sources if not source.read]
    if unread and verdict in ("problem", "unknown"):
        lines += row_of_text("not checked", "; ".join(unread))
    return lines
