# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two ranks say of themselves, compared; mpirun is a test double where one is run."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import shlex
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from server import comparison, ranks
from server import rank as portrait
from server.engines.tensorrt_llm import TENSORRT_LLM
from server.launchers.launcher import Plan
from server.launchers.mpi import mpirun as launcher

from tests.unit.entrypoint_container import FILES
from tests.unit.pair_container import rdma_device, rdma_node
from tests.unit.waiting import WITHIN_S

PLAN = Plan(
    "192.168.100.10",
    ("192.168.100.11",),
    2233,
    ("192.168.100.0/24", "192.168.101.0/24"),
    ("/deployment/options.yml", "/models/target"),
    ("HF_HUB_OFFLINE",),
    ("/models/target", "/tmp/models/target"),
)


def said(rank: int) -> dict[str, t.Any]:
    """A rank of a pair in order, whose cables are in different ports."""
    port = 1 - rank
    interfaces = [f"enp1s0f{port}np{port}", f"enP2p1s0f{port}np{port}"]
    return {
        "rank": rank,
        "host": f"spark-{'ab'[rank]}",
        "addresses": f"192.168.100.1{rank},192.168.101.1{rank}",
        "gone": [],
        "environment": {
            "CPATH": "/usr/local/cuda/include",
            "HF_HUB_OFFLINE": "1",
            "NCCL_IB_HCA": f"rocep1s0f{port},roceP2p1s0f{port}",
            "NCCL_SOCKET_IFNAME": ",".join(interfaces),
            "OMPI_MCA_btl_tcp_if_include": "192.168.100.0/24,192.168.101.0/24",
            "UCX_NET_DEVICES": ",".join(interfaces),
        },
        "cores": 20,
        "cores_here": 20,
        "memory_gib": 120,
        "interfaces": ["lo", "enP7s7", *interfaces],
        "rdma": [f"rocep1s0f{port}", f"roceP2p1s0f{port}"],
        "rdma_nodes": ["uverbs0", "uverbs1", "uverbs2", "uverbs3"],
        "verbs": {f"rocep1s0f{port}": f"uverbs{port}", f"roceP2p1s0f{port}": f"uverbs{2 + port}"},
        "versions": {"TensorRT-LLM": "1.3.0rc12", "NCCL": "2.28.9", "Open MPI": "4.1.7"},
        "gpu": "NVIDIA GB10, 580.95.05",
        "paths": {"/deployment/options.yml": "file, 0123", "/models/target": "28 files, 134000000000 bytes, 4567"},
    }


def compare(found: t.Sequence[dict[str, t.Any]]) -> list[comparison.Difference]:
    return comparison.compare(found, PLAN.workers, PLAN.paths, TENSORRT_LLM.per_spark)


def messages(change: t.Callable[[dict[str, t.Any], dict[str, t.Any]], object]) -> list[str]:
    head, worker = said(0), said(1)
    change(head, worker)
    return [difference.message for difference in compare([head, worker])]


def test_two_ranks_in_order_differ_in_nothing_that_matters() -> None:
    assert messages(lambda head, worker: None) == []


def test_one_name_twice_is_the_other_spark_not_reached() -> None:
    found = compare([said(0), {**said(0), "rank": 1}])
    assert [difference.message for difference in found] == [
        "2 ranks run on spark-a: 192.168.100.11 was not reached; check that it is a worker's address on the fabric"
    ]
    assert found[0].severity == "error"


def test_one_rank_alone_and_none_are_errors() -> None:
    assert compare([said(0)])[0].message.startswith("only spark-a answered: 192.168.100.11 was not reached")
    assert compare([])[0].message == "no rank has reported its facts"


def test_two_sparks_of_one_name_are_told_apart_from_one() -> None:
    assert messages(lambda head, worker: worker.update(host="spark-a")) == [
        "2 Sparks are called spark-a; give each a name of its own with 'sudo hostnamectl hostname'"
    ]


