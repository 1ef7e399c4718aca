# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of rank 0. When its command has ended, trtllm-llmapi-launch runs it with `--action stop`."""

import os
import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["--action", "stop"]:
        from standin.proxy import stop

        stop(os.environ)
    else:
        from standin.ranks import lead

        lead()
