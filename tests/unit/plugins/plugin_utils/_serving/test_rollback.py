# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.rollback import refusal

LABELS = {"dgx_spark.speculative.deployment": "mine", "dgx_spark.speculative.options": "abc"}
RAILS = [{"interface": "enp1s0f1np1", "address": "192.168.100.10"}]
PREVIOUS: dict[str, t.Any] = {
    "deployment": "mine",
    "deployed_at": "2026-10-04T09:12:44Z",
    "image": {"reference": "r:1"},
    "container": {"labels": LABELS},
}
OF_TWO = {**PREVIOUS, "cluster": {"rank": 0, "nodes": ["spark-1", "spark-2"], "rails": RAILS}}
OTHER = {**OF_TWO, "container": {"labels": {**LABELS, "dgx_spark.speculative.options": "def"}}}


def remembers(previous: t.Any, damaged: bool = False, lacks: t.Sequence[str] = ()) -> dict[str, t.Any]:
    return {"previous": previous, "previous_damaged": damaged, "previous_lacks": list(lacks)}


@pytest.mark.parametrize(
    ("everybody", "addresses", "has_image", "said"),
    [
        ([remembers(PREVIOUS)], [], True, ""),
        ([remembers(OF_TWO), remembers(OF_TWO)], ["192.168.100.10"], True, ""),
        (
            [remembers({**OF_TWO, "cluster": {**OF_TWO["cluster"], "nodes": ["spark-1", "spark-2", "spark-3"]}})] * 3,
            ["192.168.100.10"],
            True,
            "",
        ),
        # Whom it was not asked of has nothing to say.
        ([remembers(OF_TWO), {}], ["192.168.100.10"], True, ""),
        (
            [remembers(None)],
            [],
            False,
            "there is no previous deployment to roll back to. One is recorded when a new deployment replaces a "
            "verified one.",
        ),
        (
            [remembers(None, damaged=True)],
            [],
            False,
            "cannot roll back: /state/previous.json is damaged. Run serve.yml with the recipe that you want.",
        ),
        (
            [remembers(OF_TWO)],
            [],
            True,
            "the previous deployment 'mine' runs on spark-1 and spark-2, but this run is for spark-1. Nothing was "
            "changed. Run again without --limit.",
        ),
        (
            [remembers(PREVIOUS), remembers(OF_TWO)],
            [],
            True,
            "the previous deployment 'mine' runs on this Spark alone, but this run is for spark-1 and spark-2. Nothing "
            "was changed. Run again with --limit spark-1.",
        ),
        (
            [remembers(OF_TWO), remembers(OTHER)],
            [],
            True,
            "the Sparks have different previous deployments (mine abc and mine def), probably because an earlier run "
            "was interrupted. Nothing was changed. Run serve.yml with the recipe that you want.",
        ),
        (
            [remembers(OF_TWO), remembers(OF_TWO)],
            ["127.0.0.1"],
            True,
            "cannot roll back to 'mine' (deployed 2026-10-04T09:12:44Z): this Spark no longer has 192.168.100.10 on "
            "enp1s0f1np1. Check the cable and run 'sudo netplan apply', or run serve.yml with its recipe.",
        ),
        (
            [remembers(PREVIOUS, lacks=["a/target"])],
            [],
            False,
            "cannot roll back to 'mine' (deployed 2026-10-04T09:12:44Z): r:1 and a/target were removed. Nothing was "
            "changed. Run serve.yml with its recipe, which downloads the files again.",
        ),
    ],
)
def test_who_goes_back(everybody: list[t.Any], addresses: list[str], has_image: bool, said: str) -> None:
    docker: dict[str, t.Any] = {"addresses": addresses, "image": {} if has_image else None, "ports_in_use": []}
    records = {f"spark-{number}": each for number, each in enumerate(everybody, start=1)}
    assert refusal("spark-1", records, "/state", docker) == said


@pytest.mark.parametrize(
    ("description", "stop"), [("", "Stop it."), ("Stop it with 'docker stop web'", "Stop it with 'docker stop web'.")]
)
def test_a_port_that_somebody_else_has_by_now(description: str, stop: str) -> None:
    use = {"address": "127.0.0.1", "port": 8000, "holder": "the container web", "description": description}
    docker = {"addresses": [], "image": {}, "ports_in_use": [use]}
    assert refusal("spark-1", {"spark-1": remembers(PREVIOUS)}, "/state", docker) == (
        "cannot roll back to 'mine' (deployed 2026-10-04T09:12:44Z): port 8000 on 127.0.0.1 is in use by the "
        f"container web. Nothing was changed. {stop} Or run serve.yml with its recipe and another "
        "speculative_serve_port."
    )
