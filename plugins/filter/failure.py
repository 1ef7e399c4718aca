# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._catalogue import GPU_CAUSES, cause_of

SILENT = "The task failed without a word."
ABOUT = {"gpu": GPU_CAUSES}


def failure(result: t.Any, host: str = "", about: str = "") -> str:
    """Why a task failed, in its own words; of a loop, why the first item did. The host's name in front is left out.

    With what it was about, the cause and the remedy follow that the catalogue of known failures has.
    """
    if not isinstance(result, t.Mapping):
        raise AnsibleFilterError(f"failure needs the result of a task, not {result!r}.")
    items = [one for one in result.get("results") or () if isinstance(one, t.Mapping) and one.get("failed")]
    said = next((one["msg"] for one in items if one.get("msg")), None) or result.get("msg") or SILENT
    text = str(said).removeprefix(f"{host}: ") if host else str(said)
    if not about:
        return text
    row = cause_of(text, ABOUT[about])
    return f"{' '.join(text.split()).rstrip('.')}. {row.cause}. {row.fix}"


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"failure": failure}
