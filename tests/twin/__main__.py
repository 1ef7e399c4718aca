# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control the twin from the command line: `python -m tests.twin`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from tests.twin import cables, lifecycle, question
from tests.twin.control import Internet, Spark
from tests.twin.names import MAX_SPARKS, STORES, SYSTEMS, TwinError, spark_name


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands and their options."""
    result = argparse.ArgumentParser(prog="python -m tests.twin", description="A simulated DGX Spark and its internet.")
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="build what is missing and start the twin")
    up.add_argument("--sparks", type=int, default=1, choices=range(1, MAX_SPARKS + 1), help="how many (default: 1)")
    up.add_argument("--fresh", action="store_true", help="replace the Sparks by new ones, and clear all faults")
    for option, kinds, what in (
        ("--network", lifecycle.NETWORKS, "how it is managed"),
        ("--system", SYSTEMS, "what the Sparks are made of"),
    ):
        up.add_argument(option, default=kinds[0], choices=kinds, help=f"{what} (default: {kinds[0]})")
    up.add_argument(
        "--store", nargs="+", default=(), choices=STORES, help="their Docker's store of images, one for all or each"
    )
    up.add_argument("--wiring", default="", choices=cables.WIRINGS, help="default: a cable for two, a switch for more")
    up.add_argument("--hotplug", action="store_true", help="a card without a cable leaves the bus, as with one Spark")
    up.add_argument("--vllm", action="store_true", help="offer the image of the real vLLM, CPU build, and its model")
    down = commands.add_parser("down", help="remove the twin's containers, network and volumes")
    down.add_argument("--images", action="store_true", help="remove its images, too")
    commands.add_parser("status", help="say what runs")
    faults = commands.add_parser("faults", help="show the faults of the internet, or replace them")
    faults.add_argument("faults", nargs="?", type=json.loads, help="a JSON list; [] clears them")
    counters = commands.add_parser("counters", help="show requests and bytes")
    counters.add_argument("--reset", action="store_true", help="forget them instead")
    commands.add_parser("unplug", help="pull the cable between the Sparks")
    commands.add_parser("plug", help="put it in again")
    reboot = commands.add_parser("reboot", help="turn a Spark off and on again, and wait for it")
    reboot.add_argument("number", type=int, choices=range(1, MAX_SPARKS + 1), help="which one")
    ask = commands.add_parser("ask", help="ask the server on the Spark a question")
    ask.add_argument("question", nargs="?", help="default: one for which drafts pay, and one for which they do not")
    shell = commands.add_parser("shell", help="open a shell on a Spark")
    shell.add_argument("number", nargs="?", type=int, default=1, choices=range(1, MAX_SPARKS + 1), help="which one")
    shell.add_argument("--user", default="spark", choices=("spark", "member", "root"), help="as whom (default: spark)")
    return result


def run(options: argparse.Namespace) -> None:
    """Run a command."""
    if options.command == "up":
        started = time.monotonic()
        how = (options.network, options.system, options.store, options.hotplug, options.wiring)
        lifecycle.up(options.sparks, options.fresh, *how, vllm=options.vllm)
        print(f"The twin is up after {time.monotonic() - started:.1f} s; its inventory is {lifecycle.INVENTORY}.")
    elif options.command == "down":
        lifecycle.down(options.images)
    elif options.command == "status":
        print("\n".join(lifecycle.status()) or "The twin is down.")
    elif options.command == "faults":
        if options.faults is not None:
            Internet().set_faults(options.faults)
        print(json.dumps(Internet().faults(), indent=2))
    elif options.command == "counters":
        if options.reset:
            Internet().reset_counters()
        else:
            print(json.dumps(Internet().counters(), indent=2))
    elif options.command == "unplug":
        cables.unplug()
    elif options.command == "plug":
        cables.plug()
    elif options.command == "reboot":
        Spark(options.number).restart()
    elif options.command == "ask":
        question.show((options.question,) if options.question else question.QUESTIONS)
    else:
        name = spark_name(options.number)
        os.execvp("docker", ["docker", "exec", "-it", name, "su", "-", options.user])


def main() -> int:
    try:
        run(parser().parse_args())
    except TwinError as error:
        print(f"twin: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
