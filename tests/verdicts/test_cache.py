# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory plan of a hybrid model holds what the release needs for a request, by the release's own functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.memory import plan
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.sizes import read

from tests.verdicts.environments import build

CONTEXT = 262_144
QWEN3_6_27B = {
    "weights_bytes": 26_381_249_312,
    **{"layers": 64, "kv_heads": 4, "head_dim": 256, "max_context": CONTEXT, "prediction_layers": 1},
    **{"attention_layers": 16, "state_layers": 48, "state_values": 48 * 128 * 128},
    **{"convolution_values": 10_240, "convolution_width": 4},
}


def test_one_request_of_the_longest_context_fits_into_its_plan() -> None:
    command = [str(build("0.28.0")), str(Path(__file__).with_name("cache_need.py")), str(CONTEXT)]
    needed = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    wanted = {
        "target": {"name": "nvidia/Qwen3.6-27B-NVFP4", "facts": QWEN3_6_27B},
        "draft": {},
        "engine": "vllm",
        **{"method": "mtp", "draft_length": 3, "context": CONTEXT, "concurrency": 1, "kv_cache": "planned"},
        "options": {"kv-cache-dtype": "fp8"},
        "reserve_gib": 12,
        "memory": {"total": 130_700_000_000, "available": 124_000_000_000, "slot": 0, "usage": []},
    }
    planned = plan(read(wanted))
    # By hand: 17 layers, blocks of 3,276,800 bytes: 164 for the tokens, 3 x 5 for the states, one for the pool.
    assert needed == 17 * 3_276_800 * (164 + 15 + 1)
    assert needed <= planned["options"]["kv-cache-memory-bytes"]
