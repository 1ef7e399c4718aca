# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Sensors of the server: memory, KV cache, speed, and the start time of its image."""

from __future__ import annotations

import contextlib
import re
import time
import typing as t
from pathlib import Path

from .._data.files import read_end
from .._deployment import nccl
from .._deployment.cluster_view import environment_of
from .._deployment.names import LABEL
from .._diagnosis import memory_curve
from .._diagnosis.memory_curve import GIB
from .._engines.registry import log_of
from .._server.client import HttpClient, ProbeError
from .._server.lines import last_run
from .sensor import NotMeasured, Sensor, World

# The log is rotated at 20 MB, and the KV cache lines are at the beginning of a start.
LOG_BYTES = 32 * 2**20
DEADLINE_S = 10.0
# The memory guard's own log, the older part first, and what ends a load in it.
GUARD_LOGS = ("memory.log.1", "memory.log")
LOADED = ("ready", "ended", "stopped")
CURVE_POINTS = 300
# A process that imports an engine is said to hold 5 to 8 GB; the server's memory is the same memory.
IMPORT_NEEDS = 16 * 10**9
IMPORT_DEADLINE_S = 900.0
IMPORT_NAME = "dgx-spark-speculative-field-import"
IMPORT = """
import os, sys, time
for place in {p for p in sys.path if p.endswith("-packages")}:
    for folder, _folders, files in os.walk(place):
        for name in files:
            try:
                file = os.open(os.path.join(folder, name), os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)
            except OSError:
                pass
for way in ("cold", "warm"):
    began = time.monotonic()
    if os.fork() == 0:
        __import__(sys.argv[1])
        print("dgx-spark-import", way, round(time.monotonic() - began, 1), flush=True)
        os._exit(0)
    os.wait()
"""
IMPORTED = re.compile(r"^dgx-spark-import (cold|warm) ([\d.]+)$", re.MULTILINE)


def deployment(world: World) -> str:
    return world.labels()[f"{LABEL}deployment"]


def state(world: World) -> str:
    return f"{world.slot()['State']['Status']}, {world.state()['state']}"


def image(world: World) -> str:
    return world.record()["image"]["reference"]


def log(world: World) -> list[str]:
    """Return the lines of the run that serves."""
    path = world.directory() / "state" / "server.log"
    try:
        return last_run(read_end(path, LOG_BYTES)[0].split("\n"))
    except OSError as error:
        raise NotMeasured(f"the server's log cannot be read ({error.strerror})") from None


def kv_planned(world: World) -> int:
    tokens = log_of(world.record()).cache_planned(world.record()["options"])
    if tokens is None:
        raise NotMeasured("the engine options plan no number of tokens")
    return tokens


def kv_made(world: World) -> str:
    """Return the KV cache that the engine made, by its log, beside what was planned."""
    made = log_of(world.record()).cache_made(log(world))
    if made is None:
        raise NotMeasured("no line of the server's log says so")
    return made


def loading_time(world: World) -> float:
    seconds = world.state().get("loading_s")
    if seconds is None:
        raise NotMeasured("the server has not said so")
    return seconds


def plan(world: World) -> list[str]:
    """Return the memory plan's rows."""
    rows = world.record().get("plan") or []
    if not rows:
        raise NotMeasured("no plan was recorded")
    known = [row for row in rows if row["bytes"] is not None]
    together = {"name": "together", "bytes": sum(row["bytes"] for row in known)}
    return [f"{row['name']}: {row['bytes'] / 1e9:.1f} GB" for row in [*known, together]]


def free_for_gpu(world: World) -> str:
    """Return the memory that CUDA called free before the server was started."""
    result = world.record().get("free_for_gpu")
    if not result:
        raise NotMeasured("CUDA was not asked when this was deployed; deploy it again after stop.yml")
    return str(result)


def network(world: World) -> str:
    """Return what the NCCL of this Spark's rank uses, by its own log."""
    if not world.record().get("cluster"):
        raise NotMeasured("what is deployed here serves on one Spark")
    runs = world.state().get("state") in nccl.RANKS_RUN
    wanted = environment_of(world.slot()).get("NCCL_IB_HCA", "")
    result = nccl.rank_network(world.directory() / "state", wanted) if runs else None
    if result is None:
        raise NotMeasured("no log of NCCL in the state directory tells")
    return nccl.describe_network(result)


def measurement(key: str) -> t.Callable[[World], float]:
    """Return a sensor of what was measured when the deployment was seen to answer."""

    def read(world: World) -> float:
        value = (world.record().get("measurements") or {}).get(key)
        if value is None:
            raise NotMeasured("the answer that proved the deployment did not tell")
        return value

    return read


def page(world: World, path: str) -> tuple[int, str]:
    """Ask the server for one of its pages."""
    world.require_head()
    url = world.record()["url"]
    try:
        reply = HttpClient(url).get(path, DEADLINE_S)
    except (ProbeError, ValueError) as error:
        raise NotMeasured(f"the server does not answer ({str(error) or 'timed out'})") from None
    return reply.status, reply.body.decode("utf-8", "replace")


def figures(world: World) -> list[str]:
    """Return the names of the figures that the server counts; an empty list is an answer."""
    engine = log_of(world.record())
    status, text = page(world, f"/{engine.metrics}")
    if status != 200:
        needs = f"; it needs {engine.metrics_option}" if engine.metrics_option else ""
        raise NotMeasured(f"/{engine.metrics} answers with {status}{needs}")
    return sorted(set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)))


