# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Open WebUI's container runs, what asks the endpoint in its place, and what the role tells people."""

from __future__ import annotations

import http.server
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit.waiting import WITHIN_S

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles" / "open_webui"
LAUNCH = (ROLE / "files" / "launch.sh").read_text(encoding="utf-8")
LIST_MODELS = ROLE / "files" / "list_models.py"
KEY = "sk-spark-0123456789abcdefghijklmnop"


class Start(t.NamedTuple):
    """One start of the container's program, in a directory that stands for the container."""

    directory: Path

    @property
    def secret(self) -> Path:
        return self.directory / "data" / ".webui_secret_key"

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", LAUNCH],
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"],
                "DATA_DIR": str(self.directory / "data"),
                "OPENAI_API_KEY_FILE": str(self.directory / "api_key"),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )


@pytest.fixture(name="start")
def fixture_start(tmp_path: Path) -> Start:
    (tmp_path / "data").mkdir()
    (tmp_path / "api_key").write_text(f"{KEY}\n", encoding="ascii")
    (tmp_path / "start.sh").write_text('echo "$OPENAI_API_KEY|$WEBUI_SECRET_KEY|$(umask)"\n', encoding="ascii")
    return Start(tmp_path)


def test_key_and_secret_reach_open_webui(start: Start) -> None:
    done = start.run()
    assert done.returncode == 0, done.stderr
    key, secret, umask = done.stdout.strip().split("|")
    assert key == KEY
    assert len(secret) == 44
    assert secret == start.secret.read_text(encoding="ascii").strip()
    assert stat.S_IMODE(start.secret.stat().st_mode) == 0o600
    # What Open WebUI itself writes keeps its usual mode.
    assert umask == subprocess.run(["bash", "-c", "umask"], capture_output=True, text=True, check=True).stdout.strip()


def test_the_secret_outlives_the_container(start: Start) -> None:
    assert start.run().stdout == start.run().stdout


def test_a_start_that_was_cut_off_leaves_no_half_secret(start: Start) -> None:
    start.secret.with_name(".webui_secret_key.new").write_text("hal", encoding="ascii")
    start.secret.touch()
    assert len(start.run().stdout.split("|")[1]) == 44
    assert list((start.directory / "data").iterdir()) == [start.secret]


def test_without_a_key_nothing_starts(start: Start) -> None:
    (start.directory / "api_key").unlink()
    done = start.run()
    assert done.returncode != 0
    assert done.stdout == ""


class Endpoint(http.server.ThreadingHTTPServer):
    """An endpoint that says what it is told to say to the right key."""

    status = 200
    body = b'{"data": [{"id": "openai/gpt-oss-120b"}, {"id": "other"}]}'


class Handler(http.server.BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        keyed = self.headers["Authorization"] == f"Bearer {KEY}"
        self.send_response((self.server.status if self.path == "/v1/models" else 404) if keyed else 401)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: t.Any) -> None: ...


@pytest.fixture(name="endpoint")
def fixture_endpoint() -> t.Iterator[Endpoint]:
    with Endpoint(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(directory: Path, url: str, key: str | None = KEY) -> tuple[int, str]:
    file = directory / "key"
    if key is not None:
        file.write_text(f"{key}\n", encoding="ascii")
    # As the container runs it: as a text, below a proxy that knows nothing of the Spark.
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODELS.read_text(encoding="utf-8"), "--key", str(file), url],
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.stderr == ""
    assert KEY not in done.stdout
    return done.returncode, done.stdout.strip()


def url_of(server: Endpoint) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


def test_the_models_are_listed(tmp_path: Path, endpoint: Endpoint) -> None:
    assert ask(tmp_path, url_of(endpoint)) == (0, "openai/gpt-oss-120b\nother")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (502, b"{}", "/models answers a container with status 502: nothing serves behind it; status.yml says"),
        (503, b"{}", "/models answers a container with status 503: nothing serves behind it; status.yml says"),
        (500, b"{}", "status 500: it is no endpoint of this collection; correct open_webui_endpoint."),
        (200, b"<html>", "/models does not answer a container with a list of models."),
        (200, b"[" * 100_000, "/models does not answer a container with a list of models."),
        (200, b"[]", "/models does not answer a container with a list of models."),
        (200, b'{"data": []}', "/models lists no model; status.yml says what the server does."),
    ],
)
def test_an_endpoint_that_lists_nothing(
    tmp_path: Path, endpoint: Endpoint, status: int, body: bytes, said: str
) -> None:
    endpoint.status, endpoint.body = status, body
    code, text = ask(tmp_path, url_of(endpoint))
    assert code == 1
    assert said in text


