# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._problems.catalogue import GPU_CAUSES, cause_of

SILENT = "The task failed without a word."
ABOUT = {"gpu": GPU_CAUSES}
# Beginning of the answer of check_gpu.py. Other output of the image is no reason.
MARK = "dgx-spark-speculative-gpu:"


def program_problem(text: str) -> str:
    """Return the problem that the program in the container names, or the whole text if it did not get that far."""
    lines = [line[len(MARK) :] for line in text.splitlines() if line.startswith(MARK)]
    with contextlib.suppress(IndexError, ValueError, KeyError):
        return str(json.JSONDecoder().raw_decode(lines[-1])[0]["problem"])
    return text


def network_problem(result: t.Mapping[str, t.Any], text: str) -> str:
    """Return the reason why a change of the network failed, with advice unless the change itself was refused."""
    text = text.removeprefix("Task failed: ")
    if result.get("refused") or "table" in result:
        return text
    return (
        f"configuring the network needs sudo, and that failed ({text}). Run again with -K and give the sudo password, "
        "or set up the addresses by hand and set spark_network_mode to adopt."
    )


def failure_message(result: t.Any, host: str = "", about: str = "") -> str:
    """Return the message of a failed task, or of the first failed item of a loop, without the host's name before it.

    With `about`, the cause and the fix of the problem catalogue follow.
    """
    if not isinstance(result, t.Mapping):
        raise AnsibleFilterError(f"failure_message needs the result of a task, not {result!r}.")
    items = [result for result in result.get("results") or () if isinstance(result, t.Mapping) and result.get("failed")]
    said = next((item["msg"] for item in items if item.get("msg")), None) or result.get("msg") or SILENT
    text = str(said).removeprefix(f"{host}: ") if host else str(said)
    if about == "network":
        return network_problem(result, text)
    if not about:
        return text
    text = program_problem(text)
    row = cause_of(text, ABOUT[about])
    return f"{' '.join(text.split()).rstrip('.')}. {row.cause}. {row.fix}"


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"failure_message": failure_message}
