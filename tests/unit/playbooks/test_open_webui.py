# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open WebUI: the command of its container, the checks before and after it runs."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays
from tests.unit.waiting import WITHIN_S

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
KEY = "sk-spark-0123456789abcdefghijklmnop"
KEY_FILE = "/run/secrets/api_key"
# Runs the command here, as the container would.
EXEC = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"container": {"type": "raw"}, "argv": {"type": "list"}})
rc, stdout, stderr = module.run_command([word.replace("%s", "%s") for word in module.params["argv"]])
module.exit_json(rc=rc, stdout=stdout, stderr=stderr)
"""


def command() -> str:
    """Return the text that bash runs in the container."""
    tasks = yaml.safe_load((PLAYBOOKS / "tasks/open_webui.yml").read_text(encoding="utf-8"))
    (run,) = (
        task["community.docker.docker_container"] for task in tasks if "community.docker.docker_container" in task
    )
    program, options, text = run["command"]
    assert (program, options) == ("bash", "-euc")
    return str(text)


def start(directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "start.sh").write_text('echo "$OPENAI_API_KEY|$WEBUI_SECRET_KEY"\n', encoding="ascii")
    text = command().replace(KEY_FILE, str(directory / "key"))
    return subprocess.run(
        ["bash", "-euc", text], cwd=directory, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )


def test_key_and_secret_reach_open_webui_and_a_secret_lasts_as_long_as_its_key(tmp_path: Path) -> None:
    secrets = []
    for text in (KEY, KEY, f"{KEY}q"):
        (tmp_path / "key").write_text(f"{text}\n", encoding="ascii")
        key, secret = start(tmp_path).stdout.strip().split("|")
        assert (key, len(secret)) == (text, 64)
        secrets.append(secret)
    assert secrets[0] == secrets[1] != secrets[2]


def test_without_a_key_nothing_starts(tmp_path: Path) -> None:
    done = start(tmp_path)
    assert (done.returncode != 0, done.stdout) == (True, "")


def play(directory: Path, file: str, hosts: t.Iterable[str], **variables: t.Any) -> str:
    """Run a task file on each of these hosts, with the variables of the playbooks; return the output as one line."""
    begin = {"name": "Play", "hosts": "all", "gather_facts": False}
    settings = yaml.safe_load((PLAYBOOKS / "group_vars/all.yml").read_text(encoding="utf-8"))
    known = {name: settings[name] for name in ("deployment", "open_webui_settings")}
    tasks = [{"name": "Do it", "ansible.builtin.include_tasks": str(PLAYBOOKS / "tasks" / file)}]
    done = plays.run(
        directory,
        {**begin, "vars": {**known, **variables}, "tasks": tasks},
        # What the command line says takes precedence over what a task registers.
        *("-e", json.dumps({name: value for name, value in variables.items() if name.startswith("__")})),
        hosts="".join(f"{host}," for host in hosts),
        where=Path(f"{directory / 'collections'}:{plays.COLLECTIONS}"),
    )
    return " ".join(done.stdout.split())


class Server(http.server.BaseHTTPRequestHandler):
    """Page and endpoint in one."""

    def do_GET(self) -> None:
        is_known = self.path == "/health" or self.headers["Authorization"] == f"Bearer {KEY}"
        body = b'{"data": [{"id": "openai/gpt-oss-120b"}, {"id": "other"}]}' if is_known else b""
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: t.Any) -> None: ...


@pytest.fixture(name="url")
def fixture_url() -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def answers(directory: Path, url: str, endpoint: str, key: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the checks of a page at this URL, whose container asks this endpoint with this key."""
    # As Docker sets it for containers if its configuration has a proxy.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    modules = directory / "collections/ansible_collections/community/docker/plugins/modules"
    modules.mkdir(parents=True)
    (modules / "docker_container_exec.py").write_text(EXEC % (KEY_FILE, directory / "key"), encoding="utf-8")
    (directory / "key").write_text(f"{key}\n", encoding="ascii")
    page = {"url": url, "asks": f"{endpoint}/v1", "lines": ["Open WebUI is here."], "sees": "It sees: "}
    return play(directory, "open_webui_answers.yml", ["spark-1"], __open_webui_page=page)


