# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start what the clients of other projects are tried with: vLLM, the stand-in for TensorRT-LLM, and the proxy."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from tests.engines.served import Served
from tests.engines.server import Server
from tests.engines.standin import MODEL, StandIn
from tests.twin.vllm import build
from tests.unit.caddy import Proxy

# Answers that do not change from run to run, and end soon.
STEADY = {"override-generation-config": {"temperature": 0.0, "max_new_tokens": 64}}
# Also the names of the models in openai's own tests.
NAMES = {"served-model-name": ["smollm2", "gpt-3.5-turbo-instruct", "gpt-6-astra"]}


class Servers:
    """The servers by name, each started when it is asked for."""

    def __init__(self, places: pytest.TempPathFactory) -> None:
        self._places = places
        self._open = contextlib.ExitStack()
        self._found: dict[str, Served] = {}

    def __getitem__(self, name: str) -> Served:
        """Return a server that answers."""
        if name not in self._found:
            upstream, _, proxied = name.partition("-behind-")
            start = {"vllm": self._vllm, "harmony": self._harmony, "parsers": self._parsers}[upstream]
            self._found[name] = self._proxy(self[upstream]) if proxied else start()
        return self._found[name]

    def close(self) -> None:
        """End all that were started."""
        self._open.close()

    def _vllm(self) -> Served:
        tag = build.build()
        server = Server(tag, build.checkpoint(tag), self._places.mktemp("vllm"), **STEADY, **NAMES)
        self._open.callback(server.close)
        server.wait()
        return Served(server.url, "none", "smollm2")

    def _harmony(self) -> Served:
        return self._stand_in(StandIn(harmony=True))

    def _parsers(self) -> Served:
        return self._stand_in(StandIn(harmony=False))

    def _stand_in(self, server: StandIn) -> Served:
        self._open.callback(server.close)
        return Served(server.url, "none", MODEL, schema=server.app.openapi())

    def _proxy(self, upstream: Served) -> Served:
        schema = upstream.openapi()
        proxy = Proxy(self._places.mktemp("proxy"), upstream.url)
        self._open.callback(proxy.close)
        proxy.keys.ensure(["default"], "api_proxy")
        proxy.start()
        return Served(proxy.tls_url, proxy.key("default"), upstream.model, ca=proxy.ca, schema=schema)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Servers]:
    """The servers, which are ended again."""
    found = Servers(tmp_path_factory)
    yield found
    found.close()
