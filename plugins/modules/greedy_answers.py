#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: greedy_answers
short_description: Compare a model's greedy answers with those it gave before
version_added: 0.1.0
description:
  - Has an OpenAI-compatible server (C(trtllm-serve)) continue some texts at temperature 0, and compares what it says
    with earlier answers.
  - Speculative decoding does not change what a model says. Ask once without drafts and once with them, and hand the
    first answers to the second call as O(reference).
  - A difference late in a text can come from rounding, since a pass over several tokens sums up in another order. One
    at the beginning, or in most texts, is a fault.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._completions
attributes:
  check_mode:
    details:
      - The server is asked in check mode as well; the answers cost it some seconds.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
options:
  prompts:
    description:
      - The texts to continue. By default prose, a computation, code and a list.
    type: list
    elements: str
  max_tokens:
    description:
      - The most tokens to generate for each.
    type: int
    default: 128
  reference:
    description:
      - Answers to compare with, by prompt, as RV(answers) of another call holds them. A prompt that is not among them
        is not compared.
    type: dict
  deadline:
    description:
      - How many seconds one answer may take at most.
    type: float
    default: 120
seealso:
  - module: dgx_spark.speculative.completions_probe
"""

EXAMPLES = r"""
---
- name: Ask the server without drafts
  dgx_spark.speculative.greedy_answers:
  register: without_drafts

- name: Ask the server with drafts, once it has been started again
  dgx_spark.speculative.greedy_answers:
    reference: "{{ without_drafts.answers }}"
  register: with_drafts

- name: Show how many answers are the same
  ansible.builtin.debug:
    msg: "{{ with_drafts.equal }} of {{ with_drafts.compared }} answers are the same."
"""

RETURN = r"""
answers:
  description:
    - What the model said, by prompt.
  returned: success
  type: dict
  sample:
    "The first prime numbers are 2, 3, 5, 7, 11, 13,": " 17, 19, 23, 29"
model:
  description:
    - The model that was asked.
  returned: success
  type: str
  sample: openai/gpt-oss-120b
compared:
  description:
    - How many answers were compared.
  returned: success
  type: int
  sample: 4
equal:
  description:
    - How many of them are the same.
  returned: success
  type: int
  sample: 3
differences:
  description:
    - Where the others begin to differ.
  returned: success
  type: list
  elements: dict
  contains:
    prompt:
      description:
        - The prompt.
      type: str
    at_character:
      description:
        - The first character that differs, counted from 0.
      type: int
    ours:
      description:
        - The answer from there on, shortened.
      type: str
    theirs:
      description:
        - The reference from there on, shortened.
      type: str
findings:
  description:
    - What is wrong.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - Its name. One of V(empty), V(garbage), V(greedy_difference), V(repetition).
      type: str
      sample: greedy_difference
    message:
      description:
        - One sentence.
      type: str
      sample: "1 of 4 greedy answers differ from the reference, the earliest at character 212."
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils import _completions as completions

PROMPTS = [
    "The sky is blue during the day because",
    "Question: A shop sells pens at 3 for 2 euros. What do 12 pens cost?\nAnswer: Let us compute step by step.",
    'def fibonacci(n: int) -> list[int]:\n    """Return the first n Fibonacci numbers."""\n',
    "The planets of the solar system, from the sun outwards, with one fact about each:\n1. Mercury:",
]
SHOWN = 80


def first_difference(ours: str, theirs: str) -> int | None:
    """Where two texts begin to differ; None if they are the same."""
    if ours == theirs:
        return None
    pairs = enumerate(zip(ours, theirs))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(ours), len(theirs)))


def compare(answers: t.Mapping[str, str], reference: t.Mapping[str, str]) -> tuple[int, list[dict[str, t.Any]]]:
    """How many answers have a reference, and which of them differ from it."""
    compared = 0
    differences = []
    for prompt, ours in answers.items():
        if prompt not in reference:
            continue
        compared += 1
        at = first_difference(ours, reference[prompt])
        if at is not None:
            theirs = reference[prompt][at : at + SHOWN]
            differences.append({"prompt": prompt, "at_character": at, "ours": ours[at : at + SHOWN], "theirs": theirs})
    return compared, differences


class GreedyAnswers:
    """Asks, compares and reports."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, t.Any] = module.params
        self.prompts: list[str] = self.params["prompts"] or PROMPTS
        self.reference: dict[str, str] = self.params["reference"] or {}
        self.findings: list[completions.Finding] = []

    def run(self) -> None:
        """Do it all, once."""
        url = self.params["url"]
        wrong = [prompt for prompt, text in self.reference.items() if not isinstance(text, str)]
        if wrong:
            self.module.fail_json(
                msg=f"The reference for '{completions.one_line(wrong[0], 60)}' is no text; "
                "hand over the answers that this module returned."
            )
        try:
            client = completions.Client(url, self.params["api_key"])
        except ValueError as exc:
            self.module.fail_json(msg=str(exc))
        try:
            model = self.params["model"] or next(iter(client.models()), "")
            if not model:
                self.module.fail_json(msg=f"What listens at {url} lists no model on /v1/models; is it trtllm-serve?")
            answers = {prompt: self.ask(client, model, prompt) for prompt in dict.fromkeys(self.prompts)}
        except completions.ProbeError as exc:
            reason = str(exc) or "it does not answer in time"
            self.module.fail_json(msg=f"The server at {url} cannot be asked: {reason}.")
        compared, differences = compare(answers, self.reference)
        if differences:
            earliest = min(difference["at_character"] for difference in differences)
            message = (
                f"{len(differences)} of {compared} greedy answers differ from the reference, the earliest at character "
                f"{earliest}; late differences can come from rounding, early ones are a fault."
            )
            self.findings.append(completions.Finding("greedy_difference", message))
        self.module.exit_json(
            changed=False,
            answers=answers,
            model=model,
            compared=compared,
            equal=compared - len(differences),
            differences=differences,
            findings=[finding._asdict() for finding in self.findings],
        )

    def ask(self, client: completions.Client, model: str, prompt: str) -> str:
        """The answer to one prompt; one that is not whole cannot be compared, and fails the task."""
        question = completions.Question("completion", model, prompt, self.params["max_tokens"], stream=False)
        deadline = self.params["deadline"]
        answer = client.ask(question, deadline)
        if answer.expired:
            self.module.fail_json(
                msg=f"The answer to '{completions.one_line(prompt, 60)}' was not complete after {deadline:g} s: "
                "the server is busy or slow; try again later, or raise the deadline."
            )
        if not answer.complete:
            verdict = completions.judge(answer, question, [], False, deadline)
            self.module.fail_json(msg=verdict.error or "The server did not finish its answer; read its log.")
        for finding in completions.check_text(answer, []):
            message = f"On '{completions.one_line(prompt, 60)}': {finding.message}"
            self.findings.append(completions.Finding(finding.id, message))
        return answer.text


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:8000"},
            "prompts": {"type": "list", "elements": "str"},
            "max_tokens": {"type": "int", "default": 128, "no_log": False},
            "reference": {"type": "dict"},
            "model": {"type": "str"},
            "deadline": {"type": "float", "default": 120},
            "api_key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    GreedyAnswers(module).run()


if __name__ == "__main__":
    main()
