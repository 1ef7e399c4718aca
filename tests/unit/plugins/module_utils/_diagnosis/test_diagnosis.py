# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import struct
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.lines import fit_lines
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis import diagnosis, evidence
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.deployment_facts import Disk, Source
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.server_facts import ServerFacts

NOW = 1_800_000_000.0
END = "\n[entrypoint] the server ended with exit code 1\n"
TRACEBACK = "Traceback (most recent call last):\n  File x\n"
WELL = evidence.Evidence(
    docker="usable",
    gpu_by="hook",
    slot={
        "Id": "1",
        "State": {"Status": "running", "StartedAt": "2026-01-01T00:00:00Z"},
        "HostConfig": {"IpcMode": "host"},
    },
    state={"state": "running", "since": NOW},
    look=ServerFacts("ready"),
    recorded=("mine",),
    default_route=True,
    name_servers=["x"],
    now=NOW,
)
FAILED: dict[str, t.Any] = {
    "state": {"state": "failed", "since": NOW, "last_exit": {"code": 1, "at": NOW}},
    "look": None,
}


def judge(**changes: t.Any) -> diagnosis.Diagnosis:
    return diagnosis.diagnose(dataclasses.replace(WELL, **changes))


def ids(judged: diagnosis.Diagnosis, severity: str = "cause") -> list[str]:
    return [finding.id for finding in judged.findings if finding.severity == severity]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "healthy"),
        ({"look": None}, "unknown"),
        ({"look": ServerFacts("loading")}, "unknown"),
        ({"look": ServerFacts("busy", "No token came")}, "warning"),
        ({"look": ServerFacts("unhealthy", "It refused")}, "unknown"),
        ({"state": None, "look": None}, "problem"),
        ({"state": {"state": "loading", "since": NOW}, "look": None}, "warning"),
        ({"slot": None, "state": None, "look": None, "recorded": ()}, "nothing_deployed"),
        ({"slot": None, "state": None, "look": None}, "problem"),
        ({"failure": "A run failed strangely"}, "unknown"),
        ({**FAILED, "server_log": f"{TRACEBACK}KeyError: 'x'{END}"}, "unknown"),
        ({**FAILED, "server_log": f"all was quiet{END}"}, "unknown"),
        ({**FAILED, "server_log": f"CUDA out of memory{END}"}, "problem"),
    ],
)
def test_verdict(changes: dict[str, t.Any], verdict: str) -> None:
    assert judge(**changes).verdict == verdict


def test_an_old_state_file_does_not_count() -> None:
    old = {"state": "running", "since": NOW - 10**9}
    assert judge(state=old).verdict != "healthy"


def test_an_unknown_log_shows_its_last_lines() -> None:
    log = f"loading\n{TRACEBACK}KeyError: 'midlayer'\nRuntimeError: Executor worker returned error{END}"
    judged = judge(**FAILED, server_log=log)
    assert judged.verdict == "unknown"
    assert judged.findings[0].id == "unknown"
    assert judged.findings[0].evidence == "KeyError: 'midlayer'"
    assert "    KeyError: 'midlayer'" in judged.lines


def test_a_wrapper_counts_where_nothing_better_is_found() -> None:
    judged = judge(**FAILED, server_log=f"mpirun detected that one or more processes exited with non-zero status{END}")
    assert (judged.verdict, ids(judged)) == ("problem", ["mpi_rank_died"])
    judged = judge(**FAILED, server_log=f"CUDA out of memory\nExecutor worker returned error{END}")
    assert ids(judged) == ["memory_cuda"]
    assert "executor_worker_died" not in [finding.id for finding in judged.findings]


@pytest.mark.parametrize("shared_memory", [None, Disk("shared memory", "/dev/shm", 4096, 60 * 10**9)])
def test_an_engine_that_ends_without_a_trace_is_found_whatever_a_client_did_before(shared_memory: Disk | None) -> None:
    log = (
        "(APIServer pid=1) ERROR 11-28 04:12:47 [serving.py:203] Request cmpl-1 failed with an internal error during"
        ' generation\nINFO:     127.0.0.1:41 - "POST /v1/completions HTTP/1.1" 200 OK\n'
        "(APIServer pid=1) WARNING 11-28 04:20:47 [core_client.py:817] [shutdown] MPClient: engine core exited"
        f" unexpectedly; starting cleanup\nINFO:     Finished server process [1]{END}"
    )
    judged = judge(**FAILED, server_log=log, shared_memory=shared_memory)
    assert judged.verdict == "problem"
    assert ids(judged) == (["shared_memory_full"] if shared_memory else ["core_killed"])


