# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the names, addresses and paths of the twin."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re

PACKAGE = pathlib.Path(__file__).resolve().parent
# Files that all twins of this checkout share: keys, content of the Hub, inputs of images.
CACHE = PACKAGE.parents[1] / ".cache" / "twin"
# Suffix of images with keys, because each checkout has its own keys.
CHECKOUT = hashlib.sha256(str(CACHE).encode()).hexdigest()[:8]

# Several twins can run on a machine, each with a letter: TWIN=b. One twin has no letter.
TWIN = os.environ.get("TWIN", "")
if not re.fullmatch("[a-z]?", TWIN):
    raise SystemExit(f"TWIN is {TWIN!r} in the environment; a twin has a letter from a to z, or none.")
# Files of this twin.
STATE = CACHE / TWIN

PREFIX = "dgx-spark-twin"
# Operating systems of a Spark. The first one is the default: Debian 13 is closest to DGX OS 7, Debian 12 has an older
# Docker and systemd.
SYSTEMS = ("trixie", "bookworm")
# Image stores of a Spark's Docker. Both kinds exist on real Sparks.
STORES = ("containerd", "overlay2")
# The stand-ins use Debian 12, because it has the same Open MPI as the release image.
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
# The instruction set of the processor that the real vLLM is held to: ISA=avx2, or none.
ISA = os.environ.get("ISA", "")
if ISA not in ("", "avx2"):
    raise SystemExit(f"ISA is {ISA!r} in the environment; it is avx2, or empty for all that the processor has.")
# Images that take minutes to push: all twins of the machine share them, and they stay when a twin is removed.
KEPT_VOLUME = f"{PREFIX}-kept-images-{ISA}".rstrip("-")
REGISTRY_PORT, KEPT_PORT = 5000, 5001
MAX_SPARKS = 4
# The switch between more than two Sparks.
SWITCH = f"{NAME}-switch"
# Another host on the Sparks' network.
NEIGHBOUR = f"{NAME}-neighbour"
NEIGHBOUR_ADDRESS = f"{HOSTS}.20"

# Host names of the twin's internet. The machine's own resolver answers all other names.
REGISTRY_HOST = "nvcr.io"
HUB_HOST = "huggingface.co"
CDN_HOST = "cdn-lfs.huggingface.co"
VOCABULARY_HOST = "openaipublic.blob.core.windows.net"
DOCKER_HUB_HOSTS = ("registry-1.docker.io", "index.docker.io", "auth.docker.io")
GITHUB_HOST = "ghcr.io"
# Debian mirror of the release image, without TLS. The name exists only in the twin.
PACKAGE_HOST = "packages.dgx-spark-twin.test"
SERVED_NAMES = (REGISTRY_HOST, HUB_HOST, CDN_HOST, VOCABULARY_HOST, *DOCKER_HUB_HOSTS, GITHUB_HOST, PACKAGE_HOST)

RELEASE_REPOSITORY = "nvidia/tensorrt-llm/release"
# The release that is built, and other tags that share its layers: the stand-in chooses its release at run time.
RELEASE = "1.3.0rc29"
OTHER_RELEASES = {
    "1.2.0rc1": "1.2.0rc1",
    "1.2.0rc6": "1.2.0rc6",
    "1.3.0rc12": "1.3.0rc12",
    "1.3.0rc13": "1.3.0rc13",
    "1.4.0rc1": "1.4.0rc1",
    # A moving tag that names an older release than its options suggest.
    "spark-single-gpu-dev": "1.1.0rc5",
}
# The release for another architecture: a tag of its own, and one of two entries of the release's index.
FOREIGN_TAG = f"{RELEASE}-other-processor"

# Images that the collection runs beside the server, with the directories of their stand-ins.
SIDE_IMAGES = {
    "library/caddy:2.11.4": "caddy",
    "open-webui/open-webui:v0.6.36": "open_webui",
}
# The real vLLM for a CPU, on request.
VLLM_REPOSITORY, VLLM_TAG = "vllm/vllm-openai-cpu", "v0.32.0"
VLLM_IMAGE = f"docker.io/{VLLM_REPOSITORY}:{VLLM_TAG}"
CADDY_IMAGE = "docker.io/library/caddy:2.11.4"
OPEN_WEBUI_IMAGE = "ghcr.io/open-webui/open-webui:v0.6.36"

USER = "spark"
PASSWORD = "twin"


class TwinError(Exception):
    """An error of the twin, as one sentence for the user."""


def base_image(system: str) -> str:
    """Return the tag of the Debian base image of this system."""
    return f"{PREFIX}/debian:{system}"


def spark_image(system: str) -> str:
    """Return the tag of a Spark's image with this system."""
    return f"{PREFIX}/spark:{system}-{CHECKOUT}"


def spark_name(number: int) -> str:
    """Return the name of a Spark's container. Numbers begin with 1."""
    return f"{NAME}-{number}"


def spark_address(number: int) -> str:
    """Return a Spark's address on the management network."""
    return f"{HOSTS}.{10 + number}"
