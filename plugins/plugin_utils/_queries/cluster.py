# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `cluster`: whether Sparks can serve as one, what is left to connect and to copy, which steps are done."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from .._plan import cluster as plans
from .._plan import host_vars, images, models, steps
from .query import Form, Forms, Mapping, Result, Run, refusal_result


def compare(
    run: Run,
    facts: Mapping,
    rails: Mapping,
    is_configured: bool,
    worker_port: int,
    copy_port: int,
    findings: t.Sequence[str],
    clock_skew: float,
    allow_differences: t.Sequence[str],
) -> Result:
    compared = plans.compare_nodes(facts, clock_skew, allow_differences)
    own = plans.node_links(run.host, facts, rails, is_configured, worker_port, copy_port)
    # Findings about all Sparks are reported once.
    shared = compared["findings"] if run.host == next(iter(facts)) else []
    return {**compared, **own, "findings": [*findings, *own["findings"], *shared]}


def keys(
    run: Run,
    rails: Mapping,
    facts: Mapping,
    keys: Mapping,
    users: Mapping,
    pythons: Mapping,
    directory: str,
    worker_port: int,
    copy_port: int,
    key: str,
    streams: int,
    patience: int,
) -> Result:
    hosts = plans.key_exchange(rails, facts, keys, users, pythons)
    try:
        return plans.trust(hosts, run.host, directory, worker_port, copy_port, key, streams, patience)
    except ValueError as error:
        raise AnsibleActionFail(f"Writing what the Sparks share failed: {error}.") from None


def image_copies(run: Run, facts: Mapping, loaded_host: str = "") -> Result:
    result = images.copies(facts)
    # The Spark that has just loaded the image, if one has.
    is_other = run.host == loaded_host and run.host in result["to"] and not run.is_check
    return {**result, **refusal_result(images.image_mismatch(facts, run.host) if is_other else "")}


def model_copies(run: Run, snapshots: Mapping, state_directory: str, verify: bool = False) -> Result:
    return {
        "to": models.copy_targets(snapshots),
        **models.copy_content(snapshots[run.host], state_directory, verify),
        **refusal_result(models.directory_mismatch(snapshots, run.host)),
    }


def completed_steps(
    _run: Run, docker_facts: Mapping, snapshots: Mapping, plans: Mapping, cluster_facts: Mapping, link_steps: Mapping
) -> Result:
    return {"steps": steps.completed_steps(docker_facts, snapshots, plans, cluster_facts, link_steps)}


FORMS: Forms = {
    "compare": Form(compare, host_vars.CLUSTER_SOURCE),
    "keys": Form(keys, host_vars.CLUSTER_SOURCE),
    "image_copies": Form(image_copies, host_vars.CLUSTER_SOURCE),
    "model_copies": Form(model_copies, host_vars.MODELS_SOURCE),
    "completed_steps": Form(completed_steps),
}
