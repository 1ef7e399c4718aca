# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nothing that is refused leaves a trace."""

from __future__ import annotations

import typing as t

import pytest

from tests import fingerprint
from tests.twin.control import Internet, Spark


@pytest.fixture(scope="session", autouse=True)
def begin(new_sparks: t.Callable[..., None]) -> None:
    """With a bare Spark."""
    new_sparks(1)


@pytest.fixture(autouse=True)
def nothing_is_touched(spark: Spark, internet: Internet) -> t.Iterator[None]:
    """The point of refusing early: neither the Spark nor the bill for downloads has changed.

    Access to Docker is the one thing that is arranged before the checks that need it.
    """
    before = without_docker_group(fingerprint.take())
    yield
    assert fingerprint.difference(before, without_docker_group(fingerprint.take())) == []
    # A lone manifest's configuration is read for the processor that it is made for.
    assert internet.bytes_to(spark.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") < 30_000
    # The descriptions of the models are read to compare target and draft, and for the plan of the memory.
    assert internet.bytes_to(spark.address, "huggingface.co/openai") < 30_000
    assert internet.bytes_to(spark.address, "cdn-lfs.huggingface.co") == 0


def without_docker_group(text: str) -> str:
    return "\n".join(
        line for line in text.splitlines() if not line.startswith(("docker:", "/etc/group", "/etc/gshadow"))
    )
