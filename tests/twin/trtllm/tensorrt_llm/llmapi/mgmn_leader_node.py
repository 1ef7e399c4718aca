# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What trtllm-llmapi-launch runs on rank 0, and with `--action stop` when its command has ended."""

import os
import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["--action", "stop"]:
        from standin.proxy import stop

        stop(os.environ)
    else:
        from standin.ranks import lead

        lead()
