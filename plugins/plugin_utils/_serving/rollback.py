# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Check whether the previous deployment can be restored from its record. Several Sparks roll back together, or none.

Each check returns why it cannot, or an empty text.
"""

from __future__ import annotations

import typing as t

from ...module_utils._deployment import names
from ...module_utils._deployment.records import nodes_of
from .._recipe.text import join_words
from .deployment import unreachable_reason

Records = t.Mapping[str, t.Any]
COMPARED_LABELS = ((f"{names.LABEL}deployment", None), (f"{names.LABEL}options", 12))


def _no_record(records: Records, state_directory: str) -> str:
    if records["previous"] is not None:
        return ""
    if records["previous_damaged"]:
        return (
            f"cannot roll back: {state_directory}/previous.json is damaged. Run serve.yml with the recipe that you "
            "want."
        )
    return (
        "there is no previous deployment to roll back to. One is recorded when a new deployment replaces a verified "
        "one."
    )


def _other_hosts(host: str, hosts: t.Sequence[str], previous: t.Mapping[str, t.Any]) -> str:
    before = nodes_of(previous.get("cluster") or {})
    if sorted(before or [host]) == sorted(hosts):
        return ""
    of, way = (join_words(before), "out --limit") if before else ("this Spark alone", f" --limit {host}")
    return (
        f"the previous deployment '{previous['deployment']}' runs on {of}, but this run is for {join_words(hosts)}. "
        f"Nothing was changed. Run again with{way}."
    )


def describe_mixed(labels: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """Return the deployments that containers with these labels are of, in words; empty if it is one."""
    # The beginning of a digest is enough.
    found = dict.fromkeys(
        " ".join(str(label[key])[:length] for key, length in COMPARED_LABELS if key in label) for label in labels
    )
    return " and ".join(found) if len(found) > 1 else ""


def _different_deployments(nodes: t.Sequence[Records]) -> str:
    # An interrupted run may have left the Sparks with different ones.
    different = describe_mixed([node["previous"]["container"]["labels"] for node in nodes if node.get("previous")])
    if not different:
        return ""
    return (
        f"the Sparks have different previous deployments ({different}), probably because an earlier run was "
        "interrupted. Nothing was changed. Run serve.yml with the recipe that you want."
    )


def _missing_files(previous: t.Mapping[str, t.Any], lacks: t.Sequence[str], has_image: bool) -> str:
    gone = [*([] if has_image else [previous["image"]["reference"]]), *lacks]
    if not gone:
        return ""
    return (
        f"cannot roll back to '{previous['deployment']}' (deployed {previous['deployed_at']}): {' and '.join(gone)} "
        f"{'was' if len(gone) == 1 else 'were'} removed. Nothing was changed. Run serve.yml with its recipe, which "
        "downloads the files again."
    )


def _port_in_use(previous: t.Mapping[str, t.Any], taken: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    if not taken:
        return ""
    use = taken[0]
    stop = f"{use['description']}." if use["description"] else "Stop it."
    return (
        f"cannot roll back to '{previous['deployment']}' (deployed {previous['deployed_at']}): port {use['port']} on "
        f"{use['address']} is in use by {use['holder']}. Nothing was changed. {stop} Or run serve.yml with its recipe "
        "and another speculative_serve_port."
    )


def refusal(
    host: str,
    nodes: t.Mapping[str, Records],
    state_directory: str,
    docker: t.Mapping[str, t.Any],
) -> str:
    """Return why a host cannot roll back; empty if it can.

    The nodes are all hosts of the run with their records. `docker` has the previous deployment's image and where
    it listened.
    """
    records = nodes[host]
    previous = records["previous"]
    return (
        _no_record(records, state_directory)
        or _other_hosts(host, list(nodes), previous)
        or _different_deployments(list(nodes.values()))
        or unreachable_reason(previous, docker["addresses"])
        or _missing_files(previous, records["previous_lacks"], docker.get("image") is not None)
        or _port_in_use(previous, docker.get("ports_in_use") or [])
    )
