# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which images cleaning up knows by their receipts, and what it removes of the kernels that were compiled for them."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from tests.unit.playbooks.conftest import NAME, Said


@pytest.mark.parametrize("is_here", [False, True])
def test_an_image_is_known_before_it_is_pulled_and_one_that_was_here_is_not(
    tmp_path: Path, check: t.Callable[..., Said], is_here: bool
) -> None:
    """The pull of this run fails, since nothing answers; a run that is killed there has written as much."""
    found = {
        "image": {"id": "sha256:1"} if is_here else None,
        "image_store": {"path": str(tmp_path)},
        "slot": {"state": "running"},
    }
    inputs = {
        "engine_container_facts": found,
        "engine_container_registry": {"layers": []},
        "engine_container_image": "release:1",
    }
    said = check("engine_container", "image", inputs=inputs)
    assert (said.code == 0) == is_here, said.text
    receipts = [path.read_text(encoding="utf-8") for path in (tmp_path / NAME / "images").glob("*")]
    assert receipts == ([] if is_here else ['{"reference": "release:1"}\n'])


@pytest.mark.parametrize(
    ("used", "removed"),
    [
        (None, ["", "-aaaaaaaaaaaa", "-bbbbbbbbbbbb", "-cccccccccccc"]),
        ([], ["-aaaaaaaaaaaa", "-bbbbbbbbbbbb", "-cccccccccccc"]),
        (["sha256:" + "a" * 64, "b" * 64], ["-cccccccccccc"]),
    ],
)
def test_kernels_of_images_in_use_stay(
    check: t.Callable[..., Said], used: list[str] | None, removed: list[str]
) -> None:
    """A container has the first volume. One got the last volume in the meantime, which is no failure."""
    handover = {} if used is None else {"used_images": used}
    said = check("engine_container", "caches", inputs={"engine_container_handover": handover})
    assert said.code == 0, said.text
    found = re.findall(rf"item={NAME}-cache(\S*?)[)\s]", said.text)
    assert sorted(set(found)) == removed
    # Of those that were not gone before, the size is shown.
    shown = f"removed {NAME}-cache-aaaaaaaaaaaa (2.1 GB)"
    assert (shown in said.text, said.text.count("(2.1 GB)")) == (not used, 0 if used else 1)
