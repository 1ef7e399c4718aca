# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open WebUI: the command of its container, the checks before and after it runs."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import stat
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays, web
from tests.unit.waiting import WITHIN_S

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
KEY = "sk-spark-0123456789abcdefghijklmnop"
KEY_FILE = "/run/secrets/api_key"
# Runs the command here, as the container would, with this program in place of its curl.
EXEC = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"container": {"type": "raw"}, "argv": {"type": "list"}})
argv = [word.replace("%s", "%s") for word in module.params["argv"]]
rc, stdout, stderr = module.run_command(argv, path_prefix="%s")
module.exit_json(rc=rc, stdout=stdout, stderr=stderr)
"""
CURL = """#!/bin/bash
printf '%%s\n' "$@" >%s
exec %s "$@"
"""


class Container:
    """A directory that stands for the container."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key, self.data = directory / "api_key", directory / "data"
        self.secret = self.data / ".webui_secret_key"
        self.data.mkdir()
        self.key.write_text(f"{KEY}\n", encoding="ascii")
        (directory / "start.sh").write_text('echo "$OPENAI_API_KEY|$WEBUI_SECRET_KEY|$(umask)"\n', encoding="ascii")

    def start(self) -> list[str]:
        """Run the command of the container; return key, secret and umask of the server, if it starts."""
        tasks = yaml.safe_load((PLAYBOOKS / "tasks/open_webui.yml").read_text(encoding="utf-8"))
        (run,) = (value for task in tasks for name, value in task.items() if name.endswith(".docker_container"))
        command = [
            word.replace(KEY_FILE, str(self.key)).replace("/app/backend/data", str(self.data))
            for word in run["command"]
        ]
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, check=False, timeout=WITHIN_S
        )
        assert (done.returncode == 0) == bool(done.stdout)
        return done.stdout.strip().split("|")


@pytest.fixture(name="container")
def fixture_container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_key_and_secret_reach_open_webui(container: Container) -> None:
    key, secret, umask = container.start()
    assert (key, secret) == (KEY, container.secret.read_text(encoding="ascii").strip())
    assert stat.S_IMODE(container.secret.stat().st_mode) == 0o600
    # What Open WebUI itself writes keeps its usual mode.
    assert umask == subprocess.run(["bash", "-c", "umask"], capture_output=True, text=True, check=True).stdout.strip()


def test_the_secret_is_random_and_outlives_the_container(container: Container) -> None:
    _key, secret, _umask = container.start()
    assert container.start()[1] == secret
    container.secret.unlink()
    _key, other, _umask = container.start()
    assert secret != other
    assert len(base64.b64decode(secret)) == len(base64.b64decode(other)) == 32


def test_a_start_that_was_cut_off_leaves_no_half_secret(container: Container) -> None:
    container.secret.with_name(".webui_secret_key.new").write_text("hal", encoding="ascii")
    container.secret.touch()
    assert len(container.start()[1]) == 44
    assert list(container.data.iterdir()) == [container.secret]


def test_without_a_key_nothing_starts(container: Container) -> None:
    container.key.unlink()
    assert container.start() == [""]


def play(directory: Path, files: t.Iterable[str], hosts: t.Iterable[str], **variables: t.Any) -> str:
    """Run task files on each of these hosts, with the variables of the playbooks; return the output as one line."""
    begin = {"name": "Play", "hosts": "all", "gather_facts": False}
    settings = yaml.safe_load((PLAYBOOKS / "group_vars/all.yml").read_text(encoding="utf-8"))
    known = {name: settings[name] for name in ("deployment_settings", "open_webui")}
    tasks = [{"name": file, "ansible.builtin.include_tasks": str(PLAYBOOKS / "tasks" / file)} for file in files]
    done = plays.run(
        directory,
        {**begin, "vars": {**known, **variables}, "tasks": tasks},
        # What the command line says takes precedence over what a task registers.
        *("-e", json.dumps({name: value for name, value in variables.items() if name.startswith("__")})),
        hosts="".join(f"{host}," for host in hosts),
        where=Path(f"{directory / 'collections'}:{plays.COLLECTIONS}"),
    )
    return " ".join(done.stdout.split())


class Handler(web.Handler):
    """Page and endpoint in one."""

    def do_GET(self) -> None:
        is_known = self.path == "/health" or self.headers["Authorization"] == f"Bearer {KEY}"
        self.reply(200 if is_known else 401, self.told["body"] if is_known else b"")


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[web.Server]:
    with web.Server(Handler, {"body": b'{"data": [{"id": "openai/gpt-oss-120b"}, {"id": "other"}]}'}) as server:
        yield server