def test_of_several_who_was_not_reached_and_who_differs_is_named() -> None:
    """Four ranks: those that agree are told together."""
    four = [{**said(number % 2), "rank": number} for number in range(4)]
    for number, one in enumerate(four):
        one.update(host=f"spark-{number}", addresses=f"192.168.100.1{number},192.168.101.1{number}")
    workers = [f"192.168.100.1{number}" for number in (1, 2, 3)]
    assert comparison.compare(four, workers, (), TENSORRT_LLM.per_spark) == []
    assert comparison.compare(four[:3], workers, ())[0].message == (
        "only spark-0 and spark-1 and spark-2 answered: 192.168.100.13 was not reached; check that it is a worker's "
        "address on the fabric"
    )
    four[3]["versions"] = {**four[3]["versions"], "NCCL": "2.27.3"}
    (found,) = comparison.compare(four, workers, (), TENSORRT_LLM.per_spark)
    assert found.message.startswith("NCCL is 2.28.9 on spark-0 and spark-1 and spark-2 and 2.27.3 on spark-3: ")


def test_an_address_that_a_rank_no_longer_has_is_named() -> None:
    assert messages(lambda head, worker: worker["gone"].append("192.168.101.11")) == [
        "spark-b no longer has its fabric address 192.168.101.11; run 'sudo netplan apply' there, or the playbook "
        "again, which checks the network"
    ]


def test_a_variable_that_one_rank_lacks_is_named() -> None:
    assert messages(lambda head, worker: worker["environment"].pop("NCCL_IB_HCA")) == [
        "rank 1 on spark-b does not have NCCL_IB_HCA, which others have; run the playbook again"
    ]
    assert messages(lambda head, worker: head["environment"].update(UCX_TLS="tcp")) == [
        "rank 1 on spark-b does not have UCX_TLS, which others have; run the playbook again"
    ]


def test_a_variable_that_both_ranks_need_and_lack_is_named() -> None:
    def change(head: dict[str, t.Any], worker: dict[str, t.Any]) -> None:
        for rank in (head, worker):
            del rank["environment"]["NCCL_SOCKET_IFNAME"]

    assert messages(change) == [
        "no rank has NCCL_SOCKET_IFNAME, without which NCCL uses the first network that it finds; "
        "run the playbook again"
    ]


def test_a_value_that_has_to_be_the_same_is_named() -> None:
    assert messages(lambda head, worker: worker["environment"].update(CPATH="/other")) == [
        "CPATH is '/usr/local/cuda/include' on spark-a and '/other' on spark-b; it has to be the same on all"
    ]


def test_a_rank_on_one_core_is_named() -> None:
    assert messages(lambda head, worker: worker.update(cores=1)) == [
        "rank 1 on spark-b is bound to one of 20 cores, which starves NCCL's threads; remove the variable that binds it"
    ]
    assert messages(lambda head, worker: worker.update(cores=1, cores_here=1)) == []


@pytest.mark.parametrize(
    ("value", "known", "wrong"),
    [
        ("enp1s0f1np1", ["lo"], True),
        ("enp1s0f1np1", ["enp1s0f1np1"], False),
        ("enp1s0", ["enp1s0f1np1"], False),
        ("=enp1s0", ["enp1s0f1np1"], True),
        ("^docker0", ["enp1s0f1np1"], False),
    ],
)
def test_an_interface_that_is_not_there_is_named(value: str, known: list[str], wrong: bool) -> None:
    def change(head: dict[str, t.Any], worker: dict[str, t.Any]) -> None:
        worker["environment"]["NCCL_SOCKET_IFNAME"] = value
        worker["interfaces"] = known

    expected = f"NCCL_SOCKET_IFNAME names {value.lstrip('=')}, which spark-b does not have (it has {', '.join(known)})"
    assert messages(change) == ([expected] if wrong else [])


def test_an_rdma_device_with_its_port_is_recognised() -> None:
    def change(head: dict[str, t.Any], worker: dict[str, t.Any]) -> None:
        head["environment"]["NCCL_IB_HCA"] = "=rocep1s0f1:1,mlx5_7:1"
        worker["rdma"] = []

    assert messages(change) == [
        "NCCL_IB_HCA names mlx5_7, which spark-a does not have (it has rocep1s0f1, roceP2p1s0f1)"
    ]


