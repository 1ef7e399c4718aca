# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which images are known by name, and which of them nothing uses."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import LABEL, images

IN_SLOT = {f"{LABEL}deployment": "now"}


def record(place: Path, image: str, **values: t.Any) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    about = {"reference": image, "id": f"sha256:{image}"}
    place.write_text(json.dumps({"deployment": "mine", "image": about, **values}), encoding="utf-8")


def served(state: Path) -> None:
    record(state / "now/record.json", "release:3")
    record(state / "previous.json", "release:2")
    record(state / "older/record.json", "release:1", cluster={"image": "made:1"})


def test_what_is_in_use_is_known_and_not_unused(tmp_path: Path) -> None:
    served(tmp_path)
    found = images(tmp_path, IN_SLOT)
    assert found["known"] == ["made:1", "release:1", "release:2", "release:3"]
    assert found["unused"] == ["made:1", "release:1"]
    assert found["ids"] == ["sha256:release:2", "sha256:release:3"]


def test_without_a_container_any_deployment_may_come_back(tmp_path: Path) -> None:
    served(tmp_path)
    found = images(tmp_path, {})
    assert found["unused"] == []
    assert len(found["ids"]) == 3


def test_the_names_outlive_the_records(tmp_path: Path) -> None:
    served(tmp_path)
    kept = images(tmp_path, IN_SLOT)["receipts"]
    other = tmp_path / "other"
    (other / "images").mkdir(parents=True)
    for file in kept:
        (other / "images" / file["name"]).write_text(file["content"], encoding="utf-8")
    found = images(other, {})
    assert found["known"] == found["unused"] == ["made:1", "release:1", "release:2", "release:3"]
    # As they were kept.
    assert found["receipts"] == kept


def test_what_cannot_be_read_may_be_in_use(tmp_path: Path) -> None:
    served(tmp_path)
    (tmp_path / "older/record.json").write_text("{", encoding="utf-8")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.json").write_text(json.dumps({"reference": "release:0"}), encoding="utf-8")
    (tmp_path / "images/b.json").write_text("{", encoding="utf-8")
    found = images(tmp_path, IN_SLOT)
    assert found["known"] == ["release:0", "release:2", "release:3"]
    assert (found["unused"], found["ids"]) == ([], None)


def test_what_is_no_name_is_left_out(tmp_path: Path) -> None:
    record(tmp_path / "now/record.json", "release:\ud800")
    (tmp_path / "images").mkdir()
    for number, name in enumerate((["release:1"], "release:\n", "\ud800", "")):
        (tmp_path / f"images/{number}.json").write_text(json.dumps({"reference": name}), encoding="utf-8")
    assert images(tmp_path, IN_SLOT)["known"] == []
