# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `result`: how the server is tested, what a deployment is recorded with, and what follows a failure."""

from __future__ import annotations

import datetime

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.fence import require
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import course, deployment, served
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    DICT,
    EMPTY_DICT,
    REQUIRED_DICT,
    REQUIRED_STR,
    Form,
    Forms,
    Mapping,
    Result,
    Run,
    Spec,
)

PROBE: Spec = {
    "probe": EMPTY_DICT,
    "chat": {"type": "bool", "required": True},
    "tools": {"type": "bool", "required": True},
    "recorded": {"type": "bool", "required": True},
    **dict.fromkeys(("known", "changed"), REQUIRED_DICT),
}
RECORD: Spec = {
    **dict.fromkeys(("deployment", "records", "seen", "container", "answered", "figures"), REQUIRED_DICT),
    "option_check": EMPTY_DICT,
    "ranks": EMPTY_DICT,
    "networks": EMPTY_DICT,
}
REVIEW: Spec = {
    **dict.fromkeys(("own", "answered", "origins"), REQUIRED_DICT),
    "networks": EMPTY_DICT,
    "verdict": EMPTY_DICT,
}
FAILURE: Spec = {
    "result": REQUIRED_DICT,
    "before": DICT,
    "again": REQUIRED_STR,
    **dict.fromkeys(("slots", "changed", "known"), EMPTY_DICT),
}
MESSAGE: Spec = {
    "whys": REQUIRED_DICT,
    "log": {"type": "str", "default": ""},
    "again": {"type": "str", "default": ""},
    "result": EMPTY_DICT,
}


def probe(_run: Run, arguments: Mapping) -> Result:
    return course.question(**arguments)


def record(run: Run, arguments: Mapping) -> Result:
    found, records, docker = arguments["deployment"], arguments["records"], arguments["seen"]["docker"]
    # With it what else was looked up may have gone.
    if refused := run.refused(deployment.replaced_meanwhile(arguments["container"], docker)):
        return refused
    if deployment.is_record(found):
        return {"record": found, "replaced": records["present"] or records["previous"]}
    planned = deployment.Deployment(**found)
    answered, figures = (served.of_head(arguments[name]) for name in ("answered", "figures"))
    checked = arguments["seen"]["records"]["said"].get(planned.checked, {})
    seen = deployment.Seen(
        image=docker["image"],
        container=arguments["container"],
        memory_available=arguments["seen"]["machine"]["memory_available"],
        answered=answered,
        figures=figures,
        option_check=arguments["option_check"] or checked,
        ranks=served.of_head(arguments["ranks"]) or [],
        networks=arguments["networks"],
    )
    made = planned.record(seen, datetime.datetime.now(datetime.timezone.utc))
    made = deployment.with_verdict(made, records.get("verdict") or {})
    return {"record": made, "replaced": deployment.replaced(planned, records)}


def review(_run: Run, arguments: Mapping) -> Result:
    answered = served.of_head(arguments["answered"])
    found = deployment.reviewed(arguments["own"], answered, arguments["networks"], arguments["origins"])
    return {"record": deployment.with_verdict(found, arguments["verdict"])}


def failure(run: Run, arguments: Mapping) -> Result:
    # What another run has taken over does not come back by this one.
    require(run.action, run.host)
    return course.failure(run.host, **arguments)


def message(run: Run, arguments: Mapping) -> Result:
    return {"failed": True, "msg": course.ended(run.host, **arguments)}


FORMS: Forms = {
    # What the server is asked, and whether the deployment is new.
    "probe": Form(PROBE, probe),
    # The record of a deployment that has answered: of a new one, and of one that has served all along.
    "record": Form(RECORD, record, "dgx_spark.speculative.spark_info with gather: [docker, records]"),
    "review": Form(REVIEW, review),
    # Why a run failed and what comes back, and the message with which the run fails after that.
    "failure": Form(FAILURE, failure),
    "message": Form(MESSAGE, message),
}
