#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: huggingface_cache_info
short_description: Tell what is in a host's Hugging Face cache, and around it
version_added: 0.1.0
description:
  - Tells which models are in the cache, which of their files are not served, what belongs to another user and has to be
    written, which token files lie beside the cache, and where the login shell's variables lead. It changes nothing.
  - Token files are not opened. Of the login shell's variables only E(HF_HOME) and E(HF_HUB_CACHE) are returned.
  - The Hub is not asked.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._huggingface
options:
  repositories:
    description:
      - The models that are to be served. Of models without a receipt they tell which files are.
    default: []
  from_environment:
    description:
      - Look at the directory that E(HF_HUB_CACHE) or E(HF_HOME) of the login shell names, if one does, and not at
        O(cache_directory).
    type: bool
    default: false
  receipts_directory:
    description:
      - Where the receipts of checked downloads are. The default is C(models) in O(state_directory).
    type: path
  state_directory:
    description:
      - Where the deployments are.
    type: path
    default: ~/.local/share/dgx-spark-speculative
  in_use:
    description:
      - The models that are in use, each with its commits. Without it every deployment that ever served counts.
    type: dict
  take_over:
    description:
      - Whether RV(lines) are to say that what belongs to another user is taken over.
    type: bool
    default: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: See what is in the cache
  dgx_spark.speculative.huggingface_cache_info:
    repositories:
      - id: openai/gpt-oss-120b
        exclude: ["original/*", "metal/*"]
  register: result

- name: Tell it
  ansible.builtin.debug:
    var: result.lines
"""

RETURN = r"""
directory:
  description:
    - The cache that was looked at.
  returned: success
  type: str
  sample: /home/me/.cache/huggingface/hub
login_environment:
  description:
    - What an interactive login shell of this user exports. V(null) for a variable that is not set.
  returned: success
  type: dict
  sample: {HF_HOME: /data/huggingface, HF_HUB_CACHE: null}
foreign:
  description:
    - What a run with O(repositories) must write and another user has closed to this one. Empty if receipts vouch for
      all of them.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description:
        - The directory. It need not exist if it cannot be made either.
      type: str
    owner:
      description:
        - Who owns it, or something in it.
      type: str
    recursive:
      description:
        - Whether what is in it has to be taken over, too.
      type: bool
    command:
      description:
        - The command with which an administrator gives it to the login user.
      type: str
  sample:
    - path: /home/me/.cache/huggingface/hub
      owner: root
      recursive: false
      command: "sudo chown me: /home/me/.cache/huggingface/hub"
neighbours:
  description:
    - The files with tokens that lie beside the cache.
  returned: success
  type: list
  elements: str
  sample: [/home/me/.cache/huggingface/token]
models:
  description:
    - The models in the cache.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - The model's name.
      type: str
    directory:
      description:
        - Its directory.
      type: str
    bytes_on_disk:
      description:
        - What removing the directory gives back.
      type: int
    fetched_here:
      description:
        - Whether it has a receipt of this collection.
      type: bool
    in_use:
      description:
        - Whether a deployment uses it.
      type: bool
    unserved:
      description:
        - What is not served, by first part of the path, with the bytes that only it needs.
      type: list
      elements: dict
    orphans:
      description:
        - Incomplete downloads.
      type: list
      elements: dict
  sample:
    - id: openai/gpt-oss-120b
      directory: /home/me/.cache/huggingface/hub/models--openai--gpt-oss-120b
      bytes_on_disk: 195800000000
      fetched_here: true
      in_use: true
      unserved:
        - path: metal/
          bytes: 65200000000
        - path: original/
          bytes: 65200000000
      orphans: []
lines:
  description:
    - The same for people, as far as there is something to say.
  returned: success
  type: list
  elements: str
  sample:
    - "Complete already: openai/gpt-oss-120b (65.2 GB)."
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.found import EnvironmentValueError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.hub import REPOSITORIES_ARGUMENT
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.look import CacheLook, unreadable


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repositories": {**REPOSITORIES_ARGUMENT, "default": []},
            "cache_directory": {"type": "path", "default": "~/.cache/huggingface/hub"},
            "from_environment": {"type": "bool", "default": False},
            "receipts_directory": {"type": "path"},
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
            "in_use": {"type": "dict"},
            "take_over": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**CacheLook(module.params).look())
    except EnvironmentValueError as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=unreadable(module.params["cache_directory"], error))


if __name__ == "__main__":
    main()
