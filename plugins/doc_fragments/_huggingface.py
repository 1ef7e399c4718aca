# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this doc fragment is internal to the collection; its content may change at any time.

from __future__ import annotations


class ModuleDocFragment:
    """Models, and the cache they are in."""

    DOCUMENTATION = r"""
options:
  repositories:
    type: list
    elements: dict
    suboptions:
      id:
        description:
          - The model's name on the Hub, such as V(openai/gpt-oss-120b).
        type: str
        required: true
      revision:
        description:
          - A branch, a tag or a full commit.
        type: str
        default: main
      include:
        description:
          - Shell patterns of the wanted files, matched as C(huggingface_hub) does. Without any, all files are wanted.
        type: list
        elements: str
        default: []
      exclude:
        description:
          - Shell patterns of files that are not wanted even if included.
        type: list
        elements: str
        default: []
  cache_directory:
    description:
      - The Hub's part of the Hugging Face cache, where the C(models--*) directories are.
    type: path
    default: ~/.cache/huggingface/hub
"""

    PAIR = r"""
options:
  pair:
    description:
      - Two models, one of which is to draft for the other. Their files C(config.json) are compared. Without both models
        nothing is compared.
    type: dict
    default: {}
    suboptions:
      target:
        description:
          - The target model's name on the Hub or its directory.
        type: str
      draft:
        description:
          - The draft model's name on the Hub or its directory.
        type: str
      method:
        description:
          - How it drafts.
        type: str
"""
