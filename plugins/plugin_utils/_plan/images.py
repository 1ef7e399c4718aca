# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find the Sparks that lack the cluster image of the head."""

from __future__ import annotations

import typing as t

Look = t.Mapping[str, t.Any]


def copies(looks: t.Mapping[str, Look]) -> dict[str, t.Any]:
    """Name what the head sends, and `to` whom it does, in the order of the ranks.

    The looks are spark_info's pair by host, the head first. Compared are layers and settings: an image's ID depends
    on how Docker stores images. If the head's is not built from its present base, no Spark has it.
    """
    head, *others = looks
    sent, whole = _image(looks[head], "cluster"), looks[head].get("image_made")
    lacking = [host for host in others if not (whole and sent["fingerprint"] == _fingerprint(looks[host]))]
    content = {"reference": looks[head].get("cluster_image", "")}
    content |= {"fingerprint": sent.get("fingerprint", ""), "bytes": sent.get("bytes", 0)}
    return {"content": content, "to": lacking}


def image_mismatch(looks: t.Mapping[str, Look], host: str) -> str:
    """Return why a Spark cannot use the image that it has just loaded: it differs from the one that was sent."""
    names, image = list(looks), looks[host]["cluster_image"]
    return (
        f"{host}: the image {image} that was loaded is not the one of {names[names.index(host) - 1]}: its layers or "
        f"settings differ. Remove it on both with 'docker image rm {image}' and run again."
    )


def _fingerprint(look: Look) -> str:
    return str(_image(look, "cluster").get("fingerprint", ""))


def _image(look: Look, name: str) -> Look:
    image: Look = (look.get("images") or {}).get(name) or {}
    return image
