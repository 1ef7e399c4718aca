# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the figures of two Sparks: bytes from the internet, the rate of a copy, a second run, the time after a kill.

Replaces the running twin by two bare Sparks. Times are compared in turn within one run and given as ratios.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.lookup.job import program

from tests import playbook
from tests.costs import MOST, NO_OP_TASKS, ROUNDS, in_turn
from tests.perf import Limit, conclude, report
from tests.twin import cables, lifecycle
from tests.twin.control import Internet, Spark
from tests.twin.names import REGISTRY_HOST, RELEASE_REPOSITORY
from tests.twin.registry import Registry

HOME = "/home/spark/.local/share/dgx-spark-speculative"
HUB = "/home/spark/.cache/huggingface/hub"
# What lets copies in has to be where the run has put it, which the head's key opens.
PROGRAMS = {"send": "/tmp/send.pyz", "serve_copies": f"{HOME}/jobs/copies/program.pyz"}
NAME = "qwen3_235b_a22b_eagle3"
ADDRESSES = ["192.168.100.11", "192.168.101.11"]
BIG_MODEL = Path(__file__).parent / "big_model.py"
# Real ones are a hundred times as large: making the connections is not to be a third of what is measured.
SHARDS, SHARD_BYTES = 8, 256 * 2**20
# The copy is held against one raw stream where that one's wire is the narrowest part, as it is with the cores of real
# Sparks. Wires without a limit (0) are for information: there a raw stream is nothing but copied memory, while ssh and
# the checksums of both Sparks share the cores of this machine. See limit() for what counts.
WIRES_MBIT = (0, 400, 1000)
LEAST_FILLED = 0.9
# From the internet to both, of models and image.
BYTES = Limit(1.02, note="by hand 2")
IMAGE_BLOBS = f"{REGISTRY_HOST}/v2/{RELEASE_REPOSITORY}/blobs/"
STREAMS = 8
TAKE = """
import socket, time
with socket.create_server(("192.168.100.11", 5999)) as door:
    one, _ = door.accept()
    taken, room, begin = 0, bytearray(1 << 20), time.monotonic()
    while count := one.recv_into(room):
        taken += count
    print(taken / (time.monotonic() - begin))
"""
GIVE = """
import socket, time
with socket.create_connection(("192.168.100.11", 5999)) as one:
    end = time.monotonic() + 6
    while time.monotonic() < end:
        one.sendall(bytes(1 << 20))
"""


def image_bytes() -> int:
    """What one pull of the recipe's image fetches."""
    manifest, _kind = Registry(lifecycle.registry())._image("1.2.0rc6")
    # Layers with the same bytes are fetched once.
    return sum({part["digest"]: part["size"] for part in (manifest["config"], *manifest["layers"])}.values())


def bytes_from_the_internet(internet: Internet, head: Spark, worker: Spark) -> None:
    internet.reset_counters()
    playbook.succeed("two_sparks")
    record = json.loads(head.read_file(f"{HOME}/{NAME}/record.json"))
    served = sum(model["bytes"] for model in record["models"].values())
    fetched = sum(internet.bytes_to(one.address, "huggingface.co/") for one in (head, worker))
    pulled = sum(internet.bytes_to(one.address, IMAGE_BLOBS) for one in (head, worker))
    report("two Sparks: bytes from the Hub / bytes of one copy", fetched / served, ".4f", BYTES)
    report("two Sparks: bytes of the image pulled / bytes of one copy", pulled / image_bytes(), ".4f", BYTES)
    report("two Sparks: bytes from the internet to the worker", internet.bytes_to(worker.address), limit=Limit(0))


def second_run() -> None:
    second, nothing = in_turn("two_sparks")
    report(f"two Sparks: second run, seconds (best of {ROUNDS})", second, ".2f")
    report(f"two Sparks: {NO_OP_TASKS} no-op tasks, seconds (best of {ROUNDS})", nothing, ".2f")
    report(f"two Sparks: second run / {NO_OP_TASKS} no-op tasks", second / nothing, ".2f", Limit(MOST["two_sparks"]))


def answers(head: Spark) -> bool:
    question = json.dumps({"model": "Qwen3-235B-A22B-FP4", "prompt": "1, 2, 3,", "max_tokens": 4})
    ask = ["curl", "-sf", "--max-time", "5", "-H", "Content-Type: application/json", "-d", question]
    return head.exec([*ask, "http://127.0.0.1:8355/v1/completions"]).returncode == 0


