#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: completions_probe
short_description: Tell whether a model server works, and how fast
version_added: 0.1.0
description:
  - Finds out in which state an OpenAI-compatible server (C(trtllm-serve)) is, asks it one question, checks the answer
    and measures it.
  - A running container or a status of 200 proves nothing. Only generated text does, so the module asks unless
    O(kind=none).
  - Speeds come from the server's own token counts and never from the number of chunks, since one chunk carries several
    tokens with speculative decoding. What is not known is null.
  - With O(follow=true) it waits until a server has loaded, and shows how far that is.
  - It runs on the host that can reach O(url), with nothing but Python's standard library.
  - Routes that change the server's state or use up its statistics are never called.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._following
attributes:
  check_mode:
    details:
      - The server is asked in check mode as well; an answer costs it a few seconds.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
options:
  url:
    description:
      - Where the server listens.
      - Proxies set in the environment are not used.
    type: str
    default: http://127.0.0.1:8000
  model:
    description:
      - The name to ask for. By default the first one that C(/v1/models) lists.
    type: str
  api_key:
    description:
      - A bearer token, for a server behind a proxy that wants one.
    type: str
  wait:
    description:
      - How many seconds this call waits at most for the server to get ready. V(0) is one look.
      - Give it some seconds when a container was started a moment ago, since its main process needs them to say that it
        loads.
    type: float
    default: 0
  follow:
    default: false
  answer_timeout:
    description:
      - How many seconds the answer may take at most, from the connection to its last token. It is kept whatever the
        server does.
    type: float
    default: 120
  kind:
    description:
      - What to ask.
      - V(chat) uses C(/v1/chat/completions), which is right for models that were trained to chat.
      - V(completion) uses C(/v1/completions).
      - V(none) asks nothing. RV(state=ready) then says only that C(/health) and C(/v1/models) answer.
    type: str
    choices: [chat, completion, none]
    default: chat
  prompt:
    description:
      - What to ask or to continue. By default a small question with a known answer.
    type: str
  expect:
    description:
      - Regular expressions that the answer has to contain, all of them, in upper or lower case.
      - By default what fits the default of O(prompt), or nothing if O(prompt) is set.
    type: list
    elements: str
  max_tokens:
    description:
      - The most tokens to generate. A reasoning model spends many before its answer begins.
      - Fewer than 32 tokens do not suffice to judge speculation.
    type: int
    default: 512
  temperature:
    description:
      - The sampling temperature. Answers can be compared only at V(0).
    type: float
    default: 0
  stream:
    description:
      - Whether to stream the answer. Without it there is no RV(measurements.ttft_s) and no
        RV(measurements.tokens_per_second).
    type: bool
    default: true
  speculation:
    description:
      - Whether drafts are configured. If so and none is accepted, the state is V(ready_without_speculation).
    type: bool
    default: false
  tools:
    description:
      - Whether to have the model call a function, with one more question that is not streamed. It takes up to
        O(answer_timeout) once more.
      - Possible with O(kind=chat) only.
    type: bool
    default: false
  state_file:
    description:
      - The file in which the container's main process says what the server does. It tells a server that loads from one
        that died or was never started.
    type: path
  log_file:
    description:
      - The server's log. It tells how far the server has loaded and why it died.
    type: path
  started_after:
    description:
      - When the container was started, as a Unix time or as Docker gives it, such as V(2026-01-31T12:00:00.123456789Z).
      - What O(state_file) says from before is the word of an earlier container, and ignored.
      - A container that has said nothing after two minutes is taken not to have started.
      - By default O(state_file) is believed however old it is.
    type: str
  worker_timeout:
    description:
      - For how many seconds the head of two Sparks may wait for its worker before the state is V(waiting).
      - By default it may wait as long as it likes, since it starts the server by itself when the worker is there.
    type: float
    default: 0
  fail_on:
    description:
      - What makes the task fail. By default nothing does, and the caller looks at the result.
      - V(not_serving) means any state but V(ready), V(ready_without_speculation) and V(loading). The last one is not an
        end, which RV(finished) says.
      - V(loading) means that the server still loads after O(wait). It is of no use with O(follow=true).
      - V(findings) means that RV(findings) is not empty.
    type: list
    elements: str
    choices: [not_serving, loading, findings]
    default: []
