#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_network
short_description: Configure the addresses of the fabric, with automatic rollback (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Writes its own netplan file and no other. A change is undone unless O(state=confirmed) follows in time.
  - Needs root, netplan and systemd. An action plugin reconnects to the host after the change.
options:
  state:
    type: str
    choices: [present, absent, confirmed, reverted, tried, discovered]
    default: present
    description: "Whether to try, confirm, revert or report a change, or to ask for neighbours."
  document: {type: dict, description: "The content of the netplan file. Required with O(state=present)."}
  change: {type: str, description: "The ID of the change to confirm or revert."}
  failure_reason: {type: str, description: "With O(state=reverted), the reason for the message. The task fails with
    it."}
  others: {type: str, description: "The names of the other hosts, for that message."}
  discover: {type: dict, description: "The C(addresses) to look for on each interface, and whether to C(greet) the
    peer."}
  timeout: {type: int, default: 120, description: "Seconds without a confirmation after which a change is undone."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import contextlib
import os
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._fabric.change import EMPTY, END_DEADLINE_S, Network
from ..module_utils._fabric.neighbours import neighbours
from ..module_utils._fabric.netplan import FILE, Document
from ..module_utils._fabric.ports import FabricError

ROOT = Path("/")
STATES = ("present", "absent", "confirmed", "reverted", "tried", "discovered")
# One of two Sparks may come to it some seconds after the other.
GREET_S = 8.0
ENDED = ("confirmed", "undone", "failed")
Result = dict[str, t.Any]


def require_entries(document: Document) -> None:
    """Raise FabricError for entries that M(deployment_plan) would not have written."""
    entries = (document.get("network") or {}).get("ethernets") if isinstance(document.get("network"), dict) else None
    whole = isinstance(entries, dict) and all(
        isinstance(entry, dict) and isinstance(entry.get("addresses"), list) and isinstance(entry.get("mtu"), int)
        for entry in entries.values()
    )
    if not entries or not whole:
        raise FabricError(
            "the document does not name network.ethernets with 'addresses' and 'mtu' each. Use the one that "
            "deployment_plan returns."
        )


class Change:
    """One call of the module.

    A result has `trial` (whether a change is tried that must be confirmed), `change` (its ID) and `stage`: starting,
    applying, waiting, undoing, confirmed, undone or failed, or empty if there was none since the host started.
    """

    def __init__(self, network: Network, params: t.Mapping[str, t.Any], check_mode: bool) -> None:
        self.network = network
        self.document: Document = params["document"] or {}
        self.change: str = params["change"] or ""
        self.ask: dict[str, t.Any] = params["discover"] or {}
        self.timeout = params["timeout"]
        self.check_mode = check_mode

    def alone(self) -> t.ContextManager[None]:
        return contextlib.nullcontext() if self.check_mode else self.network.locked()

    def present(self) -> Result:
        require_entries(self.document)
        self.network.requirements()
        self.network.check(self.document)
        with self.alone():
            wanted = self.network.wanted_text(self.document)
            diff = {
                "before": self.network.text() or "",
                "after": wanted,
                "before_header": str(FILE),
                "after_header": str(FILE),
            }
            pending = self.network.pending()
            if pending is not None:
                if self.network.requested().get("content") == wanted and pending["state"] != "undoing":
                    return {"changed": True, "trial": True, "change": pending["id"], "diff": diff}
                if not self.check_mode:
                    self._let_end()
            elif self.network.text() == wanted and self.network.in_force(self.document):
                return {"changed": False}
            self.network.validate(wanted)
            return self._start(self.document, diff)

    def absent(self) -> Result:
        with self.alone():
            if self.network.pending() is not None and not self.check_mode:
                self._let_end()
            present = self.network.effective_text()
            if present is None:
                return {"changed": False}
            self.network.requirements()
            self.network.validate(EMPTY)
            diff = {"before": present, "after": "", "before_header": str(FILE), "after_header": str(FILE)}
            return self._start(None, diff)

    def _start(self, document: Document | None, diff: dict[str, str]) -> Result:
        if self.check_mode:
            return {"changed": True, "diff": diff}
        request = self.network.request(document, self.timeout)
        self.network.start(request)
        return {"changed": True, "trial": True, "change": request["id"], "diff": diff}

    def _let_end(self) -> None:
        """Another run's change: confirmed by it, or undone because it was abandoned."""
        allowed = float(self.network.requested().get("timeout") or 0) + END_DEADLINE_S
        state = self.network.wait(ENDED, allowed)
        if state.get("state") not in ENDED:
            raise FabricError(
                "another change of the network has been going on for too long. Look at 'systemctl status "
                "dgx-spark-speculative-network', or reboot, which undoes it; then run again."
            )

    def _same(self) -> Result | None:
        state = self.network.state()
        if state is not None and self.change and state.get("id") != self.change:
            raise FabricError(
                "another run has begun another change of the network meanwhile. Run again once it has ended."
            )
        return state

    def tried(self) -> Result:
        state = self._same() or {}
        if state.get("state") not in ENDED and self.network.pending() is None:
            # It may just have ended.
            state = self.network.state() or {}
        result: Result = {"changed": False, "stage": state.get("state") or "", "change": state.get("id") or ""}
        if result["stage"] in ("undone", "failed"):
            result["reason"] = why_not_kept(state)
        return result

    def discovered(self) -> Result:
        try:
            result = neighbours(self.ask.get("addresses") or {}, bool(self.ask.get("greet")), GREET_S)
        except OSError as error:
            raise FabricError(
                f"{error.filename} cannot be used to ask who is on the wire: {error.strerror}. If it has gone, plug "
                "the cable into both Sparks until it clicks and wait 30 s; then run again."
            ) from None
        return {"changed": False, "neighbours": result}

    def confirmed(self) -> Result:
        state = self._same()
        if state is None:
            raise FabricError(
                "there is no change of the network to confirm: the host was restarted, which undoes it. Run again."
            )
        if state.get("state") == "confirmed" or self.check_mode:
            return {"changed": state.get("state") != "confirmed", "stage": "confirmed"}
        state = self.network.wait(("waiting", *ENDED), END_DEADLINE_S)
        if state.get("state") == "waiting":
            self.network.answer(state["id"], "keep")
            state = self.network.wait(ENDED, END_DEADLINE_S)
        if state.get("state") != "confirmed":
            raise FabricError(why_not_kept(state))
        return {"changed": True, "stage": "confirmed"}

    def reverted(self) -> Result:
        state = self._same()
        if state is None or state.get("state") in ENDED:
            return {"changed": False, "stage": (state or {}).get("state") or ""}
        if self.check_mode:
            return {"changed": True}
        self.network.answer(state["id"], "undo")
        state = self.network.wait(ENDED, END_DEADLINE_S)
        if state.get("state") == "failed":
            raise FabricError(why_not_kept(state))
        return {"changed": True, "stage": state.get("state") or ""}


def why_not_kept(state: t.Mapping[str, t.Any]) -> str:
    """Return the reason that the program on the host noted for a change that was undone."""
    reason = str(state.get("error") or "it gave no reason").rstrip(".")
    if state.get("state") == "undone":
        return f"the change of the network was undone, because {reason}. The host is as it was before."
    if state.get("state") == "failed":
        return (
            f"the change of the network was to be undone, because {reason}. Run 'sudo netplan apply' on the host, or "
            "restart it; the configuration on its disk is as it was before."
        )
    return (
        "the change of the network did not come to an end. Look at 'systemctl status dgx-spark-speculative-network', "
        "or restart the host, which undoes it."
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "default": "present"},
            "document": {"type": "dict"},
            "change": {"type": "str"},
            "discover": {"type": "dict"},
            # These are the action's.
            "failure_reason": {"type": "str"},
            "others": {"type": "str"},
            "timeout": {"type": "int", "default": 120},
        },
        required_if=[("state", "present", ["document"]), ("state", "discovered", ["discover"])],
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="Changing the network needs root: use this module with become.", refused=True)
    change = Change(Network(root=ROOT), module.params, module.check_mode)
    try:
        result = getattr(change, module.params["state"])()
    except FabricError as error:
        module.fail_json(msg=str(error), refused=True)
    except OSError as error:
        module.fail_json(msg=f"{error.filename} cannot be used: {error.strerror}.", refused=True)
    module.exit_json(**{"trial": False, "change": "", "stage": "", "path": str(FILE), **result})


if __name__ == "__main__":
    main()
