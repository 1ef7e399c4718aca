# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._data import text


def amount(count: t.Any) -> str:
    """Return a number of bytes in words, in powers of ten."""
    try:
        return text.amount(float(count))
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"amount needs a number of bytes, not {count!r}.") from error


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"format_bytes": amount}