def test_a_key_that_the_proxy_does_not_know(tmp_path: Path, endpoint: Endpoint) -> None:
    code, text = ask(tmp_path, url_of(endpoint), "sk-spark-revoked")
    assert code == 1
    assert "status 401: it does not know the key of Open WebUI; run open_webui.yml again" in text


def test_a_closed_way_names_the_rule_that_opens_it(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        code, text = ask(tmp_path, f"http://127.0.0.1:{port}/v1")
    assert code == 1
    assert text.startswith(
        f"A container gets no answer from http://127.0.0.1:{port}/v1 ([Errno 111] Connection refused)."
    )
    assert f"'sudo ufw allow in on docker0 to any port {port} proto tcp'" in text


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    code, text = ask(tmp_path, "http://127.0.0.1:9/v1", None)
    assert code == 1
    assert text == f"The key in {tmp_path / 'key'} cannot be read inside the container (No such file or directory)."


def play_it(directory: Path) -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", str(directory / "hosts.yml"), "-e", f"@{directory / 'given.json'}", str(directory / "play.yml")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def shown(directory: Path, **variables: t.Any) -> dict[str, t.Any]:
    """What the role makes of these inputs, with its own first and last task."""
    first, *_others, last = yaml.safe_load((ROLE / "tasks/main.yml").read_text(encoding="utf-8"))
    names = ("published", "url", "asks")
    document = {name: f"{{{{ __open_webui_page.{name} }}}}" for name in names}
    document["lines"] = last["dgx_spark.speculative.report"]["lines"]
    path = str(directory / "shown.json")
    play = {
        "hosts": "spark-1",
        "connection": "local",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.import_role": {"name": "dgx_spark.speculative.open_webui"}, "when": False},
            first,
            {"dgx_spark.speculative.report": {"lines": [], "document": document, "json_path": path}},
        ],
    }
    given = {
        "open_webui_endpoint": "http://172.17.0.1:8000",
        "open_webui_state_directory": "/home/spark/.local/share/dgx-spark-speculative",
        "__open_webui_models": {"container": {"Output": "openai/gpt-oss-120b\nother\n"}},
        **variables,
    }
    hosts = {"sparks": {"hosts": {"spark-1": {"ansible_host": "10.0.0.7", "ansible_user": "nvidia"}}}}
    (directory / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    (directory / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    (directory / "given.json").write_text(json.dumps(given), encoding="utf-8")
    play_it(directory)
    return t.cast(dict[str, t.Any], json.loads((directory / "shown.json").read_text(encoding="utf-8"))["spark-1"])


def test_what_people_are_told(tmp_path: Path) -> None:
    assert shown(tmp_path)["lines"] == [
        "spark-1: Open WebUI is at http://127.0.0.1:3000",
        "  The first account that is made there becomes its administrator; accounts and chats stay in the",
        "  volume dgx-spark-speculative-open-webui.",
        "  It asks http://172.17.0.1:8000/v1 with the key 'open-webui', and a container sees there: "
        "openai/gpt-oss-120b, other.",
    ]


def test_on_every_address(tmp_path: Path) -> None:
    found = shown(tmp_path, open_webui_address="0.0.0.0", open_webui_endpoint="http://172.17.0.1:8000/v1/")
    assert found["asks"] == "http://172.17.0.1:8000/v1"
    assert (found["published"], found["url"]) == ("0.0.0.0:3000:8080", "http://127.0.0.1:3000")
    assert found["lines"][0] == "spark-1: Open WebUI is at http://10.0.0.7:3000"
    assert "Be the first" in found["lines"][1]


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
SERVES = {
    "name": "dgx-spark-speculative",
    "labels": {"dgx_spark.speculative.url": "http://127.0.0.1:9", "dgx_spark.speculative.directory": "/nowhere"},
}


# What Docker says, the inputs, and why the preflight refuses that.
REFUSED: dict[str, tuple[dict[str, t.Any], dict[str, t.Any], str]] = {
    "no-Docker": (
        {"state": "not_running", "detail": "Docker is installed and does not answer."},
        {},
        "Docker is installed and does not answer. Start it with 'sudo systemctl start docker'.",
    ),
    "foreign-container": (
        {"slot": {"image": "nginx", "labels": {}}},
        {},
        "the container dgx-spark-speculative-open-webui (image nginx) was not made by this collection",
    ),
    "port": (
        {"taken": [{**FREE, "in_use": True, "container": "grafana", "holder": "container 'grafana'"}]},
        {},
        "port 3000 on 127.0.0.1 is in use by container 'grafana'. Choose another port with",
    ),
    "address": (
        {"port": {**FREE, "address": "192.168.1.21", "address_here": False}},
        {"open_webui_address": "192.168.1.21"},
        "this host does not have the address 192.168.1.21. It has 127.0.0.1, 192.168.1.20; choose one of them",
    ),
    "its-own-port": (
        {"port": {**FREE, "in_use": True, "slot": True, "container": "dgx-spark-speculative-open-webui"}},
        {},
        "nothing serves here that Open WebUI could use.",
    ),
    "no-login": (
        {},
        {"open_webui_address": "0.0.0.0", "open_webui_environment": {"WEBUI_AUTH": "false"}},
        "open_webui_address is 0.0.0.0, and open_webui_environment turns Open WebUI's login off",
    ),
    "nothing-serves": (
        {},
        {},
        "nothing serves here that Open WebUI could use. Serve a model first",
    ),
    "foreign-slot": (
        {"containers": [{"name": "dgx-spark-speculative", "labels": {}}]},
        {},
        "nothing serves here",
    ),
    "silent-server": (
        {"containers": [SERVES]},
        {},
        "Open WebUI needs a server that answers. No server at http://127.0.0.1:9",
    ),
}


@pytest.fixture(name="refusals", scope="module")
def fixture_refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Why the preflight refuses each of these Sparks, in one run."""
    directory = tmp_path_factory.mktemp("refused")
    role = {"name": "dgx_spark.speculative.open_webui", "tasks_from": "preflight"}
    said = {
        "lines": [],
        "document": {"msg": "{{ ansible_failed_result.msg }}"},
        "json_path": str(directory / "said.json"),
    }
    play = {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "tasks": [
            {
                "block": [{"ansible.builtin.include_role": role}],
                "rescue": [{"dgx_spark.speculative.report": said}],
            }
        ],
    }
    docker: dict[str, t.Any] = {
        "state": "usable",
        "slot": None,
        "port": FREE,
        "addresses": ["127.0.0.1", "192.168.1.20"],
        "architecture": "arm64",
        "image_store": None,
        "published_ports": [],
        "taken": [],
        "containers": [],
        "image": {"id": "sha256:1"},
    }
    hosts = {
        name: {**variables, "docker_says": {"docker": {**docker, **found}}}
        for name, (found, variables, _said) in REFUSED.items()
    }
    # What the command line says is stronger than what the task registers.
    given = {"ansible_python_interpreter": sys.executable, "__open_webui_look": "{{ docker_says }}"}
    (directory / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    (directory / "given.json").write_text(json.dumps(given), encoding="utf-8")
    play_it(directory)
    report = json.loads((directory / "said.json").read_text(encoding="utf-8"))
    return {name: report[name]["msg"] for name in REFUSED}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_preflight_refuses(refusals: dict[str, str], name: str) -> None:
    assert f"{name}: " in refusals[name]
    assert REFUSED[name][2] in refusals[name]


def test_every_input_is_described() -> None:
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert {name for spec in specs.values() for name in spec["options"]} == set(defaults)
    readme = (ROLE / "README.md").read_text(encoding="utf-8")
    assert [name for name in defaults if f"`{name}`" not in readme] == []
