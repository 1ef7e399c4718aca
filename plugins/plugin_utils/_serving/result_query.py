# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `result`: how the server is tested, what a deployment is recorded with, and what follows a failure."""

from __future__ import annotations

import datetime

from .._lease.fence import require_lease
from .._query.query import EMPTY, Form, Forms, Mapping, Result, Run
from . import deployment as plans
from . import lifecycle
from .serving import from_head


def probe(
    _run: Run,
    chat: bool,
    tools: bool,
    from_record: bool,
    verified_before: Mapping,
    changed: Mapping,
    probe: Mapping = EMPTY,
) -> Result:
    """Return what the server is asked, and whether the deployment is new."""
    return lifecycle.probe_request(from_record, verified_before, changed, probe, chat, tools)


def record(
    run: Run,
    deployment: Mapping,
    records: Mapping,
    observation: Mapping,
    container: Mapping,
    answer: Mapping,
    measurement: Mapping,
    option_check: Mapping = EMPTY,
    ranks: Mapping = EMPTY,
    networks: Mapping = EMPTY,
) -> Result:
    """Return the record of a deployment that has answered, and the one that it replaces."""
    # With it what else was looked up may have gone.
    if refused := run.refusal_result(plans.changed_during_run(container, observation["docker"])):
        return refused
    verdict = observation["records"].get("verdict") or {}
    if plans.is_record(deployment):
        made = plans.with_verdict(plans.with_comparison(deployment, records["present"]), verdict)
        return {"record": made, "replaced_record": records["present"] or records["previous"]}
    planned = plans.Deployment(**deployment)
    result = plans.Observation(
        image=observation["docker"]["image"],
        container=container,
        memory_available=observation["machine"]["memory_available"],
        answered=from_head(answer),
        figures=from_head(measurement),
        option_check=option_check or observation["records"]["option_checks"].get(planned.checked, {}),
        ranks=from_head(ranks) or [],
        networks=networks,
    )
    replaced = plans.previous_record(planned, records)
    made = plans.with_comparison(planned.record(result, datetime.datetime.now(datetime.timezone.utc)), replaced)
    return {"record": plans.with_verdict(made, verdict), "replaced_record": replaced}


def review(
    _run: Run, record: Mapping, answer: Mapping, origins: Mapping, networks: Mapping = EMPTY, verdict: Mapping = EMPTY
) -> Result:
    """Return the record of a deployment that has served all along, and has answered again."""
    return {"record": plans.with_verdict(plans.with_liveness(record, from_head(answer), networks, origins), verdict)}


def failure(
    run: Run,
    result: Mapping,
    rollback_text: str,
    fallback: Mapping | None = None,
    slots: Mapping = EMPTY,
    changed: Mapping = EMPTY,
    verified_before: Mapping = EMPTY,
) -> Result:
    """Return why a run failed, and what is restored."""
    # This run does not restore a Spark that another run has taken over.
    require_lease(run.action, run.host)
    return lifecycle.failure_facts(run.host, result, fallback, rollback_text, slots, changed, verified_before)


def message(run: Run, reasons: Mapping, log: str = "", rollback_text: str = "", result: Mapping = EMPTY) -> Result:
    """Fail with what has become of a run that failed."""
    return {"failed": True, "msg": lifecycle.failure_message(run.host, reasons, log, rollback_text, result)}


FORMS: Forms = {
    "probe": Form(probe),
    "record": Form(record, "dgx_spark.speculative.spark_info with gather: [docker, records]"),
    "review": Form(review),
    "failure": Form(failure),
    "message": Form(message),
}
