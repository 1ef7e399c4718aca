# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses and places of the twin: one spelling of each."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re

PACKAGE = pathlib.Path(__file__).resolve().parent
# What all twins of this checkout share: keys, what the Hub serves, what images are built from.
CACHE = PACKAGE.parents[1] / ".cache" / "twin"
# Those of a checkout: it has keys of its own, and so images of its own where keys are in them.
CHECKOUT = hashlib.sha256(str(CACHE).encode()).hexdigest()[:8]

# More than one twin can be up on a machine, each with a letter: TWIN=b. Without one it is the only one.
TWIN = os.environ.get("TWIN", "")
if not re.fullmatch("[a-z]?", TWIN):
    raise SystemExit(f"TWIN is {TWIN!r} in the environment; a twin has a letter from a to z, or none.")
# What belongs to this twin.
STATE = CACHE / TWIN

PREFIX = "dgx-spark-twin"
# What a Spark is made of, the first one unless another is asked for: Debian 13 is nearest to DGX OS 7, Debian 12 has a
# Docker and a systemd of the years before.
SYSTEMS = ("trixie", "bookworm")
# How its Docker can store images; both kinds exist among Sparks.
STORES = ("containerd", "overlay2")
# The stand-ins start from Debian 12, for its Open MPI is the release image's.
BASE_SYSTEM = "bookworm"
BASE_IMAGE = f"{PREFIX}/debian:{BASE_SYSTEM}"
INTERNET_IMAGE = f"{PREFIX}/internet"

NAME = f"{PREFIX}-{TWIN}".rstrip("-")
# 57 without a letter, 58 for a, 83 for z.
NETWORK, HOSTS = NAME, f"172.30.{58 + ord(TWIN) - ord('a') if TWIN else 57}"
SUBNET = f"{HOSTS}.0/24"
INTERNET = f"{NAME}-internet"
INTERNET_ADDRESS = f"{HOSTS}.2"
CONTROL_URL = f"http://{INTERNET_ADDRESS}:8099"
REGISTRY_VOLUME = f"{NAME}-registry"
MAX_SPARKS = 4
# What joins them where that is no cable from one to the next.
SWITCH = f"{NAME}-switch"
# A third host on the Sparks' network, which has nothing to do with them.
NEIGHBOUR = f"{NAME}-neighbour"
NEIGHBOUR_ADDRESS = f"{HOSTS}.20"

# The names that the twin's internet answers for; everything else is left to the machine's own resolver.
REGISTRY_HOST = "nvcr.io"
HUB_HOST = "huggingface.co"
CDN_HOST = "cdn-lfs.huggingface.co"
VOCABULARY_HOST = "openaipublic.blob.core.windows.net"
DOCKER_HUB_HOSTS = ("registry-1.docker.io", "index.docker.io", "auth.docker.io")
GITHUB_HOST = "ghcr.io"
# Where the release image gets Debian packages, without TLS; a name of the twin's own.
PACKAGE_HOST = "packages.dgx-spark-twin.test"
SERVED_NAMES = (REGISTRY_HOST, HUB_HOST, CDN_HOST, VOCABULARY_HOST, *DOCKER_HUB_HOSTS, GITHUB_HOST, PACKAGE_HOST)

RELEASE_REPOSITORY = "nvidia/tensorrt-llm/release"
# The release that is built, and the tags beside it that share its layers: what plays which release decides at run time.
RELEASE = "1.3.0rc29"
OTHER_RELEASES = {
    "1.2.0rc1": "1.2.0rc1",
    "1.2.0rc6": "1.2.0rc6",
    "1.3.0rc12": "1.3.0rc12",
    "1.3.0rc13": "1.3.0rc13",
    "1.4.0rc1": "1.4.0rc1",
    # A tag that moves, and tells an older number than its options suggest.
    "spark-single-gpu-dev": "1.1.0rc5",
}
# The same made for another processor: a tag that leads to that image alone, and one of two entries of the release's.
FOREIGN_TAG = f"{RELEASE}-other-processor"

# What the collection runs beside the server, with the directory here that the stand-in is built from.
SIDE_IMAGES = {
    "library/caddy:2.11.4": "caddy",
    "open-webui/open-webui:v0.6.36": "open_webui",
}
CADDY_IMAGE = "docker.io/library/caddy:2.11.4"
OPEN_WEBUI_IMAGE = "ghcr.io/open-webui/open-webui:v0.6.36"

USER = "spark"
PASSWORD = "twin"


class TwinError(Exception):
    """Something the twin cannot do, in one sentence for the user."""


def base_image(system: str) -> str:
    """The Debian that a Spark of this system starts from."""
    return f"{PREFIX}/debian:{system}"


def spark_image(system: str) -> str:
    """The image of a Spark of this system."""
    return f"{PREFIX}/spark:{system}-{CHECKOUT}"


def spark_name(number: int) -> str:
    """The container that plays this Spark; the first one is number 1."""
    return f"{NAME}-{number}"


def spark_address(number: int) -> str:
    """This Spark's address on the management network."""
    return f"{HOSTS}.{10 + number}"