def test_a_rank_without_its_rdma_devices_is_named() -> None:
    def change(head: dict[str, t.Any], worker: dict[str, t.Any]) -> None:
        del head
        worker.update(rdma_nodes=["uverbs1"], verbs={"rocep1s0f0": None, "roceP2p1s0f0": None})

    assert messages(change) == [
        "rank 1 on spark-b cannot use rocep1s0f0 and roceP2p1s0f0 (/dev/infiniband has uverbs1); restart its container "
        "with 'docker restart', which gives it the devices that the Spark has now"
    ]


def test_a_rank_whose_devices_nobody_names_needs_one_for_each_rail() -> None:
    def change(nodes: list[str]) -> list[str]:
        return messages(lambda head, worker: [rank.update(verbs={}, rdma_nodes=nodes) for rank in (head, worker)])

    assert change(["uverbs0", "uverbs1"]) == []
    assert [text.partition(" (")[0] for text in change([])] == [
        "rank 0 on spark-a cannot use all its RDMA devices",
        "rank 1 on spark-b cannot use all its RDMA devices",
    ]


def test_a_pair_without_any_rdma_device_is_warned_of() -> None:
    ranks_said = [said(0), said(1)]
    for rank in ranks_said:
        rank.update(verbs={}, rdma_nodes=[], rdma=[])
    found = [one for one in compare(ranks_said) if one.what == "transport"]
    assert [one.severity for one in found] == ["warning"] * 2
    assert "has no RDMA device: 'sudo modprobe mlx5_ib'" in found[0].message


def test_a_pair_that_is_told_to_use_tcp_is_warned_of() -> None:
    ranks_said = [said(0), said(1)]
    for rank in ranks_said:
        rank.update(verbs={}, rdma_nodes=[])
        rank["environment"]["NCCL_IB_DISABLE"] = "1"
    found = compare(ranks_said)
    assert [(one.what, one.severity) for one in found] == [("transport", "warning")] * 2
    assert found[0].message.endswith("uses TCP instead of RDMA, as NCCL_IB_DISABLE=1 says")


def test_another_library_is_named() -> None:
    assert messages(lambda head, worker: worker["versions"].update(NCCL="2.27.3")) == [
        "NCCL is 2.28.9 on spark-a and 2.27.3 on spark-b: the containers were made from different images; "
        "run the playbook again"
    ]


def test_files_that_are_missing_or_others_are_named() -> None:
    def change(head: dict[str, t.Any], worker: dict[str, t.Any]) -> None:
        worker["paths"]["/models/target"] = None
        worker["paths"]["/deployment/options.yml"] = "file, 89ab"

    assert messages(change) == [
        "/deployment/options.yml differs: file, 0123 on spark-a, file, 89ab on spark-b; run the playbook again",
        "/models/target is missing or incomplete on spark-b; run the playbook again, which copies it",
    ]


def test_another_driver_is_a_warning_and_comes_last() -> None:
    head, worker = said(0), said(1)
    worker.update(gpu="NVIDIA GB10, 570.0", memory_gib=119)
    del worker["environment"]["CPATH"]
    found = compare([head, worker])
    assert [(difference.what, difference.severity) for difference in found] == [("CPATH", "error"), ("gpu", "warning")]


def test_the_table_has_both_ranks_side_by_side() -> None:
    worker = said(1)
    del worker["environment"]["CPATH"]
    lines = comparison.table([said(0), worker]).splitlines()
    assert lines[0].split() == ["rank", "0", "rank", "1"]
    assert lines[1].split() == ["host", "spark-a", "spark-b"]
    assert ["CPATH", "/usr/local/cuda/include", "-"] in [line.split() for line in lines]
    assert ["cores", "20", "of", "20", "20", "of", "20"] in [line.split() for line in lines]


