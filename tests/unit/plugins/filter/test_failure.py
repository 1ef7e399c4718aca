# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.filter.failure import failure

LOOP = {
    "failed": True,
    "msg": "One or more items failed",
    "results": [
        {"skipped": True},
        {"failed": False, "msg": "fine"},
        {"failed": True, "msg": "spark-1: the port is taken."},
    ],
}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"failed": True, "msg": "spark-1: no."}, "spark-1: no."),
        (LOOP, "spark-1: the port is taken."),
        ({"failed": True, "msg": "All of it.", "results": [{"failed": True}]}, "All of it."),
        ({"failed": True, "msg": "", "results": []}, "The task failed without a word."),
        ({"failed": True}, "The task failed without a word."),
    ],
)
def test_why_a_task_failed(result: dict[str, t.Any], message: str) -> None:
    assert failure(result) == message


def test_the_host_is_left_out_in_front_only() -> None:
    assert failure({"msg": "spark.1: ask spark.1: it knows."}, "spark.1") == "ask spark.1: it knows."
    assert failure({"msg": "sparkx1: no."}, "spark.1") == "sparkx1: no."


def test_what_is_no_result() -> None:
    with pytest.raises(AnsibleFilterError, match="needs the result of a task"):
        failure("no")
