# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._cluster.queries import FORMS as CLUSTER
from ..plugin_utils._network import links
from ..plugin_utils._network.queries import FORMS as FABRIC
from ..plugin_utils._query import host_vars
from ..plugin_utils._query.query import Forms, Run, ask_form, query_spec, with_facts
from ..plugin_utils._serving import node_plan_query, placement_query, result_query, served_query, sizes

QUERIES: dict[str, Forms] = {
    "served": served_query.FORMS,
    "fabric": FABRIC,
    "cluster": CLUSTER,
    "placement": placement_query.FORMS,
    "node_plan": node_plan_query.FORMS,
    "result": result_query.FORMS,
}


class ActionModule(ActionBase):
    """Decide on the controller what all Sparks of a deployment do."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = host_vars.with_hostvars(task_vars or {}, self._task.args, self._templar.template)
        self._task.args = with_facts(variables, self._task.args)
        _result, given = self.validate_argument_spec(
            argument_spec={name: query_spec(forms) for name, forms in QUERIES.items()},
            mutually_exclusive=[list(QUERIES)],
            required_one_of=[list(QUERIES)],
        )
        ((query, forms),) = ((name, forms) for name, forms in given.items() if name in QUERIES and forms is not None)
        ((name, arguments),) = ((name, arguments) for name, arguments in forms.items() if arguments is not None)
        form = QUERIES[query][name]
        run = Run(self, str(variables.get("inventory_hostname", "")), variables)
        try:
            return {"changed": False, **ask_form(form, run, arguments)}
        except (links.PlanError, sizes.PlanError) as error:
            raise AnsibleActionFail(str(error)) from None
        except KeyError as error:
            raise AnsibleActionFail(host_vars.missing_facts_message(f"{query}.{name}", form.source, error)) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise AnsibleActionFail(f"The plan for the Sparks failed: {error}.") from None
