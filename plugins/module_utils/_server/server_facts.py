# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""One look at a deployed server: what its container, its files and its port say together."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from .._data.problem import CAUSE, DOCKER, HINT
from .._deployment import cluster_view, nccl
from .._deployment.cluster_view import PEER_LOST, RANK_RUNS, WAITING_FOR_FABRIC, WAITING_FOR_WORKER, WORKER_READY
from .._problems.catalogue import known
from . import completions
from .client import Expired, ProbeError, Refused
from .deployment_facts import DeploymentFacts
from .log import cause_line, loading_progress, problem_for

SERVING = (*completions.GENERATES, "busy")
# The main process of a container needs some time to write its first word.
STARTS_WITHIN_S = 120
# A text to continue and the number of tokens, or nothing.
Asked = t.Optional[tuple[str, int]]
# For a deployment whose record does not say what it was measured with.
QUESTION = ("The sky is blue because", 64)
# Below this many tokens a speed is chance.
TOKENS_TO_MEASURE = 32
# The state of the container's main process after a benchmark's trial has ended by itself.
TRIAL_FAILED = "trial failed"
# A chat model that continues a text may repeat itself; that is no fault of the server.
NOT_JUDGED = ("repetition", "unfinished", "wrong_answer")


# The finding that comes from the server's KV cache and not from an answer.
SMALLER_CONTEXT = "smaller_context"
# The findings that a restart may change: the server that runs now is looked at for them.
TRANSIENT_FINDINGS = (SMALLER_CONTEXT, nccl.BY_TCP, nccl.PARTLY)
# The meaning of an exit status without a log line.
EXIT_HINTS: dict[int, str] = {
    1: "a Python error",
    2: "a wrong command line",
    137: "killed, usually because the memory ran out",
    139: "a crash in native code",
}
# The restart policy of the serving container, and its value after stop.yml.
KEPT, STAYS_DOWN = "unless-stopped", "no"


@dataclasses.dataclass(frozen=True)
class ServerFacts:
    """The result of one check; None is 'not known'."""

    state: str | None
    why: str | None = None
    version: str | None = None
    measurements: dict[str, t.Any] | None = None
    findings: tuple[dict[str, str], ...] = ()


