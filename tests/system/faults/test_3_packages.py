# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Updates that hold the lock of the packages while something has to be installed."""

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

INSTALL = "Install the Python library requests"
HOLDER = "/srv/unattended-upgr"
# The one package, as it is installed, in an archive on the Spark's own disk.
ARCHIVE = """set -e
mkdir -p /srv/archive/package/DEBIAN && cd /srv/archive
dpkg -s python3-requests | sed '/^Status:/d' > package/DEBIAN/control
for file in $(dpkg -L python3-requests); do test -d "$file" || test ! -e "$file" || cp --parents "$file" package; done
dpkg-deb --build package requests.deb
dpkg-deb --field requests.deb > Packages
printf 'Filename: ./requests.deb\\nSize: %s\\nSHA256: %s\\n' \\
    "$(stat -c %s requests.deb)" "$(sha256sum requests.deb | cut -d ' ' -f 1)" >> Packages
mv /etc/apt/sources.list.d /srv/sources.list.d && mkdir /etc/apt/sources.list.d
echo 'deb [trusted=yes] file:/srv/archive ./' > /etc/apt/sources.list.d/archive.list
apt-get update
"""
HOLD = """#!/usr/bin/python3
import fcntl, sys, time
with open("/var/lib/dpkg/lock-frontend", "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    open("/srv/held", "w").close()
    time.sleep(float(sys.argv[1]))
open("/srv/released", "w").close()
"""


def done(spark: Spark, command: str) -> str:
    result = spark.exec(command)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module", autouse=True)
def archive(spark: Spark) -> t.Iterator[None]:
    playbook.succeed("single_eagle3")
    done(spark, ARCHIVE)
    spark.write_file(HOLDER, HOLD)
    done(spark, f"chmod 0755 {HOLDER}")
    yield
    done(spark, "rm -r /etc/apt/sources.list.d && mv /srv/sources.list.d /etc/apt/ && rm -r /srv/archive")


@pytest.fixture
def missing(spark: Spark) -> None:
    done(spark, "dpkg --remove --force-depends python3-requests")


def hold(spark: Spark, seconds: int) -> None:
    done(
        spark,
        f"rm -f /srv/held; setsid {HOLDER} {seconds} >/dev/null 2>&1 & until test -e /srv/held; do sleep 0.1; done",
    )


@pytest.mark.usefixtures("missing")
def test_a_lock_that_is_kept_is_told_with_who_has_it(spark: Spark) -> None:
    hold(spark, 600)
    try:
        outcome = playbook.fail("single_eagle3", variables={"docker_permissions_lock_timeout": 3})
    finally:
        done(spark, "pkill -x unattended-upgr; while pgrep -x unattended-upgr; do sleep 0.1; done")
    assert "waited 3 s for the lock of the packages" in outcome.message
    assert "(unattended-upgr)" in outcome.message
    assert outcome.changed == []


@pytest.mark.usefixtures("missing")
def test_a_lock_is_waited_for(spark: Spark) -> None:
    hold(spark, 20)
    assert playbook.succeed("single_eagle3").changed == [INSTALL]
    done(spark, "test /var/lib/dpkg/info/python3-requests.list -nt /srv/released")
