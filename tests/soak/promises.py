# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is promised of each fault: in how many seconds it serves again, and who has to do something for that.

tools/recovery.py writes the table of docs/recovery.md from here. Seconds are made of a few figures: what is set by
inputs of the role speculative_serve, what its programs wait for, and what a machine takes to load a model, to start
Docker and to boot, which the soak measures before anything goes wrong.
"""

from __future__ import annotations

import dataclasses
import typing as t

# roles/speculative_serve/files/server/supervisor.py: what it waits before it starts a server again that has ended.
RESTART_DELAY_S = 5
# How long a lease outlives its run, and how long nobody has had it when the container on standby is restored.
LEASE_S = 45 + 15
# How long a lease outlives a run that was killed.
LEASE_ENDS_S = 45
# What a machine takes for its part varies by a quarter; each promise has these seconds beside that.
SLACK_FACTOR, SLACK_S = 1.25, 6.0
# What the machine does itself; all else is a time that is set, and no slow machine makes it longer.
OF_THE_MACHINE = ("load", "boot")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The figures that the seconds are made of."""

    # Of the machine: from the start of a container to an answer, and what a power cut costs beside that.
    load_s: float
    boot_s: float
    # Of the deployment.
    interval_s: float = 60
    stall_timeout_s: float = 300
    worker_timeout_s: float = 60
    # Of the clients: how long the most patient one waits for an answer.
    patience_s: float = 0

    @classmethod
    def of(cls, begin: t.Mapping[str, t.Any], watched: t.Mapping[str, float] | None = None) -> Inputs:
        """Return the figures of a history that begins so, with what was set of its deployment since."""
        return cls(**{**begin, **(watched or {})})

    @property
    def terms(self) -> dict[str, float]:
        return {
            "load": self.load_s,
            "boot": self.boot_s,
            "delay": RESTART_DELAY_S,
            "lease": LEASE_S,
            "watchdog": self.interval_s + self.stall_timeout_s,
            "peer": self.worker_timeout_s,
            "patience": self.patience_s,
        }


# No figure of a soak is above these: one that is stretches the promises.
MOST = Inputs(load_s=60, boot_s=120, patience_s=60)
# A machine that was slower than this while something went wrong shows nothing of the promises.
SLOWEST = 2.0
# Faults that no run may fail by, however many of them are under way.
HARMLESS = ("memory taken", "disk full", "internet fails", "clock stepped", "files edited")

WORDS = {
    "load": "load",
    "boot": "boot",
    "delay": f"{RESTART_DELAY_S} s",
    "lease": f"{LEASE_S} s",
    "watchdog": "6 min",
    "peer": "60 s",
    "patience": "patience",
}

NO_ACTION, START, SAME = "none", "run `start.yml`", "run the deployment's playbook"


@dataclasses.dataclass(frozen=True)
class Promise:
    """What is promised of a fault, from its end on, or from that of what a user has to do.

    With no terms the server keeps running.
    """

    words: str
    terms: tuple[str, ...] = ()
    by: str = NO_ACTION
    # On which twins it can happen, by their number of Sparks.
    sparks: tuple[int, ...] = (1, 2)
    # Whether the server's process ends by it: more than three times an hour it is left down.
    ends_engine: bool = False
    # What a look finds changed though it serves, until the same playbook puts it right.
    leaves: tuple[str, ...] = ()
    # Whether nobody can miss it: who asks meanwhile is refused or cut off, or waits.
    breaks: bool = False

    def seconds(self, inputs: Inputs) -> float:
        return sum(inputs.terms[term] for term in self.terms)

    @property
    def serves_on(self) -> bool:
        return not self.terms and self.by == NO_ACTION

    def told(self) -> str:
        """The seconds in words."""
        return " + ".join(WORDS[term] for term in self.terms) or "keeps serving"


# Which generation is mounted, and what waits on the Spark for the end of the lease.
OF_A_RUN = ("generation", "processes")

