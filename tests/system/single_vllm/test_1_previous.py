# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From one engine to the other and back: the proxy forwards what the engine has that serves, for the same clients."""

from __future__ import annotations

import json
import typing as t

import pytest

from tests import playbook
from tests.first_light import Rank, variables
from tests.pair import HOME
from tests.twin.control import Spark

OPEN = {"speculative_serve_expose": "docker", "api_proxy_keys": ["default", "laptop"]}
OTHER = "single_eagle3"
MODELS = {OTHER: "gpt-oss-120b", "first_light": "SmolLM2-135M-Instruct-Q4"}


def status(spark: Spark, path: str, **body: t.Any) -> str:
    """Return the status that a client gets from the proxy, with a key that only -e has named."""
    key = spark.read_file(f"{HOME}/proxy/keys/laptop").strip()
    headers = f"-H 'Authorization: Bearer {key}' -H 'Content-Type: application/json'"
    gateway = "$(ip -4 -json addr show docker0 | jq -r '.[0].addr_info[0].local')"
    options = f"--silent --output /dev/null --write-out '%{{http_code}}' --max-time 100 {headers}"
    return spark.exec(f"curl {options} --data '{json.dumps(body)}' http://{gateway}:8000{path}").stdout


def assert_served(spark: Spark, name: str) -> None:
    """Both engines answer by OpenAI's routes, and vLLM by Anthropic's."""
    ask = {"model": MODELS[name], "max_tokens": 4}
    assert status(spark, "/v1/completions", prompt="1, 2, 3,", **ask) == "200"
    message = {"messages": [{"role": "user", "content": "1, 2, 3,"}]}
    assert status(spark, "/v1/messages", **message, **ask) == ("403" if name == OTHER else "200")


@pytest.fixture(name="both", scope="module", autouse=True)
def fixture_both() -> None:
    """The other engine has served before vLLM."""
    playbook.succeed("serve", variables={"recipe": OTHER, **OPEN})
    playbook.succeed("serve", variables={**variables("first_light"), **OPEN})


def test_the_proxy_forwards_what_vllm_has(spark: Spark, alone: Rank) -> None:
    alone.wait_until_it_runs()
    assert_served(spark, "first_light")


@pytest.mark.parametrize("name", [OTHER, "first_light"])
def test_previous_brings_the_other_engine_with_its_routes(spark: Spark, alone: Rank, name: str) -> None:
    """Nothing else is said: who may come in, and with which key, stays."""
    outcome = playbook.succeed("serve", variables={"previous": True})
    assert "Write address and routes of the server" in outcome.changed
    assert_served(spark, name)
    assert ("SmolLM2" if name == "first_light" else "gpt-oss-120b") in outcome.output
    if name == "first_light":
        alone.wait_until_it_runs()