notes:
  - The limit of one answer at a time is usual on a Spark. A question then waits behind the user's own, which looks from
    outside like an engine that hangs. The state V(busy) means either.
"""

EXAMPLES = r"""
---
- name: Wait until the server is ready
  dgx_spark.speculative.completions_probe:
    kind: none
    follow: true
    wait: 10
    state_file: "{{ deployment }}/state/state.json"
    log_file: "{{ deployment }}/state/server.log"
    timeout: 3600

- name: Ask the model something it has to know
  dgx_spark.speculative.completions_probe:
    prompt: What is 17 times 23?
    expect: ['\b391\b']
    speculation: true
    fail_on: [not_serving]
  register: result

- name: Show the speed
  ansible.builtin.debug:
    msg: "{{ result.measurements.tokens_per_second }} tokens/s"
"""

RETURN = r"""
state:
  description:
    - What the server does.
    - V(absent) means that nothing listens and nothing says that a server is being started.
    - V(loading) means that the server was started and does not listen yet. So does a benchmark's server that has ended,
      since another one follows.
    - V(waiting) means that it cannot be started because the other one of two Sparks has been missing for
      O(worker_timeout).
    - V(unhealthy) means that it listens and cannot generate, or says so itself.
    - V(busy) means that it is up and no token came within O(answer_timeout). It serves someone else's request, or it
      hangs.
    - V(ready) means that it generates.
    - V(ready_without_speculation) means that it generates, and that no draft is accepted though O(speculation=true).
    - V(dead) means that the server exited. RV(error) says why.
  returned: success
  type: str
  sample: ready
finished:
  description:
    - Whether waiting is over. It is V(false) only in the state V(loading).
  returned: success
  type: bool
  sample: true
attempts:
  description:
    - How often the module was called.
  returned: with O(follow=true)
  type: int
  sample: 12
healthy:
  description:
    - Whether the state is V(ready) and there are no findings.
  returned: success
  type: bool
  sample: true
progress:
  description:
    - How far the server has loaded, or a summary once it has.
  returned: success
  type: dict
  contains:
    percent:
      description:
        - How much of the step that RV(progress.text) names is done. Null if the log does not count.
      type: float
      sample: 60.0
    text:
      description:
        - The step, or the last meaningful line of the log.
      type: str
      sample: loading weights 3 of 5
error:
  description:
    - One sentence on what is wrong, in the states V(absent), V(waiting), V(unhealthy) and V(dead). Null otherwise.
  returned: success
  type: str
  sample: null
findings:
  description:
    - What is wrong with a server that answers, or with its answer.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - Its name. One of V(busy), V(connection_broken), V(empty), V(error_in_reply), V(error_in_stream),
          V(failed), V(garbage), V(model_not_served), V(no_draft_accepted), V(no_tool_call), V(refused),
          V(repetition), V(slow), V(smaller_context), V(stalled), V(unfinished), V(wrong_answer).
      type: str
      sample: wrong_answer
    message:
      description:
        - One sentence.
      type: str
      sample: "The answer does not contain 391; it is: 17 times 23 is 401."
answer:
  description:
    - What the model said. Null if it was not asked.
  returned: success
  type: dict
  contains:
    text:
      description:
        - The answer.
      type: str
    reasoning:
      description:
        - What a reasoning model thought before it.
      type: str
    finish_reason:
      description:
        - Why it ended, such as V(stop) or V(length).
      type: str
    complete:
      description:
        - Whether it came to its end within O(answer_timeout).
      type: bool
    model:
      description:
        - The model that answered.
      type: str
    usage:
      description:
        - The server's own counts.
      type: dict
tool_call:
  description:
    - The call that the model made. Null if there was none, or without O(tools=true).
  returned: success
  type: dict
  contains:
    name:
      description:
        - The function's name.
      type: str
    arguments:
      description:
        - What it is to be called with.
      type: dict
  sample:
    name: get_weather
    arguments:
      city: Paris
