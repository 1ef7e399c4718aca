# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find the steps of a run that have nothing to do, so that a second run skips them."""

from __future__ import annotations

import typing as t

from .._cluster.image_copies import copies
from .._cluster.model_copies import copy_targets, directory_mismatch
from .._engines.registry import engine_of
from .serving import from_head

Mapping = t.Mapping[str, t.Any]


def completed_steps(
    docker_facts: Mapping,
    snapshots: Mapping,
    plans: Mapping,
    cluster_facts: Mapping,
    link_steps: t.Mapping[str, t.Collection[str]],
) -> list[str]:
    """Return the steps whose result is already there. A step without facts is not among them.

    All arguments are by host, the head first. On the head, `image`: it is present, and a running container has the
    GPU. `configuration`: an engine that judges models has their files but for the weights.
    `options`: the image has served these options. `models`: they are verified, and no vocabulary is missing.
    `cluster_image`: it exists. `image_copies` and `model_copies`: the workers have the head's. On all Sparks, `link`
    and `ssh_keys`: the Sparks are joined as planned, and their SSH keys are exchanged.
    """
    look, models, plan, cluster = (from_head(each) for each in (docker_facts, snapshots, plans, cluster_facts))
    image = bool(look.get("image")) and (look.get("slot") or {}).get("state") == "running"
    fetched = models.get("verified") is True and models.get("downloads") == []
    made = cluster.get("image_made") is True
    done = {
        "image": image,
        "configuration": bool(plan) and (not engine_of(plan).judges_models or models.get("configuration") == []),
        # The plan needs the free GPU memory that the image step reports.
        "options": image and plan.get("options_served") is True,
        "models": fetched,
        "cluster_image": made,
        "image_copies": made and all(cluster_facts.values()) and not copies(cluster_facts)["to"],
        "model_copies": fetched
        and all(snapshots.values())
        and not copy_targets(snapshots)
        and not any(directory_mismatch(snapshots, host) for host in snapshots),
    }
    done["link"] = bool(link_steps) and all("link" in step for step in link_steps.values())
    done["ssh_keys"] = (
        done["image_copies"] and done["model_copies"] and all("ssh_keys" in step for step in link_steps.values())
    )
    return [step for step, nothing in done.items() if nothing]
