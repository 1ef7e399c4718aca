# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses and places of the twin: one spelling of each."""

from __future__ import annotations

import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent
CACHE = PACKAGE.parents[1] / ".cache" / "twin"

PREFIX = "dgx-spark-twin"
BASE_IMAGE = f"{PREFIX}/debian:bookworm"
SPARK_IMAGE = f"{PREFIX}/spark"
INTERNET_IMAGE = f"{PREFIX}/internet"

NETWORK = PREFIX
SUBNET = "172.30.57.0/24"
INTERNET = f"{PREFIX}-internet"
INTERNET_ADDRESS = "172.30.57.2"
CONTROL_URL = f"http://{INTERNET_ADDRESS}:8099"
REGISTRY_VOLUME = f"{PREFIX}-registry"
MAX_SPARKS = 2

# The names that the twin's internet answers for; everything else is left to the machine's own resolver.
REGISTRY_HOST = "nvcr.io"
HUB_HOST = "huggingface.co"
CDN_HOST = "cdn-lfs.huggingface.co"
VOCABULARY_HOST = "openaipublic.blob.core.windows.net"
SERVED_NAMES = (REGISTRY_HOST, HUB_HOST, CDN_HOST, VOCABULARY_HOST)

RELEASE_REPOSITORY = "nvidia/tensorrt-llm/release"
RELEASES = ("1.3.0rc12",)

USER = "spark"
PASSWORD = "twin"


class TwinError(Exception):
    """Something the twin cannot do, in one sentence for the user."""


def spark_name(number: int) -> str:
    """The container that plays this Spark; the first one is number 1."""
    return f"{PREFIX}-{number}"


def spark_address(number: int) -> str:
    """This Spark's address on the management network."""
    return f"172.30.57.{10 + number}"
