# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Golden files refer to what they have written, if it is equal, and write out what differs."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml

from tests.golden import once

HOME = "~/.local/share/dgx-spark-speculative"
RECORD, PREVIOUS = f"{HOME}/mine/record.json", f"{HOME}/previous.json"
OPTIONS = "max_seq_len: 1024\nmax_batch_size: 1\nspeculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 5\n"
TEXT = "a line of some length\n" * 10
ASKED: dict[str, t.Any] = {
    "name": "dgx-spark-speculative",
    "Cmd": ["serve"],
    "Env": ["A=1", "B="],
    "Healthcheck": {"Interval": 30 * 10**9, "Retries": 3, "StartPeriod": 900 * 10**9, "Test": ["CMD", "health"]},
    "HostConfig": {
        "CapAdd": ["CAP_CHOWN"],
        "DeviceRequests": [{"Capabilities": [["gpu"]], "Count": -1, "Driver": "nvidia"}],
        "Devices": [{"CgroupPermissions": "rwm", "PathInContainer": "/dev/there", "PathOnHost": "/dev/here"}],
        "IpcMode": "host",
        "LogConfig": {"Config": {"max-file": "3", "max-size": "50m"}, "Type": "json-file"},
        "Mounts": [{"ReadOnly": False, "Source": "/here", "Target": "/there", "Type": "bind"}],
        "NetworkMode": "host",
        "ReadonlyRootfs": True,
        "Ulimits": [{"Hard": -1, "Name": "memlock", "Soft": 5}],
    },
    "Image": "r:1",
    "Labels": {"dgx_spark.speculative.deployment": "mine"},
    "StopTimeout": 120,
}
RECORDED: dict[str, t.Any] = {
    "capabilities": ["CAP_CHOWN"],
    "command": ["serve"],
    "device_requests": [{"capabilities": [["gpu"]], "count": -1, "driver": "nvidia"}],
    "devices": ["/dev/here:/dev/there"],
    "environment": {"A": "1", "B": ""},
    "healthcheck": {"interval": "30s", "retries": 3, "start_period": "900s", "test": ["CMD", "health"]},
    "image": "r:1",
    "ipc_mode": "host",
    "keep_entrypoint": True,
    "labels": {"dgx_spark.speculative.deployment": "mine"},
    "log_max_files": 3,
    "log_max_size": "50m",
    "mounts": [{"read_only": False, "source": "/here", "target": "/there", "type": "bind"}],
    "network": "host",
    "published_ports": [],
    "read_only": True,
    "stop_timeout": 120,
    "ulimits": ["memlock:5:-1"],
}


def record(**changes: t.Any) -> dict[str, t.Any]:
    models = {f"a/model-{number}": {"bytes": 1024 * number, "commit": "<hash>"} for number in range(5)}
    said = {"container": RECORDED, "deployment": "mine", "models": models, "length": 5}
    return {"json": said | changes, "mode": "0644", "owner": "spark"}


def file(text: str, **changes: t.Any) -> dict[str, t.Any]:
    return {"mode": "0644", "owner": "spark", "text": text, **changes}


def written(files: dict[str, t.Any], containers: t.Sequence[dict[str, t.Any]] = ()) -> dict[str, t.Any]:
    said: dict[str, t.Any] = once.Spark("spark-1").write("one", containers, files, [])["files"]
    return said


def test_a_record_has_the_container_that_docker_was_asked_for() -> None:
    assert once.recorded(ASKED) == RECORDED
    assert written({RECORD: record()}, [ASKED])[RECORD]["json"]["container"] == "<as Docker was asked>"
    assert written({RECORD: record()})[RECORD]["json"]["container"] == RECORDED


@pytest.mark.parametrize("key", sorted(RECORDED))
def test_a_container_that_differs_is_written_out(key: str) -> None:
    for other in (
        {name: each for name, each in RECORDED.items() if name != key},
        RECORDED | {key: "other"},
    ):
        assert written({RECORD: record(container=other)}, [ASKED])[RECORD]["json"]["container"] == other


def test_ports_that_docker_was_asked_for_are_no_detail() -> None:
    asked = copy.deepcopy(ASKED)
    asked["HostConfig"]["PortBindings"] = {"8000/tcp": [{"HostPort": "8000"}]}
    assert written({RECORD: record()}, [asked])[RECORD]["json"]["container"] == RECORDED


