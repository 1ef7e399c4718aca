# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases, in stories: what a Spark has lived through decides what a playbook makes of it."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import subprocess
import typing as t
from pathlib import Path

from tests import playbook
from tests.golden import normal, once
from tests.twin.control import Spark
from tests.twin.names import USER, TwinError

HERE = Path(__file__).parent
EXPECTED, CHOICES = HERE / "expected", HERE / "choices"
PLACE = "/run/golden"
RECORDER = f"{PLACE}/on_spark.py"
# Where a benchmark left its choice when these were taken; what is kept has to be found by every later version.
CHOICE = f"/home/{USER}/.local/share/dgx-spark-speculative/{{recipe}}/benchmark.json"
HEADER = """\
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Written by: python -m tests.golden --record
"""
# As a Spark is where nothing was ever served: no container, no image, no model.
EMPTY = f"""
docker ps --all --quiet | xargs --no-run-if-empty docker rm --force
docker images --quiet | sort --unique | xargs --no-run-if-empty docker rmi --force
rm -rf /home/{USER}/.local /home/{USER}/.cache
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A run of the shipped playbook, and where it finds the Sparks."""

    recipe: str
    # `bare`, `serving` (another one is replaced), `previous` or `benchmark` (one has chosen a draft length).
    way: str

    @property
    def name(self) -> str:
        return f"{self.recipe}-{self.way}"

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("-e", "previous=true" if self.way == "previous" else f"recipe={self.recipe}")

    @property
    def expected(self) -> Path:
        return EXPECTED / f"{self.name}.yml"

    @property
    def choice(self) -> Path:
        return CHOICES / f"{self.recipe}.json"


Seen = t.Callable[[Case, str], None]


# By what a story needs: chains of cases that may run at once, each on its Sparks.
STORIES: dict[str, dict[tuple[int, ...], tuple[Case, ...]]] = {
    "one": {
        (1,): (
            *(Case("single_eagle3", "bare"), Case("single_draft_target", "serving")),
            Case("single_eagle3", "previous"),
        ),
        # No drafts, and drafts as the options write them, without a method.
        (2,): (Case("single_gpt_oss_20b", "bare"), Case("single_eagle3_two_models", "serving")),
    },
    "two": {
        (1, 2): (
            *(Case("qwen3_235b_a22b_eagle3", "bare"), Case("qwen3_235b_a22b_eagle3_1_3", "serving")),
            *(Case("qwen3_235b_a22b_eagle3", "previous"), Case("qwen3_235b_a22b_eagle3", "benchmark")),
        )
    },
}


class Node:
    """A Spark that is watched."""

    def __init__(self, number: int) -> None:
        self.name = f"spark-{number}"
        self.spark = Spark(number)
        self.before: dict[str, t.Any] = {}
        self.written = once.Spark(self.name)

    def run(self, *command: str) -> str:
        done = self.spark.exec(["sh", "-c", command[0]] if len(command) == 1 else list(command))
        if done.returncode:
            raise TwinError(f"{self.name}: {command} failed: {done.stderr}")
        return done.stdout

    def watch(self) -> None:
        self.spark.write_file(RECORDER, (HERE / "on_spark.py").read_text(encoding="utf-8"))
        self.run("systemd-run", "--unit=golden", "--quiet", "python3", RECORDER, "listen", PLACE)
        self.run(f"until test -e {PLACE}/created.jsonl; do sleep 0.1; done")

    def empty(self) -> None:
        self.run(EMPTY)
        self.before = self.files()

    def files(self) -> dict[str, t.Any]:
        return normal.files(json.loads(self.run("python3", RECORDER, "look", PLACE)))

    def seen(self, case: Case, first: Node) -> dict[str, t.Any]:
        """The containers asked for since the last look, and what became of the files."""
        asked = self.run(f"cat {PLACE}/created.jsonl && truncate --size 0 {PLACE}/created.jsonl").splitlines()
        before, now = self.before, self.files()
        self.before = now
        return self.written.write(
            case.name,
            [normal.Normal().container(json.loads(line)) for line in asked],
            {name: entry for name, entry in now.items() if before.get(name) != entry},
            set(before) - set(now),
            None if first is self else first.written,
        )


def play(case: Case, nodes: t.Sequence[Node]) -> str:
    """Run a case, and say what came of it."""
    if case.way == "bare":
        for node in nodes:
            node.empty()
    if case.way == "benchmark":
        place = CHOICE.format(recipe=case.recipe)
        nodes[0].spark.write_file(place, case.choice.read_text(encoding="utf-8"), user=USER)
        nodes[0].before = nodes[0].files()
    playbook.succeed("serve", "--limit", ",".join(node.name for node in nodes), *case.arguments)
    return HEADER + normal.document({node.name: node.seen(case, nodes[0]) for node in nodes})


def chain(numbers: t.Sequence[int], cases: t.Sequence[Case], seen: Seen) -> None:
    nodes = [Node(number) for number in numbers]
    for node in nodes:
        node.watch()
    for case in cases:
        seen(case, play(case, nodes))


def tell(story: str, seen: Seen) -> None:
    """Live through a story on new Sparks, and hand over what came of each case when it is over."""
    subprocess.run(["tools/twin.sh", "up", "--fresh", "--sparks", "2"], cwd=playbook.ROOT, check=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for future in [pool.submit(chain, *each, seen) for each in STORIES[story].items()]:
            future.result()
