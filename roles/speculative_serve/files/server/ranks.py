# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the Sparks of a cluster, and start a rank of the server on each of them.

NCCL stops without a reason when it cannot talk, or waits for ever when one rank has another peer. So each rank reports
its facts first, in its own environment: environment, cores, libraries and files. They are compared, and a difference
that matters is an error that names it.

Run as: entrypoint.py ranks serve OPTIONS -- COMMAND   check, then start COMMAND on all ranks
                            check OPTIONS              only check; writes ranks.json; exit 0, 3 for a difference, 4 if
                                                       the ranks cannot be asked
                            show --path ...            print the facts of a rank, as a line for check
                            rank --link ... -- COMMAND become COMMAND as a rank, with a link to the model
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import typing as t
from pathlib import Path

from server.comparison import Difference, compare, table
from server.engines.registry import engine_of
from server.launchers.launcher import Plan, Problem, Start
from server.launchers.registry import launcher_of
from server.rank import TIKTOKEN_ENCODINGS, as_line, show
from server.state import give_to_owner

STATE = Path("/deployment/state")
DIFFERENT = 3
NOT_STARTED = 4


def check(start: Start, plan: Plan, state: Path, per_spark: t.Collection[str]) -> None:
    """Compare the ranks. Raises Problem, exits for a difference."""
    result = start.ask()
    differences = compare(result, plan.workers, plan.paths, per_spark)
    write_report(state, result, differences)
    if len(result) > 1:
        print(f"[ranks] comparison of the ranks:\n{table(result)}", flush=True)
    errors = [difference for difference in differences if difference.severity == "error"]
    for difference in differences:
        if difference.severity == "warning":
            print(f"[ranks] warning: {difference.message}", flush=True)
    # The last line is what state.json gives as the reason.
    for difference in reversed(errors):
        print(f"[ranks] {difference.message}", flush=True)
    if errors:
        sys.exit(DIFFERENT)


def write_report(
    state: Path, ranks: t.Sequence[dict[str, t.Any]], differences: t.Sequence[Difference], problem: str | None = None
) -> None:
    """ranks.json, for status and diagnosis."""
    path = state / "ranks.json"
    report = {
        "at": round(time.time(), 3),
        "ranks": list(ranks),
        "differences": [difference._asdict() for difference in differences],
        "problem": problem,
    }
    # A full disk is no reason not to serve.
    with contextlib.suppress(OSError):
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        give_to_owner(draft)
        draft.replace(path)


def link_model(target: str, name: str) -> None:
    """Link the model under its API name, at the same path on all ranks."""
    place = Path(name)
    if place.is_symlink() and str(place.readlink()) == target:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        place.unlink()
    place.symlink_to(target)


def parse(arguments: t.Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the command after '--'."""
    own = list(arguments)
    command: list[str] = []
    if "--" in own:
        command = own[own.index("--") + 1 :]
        own = own[: own.index("--")]
    parser = argparse.ArgumentParser(prog="entrypoint.py ranks")
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("serve", "check"):
        sub = actions.add_parser(name)
        sub.add_argument("--head", required=True)
        sub.add_argument("--worker", action="append", required=True)
        sub.add_argument("--port", type=int, default=2233)
        sub.add_argument("--subnet", action="append", default=[])
        sub.add_argument("--path", action="append", default=[])
        sub.add_argument("--pass", action="append", default=[], dest="passed")
        sub.add_argument("--link", nargs=2, default=[])
    sub = actions.add_parser("show")
    sub.add_argument("--path", action="append", default=[])
    sub.add_argument("--variable", action="append", default=[])
    sub = actions.add_parser("rank")
    sub.add_argument("--link", nargs=2, default=[])
    return parser.parse_args(own), command


def plan_of(options: argparse.Namespace) -> Plan:
    tiktoken_encodings = [str(TIKTOKEN_ENCODINGS)] if TIKTOKEN_ENCODINGS.is_dir() else []
    return Plan(
        options.head,
        tuple(options.worker),
        options.port,
        tuple(options.subnet),
        (*options.path, *tiktoken_encodings),
        tuple(options.passed),
        tuple(options.link),
    )


def main(arguments: t.Sequence[str]) -> int:
    options, command = parse(arguments)
    engine = engine_of(os.environ)
    if options.action == "show":
        launcher = launcher_of(engine)
        number = int(os.environ.get(launcher.rank, "0"))
        versions = {**engine.versions(), **launcher.versions()}
        facts = show(number, options.path, (*engine.variables, *options.variable), versions)
        # In one write, so that lines of two ranks are not mixed.
        os.write(1, (as_line(facts) + "\n").encode())
        return 0
    if options.action == "rank":
        if options.link:
            link_model(*options.link)
        os.execvp(command[0], command)
    plan = plan_of(options)
    try:
        start = launcher_of(engine).prepare(plan)
        check(start, plan, STATE, engine.per_spark)
        return start.run(command) if options.action == "serve" else 0
    except Problem as problem:
        write_report(STATE, [], [], str(problem))
        print(f"[ranks] the ranks cannot be started: {problem}", flush=True)
        return NOT_STARTED