PROMISES: t.Final[dict[str, Promise]] = {
    "engine killed": Promise("the server process is killed", ("delay", "load"), ends_engine=True, breaks=True),
    "engine stopped": Promise(
        "the server process freezes, and its port no longer answers",
        ("patience", "watchdog", "delay", "load"),
        ends_engine=True,
        breaks=True,
    ),
    "engine hangs": Promise(
        "the engine hangs, its port still answers, and clients give up and retry",
        ("patience", "watchdog", "delay", "load"),
        ends_engine=True,
        breaks=True,
    ),
    "supervisor killed": Promise("the container's main process is killed", ("load",), breaks=True),
    "container restarted": Promise("a user runs `docker restart` on the container", ("load",), breaks=True),
    "container paused": Promise("the container is paused for a while", ("delay",), sparks=(1,)),
    "container removed": Promise("a user removes the container", ("load",), SAME, breaks=True),
    "docker killed": Promise("`dockerd` is killed", ("load",), START, breaks=True),
    "containerd killed": Promise("`containerd` is killed"),
    "docker restarted": Promise("Docker is restarted", ("delay", "load"), breaks=True),
    "power cut": Promise("the Spark, or the head of two, loses power", ("boot", "load"), breaks=True),
    "stopped and started": Promise("a user runs `stop.yml`", ("load",), START, breaks=True),
    "memory taken": Promise("another container takes 8 GB of GPU memory"),
    "disk full": Promise("the server cannot write to its disk"),
    "internet fails": Promise("Hub and registry return errors while the deployment's playbook runs"),
    "clock stepped": Promise("the clock is three hours ahead during a run", sparks=(1,)),
    "files edited": Promise("a user edits the deployment's files", leaves=("generation",)),
    "files deleted": Promise("a user deletes the record and a file of the deployment", by=SAME),
    "weights deleted": Promise("a user deletes weights of a gated model", by=SAME),
    "two controllers": Promise(
        "two runs with different draft lengths start at the same time", ("load",), leaves=OF_A_RUN
    ),
    "controller killed": Promise(
        "the run is killed during a switchover", ("lease", "delay", "load", "load"), leaves=OF_A_RUN
    ),
    "controller killed early": Promise(
        "the run is killed within ten seconds of acquiring the lease",
        ("lease", "delay", "load", "load"),
        leaves=OF_A_RUN,
    ),
    "lock killed": Promise(
        "the process that holds the lease is killed during a switchover",
        ("lease", "delay", "load", "load"),
        leaves=OF_A_RUN,
    ),
    "renewal killed": Promise(
        "the lease renewer is killed during a switchover",
        ("lease", "delay", "load", "load"),
        leaves=OF_A_RUN,
        breaks=True,
    ),
    "work killed": Promise(
        "a process that the run left on the Spark is killed during a switchover",
        ("lease", "delay", "load", "load"),
        leaves=OF_A_RUN,
    ),
    "launcher killed": Promise("`mpirun` is killed", ("delay", "load"), sparks=(2,), ends_engine=True, breaks=True),
    "worker's rank killed": Promise(
        "the server process on the worker is killed", ("delay", "load"), sparks=(2,), ends_engine=True, breaks=True
    ),
    "worker's supervisor killed": Promise(
        "the main process of the worker's container is killed", ("peer", "delay", "load"), sparks=(2,), breaks=True
    ),
    "worker's container restarted": Promise(
        "a user runs `docker restart` on the worker's container", ("peer", "delay", "load"), sparks=(2,), breaks=True
    ),
    "worker's sshd killed": Promise(
        "the SSH server of the worker's container is killed", ("peer", "delay", "load"), sparks=(2,)
    ),
    "worker's container paused": Promise(
        "the worker's container is paused for a while", ("peer", "delay", "load"), sparks=(2,)
    ),
    "worker's power cut": Promise(
        "the worker loses power", ("boot", "peer", "delay", "load"), sparks=(2,), breaks=True
    ),
    "both powers cut": Promise("both Sparks lose power", ("boot", "peer", "delay", "load"), sparks=(2,), breaks=True),
    "cable out": Promise("the cable is unplugged for a while", ("peer", "delay", "load"), sparks=(2,)),
    "one rail out": Promise("one of the two rails is down for a while", ("peer", "delay", "load"), sparks=(2,)),
    "cable loses packets": Promise("one packet in ten is lost on the cable", ("delay",), sparks=(2,)),
    "cable slow": Promise("the cable carries 50 Mbit/s", ("delay",), sparks=(2,)),
}


def bound(names: t.Iterable[str], inputs: Inputs, pace: float = 1.0) -> float:
    """Return within how many seconds after the last of these it serves again: combined ones add up.

    The pace is by how much the machine was slower meanwhile than when it was measured.
    """
    return with_slack([term for name in names for term in PROMISES[name].terms], inputs, pace)


def with_slack(terms: t.Iterable[str], inputs: Inputs, pace: float = 1.0) -> float:
    seconds = SLACK_S * pace
    for term in terms:
        seconds += inputs.terms[term] * (SLACK_FACTOR * pace if term in OF_THE_MACHINE else 1.0)
    return seconds


def truth_within(inputs: Inputs, pace: float = 1.0) -> float:
    """Return for how long status may say that it serves though no client is served: the watchdog's promise."""
    return with_slack(("patience", "watchdog"), inputs, pace)


def on_its_way_within(inputs: Inputs, pace: float = 1.0) -> float:
    """Return for how long status may say that it is on its way: no way back is longer than this."""
    return with_slack(("boot", "lease", "peer", "delay", "load", "load"), inputs, pace)
