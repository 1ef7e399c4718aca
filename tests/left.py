# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an earlier state of the collection has left on a Spark: its container, its record and its files.

`tests/system/taking_over/left` holds, by Spark, the record and what Docker was asked for, as commit dc6c4b6 left them
on the twin; models and image have names there, since each twin has its own.
"""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

from tests.twin.control import Spark

LEFT = Path(__file__).parent / "system" / "taking_over" / "left"
HOME = "/home/spark/.local/share/dgx-spark-speculative"
SLOT = "dgx-spark-speculative"
ENGINE = "curl -sSf --unix-socket /run/docker.sock -H 'Content-Type: application/json'"
# What was executable.
EXECUTABLE = ("entrypoint.py", "serve.sh")


def inspect(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.exec(["docker", "inspect", SLOT]).stdout)[0])


def record(spark: Spark, name: str) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/{name}.json")))


def read(file: str, today: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What was left, with the models and the image of a deployment of today."""
    text = (LEFT / f"{file}.json").read_text(encoding="utf-8").replace("<image>", today["image"]["id"])
    for name, model in today["models"].items():
        text = text.replace(f"<commit of {name}>", model["commit"])
    return dict(json.loads(text))


def put(spark: Spark, deployment: str, file: str) -> None:
    """Leave a Spark on which the deployment serves as the earlier state would have left it."""
    left = read(file, record(spark, f"{deployment}/record"))
    directory = f"{HOME}/{deployment}"
    spark.exec(["docker", "rm", "--force", SLOT])
    spark.exec(f"cd {directory} && find . -mindepth 1 -maxdepth 1 -not -name vocabularies -exec rm -r {{}} +")
    spark.exec(["mkdir", f"{directory}/state"], user="spark")
    spark.write_file(f"{directory}/record.json", json.dumps(left["record"]), user="spark")
    for name, text in left["record"]["files"].items():
        spark.write_file(f"{directory}/{name}", text, user="spark")
        spark.exec(["chmod", "755" if name in EXECUTABLE else "644", f"{directory}/{name}"])
    spark.write_file("/root/container.json", json.dumps(left["container"]))
    for request in (
        f"-d @/root/container.json 'http://d/containers/create?name={SLOT}'",
        f"http://d/containers/{SLOT}/start",
    ):
        done = spark.exec(f"{ENGINE} -X POST {request}")
        assert done.returncode == 0, done.stderr
    spark.exec(["rm", "/root/container.json"])


def wait_until_it_serves(spark: Spark, port: int, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while spark.exec(f"curl -sf --max-time 5 http://127.0.0.1:{port}/v1/models").returncode:
        assert time.monotonic() < deadline, spark.exec(["docker", "logs", "--tail", "20", SLOT]).stdout
        time.sleep(0.3)
