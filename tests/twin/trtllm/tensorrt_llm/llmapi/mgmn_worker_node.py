# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that trtllm-llmapi-launch runs on all ranks except 0."""

if __name__ == "__main__":
    from standin.ranks import work

    work()
