#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_directory_info
short_description: Check models that lie in directories of a host
version_added: 0.1.0
description:
  - Tells for several directories at once whether each holds a whole model that a server can be given, namely
    C(config.json), a tokenizer, and every file with weights in full length. It changes nothing and asks nobody.
  - A server sees only the directory itself. Links that lead out of it, such as those of a snapshot in the Hugging Face
    cache, are therefore an error.
  - A draft of O(pair) and an EAGLE head need no tokenizer.
  - Everything that stands in the way is reported at once, for all directories.
  - Of weights only the headers are read. Hidden files and directories do not count.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._huggingface.pair
options:
  directories:
    description:
      - The models' directories, as absolute paths.
    type: list
    elements: path
    required: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Check a model that was copied to the Spark
  dgx_spark.speculative.model_directory_info:
    directories: [/models/gpt-oss-120b]
  register: result

- name: Tell how large it is
  ansible.builtin.debug:
    msg: "{{ result.models['/models/gpt-oss-120b'].bytes | dgx_spark.speculative.amount }}"
"""

RETURN = r"""
models:
  description:
    - The models. The keys are their directories as they were given.
    - C(fingerprint) is another one whenever a file came, went or was written.
  returned: success
  type: dict
  sample:
    /models/gpt-oss-120b:
      commit: null
      snapshot: /models/gpt-oss-120b
      bytes: 65280000000
      fingerprint: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
facts:
  description:
    - What a memory plan has to know of each model, from its files C(config.json), C(hf_quant_config.json) and
      C(model.safetensors.index.json). The keys are the directories. What these files do not say is V(null).
    - C(weights_bytes) is what the index says, or the size of the files with weights where there is no index.
    - C(kv_cache_dtype) is V(fp8) if C(hf_quant_config.json) asks for such a KV cache, which TensorRT-LLM follows.
  returned: success
  type: dict
  sample:
    /models/gpt-oss-120b:
      weights_bytes: 65248815744
      architecture: GptOssForCausalLM
      model_type: gpt_oss
      layers: 36
      kv_heads: 8
      head_dim: 64
      hidden_size: 2880
      vocab_size: 201088
      max_context: 131072
      experts: 128
      active_experts: 4
      kv_cache_dtype: null
pair_problems:
  description:
    - Why the draft model of O(pair) does not belong to the target model, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
lines:
  description:
    - What was found, for people.
  returned: success
  type: list
  elements: str
  sample:
    - "Complete in a directory: /models/gpt-oss-120b (65.3 GB)."
errors:
  description:
    - Everything that stands in the way, one sentence each.
  returned: failure
  type: list
  elements: str
  sample:
    - "/models/gpt-oss-120b has no tokenizer (tokenizer.json or tokenizer.model): copy the whole model there"
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import amount
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.config import (
    PAIR_ARGUMENT,
    facts_of,
    judged_pair,
    weight_bytes,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.directory import (
    DirectoryError,
    ModelDirectory,
)


class DirectoriesLook:
    """The module's parameters and the one thing it does."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.pair = module.params["pair"]

    def check(self) -> dict[str, ModelDirectory]:
        """The directories, all of them whole."""
        models: dict[str, ModelDirectory] = {}
        errors = []
        for name in dict.fromkeys(self.module.params["directories"]):
            try:
                models[name] = ModelDirectory(Path(name), is_draft=name == self.pair.get("draft"))
                errors += models[name].problems()
            except DirectoryError as error:
                errors.append(str(error))
            except OSError as error:
                errors.append(
                    f"{error.filename or name} cannot be read ({error.strerror}): repair it or copy it again, then "
                    "run again"
                )
        if errors:
            text = errors[0] if len(errors) == 1 else "\n".join(f"- {error}" for error in errors)
            self.module.fail_json(msg=text, errors=errors)
        return models

    def look(self) -> dict[str, t.Any]:
        models = self.check()
        complete = [f"{name} ({amount(model.contents.size())})" for name, model in models.items()]
        return {
            "changed": False,
            "models": {
                name: {
                    "commit": None,
                    "snapshot": name,
                    "bytes": model.contents.size(),
                    "fingerprint": model.contents.fingerprint(),
                }
                for name, model in models.items()
            },
            "facts": {name: facts_of(model.files, weight_bytes(model.sizes)) for name, model in models.items()},
            "pair_problems": judged_pair(self.pair, {name: model.files for name, model in models.items()}),
            "lines": [f"Complete in a directory: {', '.join(complete)}."] if complete else [],
        }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directories": {"type": "list", "elements": "path", "required": True},
            "pair": PAIR_ARGUMENT,
        },
        supports_check_mode=True,
    )
    module.exit_json(**DirectoriesLook(module).look())


if __name__ == "__main__":
    main()
