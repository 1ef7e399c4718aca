# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this doc fragment is internal to the collection; its content may change at any time.

from __future__ import annotations


class ModuleDocFragment:
    """The server that is asked."""

    DOCUMENTATION = r"""
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
"""