def test_a_page_that_reaches_the_model(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answers(tmp_path, url, url, KEY, monkeypatch)
    assert "Open WebUI is here. It sees: openai/gpt-oss-120b, other." in said
    assert KEY not in said


def test_a_key_that_the_proxy_does_not_know(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answers(tmp_path, url, url, "sk-spark-revoked", monkeypatch)
    assert f"spark-1: Open WebUI runs, but its container does not reach the model at {url}/v1 (curl: (22)" in said
    assert "401" in said


def test_a_closed_port_names_the_rule_that_opens_it(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    said = answers(tmp_path, url, f"http://127.0.0.1:{port}", KEY, monkeypatch)
    assert f"does not reach the model at http://127.0.0.1:{port}/v1" in said
    assert f"'sudo ufw allow in on docker0 to any port {port} proto tcp'" in said


FREE = {
    "in_use": False,
    "address": "127.0.0.1",
    "port": 3000,
    "slot": False,
    "address_here": True,
    "container": None,
    "process": None,
    "holder": None,
    "description": None,
}
# By host, what Docker says, the inputs, and why the check refuses that.
REFUSED: dict[str, tuple[dict[str, t.Any], dict[str, t.Any], str]] = {
    "foreign-container": (
        {"slot": {"image": "nginx", "labels": {}}},
        {},
        "the container dgx-spark-speculative-open-webui (image nginx) was not made by this collection",
    ),
    "port": (
        {"taken": [{**FREE, "in_use": True, "container": "grafana", "holder": "container 'grafana'"}]},
        {},
        "port 3000 on 127.0.0.1 is in use by container 'grafana'. Choose another port with open_webui_port",
    ),
    "address": (
        {"port": {**FREE, "address": "192.168.1.21", "address_here": False}},
        {"open_webui_address": "192.168.1.21"},
        "this host does not have the address 192.168.1.21. It has 127.0.0.1; choose one of them (open_webui_address)",
    ),
    "no-login": (
        {},
        {"open_webui_address": "0.0.0.0", "open_webui_environment": {"WEBUI_AUTH": "false"}},
        "open_webui_address is 0.0.0.0, but open_webui_environment turns Open WebUI's login off",
    ),
    "no-deployment": ({}, {}, "there is no running deployment that Open WebUI could use. Deploy a model first"),
    "foreign-deployment": (
        {"containers": [{"name": "dgx-spark-speculative", "labels": {}}]},
        {},
        "there is no running deployment",
    ),
}


@pytest.fixture(name="refusals", scope="module")
def fixture_refusals(tmp_path_factory: pytest.TempPathFactory) -> str:
    docker: dict[str, t.Any] = {
        "state": "usable",
        "slot": None,
        "port": FREE,
        "addresses": ["127.0.0.1"],
        "architecture": "arm64",
        "image_store": None,
        "published_ports": [],
        "taken": [],
        "containers": [],
        "image": {"id": "sha256:1"},
    }
    facts = {name: {"docker": {**docker, **found}} for name, (found, _inputs, _text) in REFUSED.items()}
    inputs = {
        name: {host: given[name] for host, (_found, given, _text) in REFUSED.items() if name in given}
        for name in ("open_webui_address", "open_webui_environment")
    }
    return play(
        tmp_path_factory.mktemp("refused"),
        "open_webui_check.yml",
        REFUSED,
        facts=facts,
        inputs=inputs,
        __open_webui_facts="{{ facts[inventory_hostname] }}",
        open_webui_address="{{ inputs.open_webui_address[inventory_hostname] | default('127.0.0.1') }}",
        open_webui_environment="{{ inputs.open_webui_environment[inventory_hostname] | default({}) }}",
    )


@pytest.mark.parametrize("host", REFUSED)
def test_the_check_refuses(refusals: str, host: str) -> None:
    assert f"{host}: {REFUSED[host][2]}" in refusals
