# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: hub_token
short_description: Return the controller's token for the Hugging Face Hub
version_added: 0.1.0
description:
  - Returns the first token that is not empty. The terms come first, then E(HF_TOKEN), then the token file.
  - The token file is E(HF_TOKEN_PATH), or the file that C(hf auth login) writes. Without any token, the result is an
    empty string.
options:
  _terms:
    description:
      - Tokens that take precedence over those of the controller. They may be empty.
    type: list
    elements: str
    required: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Compare a gated model with the cache
  dgx_spark.speculative.huggingface_snapshot:
    repositories:
      - id: meta-llama/Llama-3.3-70B-Instruct
    cache_directory: /home/spark/.cache/huggingface/hub
    receipts_directory: /home/spark/.local/share/dgx-spark-speculative/models
    token: "{{ lookup('dgx_spark.speculative.hub_token', huggingface_cache_token | default('')) }}"
"""

RETURN = r"""
_raw:
  description: The token, which is a secret.
  type: list
  elements: str
"""

import os
import typing as t
from pathlib import Path

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase


def in_file(environment: t.Mapping[str, str]) -> str:
    """Return the token in the token file, if there is one."""
    home = environment.get("HF_HOME") or "~/.cache/huggingface"
    path = Path(environment.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
    try:
        if not path.is_file():
            return ""
    except OSError:
        # The user of this run cannot read a closed directory, and so has no token there.
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise AnsibleLookupError(f"The token in {path} cannot be read ({reason}); correct the file.") from None


def token(given: t.Iterable[str], environment: t.Mapping[str, str]) -> str:
    """Return the token from the first place that has one."""
    for said in (*given, environment.get("HF_TOKEN", "")):
        if said.strip():
            return said.strip()
    return in_file(environment).strip()


class LookupModule(LookupBase):
    """Find the token where it is needed, and keep it nowhere."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        return [token([str(term or "") for term in terms], os.environ)]
