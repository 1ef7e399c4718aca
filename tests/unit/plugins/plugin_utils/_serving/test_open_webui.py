# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.access import Reach
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.open_webui import SETTINGS, plan


def page(**given: t.Any) -> dict[str, t.Any]:
    return plan(
        **{
            "host": "spark-1",
            "name": "volume",
            "address": "127.0.0.1",
            "port": 3000,
            "endpoint": "http://172.17.0.1:8000",
            "reach": Reach(False, "10.0.0.7", "nvidia", private_key="key"),
            "environment": {},
            **given,
        }
    )


def test_what_people_are_told() -> None:
    assert page() == {
        "published": "127.0.0.1:3000:8080",
        "url": "http://127.0.0.1:3000",
        "asks": "http://172.17.0.1:8000/v1",
        "environment": {**SETTINGS, "OPENAI_API_BASE_URL": "http://172.17.0.1:8000/v1"},
        "lines": [
            "spark-1: Open WebUI is at http://127.0.0.1:3000",
            "",
            "  Or open an SSH tunnel:",
            "    ssh -N -L 3000:127.0.0.1:3000 -i key nvidia@10.0.0.7",
            "",
            "  The first account that is made there becomes its administrator; accounts and chats stay in the",
            "  volume volume.",
        ],
        "sees": "  It asks http://172.17.0.1:8000/v1 with the key 'open-webui', and its container sees there: ",
    }
    # On the Spark itself no tunnel is needed.
    assert "ssh" not in "".join(page(reach=Reach(local=True))["lines"])


@pytest.mark.parametrize(
    ("address", "published", "url", "told"),
    [
        ("0.0.0.0", "0.0.0.0:3000:8080", "http://127.0.0.1:3000", "http://10.0.0.7:3000"),
        ("::", "[::]:3000:8080", "http://[::1]:3000", "http://10.0.0.7:3000"),
        ("192.168.1.20", "192.168.1.20:3000:8080", "http://192.168.1.20:3000", "http://192.168.1.20:3000"),
        ("fd00::7", "[fd00::7]:3000:8080", "http://[fd00::7]:3000", "http://[fd00::7]:3000"),
        ("::1", "[::1]:3000:8080", "http://[::1]:3000", "http://[::1]:3000"),
        ("127.0.0.2", "127.0.0.2:3000:8080", "http://127.0.0.2:3000", "http://127.0.0.2:3000"),
    ],
)
def test_its_address(address: str, published: str, url: str, told: str) -> None:
    found = page(address=address)
    assert (found["published"], found["url"]) == (published, url)
    assert found["lines"][0] == f"spark-1: Open WebUI is at {told}"
    assert ("Create yours first" in found["lines"][1]) is (address not in ("::1", "127.0.0.2"))


def test_what_people_set_counts_over_what_the_page_is_told() -> None:
    told = page(environment={"WEBUI_AUTH": "false", "OPENAI_API_BASE_URL": "http://x/v1", "MINE": "1"})["environment"]
    assert told == {**SETTINGS, "WEBUI_AUTH": "false", "OPENAI_API_BASE_URL": "http://x/v1", "MINE": "1"}