measurements:
  description:
    - How fast it was. Null if the model was not asked.
  returned: success
  type: dict
  contains:
    request:
      description:
        - With what it was measured, for measuring the same again, as C(prompt) and C(max_tokens).
      type: dict
    ttft_s:
      description:
        - Seconds to the first token.
      type: float
    total_s:
      description:
        - Seconds to the end of the answer.
      type: float
    prompt_tokens:
      description:
        - Tokens of the question.
      type: int
    completion_tokens:
      description:
        - Tokens of the answer, with the reasoning.
      type: int
    tokens_in_first_chunk:
      description:
        - Tokens in the first chunk. If null, RV(measurements.tokens_per_second) supposes one.
      type: int
    tokens_per_second:
      description:
        - Tokens after the first chunk, divided by the seconds between the first chunk and the last.
      type: float
    seconds_per_target_pass:
      description:
        - Time of one pass of the target model, which is the acceptance length divided by the speed.
      type: float
    acceptance_length:
      description:
        - Tokens for each pass of the target model. V(1.0) means that no draft was accepted, null that it is not known.
      type: float
    acceptance_source:
      description:
        - V(server) if the server said it (C(avg_decoded_tokens_per_iter)), V(usage) if it was counted from the usage of
          each chunk, which is too much if the server groups its chunks.
      type: str
  sample:
    ttft_s: 0.21
    total_s: 6.9
    prompt_tokens: 87
    completion_tokens: 301
    tokens_in_first_chunk: 1
    tokens_per_second: 44.9
    seconds_per_target_pass: 0.0535
    acceptance_length: 2.4
    acceptance_source: server
http:
  description:
    - What the small routes said.
  returned: success
  type: dict
  contains:
    health:
      description:
        - Status of C(/health). Null if there was no reply.
      type: int
    version:
      description:
        - The server's release.
      type: str
    models:
      description:
        - The models that are served.
      type: list
      elements: str
    completion:
      description:
        - Status of the question's reply.
      type: int
server:
  description:
    - Content of O(state_file). Null if there is none.
  returned: success
  type: dict
  sample:
    state: running
    since: 1763657465.1
    pid: 9
    restarts: 0
    last_exit: null
"""

import calendar
import contextlib
import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import completions
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.readiness import Observation, ReadinessWait
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.server_facts import smaller_context
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.following import following

QUESTIONS = {
    "chat": (
        "Explain in about 150 words why the sky is blue. Then write, on a line of its own, the product of 17 and 23.",
        [r"\b391\b"],
    ),
    "completion": ("The first prime numbers are 2, 3, 5, 7, 11, 13,", [r"17, 19, 23"]),
}
SERVING = ("ready", "ready_without_speculation")


def seconds_of(moment: str) -> float:
    """Unix time of a moment given as such, or as Docker gives it (ISO 8601 in UTC, with nanoseconds)."""
    with contextlib.suppress(ValueError):
        return float(moment)
    return calendar.timegm(time.strptime(moment[:19], "%Y-%m-%dT%H:%M:%S"))


class CompletionsProbe:
    """Looks, waits, asks and reports."""

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
        """Do it all, once."""
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
            except completions.ProbeError:
                # It went away between the look and the question.
                look = self.server.look()
                if look.state == "ready":
                    look.state, look.error = "unhealthy", "The server takes no question though /health answers."
                verdict = completions.Verdict(look.state, [], look.error)
            if self.params["tools"] and verdict.state in SERVING:
                tool_call, findings = completions.try_tool_call(
                    self.client, self.params["model"] or look.models[0], self.params["answer_timeout"]
                )
                verdict.findings.extend(findings)
        if verdict.state in SERVING:
            verdict.findings.extend(smaller_context(self.server.read_state()))
        self.report(look, answer, tool_call, verdict)

    def check_patterns(self) -> None:
        """Refuse a regular expression that is none before anything is asked."""
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
        if measurements and verdict.state in SERVING:
            # The figures are the record's to tell, and there they are told once.
            text = verdict.state.replace("_", " ")
        result: dict[str, t.Any] = {
            "changed": False,
            "state": verdict.state,
            "finished": verdict.state != "loading",
            "healthy": verdict.state == "ready" and not verdict.findings,
            "progress": {"percent": 100.0 if verdict.state in SERVING else look.percent, "text": text},
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
        """Return the sentence to fail with, if the caller wants that."""
        fail_on = self.params["fail_on"]
        if verdict.state == "loading":
            if "loading" in fail_on:
                return f"The server still loads after {self.params['wait']:g} s: {look.text}."
            return None
        messages = " ".join(finding.message for finding in verdict.findings)
        if verdict.state not in SERVING and "not_serving" in fail_on:
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
