# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two Sparks on the way to being joined, for the tests of their network."""

from __future__ import annotations

import concurrent.futures
import difflib
import json
import shlex
import subprocess
import typing as t

import pytest
import yaml

from tests import playbook
from tests.twin.control import Spark

ROLES = "../tests/system/two_sparks_faults/roles"
# Still long enough for what is tried more than once.
IMPATIENT = {"spark_network_check_timeout": 3}
STATUS = "/run/dgx-spark-speculative/network.json"
# Addresses of IPv6 come and go by themselves; that NetworkManager tries DHCP on a port is as DGX OS has it, and so is
# that it numbers its routes' metrics in the order in which it meets the interfaces.
LOOK = r"""
ip -4 -oneline address | sed -E 's/^[0-9]+: //; s/ +valid_lft.*//' | sort
ip -4 route | sed -E 's/ metric [0-9]+//'
ip -oneline link show | sed -nE 's/^[0-9]+: (en[^:@]+).* mtu ([0-9]+) .*/\1 mtu \2/p'
find /etc/netplan /run/netplan /run/systemd/network -type f -exec stat -c '%n %a' {} + -exec sha256sum {} + | sort
find /etc/NetworkManager /run/NetworkManager/system-connections -type f -name '*netplan*' | sort
"""


class Pair:
    """Both Sparks, seen past Ansible: the head first."""

    def __init__(self) -> None:
        self.head, self.worker = self.sparks = (Spark(1), Spark(2))

    def look(self) -> dict[str, str]:
        """The network of both."""
        found = {}
        for spark in self.sparks:
            result = spark.exec(LOOK)
            assert "eth0" in result.stdout, result.stderr
            found[spark.container] = result.stdout
        return found

    def stage(self, spark: Spark) -> str:
        """How the last change of the network stands; empty where there was none."""
        return str(json.loads(spark.exec(["cat", STATUS]).stdout or "{}").get("state", ""))

    def stages(self) -> list[str]:
        return [self.stage(spark) for spark in self.sparks]


def differences(before: t.Mapping[str, str], after: t.Mapping[str, str]) -> list[str]:
    """The lines that only one of two looks has, as a diff shows them."""
    return [
        line
        for name in before
        for line in difflib.ndiff(before[name].splitlines(), after[name].splitlines())
        if line[0] in "+-"
    ]


def reach() -> None:
    """Log in to each Spark as Ansible does, over a new connection."""
    group = yaml.safe_load(playbook.INVENTORY.read_text(encoding="utf-8"))["sparks"]

    def login(host: dict[str, str]) -> str:
        values = {**group["vars"], **host}
        command = ["ssh", *shlex.split(values["ansible_ssh_common_args"]), "-i", values["ansible_ssh_private_key_file"]]
        command += ["-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ControlPath=none"]
        command += [f"{values['ansible_user']}@{values['ansible_host']}", "hostname"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(login, group["hosts"].values())) == list(group["hosts"])


@pytest.fixture(scope="session")
def pair() -> Pair:
    return Pair()


@pytest.fixture
def unchanged(pair: Pair) -> t.Iterator[None]:
    """The network of both is as it was, and they can be reached."""
    before = pair.look()
    yield
    assert differences(before, pair.look()) == []
    reach()


def words(outcome: playbook.Outcome) -> str:
    """All that a run said, with white space folded."""
    return " ".join(outcome.output.split()).replace("''", "'")


def run(*steps: str, **variables: t.Any) -> str:
    return words(playbook.succeed(ROLES, variables={**IMPATIENT, "steps": steps, **variables}))


def refused(*steps: str, **variables: t.Any) -> str:
    return words(playbook.fail(ROLES, variables={**IMPATIENT, "steps": steps, **variables}))
