#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: trtllm_config
short_description: Render and validate TensorRT-LLM engine options
version_added: 0.1.0
description:
  - Engine options are the YAML that C(trtllm-serve) reads with C(--extra_llm_api_options).
  - Renders them for a release of TensorRT-LLM, from O(method), O(draft_model), O(max_draft_len) and any other engine
    options in O(options). RV(text) is the content of the file, which M(ansible.builtin.copy) can write.
  - Validates all options without the server and without an image. An option that the server would refuse is an error.
    All errors are reported at once, each with its dotted path and the nearest valid key or value. An option that the
    server accepts, but that is unwise on a DGX Spark, is a warning.
  - The file has a fixed order of keys, so that the same options always give the same text.
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  release:
    description:
      - Release of TensorRT-LLM that reads the options, for example V(1.3.0rc12).
      - An image reference is accepted too. Its tag is the release, and its digest is ignored.
      - The rules are written for certain releases of each release family. Any other release of a family is a warning.
        If it is newer, an unknown key or value is also a warning, because only the image can judge it.
      - For any other release or tag, O(family) must name the rules.
      - A known tag that moves, such as V(spark-single-gpu-dev), is checked by the rules of its family, with a warning.
    type: str
    required: true
  family:
    description:
      - Release family whose rules are used if O(release) does not determine it, such as V(1.3). With V(auto),
        O(release) must determine it.
      - The engine options changed between V(1.2.1) and V(1.3.0rc3). With V(auto), a release between them is an error.
        So is an older release, and a tag that names no release. With a family, each of these is a warning.
      - A family that contradicts O(release) is an error.
    type: str
    default: auto
  method:
    description:
      - Speculation method. The release family determines its spelling in the engine options.
      - V(eagle3), for example, drafts with an EAGLE-3 draft head made for the target model. V(draft_target) drafts with
        a smaller model that shares the target model's vocabulary.
      - V(none) turns speculation off. O(draft_model) and O(max_draft_len) are then ignored.
      - Without a method, O(options) may contain a C(speculative_config) of its own, which is validated and written
        unchanged. O(max_draft_len) is then ignored. O(draft_model) is written only if the section needs a draft model
        and names none.
      - With a method, a C(speculative_config) in O(options) may have further keys of it. With V(none) it is an error.
    type: str
  draft_model: {type: str,
    description: "Draft model, as a path that exists where the server runs, or as a Hub id. Required by each O(method)
      that uses a draft model."}
  max_draft_len: {type: int,
    description: "Draft length, in tokens drafted for each pass of the target model. Required by each O(method) except
      V(none)."}
  target_model: {type: str,
    description: "Name of the target model, as a Hub id or a path. It is not written to the file. Combinations of
      release, method and model that are reported as bad on a DGX Spark are warnings with the address of the report.
      Without O(target_model), combinations of particular models are not checked."}
  revision: {type: str,
    description: "Commit, branch or tag of the target model on the Hub, written as the engine option C(revision).
      Another value in O(options) is an error."}
  options: {type: dict, default: {},
    description: "Other engine options, in TensorRT-LLM's own spelling. A null value is written as null. Leave out a key
      to keep the server's default."}
  world_size:
    description:
      - Number of ranks of the deployment, which is the number of Sparks.
      - The product of tensor, pipeline and context parallel size must equal it. With several ranks and none of the
        three in O(options), C(tensor_parallel_size) is written with this value.
      - Some known issues apply only to several Sparks.
    type: int
    default: 1
notes:
  - Do not set an option both here and on the command line of C(trtllm-serve). Releases differ in which of the two takes
    precedence.
seealso:
  - name: TensorRT-LLM documentation
    description: Reference of the engine options, as LLM arguments.
    link: https://nvidia.github.io/TensorRT-LLM/
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Render the engine options of gpt-oss-120b with EAGLE-3
  dgx_spark.speculative.trtllm_config:
    release: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    method: eagle3
    draft_model: /cache/huggingface/hub/models--nvidia--gpt-oss-120b-Eagle3-long-context/snapshots/633caf4
    max_draft_len: 5
    options:
      max_batch_size: 1
      enable_autotuner: false
      cuda_graph_config:
        max_batch_size: 1
      kv_cache_config:
        free_gpu_memory_fraction: 0.9
        enable_block_reuse: false
  register: engine

- name: Write the engine options to a file
  ansible.builtin.copy:
    content: "{{ engine.text }}"
    dest: /srv/gpt-oss/options.yml
    mode: "0644"

- name: Validate engine options
  dgx_spark.speculative.trtllm_config:
    release: 1.3.0rc12
    world_size: 2
    options:
      max_num_tokens: 1024
      speculative_config:
        decoding_type: NGram
        max_draft_len: 4

- name: Validate a draft model on an image of the release family 1.2
  dgx_spark.speculative.trtllm_config:
    release: nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev
    target_model: nvidia/Llama-3.3-70B-Instruct-FP4
    method: draft_target
    draft_model: /models/Llama-3.1-8B-Instruct-FP4
    max_draft_len: 4
"""

RETURN = r"""
release: {returned: always, type: str, sample: 1.3.0rc12,
  description: "The release, without the rest of an image reference."}
family: {returned: always, type: str, sample: "1.3",
  description: "The release family whose rules were used. Empty if the release belongs to none."}
method: {returned: always, type: str, sample: eagle3,
  description: "Speculation method. V(raw) is a C(speculative_config) in O(options), and V(none) is no speculation."}
known_issues:
  description: Known bad combinations of release, method, model and options. They are also warnings.
  returned: success
  type: list
  elements: dict
  contains:
    id: {type: str, sample: eagle3-drops-tool-calls-16377, description: "Name of the combination."}
    message:
      description: Consequence of the combination, and the workaround.
      type: str
      sample: with EAGLE-3 and gpt-oss on a DGX Spark this release was seen to drop tool calls in chat
    url: {type: str, sample: "https://github.com/NVIDIA/TensorRT-LLM/issues/16377",
      description: "Address of the report."}
    refuse: {type: list, elements: str, sample: [],
      description: "Fields of a request that bring it about, which the API proxy refuses."}
options:
  description: The complete engine options, in the order and the spelling of the file.
  returned: success
  type: dict
  sample:
    {max_batch_size: 1,
     speculative_config: {decoding_type: Eagle3, max_draft_len: 5, speculative_model: /models/draft}}
text: {returned: success, type: str, sample: "# Managed by Ansible ...\nmax_batch_size: 1\n",
  description: "The text of the file."}
errors:
  description: All errors in the options and parameters.
  returned: failure of the validation
  type: list
  elements: dict
  contains:
    path: {type: str, sample: cuda_graph_config.batch_sizes,
      description: "Place of the error, as a dotted path in the engine options, or the name of a parameter."}
    message: {type: str, sample: excludes max_batch_size; keep one of them,
      description: "Description of the error, and the valid value if it is known."}
"""
