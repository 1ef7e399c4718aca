#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: completions_probe
short_description: Check whether a model server works, and measure its speed
version_added: 0.1.0
description:
  - Determines the state of an OpenAI-compatible server, sends it one prompt, checks the answer and measures it.
  - A running container or a status of 200 does not prove that the server works. Only generated text does, so the module
    sends a prompt unless O(kind=none).
  - Speeds are calculated from the server's own token counts, and not from the number of chunks. With speculative
    decoding, one chunk contains several tokens. A value that is unknown is null.
  - With O(follow=true), waits until the server has loaded, and shows the progress.
  - Runs on the host that can reach O(url), and needs only Python's standard library.
  - Routes that change the server's state or consume its statistics are never called.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._following
attributes:
  check_mode:
    details:
      - The prompt is sent in check mode as well. Its answer takes the server a few seconds.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
options:
  url: {type: str, default: "http://127.0.0.1:8000",
    description: "URL of the server. Proxies set in the environment are not used."}
  model: {type: str, description: "Name of the model. The default is the first one that C(/v1/models) lists."}
  api_key: {type: str, description: "Bearer token, for a server behind a proxy that requires one."}
  wait: {type: float, default: 0,
    description: "Maximum seconds that this call waits until the server is ready. V(0) checks it once. Use some seconds
      if the container was just started, because its main process needs them to report that it loads."}
  follow:
    default: false
  answer_timeout: {type: float, default: 120,
    description: "Maximum seconds for the answer, from the connection to its last token. The limit holds even if the
      server keeps sending."}
  kind:
    description:
      - Kind of the request.
      - V(chat) uses C(/v1/chat/completions), which is right for models that are trained to chat.
      - V(completion) uses C(/v1/completions).
      - V(none) sends no prompt. RV(state=ready) then means only that C(/health) and C(/v1/models) answer.
    type: str
    choices: [chat, completion, none]
    default: chat
  prompt: {type: str,
    description: "Prompt to answer or to continue. The default is a small question with a known answer."}
  expect: {type: list, elements: str,
    description: "Regular expressions that the answer must match, all of them. Case is ignored. The default fits the
      default of O(prompt). If O(prompt) is set, the default is empty."}
  max_tokens: {type: int, default: 512,
    description: "Maximum number of tokens to generate. A reasoning model uses many before its answer begins. Less than
      32 tokens are not enough to judge speculation."}
  temperature: {type: float, default: 0, description: "Sampling temperature. Answers can be compared only at V(0)."}
  stream: {type: bool, default: true,
    description: "Whether to stream the answer. Without streaming, RV(measurements.ttft_s) and
      RV(measurements.tokens_per_second) are null."}
  speculation: {type: bool, default: false,
    description: "Whether speculation is configured. If it is and no draft is accepted, the state is
      V(ready_without_speculation)."}
  tools: {type: bool, default: false,
    description: "Whether to ask the model to call a function, in one more request that is not streamed. It takes up to
      O(answer_timeout) once more. Requires O(kind=chat)."}
  state_file: {type: path,
    description: "File in which the container's main process reports the state of the server. It distinguishes a server
      that loads from one that exited or was never started."}
  log_file: {type: path,
    description: "Log of the server. It shows the progress of loading, and the reason if the server exited."}
  started_after:
    description:
      - Start time of the container, as a Unix time or in Docker's format, such as V(2026-01-31T12:00:00.123456789Z).
      - An older O(state_file) is from an earlier container and is ignored.
      - A container that has reported nothing after two minutes counts as not started.
      - Without it, O(state_file) is used regardless of its age.
    type: str
  worker_timeout: {type: float, default: 0,
    description: "Seconds for which the head of several Sparks may wait for a worker before the state is V(waiting).
      V(0) sets no limit. The head starts the server by itself when the worker is available."}
  fail_on:
    description:
      - Conditions under which the task fails. By default it does not fail, and the caller checks the result.
      - V(not_serving) means any state except V(ready), V(ready_without_speculation) and V(loading). The state
        V(loading) is not final, see RV(finished).
      - V(loading) means that the server still loads after O(wait). Do not combine it with O(follow=true), which would
        then fail after the first call.
      - V(findings) means that RV(findings) is not empty.
    type: list
    elements: str
    choices: [not_serving, loading, findings]
    default: []
notes:
  - A server on a Spark usually answers one request at a time. The prompt then waits behind other requests, which looks
    the same as an engine that hangs. The state V(busy) covers both.
"""

EXAMPLES = r"""
---
- name: Wait until the server is ready
  dgx_spark.speculative.completions_probe:
    kind: none
    follow: true
    wait: 10
    state_file: ~/.local/share/dgx-spark-speculative/single_eagle3/state/state.json
    log_file: ~/.local/share/dgx-spark-speculative/single_eagle3/state/server.log
    timeout: 3600

- name: Ask a question with a known answer
  dgx_spark.speculative.completions_probe:
    prompt: What is 17 times 23?
    expect: ['\b391\b']
    speculation: true
    fail_on: [not_serving]
  register: result

- name: Print the speed
  ansible.builtin.debug:
    msg: "{{ result.measurements.tokens_per_second }} tokens/s"
"""

RETURN = r"""
state:
  description:
    - State of the server.
    - V(absent) means that nothing listens and that no server is being started.
    - V(loading) means that the server was started and does not listen yet. A benchmark's server that has ended is also
      V(loading), because another one follows.
    - V(waiting) means that the head cannot start the server, because a worker has been missing for O(worker_timeout).
    - V(unhealthy) means that the server listens and cannot generate text, or reports that itself.
    - V(busy) means that the server listens and no token arrived within O(answer_timeout). It serves another request, or
      it hangs.
    - V(ready) means that the server generates text.
    - V(ready_without_speculation) means that it generates text, but accepts no draft although O(speculation=true).
    - V(dead) means that the server exited. RV(error) gives the reason.
  returned: success
  type: str
  sample: ready
finished: {returned: success, type: bool, sample: true,
  description: "Whether the state is final. It is V(false) only in the state V(loading)."}
attempts: {returned: with O(follow=true), type: int, sample: 12, description: "Number of calls of the module."}
healthy: {returned: success, type: bool, sample: true,
  description: "Whether the state is V(ready) and there are no findings."}
progress:
  description: Progress of loading, or a summary after that.
  returned: success
  type: dict
  contains:
    percent: {type: float, sample: 60.0,
      description: "Percentage of the step in RV(progress.text) that is done. Null if the log does not count."}
    text: {type: str, sample: loading weights 3 of 5,
      description: "Name of the step, or the last meaningful line of the log."}
error: {returned: success, type: str, sample: null,
  description: "Problem in one sentence, in the states V(absent), V(waiting), V(unhealthy) and V(dead). Null
    otherwise."}
findings:
  description: Problems of a server that answers, or of its answer.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Name of the finding. One of V(busy), V(connection_broken), V(empty), V(error_in_reply),
        V(error_in_stream), V(failed), V(garbage), V(model_not_served), V(no_draft_accepted), V(no_tool_call),
        V(refused), V(repetition), V(slow), V(smaller_context), V(stalled), V(unfinished), V(wrong_answer),
        V(wrong_count).
      type: str
      sample: wrong_answer
    message: {type: str, sample: "The answer does not contain 391; it is: 17 times 23 is 401.",
      description: "Description of the finding, in one sentence."}
answer:
  description: Answer of the model. Null if no prompt was sent.
  returned: success
  type: dict
  sample:
    {text: It is 391., reasoning: 17 times 23 is 391., finish_reason: stop, complete: true, model: gpt-oss-120b,
     usage: {prompt_tokens: 87, completion_tokens: 301}}
  contains:
    text: {type: str, description: "Text of the answer."}
    reasoning: {type: str, description: "Text that a reasoning model generated before the answer."}
    finish_reason: {type: str, description: "Reason for the end of the answer, such as V(stop) or V(length)."}
    complete: {type: bool, description: "Whether the answer ended within O(answer_timeout)."}
    model: {type: str, description: "Name of the model that answered."}
    usage: {type: dict, description: "Token counts of the server."}
tool_call:
  description: Function call of the model. Null if there was none, or without O(tools=true).
  returned: success
  type: dict
  contains:
    name: {type: str, description: "Name of the function."}
    arguments: {type: dict, description: "Arguments of the call, by name."}
  sample: {name: get_weather, arguments: {city: Paris}}
measurements:
  description: Measurements of the answer. Null if no prompt was sent.
  returned: success
  type: dict
  contains:
    request: {type: dict,
      description: "Request that was measured, with which the measurement can be repeated, as C(prompt) and
        C(max_tokens)."}
    ttft_s: {type: float, description: "Seconds until the first token."}
    total_s: {type: float, description: "Seconds until the end of the answer."}
    prompt_tokens: {type: int, description: "Tokens of the prompt."}
    completion_tokens: {type: int, description: "Tokens of the answer, including the reasoning."}
    tokens_in_first_chunk: {type: int,
      description: "Tokens in the first chunk. If it is null, RV(measurements.tokens_per_second) assumes one."}
    tokens_per_second: {type: float,
      description: "Tokens after the first chunk, divided by the seconds between the first chunk and the last."}
    seconds_per_target_pass: {type: float,
      description: "Seconds of one pass of the target model, which is the acceptance length divided by the speed."}
    acceptance_length: {type: float,
      description: "Acceptance length, in tokens for each pass of the target model. V(1.0) means that no draft was
        accepted. Null if it is unknown."}
    acceptance_source: {type: str,
      description: "V(server) if the server reported it (C(avg_decoded_tokens_per_iter)). V(usage) if it was counted
        from the usage of each chunk. This count is too high if the server groups its chunks."}
  sample:
    {ttft_s: 0.21, total_s: 6.9, prompt_tokens: 87, completion_tokens: 301, tokens_in_first_chunk: 1,
     tokens_per_second: 44.9, seconds_per_target_pass: 0.0535, acceptance_length: 2.4, acceptance_source: server}
http: {returned: success, type: dict, sample: {health: 200, version: 1.3.0, models: [gpt-oss-120b], completion: 200},
  description: "Replies of the server's routes. C(health) and C(completion) are the HTTP status of C(/health) and of the
    reply to the prompt, and null without a reply. C(models) are the names of the models in the API."}
server:
  description: Content of O(state_file). Null if there is none.
  returned: success
  type: dict
  sample: {state: running, since: 1763657465.1, pid: 9, restarts: 0, last_exit: null}
"""

import contextlib
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._data.moments import unix_time
from ..module_utils._server import completions
from ..module_utils._server.client import ProbeError
from ..module_utils._server.readiness import Observation, ReadinessWait
from ..module_utils._server.server_facts import smaller_context
from ..module_utils._spark.following import following

QUESTIONS = {
    "chat": (
        "Explain in about 150 words why the sky is blue. Then write, on a line of its own, the product of 17 and 23.",
        [r"\b391\b"],
    ),
    "completion": ("The first prime numbers are 2, 3, 5, 7, 11, 13,", [r"17, 19, 23"]),
}


def seconds_of(moment: str) -> float:
    """Return the Unix time of a Unix time or of Docker's format (ISO 8601 in UTC, with nanoseconds)."""
    with contextlib.suppress(ValueError):
        return float(moment)
    return unix_time(moment)


class CompletionsProbe:
    """One call of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, t.Any] = module.params
        self.warned: set[str] = set()
        self.asked: dict[str, t.Any] | None = None
        try:
            self.since = seconds_of(self.params["started_after"]) if self.params["started_after"] else 0.0
        except ValueError:
            module.fail_json(
                msg=f"started_after is {self.params['started_after']!r}, but must be a Unix time or like "
                "2026-01-31T12:00:00Z."
            )
        try:
            self.client = completions.Client(self.params["url"], self.params["api_key"])
        except ValueError as exc:
            module.fail_json(msg=str(exc))
        self.server = self.waiting()

    def waiting(self) -> ReadinessWait:
        """Return the checks that run until the server is ready."""
        state_file, log_file = self.params["state_file"], self.params["log_file"]
        return ReadinessWait(
            self.client,
            url=self.params["url"],
            state_file=Path(state_file) if state_file else None,
            log_file=Path(log_file) if log_file else None,
            since=self.since,
            patience=self.params["worker_timeout"],
            model=self.params["model"],
            warn=self.warn,
        )

    def run(self) -> None:
        """Wait, send the prompt, and report."""
        self.check_patterns()
        if self.params["tools"] and self.params["kind"] != "chat":
            self.module.fail_json(msg=f"tools is true, but kind is {self.params['kind']}; tools need kind chat.")
        look = self.server.until(self.params["wait"])
        answer: completions.Answer | None = None
        tool_call: completions.ToolCall | None = None
        verdict = completions.Verdict(look.state, [], look.error)
        if look.state == "ready" and self.params["kind"] != "none":
            try:
                answer, verdict = self.ask(look)
            except ProbeError:
                # The server became unreachable between the check and the prompt.
                look = self.server.look()
                if look.state == "ready":
                    look.state, look.error = "unhealthy", "The server accepts no prompt, although /health answers."
                verdict = completions.Verdict(look.state, [], look.error)
            if self.params["tools"] and verdict.state in completions.GENERATES:
                tool_call, findings = completions.try_tool_call(
                    self.client, self.params["model"] or look.models[0], self.params["answer_timeout"]
                )
                verdict.findings.extend(findings)
        if verdict.state in completions.GENERATES:
            verdict.findings.extend(smaller_context(self.server.read_state()))
        self.report(look, answer, tool_call, verdict)

    def check_patterns(self) -> None:
        """Fail for an invalid regular expression before anything is sent."""
        for pattern in self.params["expect"] or []:
            problem = completions.pattern_problem(pattern)
            if problem:
                self.module.fail_json(msg=f"The regular expression '{pattern}' in 'expect' is not valid: {problem}.")

    def warn(self, message: str) -> None:
        if message not in self.warned:
            self.warned.add(message)
            self.module.warn(message)

    def ask(self, look: Observation) -> tuple[completions.Answer, completions.Verdict]:
        kind = self.params["kind"]
        prompt, expect = self.params["prompt"], self.params["expect"]
        if expect is None:
            expect = [] if prompt else QUESTIONS[kind][1]
        question = completions.Question(
            kind=kind,
            model=self.params["model"] or look.models[0],
            prompt=prompt or QUESTIONS[kind][0],
            max_tokens=self.params["max_tokens"],
            temperature=self.params["temperature"],
            stream=self.params["stream"],
        )
        self.asked = {"prompt": question.prompt, "max_tokens": question.max_tokens}
        answer = self.client.ask(question, self.params["answer_timeout"])
        verdict = completions.judge(answer, question, expect, self.params["speculation"], self.params["answer_timeout"])
        if look.models and question.model not in look.models:
            names = ", ".join(look.models)
            message = f"The model {question.model} was asked for, but the server serves {names}."
            verdict.findings.append(completions.Finding("model_not_served", message))
        return answer, verdict

    def report(
        self,
        look: Observation,
        answer: completions.Answer | None,
        tool_call: completions.ToolCall | None,
        verdict: completions.Verdict,
    ) -> None:
        measurements = {**completions.measure(answer), "request": self.asked} if answer else None
        text = look.text or verdict.error or verdict.state
        if measurements and verdict.state in completions.GENERATES:
            # The summary of the run prints the figures.
            text = verdict.state.replace("_", " ")
        result: dict[str, t.Any] = {
            "changed": False,
            "state": verdict.state,
            "finished": verdict.state != "loading",
            "healthy": verdict.state == "ready" and not verdict.findings,
            "progress": {"percent": 100.0 if verdict.state in completions.GENERATES else look.percent, "text": text},
            "error": verdict.error,
            "findings": [finding._asdict() for finding in verdict.findings],
            "answer": completions.as_result(answer) if answer else None,
            "tool_call": tool_call._asdict() if tool_call else None,
            "measurements": measurements,
            "http": {
                "health": look.health,
                "version": look.version,
                "models": look.models,
                "completion": (answer.status or None) if answer else None,
            },
            "server": look.server,
        }
        message = self.failure(look, verdict)
        if message:
            self.module.fail_json(msg=message, **result)
        self.module.exit_json(**result)

    def failure(self, look: Observation, verdict: completions.Verdict) -> str | None:
        """Return the message of the failure, or None if `fail_on` does not apply."""
        fail_on = self.params["fail_on"]
        if verdict.state == "loading":
            if "loading" in fail_on:
                return f"The server still loads after {self.params['wait']:g} s: {look.text}."
            return None
        messages = " ".join(finding.message for finding in verdict.findings)
        if verdict.state not in completions.GENERATES and "not_serving" in fail_on:
            return verdict.error or messages
        if verdict.findings and "findings" in fail_on:
            return messages
        return None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:8000"},
            "wait": {"type": "float", "default": 0},
            "answer_timeout": {"type": "float", "default": 120},
            "kind": {"type": "str", "choices": ["chat", "completion", "none"], "default": "chat"},
            "model": {"type": "str"},
            "prompt": {"type": "str"},
            "expect": {"type": "list", "elements": "str"},
            "max_tokens": {"type": "int", "default": 512, "no_log": False},
            "temperature": {"type": "float", "default": 0},
            "stream": {"type": "bool", "default": True},
            "speculation": {"type": "bool", "default": False},
            "tools": {"type": "bool", "default": False},
            "state_file": {"type": "path"},
            "log_file": {"type": "path"},
            "started_after": {"type": "str"},
            "worker_timeout": {"type": "float", "default": 0},
            "api_key": {"type": "str", "no_log": True},
            "fail_on": {
                "type": "list",
                "elements": "str",
                "choices": ["not_serving", "loading", "findings"],
                "default": [],
            },
            **following(by_default=False),
        },
        supports_check_mode=True,
    )
    CompletionsProbe(module).run()


if __name__ == "__main__":
    main()