def test_what_ranks_say_survives_mpirun() -> None:
    text = (
        f"warning\n[1,1]<stdout>: {portrait.as_line(said(1))}\r\n{portrait.as_line(said(0))}\n{portrait.MARK}broken\n"
    )
    assert portrait.from_output(text) == [said(0), said(1)]
    # Two of them at once are not mixed as long as each is read in one piece.
    assert len(portrait.as_line(said(0))) < 2000


# mpirun's command line.


def command(version: str) -> list[str]:
    return list(launcher.mpirun(PLAN, version, Path("/h"), Path("/s"), "enp1s0f1np1,enP2p1s0f1np1"))


def has(words: t.Sequence[str], *part: str) -> bool:
    return any(tuple(words[start : start + len(part)]) == part for start in range(len(words)))


@pytest.mark.parametrize("version", ["4.1.4", "4.1.9a1", "5.0.7"])
def test_nothing_is_left_to_what_mpirun_finds(version: str) -> None:
    words = command(version)
    networks = "192.168.100.0/24,192.168.101.0/24"
    for part in (
        ("--hostfile", "/h"),
        ("-np", "2"),
        ("--map-by", "ppr:1:node"),
        ("--bind-to", "none"),
        ("--mca", "pml", "ob1"),
        ("--mca", "btl", "tcp,self"),
        ("--mca", "btl_tcp_if_include", networks),
        ("-x", "HF_HUB_OFFLINE"),
    ):
        assert has(words, *part)
    # The interfaces' names are each Spark's own.
    assert not any(word.startswith("NCCL_") for word in words)


def test_each_spark_runs_one_rank() -> None:
    many = dataclasses.replace(PLAN, workers=("192.168.100.11", "192.168.100.12", "192.168.100.13"))
    assert has(launcher.mpirun(many, "4.1.4", Path("/h"), Path("/s"), ""), "-np", "4")


def test_the_launcher_is_spelled_as_its_release_has_it() -> None:
    assert has(command("4.1.4"), "--mca", "plm_rsh_agent", "ssh -F /s")
    assert has(command("4.1.4"), "--mca", "oob_tcp_if_include", "192.168.100.0/24,192.168.101.0/24")
    assert has(command("5.0.7"), "--prtemca", "plm_ssh_agent", "ssh -F /s")
    assert has(command("5.0.7"), "--prtemca", "prte_if_include", "enp1s0f1np1,enP2p1s0f1np1")
    assert "oob_tcp_if_include" not in command("5.0.7")


# What mpirun says, as seen with Open MPI 4.1.4 and 5.0.7.
GUESSES = """--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:

* not finding the required libraries and/or binaries on
"""
LOST = """--------------------------------------------------------------------------
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-spark-a-6@0,0] on node spark-a
"""


@pytest.mark.parametrize(
    ("output", "meaning"),
    [
        (
            "ssh: connect to host 192.168.100.11 port 2233: Connection refused\n" + GUESSES,
            "nothing listens at 192.168.100.11 port 2233; see the log of the worker's container, which runs sshd there",
        ),
        (
            "root@192.168.100.11: Permission denied (publickey).\n" + LOST,
            "the worker rejects the head's key; run the playbook again, which writes the keys to all Sparks",
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n" + GUESSES,
            "the worker's host key is not the one that the playbook recorded",
        ),
        (
            "No ED25519 host key is known for [192.168.100.11]:2233 and you have requested strict checking.\n" + LOST,
            "the worker's host key is not the one that the playbook recorded",
        ),
        (
            "ssh: connect to host 192.168.100.11 port 2233: No route to host\n" + GUESSES,
            "the worker does not answer at 192.168.100.11 port 2233; check the cable, the other Spark and its firewall",
        ),
        (
            "[launch] an earlier rank on the worker cannot be ended (processes 17); reboot it\n" + GUESSES,
            "the worker's container refuses: an earlier rank on the worker cannot be ended (processes 17); reboot it",
        ),
        (
            "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.",
            "mpirun's daemon on the worker has ended",
        ),
        (
            "a daemon failed to report back",
            "mpirun's daemon on the worker could not connect back to the head at 192.168.100.10",
        ),
        (LOST, "mpirun's daemon on the worker has ended"),
        ("There are not enough slots available", "mpirun found both addresses on one Spark"),
        (
            "noise\n" + "-" * 40 + "\nThe value is wrong.\n\nThis should be reported.\n" + "-" * 40,
            "mpirun ended with exit code 1: The value is wrong.",
        ),
        ("only a word\n", "mpirun ended with exit code 1: only a word"),
        ("", "mpirun ended with exit code 1: it printed nothing"),
    ],
)
def test_what_mpirun_says_is_explained(output: str, meaning: str) -> None:
    assert launcher.explain(output, 1, PLAN).startswith(meaning)


