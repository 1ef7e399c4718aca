# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `cluster`: whether Sparks can serve as one, what is left to connect and to copy, which steps are done."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import cluster as plans
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import images, models, nodes, steps
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    Form,
    Forms,
    Mapping,
    Result,
    Run,
    refused,
)


def compare(
    run: Run,
    looks: Mapping,
    rails: Mapping,
    settled: bool,
    ssh_port: int,
    copy_port: int,
    findings: t.Sequence[str] = (),
    clock_skew: float = 60,
    tolerate: t.Sequence[str] = (),
) -> Result:
    compared = plans.compared(looks, clock_skew, tolerate)
    own = plans.joined(run.host, looks, rails, settled, ssh_port, copy_port)
    # What is the same for all is said once.
    shared = compared["findings"] if run.host == next(iter(looks)) else []
    return {**compared, **own, "findings": [*findings, *own["findings"], *shared]}


def keys(
    run: Run,
    rails: Mapping,
    looks: Mapping,
    keys: Mapping,
    users: Mapping,
    pythons: Mapping,
    directory: str,
    ssh_port: int,
    copy_port: int,
    key: str,
    streams: int,
    patience: int,
) -> Result:
    hosts = plans.known_of(rails, looks, keys, users, pythons)
    try:
        return plans.trust(hosts, run.host, directory, ssh_port, copy_port, key, streams, patience)
    except ValueError as error:
        raise AnsibleActionFail(f"Writing what the Sparks share failed: {error}.") from None


def image_copies(run: Run, looks: Mapping, loaded: str = "") -> Result:
    found = images.copies(looks)
    # The Spark that has just loaded the image, if one has.
    is_other = run.host == loaded and run.host in found["to"] and not run.is_check
    return {**found, **refused(images.other(looks, run.host) if is_other else "")}


def model_copies(run: Run, views: Mapping, state_directory: str, verify: bool = False) -> Result:
    return {
        "to": models.takers(views),
        **models.cargo(views[run.host], state_directory, verify),
        **refused(models.unlike(views, run.host)),
    }


def completed_steps(
    _run: Run, looks: Mapping, views: Mapping, plans: Mapping, pairs: Mapping, links: Mapping
) -> Result:
    return {"steps": steps.idle(looks, views, plans, pairs, links)}


FORMS: Forms = {
    "compare": Form(compare, nodes.PAIR),
    "keys": Form(keys, nodes.PAIR),
    "image_copies": Form(image_copies, nodes.PAIR),
    "model_copies": Form(model_copies, nodes.MODELS),
    "completed_steps": Form(completed_steps),
}