def test_a_full_shared_memory_of_the_spark_is_no_business_of_a_container_with_its_own(tmp_path: Path) -> None:
    full = Disk("shared memory", "/dev/shm", 4096, 60 * 10**9)
    assert ids(judge(shared_memory=full), "warning") == ["shared_memory_full"]
    assert judge(shared_memory=full._replace(free=10**9)).verdict == "healthy"
    own = {**(WELL.slot or {}), "HostConfig": {"IpcMode": "private"}}
    assert judge(shared_memory=full, slot=own).verdict == "healthy"


TRIAL = {"id": "draft-3", "title": "draft length 3"}
SWITCHED = f"CUDA out of memory{END}[entrypoint] switching to a trial: draft length 3\n"


@pytest.mark.parametrize(
    ("state", "evidence"),
    [
        ({"state": "running", "trial": TRIAL}, "draft length 3"),
        ({"state": "loading", "trial": TRIAL, "last_exit": None}, "draft length 3"),
        ({"state": "restarting", "trial": TRIAL, "last_exit": None}, "draft length 3"),
        (
            {
                "state": "trial failed",
                "trial": TRIAL,
                "reason": "CUDA out of memory",
                "last_exit": {"code": None, "signal": 9, "at": NOW, "reason": "CUDA out of memory"},
            },
            "draft length 3, which failed: CUDA out of memory",
        ),
    ],
)
def test_a_benchmark_is_no_problem_of_the_deployment(state: dict[str, t.Any], evidence: str) -> None:
    judged = judge(state={"since": NOW, **state}, look=ServerFacts("trial"), server_log=SWITCHED)
    assert (judged.verdict, ids(judged)) == ("warning", [])
    assert [finding.evidence for finding in judged.findings if finding.id == "trial"] == [evidence]


def test_what_was_ended_for_another_server_has_not_failed() -> None:
    loading: dict[str, t.Any] = {"state": "restarting", "since": NOW, "trial": None, "last_exit": None, "reason": "why"}
    judged = judge(state=loading, look=None, server_log=SWITCHED)
    assert (judged.verdict, judged.findings[0].evidence) == ("warning", "why")
    loading["state"] = "loading"
    assert judge(state=loading, look=None, server_log=SWITCHED).verdict == "warning"
    # Without a switch it has.
    loading["last_exit"] = {"code": 1, "at": NOW}
    assert ids(judge(state=loading, look=None, server_log=SWITCHED)) == ["memory_cuda"]


def test_the_root_comes_first() -> None:
    job = {"finished": True, "error": "Pulling x failed: could not be reached well enough (no such host)", "ended": NOW}
    judged = judge(jobs={"pull": job}, name_servers=[], slot=None, state=None, look=None)
    assert ids(judged) == ["no_name_server"]
    assert "pull_network" in ids(judged, "hint")
    assert judged.lines[0] == "problem found"
    assert "name server" in judged.lines[1]


def test_what_is_usual_is_no_cause() -> None:
    memory = {"MemTotal": 100, "MemFree": 1, "Cached": 90}
    judged = judge(failure="The recipe has no target model", memory=memory, default_route=False, slot=None, state=None)
    assert judged.verdict == "unknown"
    assert ids(judged) == []


def test_old_kernel_lines_and_old_jobs_do_not_count() -> None:
    lines = [evidence.KernelLine(1.0, "Out of memory: Killed process 1 (x)")]
    assert "oom_killed" not in [finding.id for finding in judge(kernel=lines, **FAILED).findings]
    job = {"finished": True, "error": "The registry does not hand out x", "ended": 1.0}
    assert judge(jobs={"pull": job}).verdict == "healthy"


def test_a_server_that_generates_has_warnings_and_no_causes() -> None:
    lines = [evidence.KernelLine(NOW, "NVRM: Xid (PCI:000f:01:00): 31, pid=1")]
    judged = judge(kernel=lines, server_log=f"CUDA out of memory{END}UCX  WARN  network device 'x' is not available")
    assert (judged.verdict, ids(judged), ids(judged, "warning")) == ("warning", [], ["gpu_xid"])
    assert ids(judged, "information") == ["ucx_device"]


def test_the_log_of_what_was_undone_counts_for_a_failed_run_only(tmp_path: Path) -> None:
    failed: dict[str, t.Any] = {"failed_log": f"No such option: --x{END}", "failed_log_at": NOW - 5}
    failed["failed_log_path"] = tmp_path / "failed.log"
    judged = judge(failure="The server ended with exit code 2", **failed)
    assert (judged.verdict, ids(judged)) == ("problem", ["cli_option_unknown"])
    judged = judge(**failed)
    assert (judged.verdict, ids(judged, "information")) == ("healthy", ["earlier_attempt"])
    # A log of last week says nothing about the run of today.
    assert judge(failure="x", **{**failed, "failed_log_at": NOW - 10**6}).verdict == "unknown"


