# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Which steps of a run have nothing to do, so that a run that has nothing to change comes to what serves at once."""

from __future__ import annotations

import typing as t

Mapping = t.Mapping[str, t.Any]


def idle(look: Mapping, models: Mapping, plan: Mapping) -> list[str]:
    """Those of the head of which the look has seen that all they would do is done; what was not seen is to be done.

    `image`: it is here, and a container that runs has the GPU. `options`: the image has served just these. `models`:
    they were checked as they are, and no vocabulary is missing.
    """
    image = bool(look.get("image")) and (look.get("slot") or {}).get("state") == "running"
    done = {
        "image": image,
        # What CUDA calls free, which the step before asks the image, is to be planned with.
        "options": image and plan.get("options_served") is True,
        "models": models.get("verified") is True and models.get("downloads") == [],
    }
    return [step for step, nothing in done.items() if nothing]
