# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import (
    Gpu,
    GpuError,
    GpuProcess,
    ask_gpu,
    ask_gpu_processes,
    find_functions,
    parse_compute_apps,
    parse_gpus,
    parse_meminfo,
    problems,
)

GB10 = Gpu("NVIDIA GB10", "580.95.05")


def test_gpus_are_read_from_the_query() -> None:
    assert parse_gpus("NVIDIA GB10, 580.95.05\n") == [GB10]
    assert parse_gpus("No devices were found\n") == []


def test_processes_are_read_from_the_query() -> None:
    lines = [
        "4711, /opt/venv/bin/python3, 65804",
        "12, a, b, [N/A]",
        "13, [Not Found], 1",
        "No running processes found",
    ]
    assert parse_compute_apps("\n".join(lines)) == [
        GpuProcess(4711, "python3", 65804 * 2**20),
        GpuProcess(12, "a, b", None),
        GpuProcess(13, None, 2**20),
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["echo", "7, x, 1"], [GpuProcess(7, "x", 2**20)]),
        (["true"], []),
        (["false"], None),
        (["/nowhere/nvidia-smi"], None),
        (["sleep", "60"], None),
    ],
)
def test_who_computes_may_be_unknown(
    command: list[str], expected: list[GpuProcess] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "GPU_DEADLINE_S", 0.5)
    assert ask_gpu_processes(command) == expected


def test_memory_is_in_bytes() -> None:
    text = "MemTotal:       125509400 kB\nHugePages_Total:       7\nbroken\n"
    assert parse_meminfo(text) == {"MemTotal": 125509400 * 1024, "HugePages_Total": 7}


def test_only_functions_of_one_kind_are_counted(tmp_path: Path) -> None:
    for name, vendor, device in (("a", "0x15b3", "0x1021"), ("b", "0x15b3", "0x1017"), ("c", "0x10de", "0x1021")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n", encoding="ascii")
        (tmp_path / name / "device").write_text(f"{device}\n", encoding="ascii")
    (tmp_path / "empty").mkdir()
    assert len(find_functions(tmp_path, ("0x15b3", "0x1021"))) == 1


MISMATCH = "nvidia-smi says 'Failed to initialize NVML: Driver/library version mismatch'"


@pytest.mark.parametrize(
    ("gpus", "error", "witness", "expected"),
    [
        ([GB10], "", False, []),
        ([], "there is no nvidia-smi", False, ["it has no nvidia-smi, or one that finds no GPU"]),
        ([], MISMATCH, False, ["it has no nvidia-smi, or one that finds no GPU"]),
        ([], MISMATCH, True, [f"its GPU driver does not answer: {MISMATCH}"]),
        ([], "", True, ["its GPU driver does not answer: nvidia-smi finds no GPU"]),
        ([Gpu("NVIDIA H100", "1")], "", True, ["its GPU is 'NVIDIA H100', not a GB10"]),
    ],
)
def test_what_is_not_a_sound_spark_says_why(gpus: list[Gpu], error: str, witness: bool, expected: list[str]) -> None:
    assert problems(gpus, error, witness) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        # What nvidia-smi prints between an update of its driver and the reboot, on its standard output.
        (
            ["sh", "-c", r"printf 'Failed to initialize NVML: x\nNVML library version: 580.1\n'; exit 18"],
            "sh says 'Failed to initialize NVML: x NVML library version: 580.1'",
        ),
        (["sh", "-c", "echo out; echo err >&2; exit 9"], "sh says 'err'"),
        (["false"], "false ended with 1"),
        (["no-such-program"], "there is no no-such-program"),
        (["sh", "-c", "trap '' TERM; sleep 60 & wait"], "sh did not answer within 0.3 s"),
    ],
)
def test_a_driver_that_does_not_answer_says_why(
    command: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "GPU_DEADLINE_S", 0.3)
    with pytest.raises(GpuError) as e:
        ask_gpu(command)
    assert str(e.value) == expected


def test_a_disk_counts_once_and_what_is_no_disk_does_not(tmp_path: Path) -> None:
    (blank := tmp_path / "a blank").mkdir()
    place = str(blank).replace(" ", "\\040")
    once = machine.disk_free(f"/dev/sda1 {place} ext4 rw 0 0\n")
    assert once > 0
    more = f"/dev/sda1 {place} ext4 rw 0 0\n/dev/sda1 {tmp_path} ext4 rw 0 0\n/dev/sdb1 /no/such ext4 rw 0 0\n"
    assert machine.disk_free(f"{more}tmpfs / tmpfs rw 0 0\n\n") == pytest.approx(once, rel=0.05)


def test_who_else_ends_programs_when_the_memory_is_short(tmp_path: Path) -> None:
    for pid, name in ((1, "systemd"), (812, "systemd-oomd"), (913, "earlyoom"), (914, "earlyoom")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "comm").write_text(f"{name}\n", encoding="utf-8")
    (tmp_path / "proc/7").mkdir()
    assert machine.oom_daemons(tmp_path) == ["earlyoom", "systemd-oomd"]
    assert machine.oom_daemons(tmp_path / "nowhere") == []
