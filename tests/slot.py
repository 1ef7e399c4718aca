# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is in the serving slot of a Spark, and the container on standby."""

from __future__ import annotations

import json

from tests.deployed import SLOT
from tests.twin.control import Spark


def containers(spark: Spark) -> dict[str, tuple[bool, str]]:
    """Whether each runs, and what Docker does with it after a power cut."""
    # By id, since names change meanwhile; one that is gone is left out.
    said = spark.exec(f"docker inspect $(docker ps --all --quiet --filter name={SLOT})").stdout
    return {
        one["Name"].lstrip("/"): (one["State"]["Running"], one["HostConfig"]["RestartPolicy"]["Name"])
        for one in json.loads(said or "[]")
    }


def has_standby(spark: Spark) -> bool:
    return f"{SLOT}-standby" in containers(spark)


def loads(spark: Spark) -> bool:
    """Whether the new server is starting, with the previous container on standby."""
    # Of one moment: between two looks the previous container gets its other name.
    found = containers(spark)
    return found.get(SLOT, (False, ""))[0] and found.get(f"{SLOT}-standby", (True, ""))[0] is False
