# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""TensorRT-LLM as an engine."""

from __future__ import annotations

import typing as t

from ....module_utils._data.numbers import positive_int
from ..engine import OPENAI_ROUTES, Ends, Engine, Section
from . import memory
from .effects import effects
from .options import KNOWN_ISSUES, build, render
from .releases import FAMILY_NAMES, RANGES
from .schema import FAMILIES
from .spelling import NAME, SPELLINGS, decided_keys, length_key, method_of
from .vocabulary import ROOT

# Ranks run as root; headers and assembler for kernels that are compiled at run time.
RANKS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "CPATH": "/usr/local/cuda/include",
    "TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas",
}


def section(given: t.Mapping[str, t.Any]) -> Section:
    """Return the method, the draft model and the draft length in a speculative_config."""
    kind = given.get("decoding_type")
    key = length_key(kind)
    return Section(
        method=method_of(kind) if isinstance(kind, str) and kind else "",
        draft=given.get("speculative_model") or given.get("speculative_model_dir"),
        length=positive_int(given.get(key)),
        length_key=key,
        decided=decided_keys(key),
    )


def fabric(ends: Ends) -> dict[str, str]:
    """Return the environment by which Open MPI and UCX use the fabric."""
    return {
        "UCX_NET_DEVICES": ",".join(ends.interfaces),
        "OMPI_MCA_btl_tcp_if_include": ",".join(ends.subnets),
        **RANKS,
    }


TENSORRT_LLM = Engine(
    name=NAME,
    words="TensorRT-LLM",
    # Also of a copy in another registry.
    keeps_entrypoint_of=".*",
    speculation="speculative_config",
    remote_code="trust_remote_code",
    routes=OPENAI_ROUTES,
    methods=tuple(SPELLINGS),
    families=FAMILY_NAMES,
    ranges=RANGES,
    names=memory.NAMES,
    options={name for family in FAMILIES for name in family["sections"][ROOT]["fields"]},
    effects=effects,
    # Before that pull request the head's table of positions has the length in its config.json.
    beyond_head="TensorRT-LLM before its pull request 11598 (February 2026) reads past the head's table of positions",
    # Its classes open no model.
    judges_models=False,
    build=build,
    render=render,
    section=section,
    misfits=lambda _request, _target, _draft: [],
    limits=memory.limits,
    fill=memory.fill,
    container_role="trtllm_container",
    ranks_by_ssh=True,
    fabric=fabric,
    known_issues=KNOWN_ISSUES,
)