def from_kill_to_answer(head: Spark, worker: Spark) -> None:
    worker.exec("pkill -9 -f mgmn_worker_node")
    begin = time.monotonic()
    while answers(head):
        time.sleep(0.2)
    while not answers(head):
        time.sleep(0.2)
    report("two Sparks: from a killed rank to the next answer, seconds", time.monotonic() - begin, ".1f")


def raw_stream(head: Spark, worker: Spark) -> float:
    """Bytes a second that one TCP connection brings from the head to the worker."""
    taken: list[subprocess.CompletedProcess[str]] = []
    taker = threading.Thread(target=lambda: taken.append(worker.exec(["python3", "-c", TAKE])))
    taker.start()
    time.sleep(1)
    head.exec(["python3", "-c", GIVE])
    taker.join()
    return float(taken[0].stdout)


def copy(head: Spark, worker: Spark) -> float:
    """Bytes a second of the role's own copy of a model."""
    worker.exec(f"rm -rf {HUB}/models--big--model {HOME}/models/models--big--model.json")
    serve = ["python3", PROGRAMS["serve_copies"], "/usr/sbin/sshd", f"{HOME}/cluster/copy/sshd_config", "5", "perf"]
    service = threading.Thread(target=lambda: worker.exec(serve, user="spark"))
    service.start()
    time.sleep(2)
    wanted = {
        "worker": "spark-2",
        "user": "spark",
        "addresses": ADDRESSES,
        "port": 2234,
        "key": f"{HOME}/cluster/id_ed25519",
        "known_hosts": f"{HOME}/cluster/known_hosts",
        "streams": STREAMS,
        "patience": 60,
        "cache": HUB,
        "receipts": f"{HOME}/models",
        "repositories": [{"id": "big/model", "commit": "b" * 40}],
        "tiktoken_encodings": [],
    }
    done = head.exec(["python3", PROGRAMS["send"], json.dumps(wanted)], user="spark", timeout=300)
    service.join()
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    result: dict[str, t.Any] = next((line["result"] for line in reversed(lines) if "result" in line), {})
    if not result:
        sys.exit(f"the copy failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(result["bytes_sent"]) / float(result["seconds"])


def copy_rate(head: Spark, worker: Spark) -> None:
    for spark in (head, worker):
        for name, path in PROGRAMS.items():
            spark.write_file(path, program(name), user="spark")
    made = head.exec(
        ["python3", "-c", BIG_MODEL.read_text(encoding="utf-8"), str(SHARDS), str(SHARD_BYTES)], user="spark"
    )
    if made.returncode:
        sys.exit(f"the model to be copied could not be made: {made.stderr}")
    for mbit in WIRES_MBIT:
        with cables.changed(mbit=mbit):
            before, copied, after = raw_stream(head, worker), copy(head, worker), raw_stream(head, worker)
        raw = (before + after) / 2
        wire = f"each wire {mbit} Mbit/s" if mbit else "wires as fast as this machine"
        share = f"{copied * 8 / (2 * mbit * 1e6):.0%} of what both wires carry" if mbit else ""
        report(f"two Sparks: copy, MB/s, {wire}", copied / 1e6, limit=share)
        report(f"two Sparks: one raw TCP stream, MB/s, {wire}", raw / 1e6)
        report(f"two Sparks: copy / raw stream, {wire}", copied / raw, ".2f", limit(mbit, raw))


def limit(mbit: int, raw: float) -> Limit | str:
    """What is asked of the copy: nothing where the raw stream tells that something is narrower than its wire."""
    if not mbit:
        return "not judged: no cable here, only this machine's memory and cores"
    filled = raw * 8 / (mbit * 1e6)
    if filled < LEAST_FILLED:
        return f"not judged: the raw stream filled {filled:.0%} of its wire, this machine was too busy"
    return Limit(least=0.8, note=f"the raw stream filled {filled:.0%} of its wire")


def main() -> None:
    lifecycle.up(sparks=2, fresh=True)
    internet, head, worker = Internet(), Spark(1), Spark(2)
    bytes_from_the_internet(internet, head, worker)
    second_run()
    from_kill_to_answer(head, worker)
    playbook.succeed("stop")
    copy_rate(head, worker)
    conclude()


if __name__ == "__main__":
    main()
