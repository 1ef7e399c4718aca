# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import machine
from ansible_collections.dgx_spark.speculative.plugins.modules import spark_info

from tests.unit import modules


def look() -> dict[str, t.Any]:
    result = modules.run(spark_info, {})
    assert set(result) == {"changed", "machine"}
    assert result["changed"] is False
    return dict(result["machine"])


@pytest.mark.parametrize(
    ("program", "gpus", "objections"),
    [
        ("echo 'NVIDIA GB10, 580.95.05'", [{"name": "NVIDIA GB10", "driver": "580.95.05"}], []),
        (
            "echo 'NVIDIA H100, 570.1'",
            [{"name": "NVIDIA H100", "driver": "570.1"}],
            ["its GPU is 'NVIDIA H100', not a GB10"],
        ),
    ],
)
def test_what_nvidia_smi_says_decides(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: str,
    gpus: list[dict[str, str]],
    objections: list[str],
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    # A Spark without a cable has no network card on its bus.
    monkeypatch.setattr(machine, "DEVICES", tmp_path)
    result = look()
    assert (result["gpus"], result["problems"]) == (gpus, objections)
    assert result["is_spark"] is (not objections)
    assert result["memory_total"] >= result["memory_available"] > 0


def test_no_nvidia_smi_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "QUERY", ["there-is-no-such-program"])
    assert len(look()["problems"]) == 1


@pytest.mark.parametrize("witness", ["bus", "driver"])
def test_a_spark_with_a_broken_driver_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, witness: str) -> None:
    for name, text in {"nvidia-smi": "#!/bin/sh\necho 'Failed to initialize NVML: x'; exit 18\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    devices, driver = tmp_path / "devices", tmp_path / "version"
    (devices / "000f:01:00.0").mkdir(parents=True)
    if witness == "bus":
        (devices / "000f:01:00.0/vendor").write_text("0x10de\n", encoding="ascii")
        (devices / "000f:01:00.0/device").write_text("0x2e12\n", encoding="ascii")
    else:
        driver.touch()
    monkeypatch.setattr(machine, "DEVICES", devices)
    monkeypatch.setattr(machine, "DRIVER", driver)
    result = look()
    assert (result["is_spark"], result["gpus"]) == (True, [])
    assert "nvidia-smi says 'Failed to initialize NVML: x'" in result["problems"][0]
    assert result["remedy"].startswith("Reboot; ")


@pytest.mark.parametrize(
    ("error", "available", "begins"),
    [
        ("nvidia-smi did not answer within 10 s", 300_000_000, "Next to no memory is available"),
        ("nvidia-smi did not answer within 10 s", 60_000_000_000, "Reboot; "),
        # A broken driver is one, however full the memory is.
        ("nvidia-smi says 'Failed to initialize NVML: x'", 300_000_000, "Reboot; "),
    ],
)
def test_a_full_memory_is_told_from_a_broken_driver(error: str, available: int, begins: str) -> None:
    assert machine.remedy(error, available).startswith(begins)
