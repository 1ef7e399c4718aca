# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Describe how long requests and prompts may be."""

from __future__ import annotations


def describe_capacity(context: int, concurrency: int, prompt: int | None = None) -> str:
    """Return the tokens of a request with its answer, and how many requests are served at once."""
    requests = "one request" if concurrency == 1 else f"{concurrency} requests"
    longest = f"; prompts of at most {prompt:,} tokens" if prompt else ""
    return f"{requests} at a time, {context:,} tokens each, prompt and answer together{longest}"