def test_an_mpirun_that_hangs_is_explained() -> None:
    text = launcher.explain("", None, PLAN)
    assert text.startswith("mpirun has not ended within 60 s; check that 192.168.100.10 and 192.168.100.11 are the")
    assert launcher.explain("Connection refused", None, PLAN).startswith("nothing listens at ")


# A rank, and check as a whole.


def test_a_rank_says_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("NCCL_IB_HCA", "rocep1s0f1")
    monkeypatch.setenv("OMPI_MCA_orte_hnp_uri", "its own")
    monkeypatch.setenv("PASSED", "yes")
    monkeypatch.setenv("DGX_SPARK_FABRIC_ADDRESSES", "127.0.0.1,192.0.2.1")
    (tmp_path / "model-00001.safetensors").write_bytes(b"weights")
    (tmp_path / "README.md").write_text("the head only", encoding="utf-8")
    rank = portrait.show(1, [str(tmp_path), str(tmp_path / "gone")], ["PASSED"], {"vLLM": "0.32.0"})
    assert rank["rank"] == 1
    assert rank["gone"] == ["192.0.2.1"]
    assert rank["environment"]["NCCL_IB_HCA"] == "rocep1s0f1"
    assert rank["environment"]["PASSED"] == "yes"
    assert "OMPI_MCA_orte_hnp_uri" not in rank["environment"]
    assert rank["cores"] == len(os.sched_getaffinity(0))
    assert "lo" in rank["interfaces"]
    assert rank["paths"][str(tmp_path)].startswith("1 files, 7 bytes, ")
    assert rank["paths"][str(tmp_path / "gone")] is None


