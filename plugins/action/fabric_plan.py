# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.card import plan_cards
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.fabric import MODES, RENDERERS, given, plan
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.links import PlanError, Wish


class ActionModule(ActionBase):
    """Work out on the controller what was found out on both Sparks."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "dict", "required": True},
                "host": {"type": "str"},
                "mode": {"type": "str", "default": "auto", "choices": list(MODES)},
                # Read by the plan, whose errors name the inputs that people set.
                "plan": {"type": "raw"},
                "interfaces": {"type": "raw"},
                "mtu": {"type": "int", "default": 9000},
                "renderer": {"type": "str", "default": "auto", "choices": list(RENDERERS)},
                "speed": {"type": "int", "default": 200_000},
                "minimum_speed": {"type": "int", "default": 0},
                "bandwidth_test": {"type": "raw", "default": "auto"},
                "start_with_card": {"type": "raw", "default": "auto"},
                "keep_card": {"type": "raw", "default": "auto"},
            },
        )
        host = arguments["host"] or str((task_vars or {}).get("inventory_hostname", ""))
        wish = Wish(
            mode=arguments["mode"],
            plan=given(arguments["plan"]) or None,
            interfaces=given(arguments["interfaces"]) or None,
            mtu=arguments["mtu"],
            renderer=arguments["renderer"],
            speed_mbps=arguments["speed"],
            minimum_speed_mbps=arguments["minimum_speed"],
            bandwidth_test=arguments["bandwidth_test"],
        )
        try:
            both = plan(arguments["hosts"], wish)
            configure = {name: one["configure"] for name, one in both["hosts"].items()}
            cards = plan_cards(arguments["hosts"], arguments["start_with_card"], arguments["keep_card"], configure)
        except PlanError as error:
            # It is the same for both, and so said once.
            first = next(iter(arguments["hosts"]), host)
            said = (
                str(error) if host == first else f"{host}: the Sparks cannot be joined, as the message of {first} says."
            )
            raise AnsibleActionFail(said) from None
        if host not in both["hosts"]:
            raise AnsibleActionFail(f"{host} is not one of the hosts that are joined ({', '.join(both['hosts'])}).")
        order = ["", *both["hosts"], ""]
        return {
            "changed": False,
            **both["hosts"][host],
            "before": order[order.index(host) - 1],
            "after": order[order.index(host) + 1],
            "any_configure": both["configure"],
            "measure": both["measure"],
            "card": cards["hosts"][host],
            "findings": [*both["findings"], *cards["findings"]],
            "lines": [*both["lines"], *cards["lines"]],
        }
