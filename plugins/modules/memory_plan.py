#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_plan
short_description: Work out whether models fit into the memory of a Spark
version_added: 0.1.0
description:
  - Adds up the weights of target and draft model, the KV cache of the wanted context, and 10 GB of workspace, and
    compares the sum with the memory there is, before anything is downloaded.
  - The KV cache is counted for O(parallel) conversations. Each takes O(context) tokens and three times O(draft_length),
    as TensorRT-LLM makes a sequence longer for its drafts, rounded up to whole blocks, and a block more. Another block
    is for the dummy request that fills up the batches of CUDA graphs.
  - A value in it takes two bytes unless C(kv_cache_config.dtype) in O(options) says less. With C(auto) it takes one
    where the checkpoint asks for FP8, as TensorRT-LLM follows it; the head of O(method=eagle3) has its target's type.
  - The share of C(kv_cache_config.free_gpu_memory_fraction) stays a cap, for the KV cache, on what the weights leave.
  - On two Sparks the target's weights and the KV cache are split; draft, workspace and reserve are counted on each.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  target:
    description:
      - The target model.
    type: dict
    required: true
    suboptions:
      name:
        description:
          - What it is called.
        type: str
      facts:
        description:
          - What its files say, in the form in which M(dgx_spark.speculative.huggingface_snapshot) returns it.
          - Used are C(weights_bytes), C(layers), C(kv_heads), C(head_dim), C(max_context), C(kv_cache_dtype)
            and C(model_type).
        type: dict
  draft:
    description:
      - The draft model, in the same form. Empty without one.
    type: dict
    suboptions:
      name:
        description:
          - What it is called.
        type: str
      facts:
        description:
          - What its files say. The head of O(method=eagle3) has one layer unless they say otherwise.
        type: dict
  method:
    description:
      - How drafts are made, such as V(eagle3), V(draft_target) or V(none).
      - Empty if C(speculative_config) in O(options) says it.
    type: str
    default: none
  draft_length:
    description:
      - Tokens drafted for each pass of the target model.
    type: int
    default: 0
  context:
    description:
      - Tokens of one conversation, prompt and answer together.
      - C(max_seq_len) in O(options) wins over it, and may be more than the model was made for.
    type: raw
    default: 32768
  parallel:
    description:
      - Conversations at once. C(max_batch_size) in O(options) wins over it.
    type: raw
    default: 1
  kv_cache:
    description:
      - V(planned) makes the KV cache as large as O(context) and O(parallel) need it.
      - V(fraction) leaves its size to C(kv_cache_config.free_gpu_memory_fraction), and the context to the model.
        Needed is room for 2048 tokens then.
    type: str
    default: planned
    choices: [planned, fraction]
  reserve_gib:
    description:
      - GiB of the memory that are kept for the desktop and the system.
    type: raw
    default: 12
  memory:
    description:
      - The Spark's memory, in bytes, with the keys C(total), C(available), C(slot) (what the running deployment gives
        back) and C(holders) (who else holds memory, a list of sentences), as
        M(dgx_spark.speculative.docker_access_info) returns it.
      - C(cuda) is what a container of the image was told, where one was asked. Its C(free) is what CUDA calls free, and
        C(unused) and C(available) are C(MemFree) and C(MemAvailable) at the same moment. On a GB10 CUDA counts what
        files hold as used, so a C(free) that is too small only leads to a warning with the remedy.
      - Without C(available) or C(slot), everything but O(reserve_gib) counts as free.
    type: dict
  sparks:
    description:
      - How many Sparks serve together.
    type: int
    default: 1
    choices: [1, 2]
  options:
    description:
      - The explicit engine options in TensorRT-LLM's own spelling.
    type: dict
notes:
  - Chunked prefill is switched on where the context is longer than C(max_num_tokens) and O(options) do not say, since
    the server refuses longer prompts without it. It works together with all methods of drafting, and keeps the
    workspace at the size of C(max_num_tokens) tokens.
  - It is left off for models with multi-head latent attention, for which TensorRT-LLM does not support it on a GB10.
  - Layers with a sliding window count like the others, because TensorRT-LLM gives them as much unless
    C(kv_cache_config.max_attention_window) says otherwise.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.huggingface_snapshot
  - module: dgx_spark.speculative.docker_access_info
"""

EXAMPLES = r"""
---
- name: Plan the memory
  dgx_spark.speculative.memory_plan:
    target:
      name: openai/gpt-oss-120b
      facts: "{{ models.facts['openai/gpt-oss-120b'] }}"
    context: 131072
    memory: "{{ docker.memory }}"
    options:
      max_num_tokens: 4096
  register: plan

- name: Refuse what does not fit
  ansible.builtin.fail:
    msg: "{{ plan.message }}"
  when: plan.verdict in ['less_context', 'does_not_fit']
"""

RETURN = r"""
verdict:
  description:
    - V(fits), V(less_context) if it fits with RV(fitting_context), V(does_not_fit), or V(unknown) where the models
      or the memory are not known well enough.
    - It is V(does_not_fit), too, if already what is known does not fit.
  returned: success
  type: str
  sample: fits
rows:
  description: What is needed on each Spark. C(bytes) is null where it is not known.
  returned: success
  type: list
  elements: dict
  sample:
    - name: weights of openai/gpt-oss-120b
      bytes: 65248815744
lines:
  description: The plan for people, as a table with a sentence.
  returned: success
  type: list
  elements: str
  sample: ["spark-1, memory: openai/gpt-oss-120b with EAGLE-3, draft length 5"]
options:
  description: Engine options for what O(options) leave open; O(options) are to be merged over them, recursively.
  returned: success
  type: dict
  sample:
    max_batch_size: 1
    cuda_graph_config:
      max_batch_size: 1
    max_seq_len: 131072
    kv_cache_config:
      max_tokens: 131168
    enable_chunked_prefill: true
context:
  description: Tokens of one conversation that are served. Null where nobody has said so.
  returned: success
  type: int
  sample: 131072
fitting_context:
  description:
    - The largest context, in steps of 1024 tokens, that fits. Null if that is less than 2048 tokens, or not known.
  returned: success
  type: int
  sample: 131072
needed:
  description: Bytes that are needed on each Spark, as far as they are known.
  returned: success
  type: int
  sample: 85614296088
room:
  description: Bytes that may be used. Null if they are not known.
  returned: success
  type: int
  sample: 115636723712
free_for_gpu:
  description: What CUDA calls free beside what the kernel calls available. Empty where no image was asked.
  returned: success
  type: str
  sample: 104 GB by CUDA, 118 GB available
message:
  description:
    - Why it is refused, by whom memory is held, and what to do. Empty with RV(verdict=fits) and RV(verdict=unknown).
  returned: success
  type: str
  sample: ""
warnings:
  description: What works but not as one may expect, or what could not be counted. Ansible shows them, too.
  returned: success
  type: list
  elements: str
  sample: []
"""
