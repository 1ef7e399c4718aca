# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import published_ports


def firewall_rules(ports: t.Any) -> list[dict[str, t.Any]]:
    """The firewall rules for a list of published ports in Docker's spelling."""
    if not isinstance(ports, t.Sequence) or isinstance(ports, str):
        raise AnsibleFilterError(f"firewall_rules needs a list of published ports, not {ports!r}.")
    try:
        return published_ports.firewall_rules([published_ports.parse(str(port)) for port in ports])
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"firewall_rules": firewall_rules}
