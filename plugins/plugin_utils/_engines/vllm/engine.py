# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""vLLM as an engine."""

from __future__ import annotations

import typing as t

from ....module_utils._data.numbers import positive_int
from ..engine import OPENAI_ROUTES, Ends, Engine, Section
from . import memory
from .effects import effects
from .options import KNOWN_ISSUES, RANGES, build, misfits, render
from .rules import KINDS, SPECULATION
from .spelling import LENGTH, MODEL, NAME, SPELLINGS, decided_keys, method_of


def section(given: t.Mapping[str, t.Any]) -> Section:
    """Return the method, the draft model and the draft length in a speculative-config."""
    draft, method = given.get(MODEL), method_of(given)
    return Section(
        method=method,
        draft=draft if isinstance(draft, str) else None,
        length=positive_int(given.get(LENGTH)),
        length_key=LENGTH,
        decided=decided_keys(method),
    )


def fabric(ends: Ends) -> dict[str, str]:
    """Return the environment by which ranks meet on the first rail. NCCL takes all rails.

    Without its own address a rank takes the one on the way to the internet (vllm/utils/network_utils.py), and gloo
    that of the host's name. NCCL places its threads by the GPU, not by what the process is bound to, as in the public
    launchers for several Sparks (eugr/spark-vllm-docker, vllm-project/recipes).
    """
    return {
        "VLLM_HOST_IP": ends.addresses[0],
        "GLOO_SOCKET_IFNAME": ends.interfaces[0],
        "TP_SOCKET_IFNAME": ends.interfaces[0],
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    }


VLLM = Engine(
    name=NAME,
    words="vLLM",
    # Its entrypoint enables CUDA's forward compatibility, without which FlashInfer compiles nothing on a Spark
    # (gyliu513/langX101 PR 409).
    keeps_entrypoint_of=r"nvcr\.io/nvidia/",
    speculation=SPECULATION,
    remote_code="trust-remote-code",
    # The others of its routes ask for no key, such as /metrics and /invocations, or change its state.
    routes=(*OPENAI_ROUTES, "/v1/messages", "/v1/messages/count_tokens"),
    methods=tuple(SPELLINGS),
    families=(),
    ranges=RANGES,
    names=memory.NAMES,
    options=KINDS,
    effects=effects,
    beyond_head="vLLM lowers the context to what the draft model was made for",
    judges_models=True,
    build=build,
    render=render,
    section=section,
    misfits=misfits,
    limits=memory.limits,
    fill=memory.fill,
    container_role="vllm_container",
    ranks_by_ssh=False,
    fabric=fabric,
    known_issues=KNOWN_ISSUES,
)
