# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generate the tables of docs/inputs.md: the inputs that users set first, and links to the inputs of each role."""

from __future__ import annotations

import re

from tools.role_inputs import SPECIFICATIONS, inputs

FIRST = (
    "speculative_serve_draft_length",
    "speculative_serve_method",
    "speculative_serve_context",
    "speculative_serve_concurrency",
    "speculative_serve_options",
    "speculative_serve_environment",
    "speculative_serve_port",
    "speculative_serve_expose",
    "api_proxy_keys",
    "engine_container_image",
    "huggingface_cache_directory",
    "huggingface_cache_token",
    "speculative_serve_reserve_gib",
    "speculative_serve_overcommit",
    "speculative_serve_memory_guard",
    "speculative_serve_drop_caches",
    "speculative_serve_protect_ssh",
    "speculative_serve_use_benchmark",
    "docker_permissions_add_to_group",
    "spark_network_keep_nic_on",
)
# The sentence of a description with the default, if the default is not a constant.
DEFAULT = re.compile(r"The default is (?:that of )?(.*?)\.(?: |$)")


def first() -> list[tuple[str, str, str]]:
    """Return name, default and short meaning of the inputs that users set first."""
    described = {row[0]: row for role in SPECIFICATIONS for row in inputs(role)}
    return [short(*described[f"`{name}`"]) for name in FIRST]


def short(name: str, default: str, meaning: str) -> tuple[str, str, str]:
    """Return an input with the first sentence of its meaning, its choices, and its default."""
    said = DEFAULT.search(meaning)
    sentences = re.split(r"(?<=\.) ", meaning)
    kept = [sentences[0], *(sentence for sentence in sentences[1:] if sentence.startswith("Choices: "))]
    return name, default or (said[1] if said else ""), " ".join(kept)


def roles() -> list[tuple[str, str]]:
    """Return each role as a link to its inputs, with their number."""
    return [(f"[{role}](../roles/{role}/README.md)", str(len(inputs(role)))) for role in SPECIFICATIONS if inputs(role)]
