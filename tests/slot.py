# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is in the serving slot of a Spark, and the container on standby."""

from __future__ import annotations

import json

from tests.deployed import SLOT
from tests.twin.control import Spark

# Numbers of the capabilities of each server: CAP_CHOWN and CAP_DAC_OVERRIDE.
FILES = 1 << 0 | 1 << 1
# On several Sparks: CAP_NET_RAW.
FABRIC = 1 << 13
# Where an sshd takes the head's logins: CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_CHROOT and CAP_AUDIT_WRITE.
LOGIN = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 18 | 1 << 29


def containers(spark: Spark) -> dict[str, tuple[bool, str]]:
    """Whether each runs, and what Docker does with it after a power cut."""
    # By id, since names change meanwhile; one that is gone is left out.
    said = spark.exec(f"docker inspect $(docker ps --all --quiet --filter name={SLOT})").stdout
    return {
        one["Name"].lstrip("/"): (one["State"]["Running"], one["HostConfig"]["RestartPolicy"]["Name"])
        for one in json.loads(said or "[]")
    }


def capabilities(spark: Spark) -> int:
    """Return what root in the serving container may do, by the kernel's numbers, and cannot extend."""
    look = ["grep", "-E", "^(Cap(Eff|Prm|Bnd)|NoNewPrivs):", "/proc/1/status"]
    said = spark.exec(["docker", "exec", SLOT, *look]).stdout
    told = dict(line.split(":\t") for line in said.splitlines())
    assert told.pop("NoNewPrivs") == "1", said
    assert len(set(told.values())) == 1, said
    return int(told["CapEff"], 16)


def has_standby(spark: Spark) -> bool:
    return f"{SLOT}-standby" in containers(spark)


def loads(spark: Spark) -> bool:
    """Whether the new server is starting, with the previous container on standby."""
    # Of one moment: between two looks the previous container gets its other name.
    found = containers(spark)
    return found.get(SLOT, (False, ""))[0] and found.get(f"{SLOT}-standby", (True, ""))[0] is False
