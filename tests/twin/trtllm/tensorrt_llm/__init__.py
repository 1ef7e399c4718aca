# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The little of tensorrt_llm that the tests may ask for: its version and the classes of its options."""

import os
import time

from standin.machine import read_gpu

time.sleep(read_gpu().import_seconds)

__version__ = os.environ.get("TRT_LLM_VERSION", "1.3.0rc12")

print(f"[TensorRT-LLM] TensorRT LLM version: {__version__}")
