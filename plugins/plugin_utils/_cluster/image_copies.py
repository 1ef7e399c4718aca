# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find the Sparks that lack the cluster image of the head."""

from __future__ import annotations

import typing as t

Look = t.Mapping[str, t.Any]


def is_copied(head: Look, node: Look) -> bool:
    """Return whether a Spark has exactly the image that the head has built.

    Compared are layers and settings: an image's ID depends on how Docker stores images. If the head's is not built from
    its present base, no Spark has it.
    """
    here, there = head["images"]["cluster"], node["images"]["cluster"]
    return bool(head["image_made"] and there and here["fingerprint"] == there["fingerprint"])


def copies(looks: t.Mapping[str, Look]) -> dict[str, t.Any]:
    """Return what the head sends, and `to` whom, in the order of the ranks; the looks are by host, the head first."""
    head, *others = looks.values()
    sent = head["images"]["cluster"] or {}
    content = {"reference": head["cluster_image"]}
    content |= {"fingerprint": sent.get("fingerprint", ""), "bytes": sent.get("bytes", 0)}
    names = list(looks)[1:]
    return {"content": content, "to": [name for name, other in zip(names, others) if not is_copied(head, other)]}


def image_mismatch(looks: t.Mapping[str, Look], host: str) -> str:
    """Return why a Spark cannot use the image that it has just loaded: it differs from the one that was sent."""
    names, image = list(looks), looks[host]["cluster_image"]
    return (
        f"{host}: the image {image} that was loaded is not the one of {names[names.index(host) - 1]}: its layers or "
        f"settings differ. Remove it on both with 'docker image rm {image}' and run again."
    )
