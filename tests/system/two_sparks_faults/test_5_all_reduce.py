# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first all-reduce of two Sparks, which in some releases dies or never ends (NVIDIA/TensorRT-LLM issue 12715)."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from tests import playbook
from tests.joining import Pair, words

# The page's image, and so long that both ranks have loaded.
PAGE = {"recipe": "qwen3_235b_a22b_eagle3_1_3", "speculative_serve_ready_timeout": 90}


@pytest.fixture
def fault(pair: Pair) -> t.Callable[[str], t.ContextManager[None]]:
    @contextlib.contextmanager
    def broken(kind: str) -> t.Iterator[None]:
        with contextlib.ExitStack() as stack:
            for spark in pair.sparks:
                stack.enter_context(spark.fault(all_reduce=kind))
            yield

    return broken


def test_one_that_dies_is_named_with_the_image_that_works(fault: t.Callable[[str], t.ContextManager[None]]) -> None:
    with fault("dies"):
        text = words(playbook.fail("serve", variables=PAGE))
    assert "on two Sparks the all-reduce of this release may crash" in text
    assert "The all-reduce of this release crashes on two Sparks" in text
    assert "Use the image 1.2.0rc6" in text


def test_one_that_hangs_is_where_the_start_stands(fault: t.Callable[[str], t.ContextManager[None]]) -> None:
    with fault("hangs"):
        text = words(playbook.fail("serve", variables=PAGE))
    assert "the two Sparks reduce together for the first time" in text


def test_the_recipes_own_image_has_no_such_all_reduce(fault: t.Callable[[str], t.ContextManager[None]]) -> None:
    with fault("dies"):
        text = words(playbook.succeed("two_sparks"))
    assert "spark-1 and spark-2 serve Qwen3-235B-A22B-FP4 with EAGLE-3" in text
    assert "12715" not in text
    playbook.succeed("cleanup", variables={"yes": True})