@pytest.fixture(name="answers")
def fixture_answers(tmp_path: Path, server: web.Server, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., str]:
    """The checks of a page whose container asks an endpoint with a key."""
    # As Docker sets it for containers if its configuration has a proxy.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    modules = tmp_path / "collections/ansible_collections/community/docker/plugins/modules"
    modules.mkdir(parents=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "curl").write_text(CURL % (tmp_path / "arguments", shutil.which("curl")), encoding="utf-8")
    (programs / "curl").chmod(0o755)
    module = EXEC % (KEY_FILE, tmp_path / "key", programs)
    (modules / "docker_container_exec.py").write_text(module, encoding="utf-8")

    def run(endpoint: str = server.url, key: str = KEY) -> str:
        (tmp_path / "key").write_text(f"{key}\n", encoding="ascii")
        page = {"url": server.url, "asks": f"{endpoint}/v1", "lines": ["Open WebUI is here."], "sees": "It sees: "}
        said = play(tmp_path, ["open_webui_answers.yml"], ["spark-1"], __open_webui_plan=page)
        assert key not in said + (tmp_path / "arguments").read_text(encoding="utf-8")
        return said

    return run


def test_a_page_that_reaches_the_model(answers: t.Callable[..., str]) -> None:
    assert "Open WebUI is here. It sees: openai/gpt-oss-120b, other." in answers()


def test_a_key_that_the_proxy_does_not_know(answers: t.Callable[..., str]) -> None:
    said = answers(key="sk-spark-revoked")
    assert "its container gets no list of models" in said
    assert "401" in said
    assert "ufw" not in said


def test_an_endpoint_without_a_model(answers: t.Callable[..., str], server: web.Server) -> None:
    server.told["body"] = b'{"data": []}'
    assert f"gets no list of models from {server.url}/v1 (it is empty). status.yml shows" in answers()


def test_a_closed_port_names_the_rule_that_opens_it(answers: t.Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert f"'sudo ufw allow in on docker0 to any port {port} proto tcp'" in answers(f"http://127.0.0.1:{port}")


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
NOTHING_RUNS = "there is no running deployment that Open WebUI could use"
SERVES = {
    "name": "dgx-spark-speculative",
    "labels": {"dgx_spark.speculative.url": "http://127.0.0.1:9", "dgx_spark.speculative.directory": "/nowhere"},
}
# By host, what Docker says, the inputs, and why the check refuses that.
REFUSED: dict[str, tuple[dict[str, t.Any], dict[str, t.Any], str]] = {
    "foreign-container": (
        {"slot": {"image": "nginx", "labels": {}}},
        {},
        "the container dgx-spark-speculative-open-webui (image nginx) was not created by this collection",
    ),
    "port": (
        {"ports_in_use": [{**FREE, "in_use": True, "container": "grafana", "holder": "container 'grafana'"}]},
        {},
        "port 3000 on 127.0.0.1 is in use by container 'grafana'. Choose another port with open_webui_port",
    ),
    "address": (
        {"port": {**FREE, "address": "192.168.1.21", "address_here": False}},
        {"open_webui_address": "192.168.1.21"},
        "this host does not have the address 192.168.1.21. Set open_webui_address to one of its addresses: 127.0.0.1",
    ),
    "no-login": (
        {},
        {"open_webui_address": "0.0.0.0", "open_webui_environment": {"WEBUI_AUTH": "false"}},
        "open_webui_address is 0.0.0.0, but open_webui_environment turns Open WebUI's login off",
    ),
    "its-own-port": (
        {"port": {**FREE, "in_use": True, "slot": True, "container": "dgx-spark-speculative-open-webui"}},
        {},
        NOTHING_RUNS,
    ),
    "no-deployment": ({}, {}, NOTHING_RUNS),
    "foreign-deployment": ({"containers": [{"name": "dgx-spark-speculative", "labels": {}}]}, {}, NOTHING_RUNS),
    "standby": ({"containers": [{**SERVES, "name": "dgx-spark-speculative-standby"}]}, {}, "Open WebUI needs a server"),
    "silent-server": (
        {"containers": [SERVES]},
        {},
        "Open WebUI needs a server that answers. No server at http://127.0.0.1:9",
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
        "ports_in_use": [],
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
        ["open_webui_check.yml", "open_webui_server.yml"],
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


def test_nothing_is_made_or_pulled_for_a_server_that_does_not_answer() -> None:
    *_others, run = yaml.safe_load((PLAYBOOKS / "open_webui.yml").read_text(encoding="utf-8"))
    names = [task["name"] for task in run["tasks"]]
    assert (
        names.index("Check that the server answers") < names.index("Create an API key") < names.index("Pull the image")
    )


def test_the_proxy_gets_the_engine_and_the_record_of_the_server() -> None:
    """Otherwise this playbook would close routes that the deployment's own run opens, and pass what that refuses."""
    *_others, run = yaml.safe_load((PLAYBOOKS / "open_webui.yml").read_text(encoding="utf-8"))
    handed = [task["vars"]["api_proxy_handover"] for task in run["tasks"] if "api_proxy_handover" in str(task)]
    assert handed == 2 * [
        {
            "engine": "{{ __open_webui_server['dgx_spark.speculative.engine'] | default('') }}",
            "record": "{{ deployment_records.records.present }}",
        }
    ]
