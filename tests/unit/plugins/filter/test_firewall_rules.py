# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.filter.firewall_rules import firewall_rules


def test_rules() -> None:
    assert firewall_rules([]) == []
    assert firewall_rules(["127.0.0.1:8000:8000"]) == [
        {"chain": "INPUT", "port": 8000},
        {"chain": "DOCKER-USER", "port": None},
    ]


@pytest.mark.parametrize(
    ("ports", "message"),
    [("8000:8000", "needs a list of published ports"), (None, "needs a list"), ([8000], "'8000' is not understood")],
)
def test_what_is_no_list_of_ports(ports: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        firewall_rules(ports)
