# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open WebUI beside the server: it comes on demand, sees the model, and keeps what people put into it."""

from __future__ import annotations

import json
import typing as t

from tests import playbook
from tests.exposed import MODEL, Exposed, key
from tests.twin.control import Neighbour, Spark

pytest_plugins = ["tests.scenario"]

NAME = "dgx-spark-speculative-open-webui"
PAGE = "http://127.0.0.1:3000"
ACCOUNT = {"name": "One", "email": "one@example.org", "password": "only-for-this-test"}


def api(spark: Spark, path: str, body: dict[str, str] | None = None, token: str = "") -> t.Any:
    options = ["--header", f"Authorization: Bearer {token}"] if token else []
    options += ["--data", json.dumps(body)] if body else []
    done = spark.exec(["curl", "--silent", "--max-time", "15", *options, PAGE + path])
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def models(spark: Spark) -> list[str]:
    token = api(spark, "/api/v1/auths/signin", ACCOUNT)["token"]
    return [model["id"] for model in api(spark, "/api/models", token=token)["data"]]


def test_the_first_account_sees_the_model(exposed: Exposed, spark: Spark) -> None:
    exposed.run(speculative_serve_expose="local")
    outcome = playbook.succeed("open_webui", "-vvv", "--diff")
    assert "3000" in outcome.output
    assert key("open-webui") not in outcome.output
    assert api(spark, "/api/config")["onboarding"] is True
    assert api(spark, "/api/v1/auths/signup", ACCOUNT)["role"] == "admin"
    assert models(spark) == [MODEL]
    assert playbook.succeed("open_webui").changed == []


def test_its_key_is_not_told(spark: Spark) -> None:
    facts = spark.exec(["docker", "container", "inspect", NAME]).stdout
    assert key("open-webui") not in facts
    assert "/run/secrets/api_key" in facts
    secret = spark.exec(["docker", "exec", NAME, "cat", "/app/backend/data/.webui_secret_key"]).stdout.strip()
    assert secret
    assert secret not in facts
    assert json.loads(facts)[0]["HostConfig"]["PortBindings"]["8080/tcp"] == [
        {"HostIp": "127.0.0.1", "HostPort": "3000"}
    ]


def test_a_plain_run_leaves_it_its_key_and_its_way(exposed: Exposed, spark: Spark, neighbour: Neighbour) -> None:
    exposed.run(speculative_serve_expose="local")
    assert models(spark) == [MODEL]
    assert neighbour.open_ports(spark.address) == {22}


def test_the_data_outlive_a_cleanup_unless_they_shall_go_too(spark: Spark) -> None:
    playbook.succeed("cleanup")
    assert spark.exec(["docker", "container", "inspect", NAME]).returncode != 0
    assert NAME in spark.exec(["docker", "volume", "ls", "--quiet"]).stdout
    assert "Deploy a model first" in playbook.fail("open_webui").message

    playbook.succeed("cleanup", variables={"open_webui_remove_data": True})
    assert spark.exec(["docker", "ps", "--all", "--quiet"]).stdout == ""
    assert NAME not in spark.exec(["docker", "volume", "ls", "--quiet"]).stdout
