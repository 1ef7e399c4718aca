# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The endpoint that others may reach, for the tests that knock at it."""

from __future__ import annotations

import json
import ssl
import typing as t
from pathlib import Path

import openai
import pytest

from tests import playbook
from tests.twin.control import Neighbour, Spark
from tests.twin.names import spark_address

HOME = "/home/spark/.local/share/dgx-spark-speculative"
PROXY, SLOT = "dgx-spark-speculative-proxy", "dgx-spark-speculative"
URL = f"https://{spark_address(1)}:8443"
MODEL = "gpt-oss-120b"
AUTHORITY = "/tmp/authority.crt"


def key(name: str = "default") -> str:
    return Spark().read_file(f"{HOME}/proxy/keys/{name}").strip()


def openai_client(authority: Path, name: str = "default") -> openai.OpenAI:
    """The client of OpenAI on another machine, which trusts the proxy's authority and nobody else."""
    trust = openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=str(authority)), trust_env=False)
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=key(name), http_client=trust, max_retries=0, timeout=120)


class Exposed:
    """The endpoint as it was opened, with two keys, and the words of the run that did it."""

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "authority.crt"
        self.log = directory / "ansible.log"
        self.variables: dict[str, t.Any] = {
            "speculative_serve_expose": "lan",
            "api_proxy_keys": ["default", "agent"],
            "api_proxy_ca_path": str(self.authority),
        }
        self.outcome = self.run("-vvv", "--diff")

    def run(self, *arguments: str, **variables: t.Any) -> playbook.Outcome:
        return playbook.succeed(
            "single_eagle3", *arguments, variables={**self.variables, **variables}, ANSIBLE_LOG_PATH=str(self.log)
        )

    def refused(self, **variables: t.Any) -> str:
        return playbook.fail("../tests/system/exposed/refuse", variables={**self.variables, **variables}).message


@pytest.fixture(scope="session")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Exposed:
    return Exposed(tmp_path_factory.mktemp("exposed"))


@pytest.fixture(scope="session")
def authority(exposed: Exposed) -> Path:
    """The certificate that a client has to trust."""
    return exposed.authority


@pytest.fixture(scope="session")
def neighbour(authority: Path) -> t.Iterator[Neighbour]:
    """Another machine on the network, to which somebody has brought the authority's certificate."""
    with Neighbour() as neighbour:
        neighbour.write_file(AUTHORITY, authority.read_text(encoding="utf-8"))
        yield neighbour


def from_a_container(spark: Spark, path: str, bearer: str = "") -> str:
    """The status that a container on the Spark gets."""
    gateway = "$(ip -4 -json addr show docker0 | jq -r '.[0].addr_info[0].local')"
    image = spark.exec(["docker", "inspect", "--format", "{{.Image}}", SLOT]).stdout.strip()
    header = f"--header 'Authorization: Bearer {bearer}'" if bearer else ""
    ask = f"--silent --output /dev/null --write-out '%{{http_code}}' --max-time 10 {header}"
    # Whose own entrypoint greets first.
    return spark.exec(f"docker run --rm --entrypoint curl {image} {ask} http://{gateway}:8000{path}").stdout


class Reply(t.NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    def error(self) -> dict[str, t.Any]:
        """The error in OpenAI's form."""
        return dict(json.loads(self.body)["error"])


def ask(
    neighbour: Neighbour, path: str, *options: str, bearer: str | None = None, url: str = URL, body: str | None = None
) -> Reply:
    """What curl gets on the other machine; the path is sent as it is."""
    arguments = [
        "curl",
        "--silent",
        "--include",
        "--http1.1",
        "--max-time",
        "60",
        "--path-as-is",
        "--cacert",
        AUTHORITY,
    ]
    if bearer is not None:
        arguments += ["--header", f"Authorization: Bearer {bearer}"]
    if body is not None:
        arguments += ["--header", "Content-Type: application/json", "--header", "Expect:", "--data-binary", "@-"]
    done = neighbour.exec([*arguments, *options, url + path], text=body)
    head, _, content = done.stdout.partition("\n\n")
    lines = head.splitlines()
    assert lines, f"curl ended with {done.returncode}: {done.stderr}"
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return Reply(int(lines[0].split()[1]), headers, content)
