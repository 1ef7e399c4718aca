# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Compute the maximum length of conversations and prompts."""

from __future__ import annotations

import typing as t

# Tokens that a pass takes at once where the options do not say.
MAX_NUM_TOKENS = 8192


def longest_prompt(options: t.Mapping[str, t.Any], context: t.Any) -> int | None:
    """Return the most tokens of a prompt where the engine takes less than the context; None if it takes that.

    Without chunked prefill a prompt is read in one pass.
    """
    at_once = options.get("max_num_tokens")
    if not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1:
        at_once = MAX_NUM_TOKENS
    chunked = options.get("enable_chunked_prefill") is True
    return at_once if isinstance(context, int) and not chunked and at_once < context else None


def describe_capacity(context: int, concurrency: int, prompt: int | None = None) -> str:
    """Return how long conversations may get, and how many are answered at once."""
    conversations = "one conversation" if concurrency == 1 else f"{concurrency} conversations"
    longest = f"; prompts of at most {prompt:,} tokens" if prompt else ""
    return f"{conversations} at a time, {context:,} tokens each, prompt and answer together{longest}"
