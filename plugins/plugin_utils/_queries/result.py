# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `result`: how the server is tested, what a deployment is recorded with, and what follows a failure."""

from __future__ import annotations

import datetime

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.fence import require
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import course
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import deployment as plans
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.served import of_head
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    EMPTY,
    Form,
    Forms,
    Mapping,
    Result,
    Run,
)


def probe(
    _run: Run, chat: bool, tools: bool, recorded: bool, known: Mapping, changed: Mapping, probe: Mapping = EMPTY
) -> Result:
    """Return what the server is asked, and whether the deployment is new."""
    return course.question(recorded, known, changed, probe, chat, tools)


def record(
    run: Run,
    deployment: Mapping,
    records: Mapping,
    seen: Mapping,
    container: Mapping,
    answered: Mapping,
    figures: Mapping,
    option_check: Mapping = EMPTY,
    ranks: Mapping = EMPTY,
    networks: Mapping = EMPTY,
) -> Result:
    """Return the record of a deployment that has answered, and the one that it replaces."""
    # With it what else was looked up may have gone.
    if refused := run.refused(plans.replaced_meanwhile(container, seen["docker"])):
        return refused
    if plans.is_record(deployment):
        return {"record": deployment, "replaced": records["present"] or records["previous"]}
    planned = plans.Deployment(**deployment)
    found = plans.Seen(
        image=seen["docker"]["image"],
        container=container,
        memory_available=seen["machine"]["memory_available"],
        answered=of_head(answered),
        figures=of_head(figures),
        option_check=option_check or seen["records"]["option_checks"].get(planned.checked, {}),
        ranks=of_head(ranks) or [],
        networks=networks,
    )
    made = planned.record(found, datetime.datetime.now(datetime.timezone.utc))
    made = plans.with_verdict(made, records.get("verdict") or {})
    return {"record": made, "replaced": plans.replaced(planned, records)}


def review(
    _run: Run, own: Mapping, answered: Mapping, origins: Mapping, networks: Mapping = EMPTY, verdict: Mapping = EMPTY
) -> Result:
    """Return the record of a deployment that has served all along, and has answered again."""
    return {"record": plans.with_verdict(plans.reviewed(own, of_head(answered), networks, origins), verdict)}


def failure(
    run: Run,
    result: Mapping,
    again: str,
    before: Mapping | None = None,
    slots: Mapping = EMPTY,
    changed: Mapping = EMPTY,
    known: Mapping = EMPTY,
) -> Result:
    """Return why a run failed, and what comes back."""
    # What another run has taken over does not come back by this one.
    require(run.action, run.host)
    return course.failure(run.host, result, before, again, slots, changed, known)


def message(run: Run, whys: Mapping, log: str = "", again: str = "", result: Mapping = EMPTY) -> Result:
    """Fail with what has become of a run that failed."""
    return {"failed": True, "msg": course.ended(run.host, whys, log, again, result)}


FORMS: Forms = {
    "probe": Form(probe),
    "record": Form(record, "dgx_spark.speculative.spark_info with gather: [docker, records]"),
    "review": Form(review),
    "failure": Form(failure),
    "message": Form(message),
}
