# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Hugging Face token reaches the download and nothing else."""

from __future__ import annotations

import json
import tarfile
import threading
import time
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.twin.control import Internet, Spark

TOKEN = "hf_twin_valid"
HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"
# Command lines and environments of all processes, and what Docker tells of all containers.
LIVE = """
for process in /proc/[0-9]*; do tr '\\0' '\\n' <$process/cmdline; tr '\\0' '\\n' <$process/environ; done 2>/dev/null
docker ps --all --quiet | xargs --no-run-if-empty docker inspect 2>/dev/null
"""
# Everything that stays: files, the journal with Docker's log, the containers' logs.
LASTING = """
grep --recursive --files-with-matches --text {token} /home /tmp /var/tmp /var/log /etc /run /root 2>/dev/null
journalctl --no-pager | grep {token}
docker ps --all --quiet | xargs --no-run-if-empty --max-args 1 docker logs 2>&1 | grep {token}
find /var/lib/docker/containers -type f | xargs grep --files-with-matches {token}
"""


class Watch:
    """Looks at the Spark again and again while a run goes on."""

    def __init__(self, spark: Spark, go_on: t.Callable[[], object]) -> None:
        """`go_on` is called once the download has been looked at some times."""
        self.spark = spark
        self.go_on = go_on
        self.looks = self.looks_at_fetch = 0
        self.seen: list[str] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        while not self.over.is_set():
            text = self.spark.exec(LIVE).stdout
            self.looks += 1
            if "jobs/fetch/program.pyz" in text:
                self.looks_at_fetch += 1
                if self.looks_at_fetch == 5:
                    self.go_on()
            self.seen += [line for line in text.splitlines() if TOKEN in line]
            time.sleep(0.1)

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self.over.set()
        self.thread.join()


GATE = {"host": "huggingface.co", "action": "gate", "repository": HEAD}


@pytest.fixture
def internet() -> t.Iterator[Internet]:
    internet = Internet()
    internet.reset_counters()
    # It does not come to its end before it was looked at.
    slow = {"host": "huggingface.co", "path": "*/resolve/*", "action": "slow", "bytes_per_second": 1_000}
    internet.set_faults([GATE, slow])
    yield internet
    internet.clear_faults()


@pytest.fixture(scope="module", autouse=True)
def talkative_docker() -> None:
    """Docker logs every request and the environment of every exec."""
    spark = Spark()
    before = spark.exec("cat /etc/docker/daemon.json 2>/dev/null || echo '{}'").stdout
    spark.write_file("/etc/docker/daemon.json", json.dumps({**json.loads(before), "debug": True}))
    assert spark.exec(["systemctl", "restart", "docker"]).returncode == 0


def test_the_token_is_used_and_leaves_no_trace(internet: Internet) -> None:
    spark = Spark()
    with Watch(spark, go_on=lambda: internet.set_faults([GATE])) as watch:
        outcome = playbook.succeed("single_eagle3", "-vvv", "--diff", HF_TOKEN=TOKEN)
    fetched = [request for request in internet.requests("huggingface.co") if HEAD in request["path"]]
    assert any(request["authorized"] for request in fetched), "the token was not needed, so the test says nothing"
    assert watch.looks > 10
    assert watch.looks_at_fetch >= 5, "the download was not seen, so the test says nothing"
    assert watch.seen == []
    assert TOKEN not in outcome.output
    assert "level=debug" in spark.exec("journalctl --no-pager --unit docker").stdout
    assert spark.exec(LASTING.format(token=TOKEN)).stdout == ""


def test_the_reports_do_not_hold_a_token_that_lies_on_the_spark(tmp_path: Path) -> None:
    spark = Spark()
    deployment = "/home/spark/.local/share/dgx-spark-speculative/single_eagle3"
    spark.write_file("/home/spark/.cache/huggingface/token", TOKEN, user="spark")
    # Somebody wrote it where it does not belong, and the server printed it.
    spark.exec(
        f"printf 'ERROR: 401 for token {TOKEN}\\nAuthorization: Bearer {TOKEN}\\n' >>{deployment}/state/server.log"
    )
    try:
        named = {"json": str(tmp_path / "status.json")}
        output = playbook.succeed("status", "-vvv", variables=named).output
        bundle = {"json": str(tmp_path / "diagnosis.json"), "bundle": str(tmp_path / "bundle.tar.gz")}
        output += playbook.succeed("diagnose", "-vvv", "--diff", variables=bundle).output
    finally:
        spark.exec(["rm", "/home/spark/.cache/huggingface/token"])
        spark.exec(["sed", "-i", f"/{TOKEN}/d", f"{deployment}/state/server.log"])
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            output += file.read().decode("utf-8", "replace") if file else ""
    output += (tmp_path / "status.json").read_text(encoding="utf-8")
    output += (tmp_path / "diagnosis.json").read_text(encoding="utf-8")
    assert "ERROR: 401 for token" in output, "what was printed is not in the bundle, so the test says nothing"
    assert TOKEN not in output


def test_the_search_finds_a_token_that_is_there() -> None:
    spark = Spark()
    spark.write_file("/home/spark/leak.txt", TOKEN, user="spark")
    assert "/home/spark/leak.txt" in spark.exec(LASTING.format(token=TOKEN)).stdout
    spark.exec(["rm", "/home/spark/leak.txt"])
