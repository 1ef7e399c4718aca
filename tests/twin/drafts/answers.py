# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the model write the texts that its drafts learn from, in vLLM's image.

A draft has to say what the model would say, so the model's own answers teach it best, and no data set is needed. Every
second answer is greedy, the others are sampled, as requests are.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
import yaml

SEED, PROMPTS, TOKENS, AT_ONCE = 1, 400, 128, 64


def prompts() -> list[str]:
    """Return the prompts: every task as often as any other, no prompt twice."""
    data = yaml.safe_load(Path(__file__).with_name("prompts.yml").read_text(encoding="utf-8"))
    tasks, subjects = data["tasks"], data["subjects"]
    chance, made = random.Random(SEED), dict[str, None]()
    while len(made) < PROMPTS:
        made[tasks[len(made) % len(tasks)].format(*chance.sample(subjects, 2))] = None
    return list(made)


def main() -> None:
    """Write the tokens of each conversation, and how many of them are the prompt."""
    from vllm import LLM, SamplingParams

    limits = {"max_model_len": 512, "max_num_seqs": AT_ONCE, "kv_cache_memory_bytes": 2**30}
    target = LLM("/model", enforce_eager=True, seed=SEED, **limits)
    asked = [[{"role": "user", "content": prompt}] for prompt in prompts()]
    how = [SamplingParams(temperature=0.8 * (i % 2), max_tokens=TOKENS, seed=i) for i in range(PROMPTS)]
    said = target.chat(asked, how, use_tqdm=False)
    tokens = [[*one.prompt_token_ids, *one.outputs[0].token_ids] for one in said]
    torch.save([(text, len(one.prompt_token_ids)) for text, one in zip(tokens, said)], "/made/answers.pt")


# vLLM's processes are spawned, and import this file.
if __name__ == "__main__":
    main()
