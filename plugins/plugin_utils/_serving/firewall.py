# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan the firewall rules by which containers reach the published ports of another one."""

from __future__ import annotations

import typing as t

from ...module_utils._docker.published_ports import firewall_rules, parse


def rules(network: str, published_ports: t.Sequence[str], previous_ports: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """List chain, port (None for each) and state of every rule: first those that are to be there, then those to remove.

    Ports are in Docker's spelling. In the host's network nothing is published, whatever the ports say. Earlier
    containers may have published `previous_ports`. ValueError for a port that Docker would not take.
    """
    needed = _of(published_ports if network == "bridge" else [])
    stale = [rule for rule in _of(previous_ports) if rule not in needed]
    return [{**rule, "state": "present"} for rule in needed] + [{**rule, "state": "absent"} for rule in stale]


def _of(ports: t.Iterable[str]) -> list[dict[str, t.Any]]:
    return firewall_rules([parse(port) for port in ports])
