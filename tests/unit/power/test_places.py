# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.power import places

FILES = {
    "record": f"{places.STATE}/single/record.json",
    "generation": f"{places.STATE}/single/generations/000000000002/server/part3.py",
    "keys": f"{places.STATE}/proxy/keys/version2",
    "unit": places.Unit.path,
    "netplan": places.Netplan.path,
    "model": f"{places.STATE}/models/models--power--model.json",
    "download": f"{places.STATE}/models/models--power--download.json",
    "job": f"{places.STATE}/jobs/power/job.json",
    "benchmark": f"{places.STATE}/benchmark/trial/lease.json",
}


@pytest.mark.parametrize("kind", places.PLACES, ids=lambda kind: kind.name)
def test_what_is_written_is_read_and_half_of_it_is_noticed(tmp_path: Path, kind: type[places.Place]) -> None:
    (tmp_path / "etc/netplan").mkdir(parents=True)
    place = kind(tmp_path)
    assert place.read() is None
    for number in (1, 2):
        place.write(number)
        assert place.read() == number
    assert places.look(tmp_path)[kind.name] == {"version": 2, "open": []}
    file = tmp_path / FILES[kind.name]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "half" in places.look(tmp_path)[kind.name]


def test_a_model_whose_content_never_reached_the_disk_is_noticed(tmp_path: Path) -> None:
    place = places.Copy(tmp_path)
    place.write(1)
    (blob,) = (tmp_path / "home/spark/.cache/huggingface/hub/models--power--model/blobs").iterdir()
    status = blob.stat()
    with blob.open("r+b") as file:
        file.write(b"\0" * 4096)
    os.utime(blob, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(places.HalfError, match="another content"):
        place.read()


def test_a_secret_that_others_can_read_is_noticed(tmp_path: Path) -> None:
    place = places.Netplan(tmp_path)
    (tmp_path / "etc/netplan").mkdir(parents=True)
    place.write(1)
    draft = tmp_path / "etc/netplan/.40-dgx-spark-speculative.yaml.new"
    draft.write_text("secret", encoding="utf-8")
    draft.chmod(0o644)
    assert place.open_files() == [str(draft)]
