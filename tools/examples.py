# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generate examples of output for docs/ with the code that prints it in a run."""

from __future__ import annotations

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.table import table
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report import access, summary

from tests.unit import benchmark_reports

STATE = "/home/nvidia/.local/share/dgx-spark-speculative"
ENDPOINT = access.Endpoint(
    urls=[
        {"scope": "lan", "url": "https://192.0.2.11:8443"},
        {"scope": "docker", "url": "http://172.17.0.1:8000"},
    ],
    keys={"default": f"{STATE}/proxy/keys/default"},
    ca="/home/me/.config/dgx-spark-speculative/spark-1-192.0.2.11-ca.crt",
)


def block(lines: list[str]) -> str:
    """Return lines as a block of Markdown."""
    return "\n".join(["```text", *lines, "```"])


def benchmark() -> str:
    """Return the output of a benchmark, with figures of a unit test."""
    return block(table(benchmark_reports.wins()))


def addresses() -> str:
    """Return the addresses with LAN access, as in the summary and the status."""
    return block(summary.table(access.rows("http://127.0.0.1:8000", "127.0.0.1", ENDPOINT)))
