# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `cluster`: whether Sparks can serve as one, and what is left to connect and to copy."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from .._query import host_vars
from .._query.query import Form, Forms, Mapping, Result, Run, refusal_result
from . import image_copies, model_copies, nodes


def compare_sparks(
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
    compared = nodes.compare_nodes(facts, clock_skew, allow_differences)
    own = nodes.node_links(run.host, facts, rails, is_configured, worker_port, copy_port)
    # Findings about all Sparks are reported once.
    shared = compared["findings"] if run.host == next(iter(facts)) else []
    return {**compared, **own, "findings": [*findings, *own["findings"], *shared]}


def exchange_keys(
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
    hosts = nodes.key_exchange(rails, facts, keys, users, pythons)
    try:
        return nodes.trust(hosts, run.host, directory, worker_port, copy_port, key, streams, patience)
    except ValueError as error:
        raise AnsibleActionFail(f"Writing what the Sparks share failed: {error}.") from None


def plan_image_copies(run: Run, facts: Mapping, loaded_host: str = "") -> Result:
    result = image_copies.copies(facts)
    # The Spark that has just loaded the image, if one has.
    is_other = run.host == loaded_host and run.host in result["to"] and not run.is_check
    return {**result, **refusal_result(image_copies.image_mismatch(facts, run.host) if is_other else "")}


def plan_model_copies(run: Run, snapshots: Mapping, state_directory: str, verify: bool = False) -> Result:
    return {
        "to": model_copies.copy_targets(snapshots),
        **model_copies.copy_content(snapshots[run.host], state_directory, verify),
        **refusal_result(model_copies.directory_mismatch(snapshots, run.host)),
    }


FORMS: Forms = {
    "compare": Form(compare_sparks, host_vars.CLUSTER_SOURCE),
    "keys": Form(exchange_keys, host_vars.CLUSTER_SOURCE),
    "image_copies": Form(plan_image_copies, host_vars.CLUSTER_SOURCE),
    "model_copies": Form(plan_model_copies, host_vars.MODELS_SOURCE),
}