def _moment(value: t.Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def describe_exit(last_exit: t.Mapping[str, t.Any]) -> str:
    """Describe how a process ended."""
    code, signal = last_exit.get("code"), last_exit.get("signal")
    if signal is not None:
        hint = EXIT_HINTS.get(128 + signal)
        return f"signal {signal}" + (f" ({hint})" if hint else "")
    if code is None:
        return "no exit code"
    hint = EXIT_HINTS.get(code)
    return f"exit code {code}" + (f" ({hint})" if hint else "")


def why_ended(last_exit: t.Mapping[str, t.Any], log: str) -> str:
    """Return why the server's process ended, and what to do."""
    reason = str(last_exit.get("reason") or "").strip()
    if last_exit.get("code") is None and last_exit.get("signal") is None and reason:
        # The main process refused to start a server: its sentence, not the log of an earlier run.
        return f"The container did not start the server: {reason.rstrip('.')}."
    if last_exit.get("by") == "watchdog":
        return f"The container's watchdog ended the server, {reason.rstrip('.')}."
    if last_exit.get("by") == "memory guard":
        return f"The container's memory guard ended the server: {reason.rstrip('.')}."
    line = cause_line(log) or reason or "its log does not say why"
    sentence = f"The server ended with {describe_exit(last_exit)}: {line.rstrip('.')}."
    row = problem_for(line)
    if row is not None and row.severity in (CAUSE, HINT):
        sentence += f" {row.cause}. {row.fix}"
    return sentence


def trial_of(server: t.Mapping[str, t.Any] | None) -> str:
    """Return a benchmark's trial options as text; empty if there is no trial."""
    trial = (server or {}).get("trial")
    return str(trial.get("title") or "other options") if isinstance(trial, dict) else ""


def load_progress(server: t.Mapping[str, t.Any], log: str) -> tuple[float | None, str]:
    """Return the progress of a starting server, also as text."""
    if server.get("state") in ("starting", "restarting") and not server.get("last_exit") and _reason(server):
        # It waits for another container's, or did not end by itself, but for another one; what is in the log is past.
        return None, _reason(server)
    if server.get("state") in (PEER_LOST, WAITING_FOR_WORKER):
        # The log is that of the start before.
        return None, f"{server['state']}: {_reason(server)}" if _reason(server) else str(server["state"])
    progress = loading_progress(log)
    nothing = "waiting for the first line of the log" if server.get("state") == "loading" else "starting"
    percent, text = (progress.percent, progress.text) if progress else (None, nothing)
    trial = trial_of(server)
    return percent, f"a benchmark tries {trial}: {text}" if trial else text


def question_of(record: t.Mapping[str, t.Any] | None) -> tuple[str, int]:
    """Return the settings of the measurement at deployment, so that new figures are comparable."""
    asked = ((record or {}).get("measurements") or {}).get("request") or {}
    return asked.get("prompt") or QUESTION[0], asked.get("max_tokens") or QUESTION[1]


def facts_from_container(slot: t.Mapping[str, t.Any], facts: DeploymentFacts) -> ServerFacts | None:
    """Return the state of a stopped container; None if it runs, so that the server must be probed."""
    name, state = slot["name"], slot["state"]
    if state == "running":
        return None
    if slot.get("restart_policy") == STAYS_DOWN:
        return ServerFacts("stopped", f"The container {name} was stopped.")
    if state in ("created", "exited") and slot.get("error"):
        return ServerFacts("dead", not_started(name, str(slot["error"])))
    if state == "created":
        return ServerFacts("stopped", f"The container {name} was created but never started.")
    if state == "paused":
        return ServerFacts("stopped", f"The container {name} is paused. Resume it with: docker unpause {name}")
    if state == "restarting":
        return ServerFacts(
            "dead", f"The container {name} ended with exit code {slot['exit_code']}; Docker starts it again."
        )
    if slot["oom_killed"]:
        return ServerFacts("dead", f"The kernel killed the container {name} because the memory ran out.")
    said = (facts.state or {}).get("state")
    if said == "stopped" or slot["exit_code"] == 0:
        # If dockerd is killed and restarts, it stops the running containers and records that as a manual stop.
        by = "but not by stop.yml: a user stopped it, or dockerd was killed. Run start.yml to start it again."
        by_whom = f", {by}" if slot.get("restart_policy") == KEPT else "."
        return ServerFacts("stopped", f"The container {name} was stopped{by_whom}")
    code = {"code": slot["exit_code"]}
    if said == "failed":
        return ServerFacts("failed", _given_up(facts))
    return ServerFacts("dead", f"The container {name} ended with {describe_exit(code)} and was not started again.")


def not_started(name: str, error: str) -> str:
    """Return why Docker did not start a container, and the fix if known."""
    sentence = f"Docker could not start the container {name}: {error.rstrip('.')}."
    row = next(known(error, (DOCKER,)), None)
    return f"{sentence} {row.cause}. {row.fix}" if row else sentence


def _given_up(facts: DeploymentFacts) -> str:
    last_exit = (facts.state or {}).get("last_exit")
    if not isinstance(last_exit, dict):
        return "The server failed and is not started again."
    return f"{why_ended(last_exit, facts.server_log)} It is not started again."


def facts_from_files(facts: DeploymentFacts, url: str) -> ServerFacts:
    """Return the state, from the files, of a server that does not listen in a running container."""
    server, started = facts.state, facts.started
    if server is None or _moment(server.get("since")) < int(started or 0):
        return _silent(started)
    missing = missing_worker(server)
    if missing:
        return ServerFacts("waiting", missing)
    state, last_exit = server.get("state"), server.get("last_exit")
    ended = last_exit if isinstance(last_exit, dict) and _moment(last_exit.get("at")) >= int(started or 0) else None
    died = ended_by_itself(server, int(started or 0))
    if state == "failed":
        return ServerFacts("failed", _given_up(facts))
    if state == TRIAL_FAILED:
        ending = why_ended(ended, facts.server_log) if ended else "Its server did not come up."
        return ServerFacts("trial", f"A benchmark tried {trial_of(server)}. {ending}")
    if state == "stopped":
        return ServerFacts("stopped", "The server was stopped.")
    if state == "running":
        return ServerFacts("dead", f"The state file says that the server runs, but nothing listens at {url}.")
    if state == "restarting" and died:
        return ServerFacts("dead", f"{why_ended(died, facts.server_log)} It is being started again.")
    percent, text = load_progress(server, facts.server_log)
    if percent is not None:
        text += f" ({percent:.0f} %)"
    if trial_of(server):
        return ServerFacts("trial", text)
    if ended:
        return ServerFacts("loading", f"{text}, after it {_briefly(ended)}")
    return ServerFacts("loading", text)


def _silent(started: float | None) -> ServerFacts:
    """Return the state of a container whose supervisor has not reported anything yet."""
    if started is None or time.time() - started < STARTS_WITHIN_S:
        return ServerFacts("loading", "The container is being started.")
    text = f"The container's main process has not said a word within {STARTS_WITHIN_S} s"
    return ServerFacts("dead", f"{text}; read the container's log.")


def is_its_own(server: t.Mapping[str, t.Any] | None, started: float | None) -> bool:
    """Return whether the answering program can be the container's own server: another program may use the port.

    Of one that was started long ago, what is not known is believed: the file may be lost, and the clock set back.
    """
    young = started is not None and time.time() - started < STARTS_WITHIN_S
    state = (server or {}).get("state")
    if server is None or not isinstance(state, str):
        return not young
    return state == "running" and (not young or _moment(server.get("since")) >= int(started or 0))


def _reason(server: t.Mapping[str, t.Any]) -> str:
    return str(server.get("reason") or "").strip().rstrip(".")


def ended_by_itself(server: t.Mapping[str, t.Any], since: float) -> dict[str, t.Any] | None:
    """Return how this container's server ended last, unless another Spark was the reason."""
    last_exit = server.get("last_exit")
    if not isinstance(last_exit, dict) or last_exit.get("excused"):
        return None
    return last_exit if _moment(last_exit.get("at")) >= since else None


def smaller_context(server: t.Mapping[str, t.Any] | None) -> list[completions.Finding]:
    """Return a finding if the engine made the KV cache smaller than planned, which it does silently."""
    known = (server or {}).get("kv_cache")
    tokens, planned = (known.get("tokens"), known.get("planned")) if isinstance(known, dict) else (None, None)
    # The engine makes whole blocks, which may be of 256 tokens.
    if not isinstance(tokens, int) or not isinstance(planned, int) or tokens >= planned // 256 * 256:
        return []
    message = (
        f"The context is smaller than planned: {tokens:,} of {planned:,} tokens fit into the KV cache, because the "
        "engine found too little free GPU memory. Longer requests are refused or wait. Page cache and other programs "
        "use it. Start again with speculative_serve_drop_caches: true, or set speculative_serve_context to less."
    )
    return [completions.Finding(SMALLER_CONTEXT, message)]


def carried_findings(record: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the findings from deployment that a restart does not change."""
    told = [finding for finding in record.get("findings") or [] if isinstance(finding, dict) and "message" in finding]
    return [one for one in told if one.get("id") not in TRANSIENT_FINDINGS]


def by_tcp(facts: DeploymentFacts, who: str) -> list[dict[str, t.Any]]:
    """Return the finding that a rank does not use RDMA as planned, from NCCL's log or else from its settings."""
    if facts.network_now is not None:
        finding = nccl.finding(facts.network_now, who)
        return [finding] if finding else []
    told = cluster_view.by_tcp(facts.ranks_now)
    return [{"id": nccl.BY_TCP, "message": f"{told[:1].upper()}{told[1:]}."}] if told else []


def missing_worker(server: t.Mapping[str, t.Any]) -> str:
    """Return a sentence on the worker that the head is missing; else empty. The server recovers by itself."""
    said = (server.get("state"), server.get("verdict"))
    if PEER_LOST not in said and WAITING_FOR_WORKER not in said:
        return ""
    sentence = "The worker is lost" if PEER_LOST in said else "The worker has not come up"
    reason = _reason(server)
    return _sentence(f"{sentence}: {reason}" if reason else sentence)


def _sentence(text: str) -> str:
    """Return a reason as a sentence; it may end with a question mark."""
    return text if text.endswith("?") else f"{text}."


def worker_facts(facts: DeploymentFacts, health: str | None) -> ServerFacts:
    """Return the state that a running worker container reports; it has no port to probe."""
    if facts.closed_by is not None:
        return ServerFacts(None, f"Its container runs; only {facts.closed_by} can read what it says.")
    server, started = facts.state, facts.started
    if server is None or _moment(server.get("since")) < int(started or 0):
        return _silent(started)
    state, reason = server.get("state"), _reason(server)
    if state == "failed":
        return ServerFacts("failed", f"It cannot run a rank: {reason}." if reason else "It cannot run a rank.")
    if state == "stopped":
        return ServerFacts("stopped", "The worker was stopped.")
    if state == WAITING_FOR_FABRIC:
        return ServerFacts("waiting", _sentence(f"It waits for the fabric{': ' + reason if reason else ''}"))
    if health == "unhealthy" and state in (WORKER_READY, RANK_RUNS):
        return ServerFacts(
            "unhealthy", f"Docker's health check of the container fails{': ' + reason if reason else ''}."
        )
    if state == RANK_RUNS:
        return ServerFacts(RANK_RUNS)
    if state == WORKER_READY:
        return ServerFacts("waiting", "It waits for its head to start the rank here.")
    return ServerFacts("loading", reason or "starting")


def _briefly(last_exit: t.Mapping[str, t.Any]) -> str:
    reason = _reason(last_exit)
    return f"ended with {describe_exit(last_exit)}" + (f": {reason}" if reason else "")


def verdict_of(server: t.Mapping[str, t.Any] | None) -> str:
    """Return the watchdog's last verdict if it was bad; else empty."""
    if not server or server.get("verdict") not in ("stalled", "unhealthy", PEER_LOST):
        return ""
    reason = _reason(server)
    return f" The watchdog says {server['verdict']}" + (f": {reason}." if reason else ".")


class ServerInspector:
    """Asks a server's port, and its files where nothing listens."""

    def __init__(self, url: str, facts: DeploymentFacts) -> None:
        """Raise ValueError for an invalid URL."""
        self._client = completions.Client(url)
        self._url = url
        self._facts = facts
        self.models: list[str] = []

    def look(self, question: Asked, speculation: bool, deadline: float) -> ServerFacts:
        """Check the server, and request a continuation of these tokens if there is a text."""
        try:
            # Files of another user say nothing: the port is believed.
            if self._facts.closed_by is None and not is_its_own(self._facts.state, self._facts.started):
                return facts_from_files(self._facts, self._url)
            result = self._routes()
            if result.state == "ready":
                smaller = tuple(finding._asdict() for finding in smaller_context(self._facts.state))
                result = dataclasses.replace(result, findings=smaller)
            if result.state != "ready" or question is None:
                return result
            return self._ask(result, question, speculation, deadline)
        except Refused:
            if self._facts.closed_by is not None:
                return ServerFacts(None, f"Nothing listens at {self._url}; only {self._facts.closed_by} can see why.")
            return facts_from_files(self._facts, self._url)
        except Expired:
            return self._unhealthy("takes connections, but does not answer in time")
        except ProbeError as e:
            return self._unhealthy(f"does not answer properly: {str(e).rstrip('.')}")

    def _unhealthy(self, what: str) -> ServerFacts:
        return ServerFacts("unhealthy", f"The server at {self._url} {what}.{verdict_of(self._facts.state)}")

    def _routes(self) -> ServerFacts:
        health = self._client.get("/health")
        if health.status != 200:
            said = completions.error_text(health.json) or health.text or "no reason given"
            return self._unhealthy(f"answers {health.status} on /health: {said.rstrip('.')}")
        self.models = self._client.models()
        if not self.models:
            return self._unhealthy("lists no model on /v1/models; is it a model server?")
        trial = trial_of(self._facts.state)
        if trial:
            # The benchmark would measure a probe along with its own requests.
            why = f"A benchmark tries {trial}; the deployment's own options apply again when it ends."
            return ServerFacts("trial", why, self._client.version())
        return ServerFacts("ready", version=self._client.version())

    def _ask(self, found: ServerFacts, asked: tuple[str, int], speculation: bool, deadline: float) -> ServerFacts:
        # The chat route hides what one pass yields, so figures come from plain completion.
        question = completions.Question("completion", self.models[0], *asked)
        answer = self._client.ask(question, deadline)
        verdict = completions.judge(answer, question, (), speculation, deadline)
        judged = tuple(finding._asdict() for finding in verdict.findings if finding.id not in NOT_JUDGED)
        why = verdict.error or (judged[0]["message"] if verdict.state != "ready" and judged else None)
        state = verdict.state
        if state == "busy" and missing_worker(self._facts.state or {}):
            # Without its rank there is no token to wait for.
            state = "unhealthy"
        if state == "unhealthy":
            why = f"{why}{verdict_of(self._facts.state)}"
        return ServerFacts(state, why, found.version, completions.measure(answer), (*found.findings, *judged))