def health(world: World) -> int:
    return page(world, "/health")[0]


def cold_import(world: World) -> list[str]:
    """Return the seconds in which the image imports its engine in a temporary container."""
    package = log_of(world.record()).engine
    free = world.read_memory()["MemAvailable"]
    if free < IMPORT_NEEDS:
        raise NotMeasured(
            f"only {free / 1e9:.0f} GB of memory are available, and {IMPORT_NEEDS / 1e9:.0f} are wanted for that;"
            " stop the server with stop.yml and check again"
        )
    options = ("--rm", "--network", "none", "--gpus", "all", "--entrypoint", "python3", "--name", IMPORT_NAME)
    command = ("docker", "run", *options, world.slot()["Image"], "-c", IMPORT, package)
    try:
        said = IMPORTED.findall(world.output(*command, deadline=IMPORT_DEADLINE_S))
    finally:
        world.run(("docker", "rm", "--force", IMPORT_NAME))
    if not said:
        raise NotMeasured(f"the image has no {package} that can be imported")
    return [f"{way} {seconds} s" for way, seconds in said]


# While it loads


def watch(world: World, until: Path, deadline: float, pause: float = 1.0) -> list[list[float]]:
    """Seconds, MemFree and MemAvailable in bytes, until a file is there, which is removed again."""
    began = time.monotonic()
    samples = []
    while True:
        now = world.read_memory()
        samples.append([round(time.monotonic() - began, 1), now["MemFree"], now["MemAvailable"]])
        if until.exists() or time.monotonic() - began > deadline:
            break
        time.sleep(pause)
    with contextlib.suppress(OSError):
        until.unlink()
    return samples


def guarded(world: World) -> list[memory_curve.Line]:
    """Return the memory guard's lines of the last load, from its start until the server was ready or ended."""
    directory = world.directory() / "state"
    texts = [path.read_text(encoding="utf-8") for path in map(directory.joinpath, GUARD_LOGS) if path.is_file()]
    lines = memory_curve.last_run(memory_curve.parse("".join(texts)))
    if not lines or lines[0].get("event") != "loading":
        raise NotMeasured("the memory guard's log does not reach back to the load; check again with -e restart=true")
    end = next((number for number, line in enumerate(lines) if line.get("event") in LOADED), len(lines))
    return lines[:end]


def guard_curve(world: World) -> list[list[float]]:
    """Seconds, and the available and the free memory; of each moment that is drawn the lowest."""
    lines = [line for line in guarded(world) if isinstance(line.get("available"), int) and "free" in line]
    if not lines:
        raise NotMeasured("the memory guard took no sample while the server loaded")
    began, seconds = lines[0]["at"], lines[-1]["at"] - lines[0]["at"]
    lowest: dict[int, memory_curve.Line] = {}
    for line in lines:
        moment = int((line["at"] - began) / max(seconds, 1.0) * CURVE_POINTS)
        lowest[moment] = min(line, lowest.get(moment, line), key=lambda one: one["available"])
    return [[round(line["at"] - began, 2), line["available"], line["free"]] for line in lowest.values()]


def guard_plan(world: World) -> list[str]:
    """Return the limits of the memory guard, and how low the memory fell."""
    begin, *rest = guarded(world)
    lowest = min((line["available"] for line in [begin, *rest] if isinstance(line.get("available"), int)), default=None)
    figures = {"lands at": begin.get("landing"), "a fall counts below": begin.get("watch")}
    figures |= {"kept free": begin.get("floor"), "lowest": lowest}
    acts = [f"{line['event']}: {line.get('reason')}" for line in rest if line.get("event") in memory_curve.SIGNALS]
    return [*(f"{name} {size / GIB:.1f} GiB" for name, size in figures.items() if isinstance(size, int)), *acts]


SERVING = (
    Sensor("deployment", "Server", "Deployment", deployment, "Docker"),
    Sensor("state", "Server", "Container, and what it says of the server", state, "Docker, state.json"),
    Sensor("image", "Server", "Image", image, "record.json"),
    Sensor("loading_time", "Server", "Loading took", loading_time, "state.json", "s"),
    Sensor("plan", "Server", "Memory planned", plan, "record.json"),
    Sensor("guard", "Server", "Memory guard", guard_plan, "memory.log"),
    Sensor("guard_curve", "Server", "Available memory while it loaded", guard_curve, "memory.log"),
    Sensor("free_for_gpu", "Server", "Free for the GPU before", free_for_gpu, "cuMemGetInfo, /proc/meminfo"),
    Sensor("kv_planned", "Server", "KV cache planned", kv_planned, "record.json", "tokens"),
    Sensor("kv_made", "Server", "KV cache that the engine made", kv_made, "server.log"),
    Sensor("nccl", "Server", "Network between the ranks", network, "NCCL's own log"),
    Sensor("speed", "Server", "Speed of one answer", measurement("tokens_per_second"), "record.json", "tokens/s"),
    Sensor("acceptance", "Server", "Tokens a pass", measurement("acceptance_length"), "record.json"),
    Sensor("health", "Server", "/health answers with", health, "HTTP"),
    Sensor("figures", "Server", "Figures that it counts", figures, "HTTP"),
    Sensor("import", "Server", "Import of the engine", cold_import, "docker run"),
)
