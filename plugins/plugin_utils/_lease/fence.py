# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Nothing is changed by a run that has lost one of its Sparks."""

from __future__ import annotations

import json

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ...module_utils._data.text import duration
from ...module_utils._spark.lease import TTL_OF_TASKS_S
from ...module_utils._spark.lock import TTL_S
from . import renewer, run_state

display = Display()

# How long a run relies on the last answer.
ACTS_S = 15.0


def require_lease(action: ActionBase, host: str, asks: bool = False) -> None:
    """Fail if the run has lost the lease of one of its Sparks. A run without a lease may continue.

    A recent confirmation still holds, unless `asks` requires a question to the Spark.
    """
    for why in run_state.losses():
        raise AnsibleActionFail(why)
    lease = run_state.Lease(host)
    known = lease.read()
    if known is None or (not asks and run_state.now() - known["sent"] <= ACTS_S):
        return
    kept = bool(known.get("kept"))
    # The renewer was killed. One that ends again before its first renewal cannot work here.
    replaced = not renewer.is_at_work(known["renewer"]) and (kept or not known.get("again"))
    # The renewer's turn comes ten seconds after the lease was taken.
    alone = not kept and not replaced and run_state.now() - known["taken"] > ACTS_S
    if alone and not known.get("told"):
        display.warning(
            f"{host}: the lease of this run cannot be renewed beside its tasks. One that takes longer than "
            f"{duration(TTL_OF_TASKS_S)} loses it."
        )
    sent, python = run_state.now(), known["python"]
    answer = run_state.reply(action, python, "renew", ttl=TTL_OF_TASKS_S if alone else TTL_S)
    if answer is None:
        raise AnsibleActionFail(
            f"{host}: cannot check whether this run still holds the lease, so it changes nothing more. Check that the "
            "host is reachable, then run again."
        )
    if answer["state"] in run_state.UNKNOWN:
        raise AnsibleActionFail(
            f"{host}: cannot check whether this run still holds the lease: {answer['words']}. "
            "This run changes nothing more."
        )
    if answer["state"] != "held":
        raise AnsibleActionFail(lease.record_loss(answer))
    lease.record_renewal(sent, told=known.get("told") or alone)
    if replaced:
        lease.record_renewal(sent, again=not kept)
        start_renewing(action, lease, sent, python)


def guard(host: str) -> list[str]:
    """Return the words to put before a command, so that the Spark runs it only if the run still has the lease there.

    The lock on the Spark decides at that moment. Until the command has ended, but for TASK_S at most, it gives the
    lease to no other run. A run without a lease needs no words. Refuse here what is known to be lost.
    """
    for why in run_state.losses():
        raise AnsibleActionFail(why)
    known = run_state.Lease(host).read()
    if known is None:
        return []
    sentences = {
        "lost": run_state.loss_message(host, "<words>"),
        "none": run_state.loss_message(host, ""),
        "silent": f"{host}: it is not known whether this run still has the lease: <words>. Nothing more was changed.",
    }
    question = json.dumps({"do": "change", "run": run_state.run_name()})
    return [known["python"], "-c", run_state.CLIENT, question, json.dumps(sentences)]


def start_renewing(action: ActionBase, lease: run_state.Lease, sent: float, python: str) -> None:
    """Renew from now on what was asked for at that time and is this run's."""
    lease.record_renewal(sent, python=python, taken=run_state.now(), kept=False)
    lease.record_renewal(sent, renewer=renewer.start(lease, lambda do: run_state.ask(action, python, do)))