def test_what_another_file_says_is_referred_to() -> None:
    options = OPTIONS + "kv_cache_config: {enable_block_reuse: false, free_gpu_memory_fraction: 0.9}\n"
    ranks = [{"host": f"spark-{number}", "interfaces": ["enp1s0f1np1", "enP2p1s0f1np1"]} for number in (1, 2)]
    said = written(
        {
            f"{HOME}/mine/check/options.yml": file(options),
            f"{HOME}/mine/generations/<hash>/options.yml (2)": file(options, mode="0600"),
            f"{HOME}/mine/state/ranks.json": {"json": {"at": "<time>", "ranks": ranks}},
            RECORD: record(options=yaml.safe_load(options), ranks=ranks),
            PREVIOUS: record(options=yaml.safe_load(options) | {"max_batch_size": True}, ranks=ranks[:1]),
        }
    )
    place = f"<as in {HOME}/mine/check/options.yml>"
    assert said[f"{HOME}/mine/check/options.yml"] == file(options)
    assert said[f"{HOME}/mine/generations/<hash>/options.yml (2)"] == file(place, mode="0600")
    assert said[f"{HOME}/mine/state/ranks.json"]["json"]["ranks"] == ranks
    assert said[RECORD]["json"]["options"] == place
    assert said[RECORD]["json"]["ranks"] == f"<as in {HOME}/mine/state/ranks.json>"
    # 1 is not true.
    assert said[PREVIOUS]["json"]["options"] == yaml.safe_load(options) | {"max_batch_size": True}
    assert said[PREVIOUS]["json"]["ranks"] == ranks[:1]


def test_what_served_before_is_the_record_that_was() -> None:
    spark = once.Spark("spark-1")
    spark.write("one", [], {RECORD: record()}, [])
    new = record(length=2)
    said = spark.write("two", [], {RECORD: new, PREVIOUS: record()}, [])["files"]
    assert said[PREVIOUS] == "<record.json of one>"
    assert (said[RECORD]["json"]["models"], said[RECORD]["json"]["length"]) == ("<as in one>", 2)
    said = spark.write("three", [], {PREVIOUS: record(length=3)}, [])["files"]
    assert said[PREVIOUS]["json"] == {
        "container": "<record.json of two>",
        "deployment": "mine",
        "models": "<record.json of two>",
        "length": 3,
    }


def test_what_is_gone_is_not_referred_to() -> None:
    spark = once.Spark("spark-1")
    spark.write("one", [], {"~/a": file(TEXT)}, [])
    assert spark.write("two", [], {"~/b": file(TEXT)}, [])["files"] == {"~/b": file("<as in ~/a>")}
    said = spark.write("three", [], {"~/c": file(TEXT)}, ["~/a", "~/b"])
    assert said == {"containers": [], "files": {"~/c": file(TEXT)}, "gone": ["~/a", "~/b"]}


def test_a_number_that_another_file_has_now_is_no_difference() -> None:
    spark = once.Spark("spark-1")
    spark.write("one", [], {"~/<hash>/a": file(TEXT)}, [])
    said = spark.write("two", [], {"~/<hash>/a": file(f"b{TEXT}"), "~/<hash>/a (2)": file(TEXT)}, [])["files"]
    assert said == {"~/<hash>/a": file(f"b{TEXT}"), "~/<hash>/a (2)": "<as in one>"}


def test_the_same_container_is_that_of_the_case_that_asked_for_it_first() -> None:
    spark = once.Spark("spark-1")
    other = ASKED | {"Labels": {"dgx_spark.speculative.deployment": "other"}}
    assert spark.write("one", [ASKED, other], {}, [])["containers"] == [ASKED, other]
    assert spark.write("two", [ASKED], {}, [])["containers"] == ["<as in one>"]
    assert spark.write("three", [ASKED], {}, [])["containers"] == ["<as in one>"]
    (said,) = spark.write("four", [ASKED | {"Image": "r:2"}], {}, [])["containers"]
    assert (said["Image"], said["HostConfig"], said["Env"]) == ("r:2", "<as in one>", ASKED["Env"])


def test_the_second_spark_says_how_it_differs_from_the_first() -> None:
    first, second = once.Spark("spark-1"), once.Spark("spark-2")
    first.write("one", [ASKED], {"~/a": file(TEXT), "~/b": file(TEXT * 2), RECORD: record()}, [])
    own = record(length=2, container=RECORDED | {"command": ["serve", "worker"]})
    files = {"~/a": file(TEXT), "~/b": file(TEXT * 2, mode="0600"), "~/c": file(TEXT * 3), RECORD: own}
    said = second.write("one", [ASKED | {"Cmd": ["serve", "worker"]}], files, [], first)
    assert said["files"] == {
        "~/a": "<as on spark-1>",
        "~/b": file("<as on spark-1>", mode="0600"),
        "~/c": file(TEXT * 3),
        RECORD: record(models="<as on spark-1>", length=2, container="<as Docker was asked>"),
    }
    (asked,) = said["containers"]
    assert (asked["Cmd"], asked["HostConfig"]) == (["serve", "worker"], "<as on spark-1>")