def test_a_model_with_a_part_missing_is_incomplete(tmp_path: Path) -> None:
    whole = portrait.describe_path(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"weights")
    assert portrait.describe_path(tmp_path) != whole
    (tmp_path / "b.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    assert portrait.describe_path(tmp_path) is None


def test_another_model_of_the_same_size_is_told(tmp_path: Path) -> None:
    weights, config = tmp_path / "a.safetensors", tmp_path / "config.json"
    config.write_text('{"layers": 1}', encoding="utf-8")
    size = 3 * portrait.END_BYTES
    found = set()
    for position in (None, 0, portrait.END_BYTES + 1, size - 1):
        data = bytearray(size)
        if position is not None:
            data[position] = 1
        weights.write_bytes(data)
        found.add(portrait.describe_path(tmp_path))
    # What lies between the ends is not read.
    assert len(found) == 3
    config.write_text('{"layers": 2}', encoding="utf-8")
    assert portrait.describe_path(tmp_path) not in found
    assert all(text and text.startswith(f"2 files, {size + 13} bytes, ") for text in found)


# A test double of mpirun, which runs the program twice here, as if on two Sparks, or does what the test says.
MPIRUN = """#!{python}
import os, subprocess, sys, time
if sys.argv[1:] == ["--version"]:
    print("mpirun (Open MPI) 4.1.4")
    sys.exit()
if os.environ.get("DOUBLE_SAYS"):
    print(os.environ["DOUBLE_SAYS"], file=sys.stderr)
    sys.exit(1)
if os.environ.get("DOUBLE_HANGS"):
    child = subprocess.Popen(["sleep", "73"])
    print("child", child.pid, flush=True)
    child.wait()
program = sys.argv[sys.argv.index("{python}"):]
for rank in "01":
    environment = dict(os.environ, OMPI_COMM_WORLD_RANK=rank)
    environment.update(setting.split("=", 1) for setting in os.environ.get("DOUBLE_RANK_" + rank, "").split())
    run = "import socket, sys; socket.gethostname = lambda: 'spark-' + '" + rank + "'; " \\
          "sys.argv[:] = sys.argv[1:]; sys.path.insert(0, '{files}'); import entrypoint, pathlib; " \\
          "from server import rdma; " \\
          "rdma.CLASS, rdma.NODES = (pathlib.Path('{directory}') / name for name in ('verbs', 'nodes')); " \\
          "sys.exit(entrypoint.main(sys.argv[1:]))"
    subprocess.run([program[0], "-c", run, *program[1:]], env=environment, check=True)
"""
CHECK = """
import pathlib, sys
sys.path.insert(0, sys.argv.pop(1))
from server import cluster
directory = pathlib.Path(sys.argv.pop(1))
cluster.RUN, cluster.KEYS = directory / "run", directory / "cluster"
from server import ranks
from server.launchers.mpi import mpirun
mpirun.MPIRUN_TIMEOUT_S = float(sys.argv.pop(1))
ranks.STATE = directory / "state"
sys.exit(ranks.main(sys.argv[1:]))
"""
NETWORK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_HCA": "rocep1s0f1"}


class Checked(t.NamedTuple):
    code: int
    output: str
    report: dict[str, t.Any]


@pytest.fixture(name="check")
def fixture_check(tmp_path: Path) -> t.Callable[..., Checked]:
    rdma_device(tmp_path, "rocep1s0f1")
    rdma_node(tmp_path)
    for name in ("state", "cluster", "bin"):
        (tmp_path / name).mkdir()
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / "cluster" / name).touch()
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.write_text(MPIRUN.format(python=sys.executable, files=FILES, directory=tmp_path), encoding="utf-8")
    mpirun.chmod(0o755)
    (tmp_path / "options.yml").write_text("x: 1\n", encoding="utf-8")

    def check(
        *arguments: str,
        head: str = "127.0.0.1",
        worker: str = "192.0.2.11",
        timeout: float = 20,
        action: str = "check",
        **environment: str,
    ) -> Checked:
        base = {name: value for name, value in os.environ.items() if not name.startswith(portrait.PREFIXES)}
        options = [
            "--head",
            head,
            "--worker",
            worker,
            "--subnet",
            "127.0.0.0/8",
            "--path",
            str(tmp_path / "options.yml"),
        ]
        found = subprocess.run(
            [sys.executable, "-c", CHECK, str(FILES), str(tmp_path), str(timeout), action, *options, *arguments],
            env={**base, "PATH": f"{mpirun.parent}:{base['PATH']}", **NETWORK, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
        path = tmp_path / "state" / "ranks.json"
        report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return Checked(found.returncode, found.stdout + found.stderr, report)

    return check


def test_check_writes_down_what_both_ranks_said(check: t.Callable[..., Checked], tmp_path: Path) -> None:
    found = check(NCCL_DEBUG="INFO")
    assert found.code == 0, found.output
    assert [rank["host"] for rank in found.report["ranks"]] == ["spark-0", "spark-1"]
    assert found.report["differences"] == []
    assert found.report["ranks"][1]["environment"]["NCCL_DEBUG"] == "INFO"
    assert "[ranks] comparison of the ranks:" in found.output
    hostfile = (tmp_path / "run" / "hostfile").read_text(encoding="utf-8")
    assert hostfile == "127.0.0.1 slots=1\n192.0.2.11 slots=1\n"
    ssh = (tmp_path / "run" / "ssh_config").read_text(encoding="utf-8").splitlines()
    assert {"Port 2233", "BatchMode yes", "StrictHostKeyChecking yes", "IdentitiesOnly yes"} <= set(ssh)
    assert f"UserKnownHostsFile {tmp_path / 'cluster' / 'known_hosts'}" in ssh


def test_a_start_on_a_full_disk_needs_none_of_it(check: t.Callable[..., Checked], tmp_path: Path) -> None:
    assert check().code == 0
    (tmp_path / "state" / "ranks.json").unlink()
    # Nothing can be made in either, and nothing need be.
    for name in ("state", "run"):
        (tmp_path / name).chmod(0o500)
    try:
        before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
        assert before.keys() == {"hostfile", "ssh_config"}
        found = check()
        assert found.code == 0, found.output
        assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before
    finally:
        for name in ("state", "run"):
            (tmp_path / name).chmod(0o700)


def test_what_cannot_be_written_is_named(check: t.Callable[..., Checked], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "hostfile").mkdir()
    found = check()
    assert found.code == ranks.NOT_STARTED
    assert found.report["problem"].startswith(f"{tmp_path / 'run' / 'hostfile'} cannot be written (")


def test_a_difference_ends_check_with_its_name_as_the_last_word(check: t.Callable[..., Checked]) -> None:
    found = check(DOUBLE_RANK_0="UCX_TLS=tcp")
    assert found.code == ranks.DIFFERENT
    last = found.output.splitlines()[-1]
    assert last == "[ranks] rank 1 on spark-1 does not have UCX_TLS, which others have; run the playbook again"
    assert [difference["what"] for difference in found.report["differences"]] == ["UCX_TLS"]


def test_what_mpirun_fails_for_is_the_last_word(check: t.Callable[..., Checked]) -> None:
    found = check(DOUBLE_SAYS="root@192.0.2.11: Permission denied (publickey).")
    assert found.code == ranks.NOT_STARTED
    assert found.output.splitlines()[-1].startswith(
        "[ranks] the ranks cannot be started: the worker rejects the head's key"
    )
    assert found.report["problem"].startswith("the worker rejects the head's key")


def test_an_mpirun_that_hangs_is_ended_with_what_it_has_started(check: t.Callable[..., Checked]) -> None:
    found = check(DOUBLE_HANGS="yes", timeout=3)
    assert found.code == ranks.NOT_STARTED
    assert "mpirun has not ended within 3 s" in found.report["problem"]
    child = next(line.split()[1] for line in found.output.splitlines() if line.startswith("child "))
    gone = Path(f"/proc/{child}/stat")
    assert not gone.exists() or gone.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        (
            {"head": "192.0.2.10"},
            "192.0.2.10, this Spark's fabric address, is on none of its interfaces",
        ),
        ({"worker": "127.0.0.1"}, "127.0.0.1, configured as another Spark's address, is this Spark's own"),
    ],
)
def test_addresses_that_mpirun_would_hang_for_are_refused_before(
    check: t.Callable[..., Checked], addresses: dict[str, str], problem: str
) -> None:
    found = check(**addresses)
    assert found.code == ranks.NOT_STARTED
    assert found.report["problem"].startswith(problem)


def test_missing_keys_are_named(check: t.Callable[..., Checked], tmp_path: Path) -> None:
    (tmp_path / "cluster" / "id_ed25519").unlink()
    assert (
        check().report["problem"]
        == "the cluster's id_ed25519 is missing; run the playbook again, which creates the keys"
    )


def test_serve_becomes_mpirun_with_the_model_linked_on_each_rank(
    check: t.Callable[..., Checked], tmp_path: Path
) -> None:
    link = tmp_path / "models" / "name"
    command = ["sh", "-c", f"echo serving $OMPI_COMM_WORLD_RANK from $(readlink {shlex.quote(str(link))})"]
    found = check("--link", "/models/target", str(link), "--", *command, action="serve")
    assert found.code == 0, found.output
    lines = [line for line in found.output.splitlines() if line.startswith("serving")]
    assert lines == ["serving 0 from /models/target", "serving 1 from /models/target"]


def test_the_comparison_changes_nothing() -> None:
    two = [said(0), said(1)]
    before = copy.deepcopy(two)
    compare(two)
    assert two == before