def test_lines_are_short_and_say_what_could_not_be_read() -> None:
    source = Source("kernel log", False, "dmesg: read kernel buffer failed: Operation not permitted")
    changes = {**FAILED, "server_log": f"CUDA out of memory {'x ' * 300}{END}", "sources": [source]}
    judged = diagnosis.diagnose(dataclasses.replace(WELL, **changes), "spark-1")
    assert judged.lines[0] == "spark-1: problem found"
    printed = fit_lines(judged.lines)
    assert max(map(len, printed)) <= 100
    # Each text stays in its column.
    assert all(line[:2] == "  " and (line[2] != " " or line[:15].isspace()) for line in printed[1:])
    assert len(judged.lines) < 25
    assert any("not checked  kernel log (dmesg: read" in line for line in judged.lines)
    assert f"  more         {diagnosis.PAGE}#memory_cuda" in judged.lines


def test_what_is_unknown_has_no_entry_on_the_page() -> None:
    judged = judge(failure="A run failed strangely")
    assert judged.findings[0].id == diagnosis.UNKNOWN
    assert diagnosis.PAGE not in " ".join(judged.lines)


def test_demultiplex() -> None:
    frames = b"".join(struct.pack(">B3xI", number, len(data)) + data for number, data in [(1, b"out\n"), (2, b"err\n")])
    assert evidence.demultiplex(frames) == b"out\nerr\n"
    assert evidence.demultiplex(frames + frames[:10]) == b"out\nerr\nou"
    assert evidence.demultiplex(b"a container with a terminal") == b"a container with a terminal"


def test_the_journal_of_systemd_oomd() -> None:
    text = "1800000000.25 spark systemd-oomd[812]: Killed /a due to b\n"
    assert evidence.parse_kernel(text, None) == [evidence.KernelLine(1800000000.25, "Killed /a due to b")]


@pytest.mark.parametrize(
    ("links", "greeter", "expected"),
    [
        ({"etc/systemd/system/display-manager.service": "/lib/systemd/system/gdm3.service"}, "", True),
        (
            {"etc/systemd/system/display-manager.service": "/lib/systemd/system/gdm.service"},
            "# sleep-inactive-ac-type='nothing'\n",
            True,
        ),
        (
            {"etc/systemd/system/display-manager.service": "/lib/systemd/system/gdm3.service"},
            "[org/gnome/settings-daemon/plugins/power]\nsleep-inactive-ac-type='nothing'\n",
            False,
        ),
        (
            {
                "etc/systemd/system/display-manager.service": "/lib/systemd/system/gdm3.service",
                "etc/systemd/system/sleep.target": "/dev/null",
            },
            "",
            False,
        ),
        ({"etc/systemd/system/display-manager.service": "/lib/systemd/system/lightdm.service"}, "", False),
        ({}, "", False),
    ],
)
def test_whether_a_machine_may_sleep(tmp_path: Path, links: dict[str, str], greeter: str, expected: bool) -> None:
    for name, target in links.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    (tmp_path / "etc/gdm3").mkdir(parents=True)
    (tmp_path / "etc/gdm3/greeter.dconf-defaults").write_text(greeter, encoding="utf-8")
    assert bool(evidence.may_sleep(tmp_path)) is expected


def test_kernel_log_of_dmesg_and_journalctl() -> None:
    text = "[    1.500000] one\n<6>[  2.0] two\n1800000000.25 spark kernel: three\nfour\n"
    assert evidence.parse_kernel(text, 1000.0) == [
        (1001.5, "one"),
        (1002.0, "two"),
        (1_800_000_000.25, "three"),
        (None, "four"),
    ]


def test_network() -> None:
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    way = "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    assert evidence.has_default_route(head + way, "")
    assert not evidence.has_default_route(head + way.replace("\t0003\t", "\t0002\t"), "")
    assert not evidence.has_default_route(head, f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200 lo")
    assert evidence.has_default_route(head, f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} 00000400 1 0 00450003 eth0")
    assert evidence.parse_name_servers("# nameserver 1\nnameserver 9.9.9.9\nsearch lan\n") == ["9.9.9.9"]


def test_a_command_that_fails_says_why() -> None:
    assert evidence.run("echo", "x") == "x\n"
    for command, reason in [
        (("no-such-program",), "there is no no-such-program"),
        (("sh", "-c", "echo why >&2; exit 3"), "why"),
        (("false",), "false ended with exit code 1"),
    ]:
        with pytest.raises(OSError, match=reason):
            evidence.run(*command)


def test_a_message_is_evidence_up_to_the_sentence_that_shows_the_cause() -> None:
    text = "The image x rejects the engine options: max_batch: Extra inputs are not permitted. Correct the options."
    judged = judge(**FAILED, failure=text)
    assert judged.findings[0].id == "engine_option_unknown"
    assert judged.findings[0].evidence == text.removesuffix(" Correct the options.")
