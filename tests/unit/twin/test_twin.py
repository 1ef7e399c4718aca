# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the twin that need no container."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
import http.server
import io
import json
import os
import pathlib
import subprocess
import threading
import time
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import parse_meminfo

from tests.twin import engine, machine
from tests.twin.control import Internet
from tests.twin.internet import hub
from tests.twin.names import PACKAGE, TwinError
from tests.twin.spark import gpu_hook, meminfo
from tests.unit import web
from tests.unit.waiting import WITHIN_S

MODEL = "nvidia/tiny"
COMMIT = "633caf45f31288cbb70ee237f7c939db707ecc94"
WEIGHTS = bytes(range(256)) * 40
CONFIG = b'{"a": 1}\n'


@dataclasses.dataclass
class Reply:
    status: int
    headers: t.Any
    body: bytes

    def json(self) -> t.Any:
        return json.loads(self.body)


@dataclasses.dataclass
class TwinWorld:
    """A world on local ports, without TLS."""

    world: hub.World
    port: int
    internet: Internet

    def ask(
        self, url: str, headers: dict[str, str] | None = None, method: str = "GET", body: bytes | None = None
    ) -> Reply:
        """Send a request for `host/path` without following redirects."""
        host, _, path = url.partition("/")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        with contextlib.closing(connection):
            connection.request(method, f"/{path}", body, {"Host": host, **(headers or {})})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())

    def resolve(self, name: str, headers: dict[str, str] | None = None) -> Reply:
        """Get a file of the model, by way of the file network where the Hub says so."""
        reply = self.ask(f"huggingface.co/{MODEL}/resolve/main/{name}", headers)
        if reply.status != 302:
            return reply
        return self.ask(reply.headers["Location"].removeprefix("https://"), headers)


class FakeRegistry(web.Handler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        self.reply(200, {"path": self.path, "accept": self.headers.get("Accept")})


@contextlib.contextmanager
def serving(server: http.server.HTTPServer) -> t.Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def twin(tmp_path: pathlib.Path) -> t.Iterator[TwinWorld]:
    files = tmp_path / "hub" / MODEL
    (files / "original").mkdir(parents=True)
    (files / "config.json").write_bytes(CONFIG)
    (files / "model.safetensors").write_bytes(WEIGHTS)
    (files / "original" / "notes.txt").write_bytes(b"notes\n")
    description = {"id": MODEL, "sha": COMMIT, "lfs": ["*.safetensors"], "refs": {}}
    (tmp_path / "hub" / f"{MODEL}.json").write_text(json.dumps(description))
    (tmp_path / "packages" / "pool").mkdir(parents=True)
    (tmp_path / "packages" / "pool" / "ssh_1_9.2+deb12_all.deb").write_bytes(b"package")
    (tmp_path / "vocabularies").mkdir()
    (tmp_path / "vocabularies" / "o200k_base.tiktoken").write_bytes(b"IQ== 0\n")
    with web.Server(FakeRegistry) as registry:
        places = tmp_path / "hub", tmp_path / "vocabularies"
        world = hub.World(*places, ("127.0.0.1", registry.server_port), tmp_path / "packages")
        front = hub.Server(("127.0.0.1", 0), hub.Handler, world)
        control = hub.Server(("127.0.0.1", 0), hub.ControlHandler, world)
        with serving(front) as port, serving(control) as control_port:
            yield TwinWorld(world, port, Internet(f"http://127.0.0.1:{control_port}"))


def bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


@pytest.mark.parametrize(
    ("path", "token", "status", "code", "message"),
    [
        ("api/models/nvidia/none", None, 401, None, "Invalid username or password."),
        ("api/models/nvidia/none", "hf_twin_valid", 404, "RepoNotFound", "Repository not found"),
        (f"api/models/{MODEL}/revision/v9", None, 404, "RevisionNotFound", "Invalid rev id: v9"),
        (f"{MODEL}/resolve/v9/config.json", None, 404, "RevisionNotFound", "Invalid rev id: v9"),
        (f"{MODEL}/resolve/main/none", None, 404, "EntryNotFound", "Entry not found"),
        (f"api/models/{MODEL}", "hf_other", 401, None, "Invalid credentials in Authorization header"),
        ("api/whoami-v2", None, 401, None, "Invalid username or password."),
        ("nvidia/..%2ftiny/resolve/main/config.json", None, 401, None, "Invalid username or password."),
    ],
)
def test_hub_refusals(
    twin: TwinWorld, path: str, token: str | None, status: int, code: str | None, message: str
) -> None:
    reply = twin.ask(f"huggingface.co/{path}", bearer(token))
    assert reply.status == status
    assert reply.headers.get("X-Error-Code") == code
    assert reply.headers["X-Error-Message"] == message
    assert reply.json() == {"error": message}


def test_large_file_comes_by_a_signed_link(twin: TwinWorld) -> None:
    url = f"huggingface.co/{MODEL}/resolve/main/model.safetensors"
    head = twin.ask(url, method="HEAD")
    assert head.status == 302
    assert head.headers["X-Linked-ETag"] == f'"{hashlib.sha256(WEIGHTS).hexdigest()}"'
    assert head.headers["X-Linked-Size"] == "10240"
    link = head.headers["Location"].removeprefix("https://")
    assert twin.ask(link).body == WEIGHTS
    assert twin.ask(link, bearer("hf_twin_valid")).status == 400
    assert twin.ask(link.replace("Signature=", "Signature=0")).status == 403


@pytest.mark.parametrize(
    ("wanted", "status", "content_range", "body"),
    [
        ("bytes=0-0", 206, "bytes 0-0/10240", WEIGHTS[:1]),
        ("bytes=10000-", 206, "bytes 10000-10239/10240", WEIGHTS[10000:]),
        ("bytes=-16", 206, "bytes 10224-10239/10240", WEIGHTS[-16:]),
        ("bytes=10240-", 416, "bytes */10240", b""),
        ("bytes=-", 200, None, WEIGHTS),
    ],
)
def test_ranges(twin: TwinWorld, wanted: str, status: int, content_range: str | None, body: bytes) -> None:
    reply = twin.resolve("model.safetensors", {"Range": wanted})
    assert (reply.status, reply.headers.get("Content-Range"), reply.body) == (status, content_range, body)


@pytest.mark.parametrize(
    ("token", "status", "message"),
    [
        (
            None,
            401,
            f"Access to model {MODEL} is restricted. "
            "You must have access to it and be authenticated to access it. Please log in.",
        ),
        (
            "hf_twin_unaccepted",
            403,
            f"Access to model {MODEL} is restricted and you are not in the authorized list. "
            f"Visit https://huggingface.co/{MODEL} to ask for access.",
        ),
        ("hf_twin_valid", 200, None),
        ("hf_other", 401, "Invalid credentials in Authorization header"),
    ],
)
def test_gated_repository(twin: TwinWorld, token: str | None, status: int, message: str | None) -> None:
    twin.internet.set_faults([{"host": "huggingface.co", "action": "gate", "repository": MODEL}])
    for path in (f"api/models/{MODEL}/auth-check", f"{MODEL}/resolve/main/config.json"):
        reply = twin.ask(f"huggingface.co/{path}", bearer(token))
        assert (reply.status, reply.headers.get("X-Error-Message")) == (status, message)
    # The facts of a gated repository are public.
    assert twin.ask(f"huggingface.co/api/models/{MODEL}").json()["gated"] == "manual"


def test_package_host(twin: TwinWorld) -> None:
    place = "packages.dgx-spark-twin.test/debian/pool"
    reply = twin.ask(f"{place}/ssh_1_9.2%2bdeb12_all.deb")
    assert (reply.status, reply.body) == (200, b"package")
    assert twin.internet.bytes_to("127.0.0.1", "packages.dgx-spark-twin.test/") == len(b"package")
    for missing in ("none.deb", "", "../../vocabularies/o200k_base.tiktoken", "%2e%2e/%2e%2e/hub/nvidia/tiny.json"):
        assert twin.ask(f"{place}/{missing}").status == 404
    twin.internet.set_faults([{"host": "packages.dgx-spark-twin.test", "action": "status", "status": 503}])
    assert twin.ask(f"{place}/ssh_1_9.2%2bdeb12_all.deb").status == 503


def test_only_the_package_host_answers_without_tls(twin: TwinWorld) -> None:
    with serving(hub.Server(("127.0.0.1", 0), hub.PlainHandler, twin.world)) as port:
        plain = dataclasses.replace(twin, port=port)
        assert plain.ask("packages.dgx-spark-twin.test/debian/pool/ssh_1_9.2%2bdeb12_all.deb").status == 200
        assert plain.ask(f"huggingface.co/{MODEL}/resolve/main/config.json").status == 404


def test_image_host_wants_an_anonymous_token(twin: TwinWorld) -> None:
    reply = twin.ask("nvcr.io/v2/nvidia/x/manifests/1")
    assert reply.status == 401
    assert reply.headers["WWW-Authenticate"] == (
        'Bearer realm="https://nvcr.io/proxy_auth",scope="repository:nvidia/x:pull"'
    )
    token = twin.ask("nvcr.io/proxy_auth?scope=repository:nvidia/x:pull").json()["token"]
    seen = twin.ask("nvcr.io/v2/nvidia/x/tags/list?n=1", {"Accept": "a/b", **bearer(token)}).json()
    assert seen == {"path": "/v2/nvidia/x/tags/list?n=1", "accept": "a/b"}
    assert twin.ask("nvcr.io/v2/nvidia/x/blobs/uploads/", bearer(token), "POST").status == 403


@pytest.mark.parametrize(
    ("host", "challenge", "image", "tokens"),
    [
        (
            "registry-1.docker.io",
            'realm="https://auth.docker.io/token",service="registry.docker.io"',
            "library/caddy",
            "auth.docker.io/token",
        ),
        ("ghcr.io", 'realm="https://ghcr.io/token",service="ghcr.io"', "open-webui/open-webui", "ghcr.io/token"),
    ],
)
def test_other_image_hosts_have_their_own_tokens_and_images(
    twin: TwinWorld, host: str, challenge: str, image: str, tokens: str
) -> None:
    reply = twin.ask(f"{host}/v2/{image}/manifests/1")
    assert reply.status == 401
    assert reply.headers["WWW-Authenticate"] == f'Bearer {challenge},scope="repository:{image}:pull"'
    token = bearer(twin.ask(f"{tokens}?scope=repository:{image}:pull").json()["token"])
    assert twin.ask(f"{host}/v2/{image}/manifests/1", token).json()["path"] == f"/v2/{image}/manifests/1"
    assert twin.ask(f"{host}/v2/", token).status == 200
    elsewhere = twin.ask(f"{host}/v2/nvidia/x/manifests/1", token)
    assert (elsewhere.status, b"MANIFEST_UNKNOWN" in elsewhere.body) == (404, True)


def test_an_image_that_all_twins_share_comes_from_their_registry(twin: TwinWorld) -> None:
    path = "/v2/vllm/vllm-openai-cpu/manifests/v0.32.0"
    token = bearer(twin.ask("auth.docker.io/token?scope=repository:vllm/x:pull").json()["token"])
    with web.Server(FakeRegistry) as kept:
        twin.world.kept = ("127.0.0.1", kept.server_port)
        # The other registry cannot answer for it.
        twin.world.registry = ("127.0.0.1", 1)
        assert twin.ask(f"registry-1.docker.io{path}", token).json()["path"] == path
        assert twin.ask("registry-1.docker.io/v2/library/x/manifests/1", token).status == 502
    # Another host does not have it.
    assert twin.ask(f"ghcr.io{path}", token).status == 404


def test_the_hub_tells_a_licence_that_a_description_has(twin: TwinWorld) -> None:
    facts = twin.ask(f"huggingface.co/api/models/{MODEL}").json()
    assert (facts["tags"], "cardData" in facts) == ([], False)
    description = twin.world.content.root / f"{MODEL}.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "license": "apache-2.0"}))
    facts = twin.ask(f"huggingface.co/api/models/{MODEL}").json()
    assert (facts["tags"], facts["cardData"]) == (["license:apache-2.0"], {"license": "apache-2.0"})


def test_the_host_that_gives_tokens_has_no_images(twin: TwinWorld) -> None:
    assert twin.ask("auth.docker.io/v2/library/caddy/manifests/1", bearer("anonymous-pull")).status == 404


def test_unknown_host(twin: TwinWorld) -> None:
    reply = twin.ask("example.org/")
    assert (reply.status, reply.body) == (404, b"The twin does not serve example.org.")


def test_counters_know_client_file_and_bytes(twin: TwinWorld) -> None:
    twin.resolve("config.json")
    twin.resolve("model.safetensors")
    # What the file network sends counts as the file that was asked for at the Hub.
    prefix = f"huggingface.co/{MODEL}/resolve/main/"
    assert twin.internet.bytes_to("127.0.0.1", prefix + "model.safetensors") == len(WEIGHTS) + len(
        twin.ask(prefix + "model.safetensors").body
    )
    assert twin.internet.bytes_to("127.0.0.1", prefix + "config.json") == len(CONFIG)
    assert twin.internet.bytes_to("192.0.2.1", prefix) == 0
    hosts = [request["host"] for request in twin.internet.requests()]
    assert hosts == ["huggingface.co", "huggingface.co", "cdn-lfs.huggingface.co", "huggingface.co"]
    twin.internet.reset_counters()
    assert twin.internet.counters() == {"requests": [], "bytes": {}, "total_requests": 0}


def test_a_byte_is_counted_before_anybody_has_it() -> None:
    counted: list[int] = []

    class Client(io.BytesIO):
        def write(self, data: t.Any) -> int:
            assert sum(counted) == len(self.getvalue()) + len(data)
            return super().write(data)

    handler = object.__new__(hub.Handler)
    handler.wfile = client = Client()
    answer = hub.Answer(200, {}, io.BytesIO(WEIGHTS), len(WEIGHTS))
    handler.transfer(answer, counted.append, lambda: 1_000_000, None, None)
    assert client.getvalue() == WEIGHTS


def test_status_fault_strikes_as_often_as_told(twin: TwinWorld) -> None:
    fault = {"host": "huggingface.co", "path": f"/{MODEL}/*", "action": "status", "status": 503, "body": "busy"}
    twin.internet.set_faults([{**fault, "times": 1}])
    first, second = twin.resolve("config.json"), twin.resolve("config.json")
    assert (first.status, first.body, second.status) == (503, b"busy", 200)
    assert twin.internet.faults() == [{**fault, "times": 0}]


def test_a_limit_says_how_long_it_lasts(twin: TwinWorld) -> None:
    fault = {"host": "huggingface.co", "action": "status", "status": 429, "retry_after": 240, "times": 1}
    twin.internet.set_faults([fault])
    limited = twin.ask(f"huggingface.co/api/models/{MODEL}")
    assert (limited.status, limited.headers["Retry-After"]) == (429, "240")
    assert limited.headers["RateLimit"] == '"resolvers";r=0;t=240'


def test_a_host_without_ranges_sends_the_whole_or_refuses(twin: TwinWorld) -> None:
    twin.internet.set_faults([{"action": "no_ranges", "times": 1}, {"action": "no_ranges", "refused": True}])
    place, part = f"huggingface.co/{MODEL}/resolve/main/config.json", {"Range": "bytes=1-"}
    whole, refused = twin.ask(place, part), twin.ask(place, part)
    assert (whole.status, whole.body, refused.status) == (200, CONFIG, 416)
    assert twin.resolve("config.json").status == 200


def test_a_file_may_be_another_one_than_listed(twin: TwinWorld) -> None:
    twin.internet.set_faults([{"action": "etag", "etag": "x"}])
    assert twin.resolve("config.json").headers["ETag"] == '"x"'
    assert twin.ask(f"huggingface.co/{MODEL}/resolve/main/model.safetensors").headers["X-Linked-ETag"] == '"x"'


def test_unauthorized_fault_refuses_as_each_host_does(twin: TwinWorld) -> None:
    twin.internet.set_faults([{"action": "unauthorized"}])
    token = twin.ask("nvcr.io/proxy_auth")
    assert (token.status, token.headers.get("WWW-Authenticate")) == (401, None)
    manifest = twin.ask("nvcr.io/v2/nvidia/x/manifests/1", bearer("anonymous-pull"))
    assert manifest.status == 401
    assert 'scope="repository:nvidia/x:pull"' in manifest.headers["WWW-Authenticate"]
    assert twin.resolve("config.json").headers["X-Error-Message"] == "Invalid username or password."


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ([{"action": "cut"}], "The fault 'cut' needs after_bytes."),
        ([{"action": "etag"}], "The fault 'etag' needs etag."),
        ([{"action": "status", "status": 500, "repository": "x"}], "The fault 'status' has no repository."),
        ([{"action": "slow", "bytes_per_second": 0}], "bytes_per_second must be positive."),
        (
            [{"action": "burn"}],
            "A fault has an `action`, one of status, cut, slow, corrupt, no_ranges, etag, gate, missing, "
            "unauthorized, down: {'action': 'burn'}",
        ),
        ({}, "The faults are not a list."),
    ],
)
def test_wrong_faults_are_refused(twin: TwinWorld, faults: t.Any, message: str) -> None:
    with pytest.raises(TwinError) as caught:
        twin.internet.set_faults(faults)
    assert str(caught.value) == f"The twin's internet refused POST /faults: {message}"


def test_absent_internet_is_one_sentence() -> None:
    with pytest.raises(TwinError, match=r"^The twin's internet does not answer at http://127\.0\.0\.1:9: "):
        Internet("http://127.0.0.1:9").counters()


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        (["NVIDIA_VISIBLE_DEVICES=all"], True),
        (["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=all"], True),
        (["NVIDIA_VISIBLE_DEVICES=void"], False),
        (["PATH=/bin"], False),
    ],
)
def test_gpu_is_given_to_who_asks(environment: list[str], asked: bool) -> None:
    assert gpu_hook.asked_for_gpu(environment) is asked


def process(directory: pathlib.Path, number: int, *arguments: str) -> None:
    place = directory / str(number)
    place.mkdir(parents=True)
    (place / "cmdline").write_bytes(b"".join(argument.encode() + b"\0" for argument in arguments))


def test_meminfo_leaves_what_system_and_gpu_do_not_hold(tmp_path: pathlib.Path) -> None:
    facts, processes = tmp_path / "facts", tmp_path / "proc"
    facts.mkdir()
    process(processes, 1, "/sbin/init")
    process(processes, 7, "sh", "-c", "read _", "STANDIN_GPU_NAME=a", "STANDIN_GPU_BYTES=70000000000")
    process(processes, 8, "standin-hold", "STANDIN_GPU_BYTES=1000000000")
    process(processes, 9, "echo", "xSTANDIN_GPU_BYTES=5", "STANDIN_GPU_BYTES=some")
    process(processes, 10, "sh", "-c", "read _", "STANDIN_GPU_CURVE=0:0,10:0,20:2000000000")
    ticks = (time.clock_gettime(time.CLOCK_BOOTTIME) - 1000) * os.sysconf("SC_CLK_TCK")
    (processes / "10/stat").write_text(f"10 (sh) S {'0 ' * 18}{ticks:.0f} 0 0\n")
    (processes / "self").mkdir()
    (facts / "gpu.json").write_text('{"memory_bytes": 128521625600, "system_bytes": 4.5e9}')
    meminfo.update(facts, processes)
    before = (facts / "meminfo").read_text()
    figures = parse_meminfo(before)
    assert figures["MemTotal"] == 128_521_625_600
    assert figures["MemAvailable"] == pytest.approx(128_521_625_600 - 4.5e9 - 73e9, abs=1024)
    assert figures["MemFree"] + figures["Cached"] == pytest.approx(figures["MemAvailable"], abs=2048)

    # Files that have been read take it up, as if they were the real ones, and give it back.
    homes, model = tmp_path / "homes", tmp_path / "homes/spark/.cache/huggingface/hub/models--a--b/snapshots/c"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(bytes(800_000))
    (model / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 40000000000}}')
    with (model / "model.safetensors").open("rb") as shard:
        os.fsync(shard.fileno())
        for cached, advice in ((40e9, os.POSIX_FADV_WILLNEED), (6e9, os.POSIX_FADV_DONTNEED)):
            os.posix_fadvise(shard.fileno(), 0, 0, advice)
            meminfo.update(facts, processes, homes)
            assert parse_meminfo((facts / "meminfo").read_text())["Cached"] == pytest.approx(cached, abs=1024)

    # Another Spark, too full for what runs on it: no figure moves and none is negative.
    (facts / "gpu.json").write_text('{"memory_bytes": 60e9, "system_bytes": 4.5e9}')
    meminfo.update(facts, processes)
    after = (facts / "meminfo").read_text()
    assert parse_meminfo(after)["MemAvailable"] == 0
    assert [len(line) for line in after.splitlines()] == [len(line) for line in before.splitlines()]


def test_nvidia_smi_knows_the_fields_of_processes() -> None:
    program = ["sh", str(PACKAGE / "spark" / "nvidia-smi"), "--query-compute-apps=colour", "--format=csv"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, 'Field "colour" is not a valid field to query.\n')


def test_nvidia_smi_lists_the_engine_of_vllm() -> None:
    """Its CPU build asks no driver, but the driver of a Spark lists it."""
    smi = ["sh", str(PACKAGE / "spark" / "nvidia-smi"), "--query-compute-apps=pid,used_memory"]
    for title in ("VLLM::EngineCore", "VLLM::Worker_TP0"):
        with subprocess.Popen([title, "60"], executable="/bin/sleep") as engine:
            try:
                # What Popen has started has its command line by now.
                listed = subprocess.run(
                    [*smi, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
                )
                assert f"{engine.pid}, 0" in listed.stdout.splitlines()
            finally:
                engine.kill()


def test_of_new_control_groups_only_empty_ones_are_a_twins(tmp_path: pathlib.Path) -> None:
    for name, processes in {"left": "", "somebody": "4711\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(processes)
    now = [str(tmp_path / name) for name in ("left", "somebody", "gone by now")]
    assert machine.counted(["/sys/fs/cgroup/before"], now) == ["/sys/fs/cgroup/before", now[0]]


def test_the_control_groups_of_other_twins_do_not_count() -> None:
    root = "/sys/fs/cgroup/unified"
    # Another checkout has twin c, and a demo has none.
    others = [f"{root}/dgx-spark-twin-c-1", f"{root}/dgx-spark-twin-c-1/init.scope", f"{root}/dgx-spark-twin-2"]
    own = [f"{root}/dgx-spark-twin-a-1", f"{root}/dgx-spark-twin-b-2/init.scope", f"{root}/user.slice"]
    assert machine.of_twins([*others, *own], ("a", "b")) == own
    assert machine.of_twins([*others, *own], ("",)) == [others[2], own[2]]


def test_machine_differences_are_readable() -> None:
    before = {"sysctls": {"vm.swappiness": "60"}, "routes": [["default", "a"]]}
    after = {"sysctls": {"vm.swappiness": "10"}, "routes": [["default", "b"]]}
    assert machine.differences(before, after) == [
        "sysctls: vm.swappiness was '60' and is '10'",
        "routes: ['default', 'a'] is gone",
        "routes: ['default', 'b'] is new",
    ]
    assert machine.differences(before, before) == []


def test_missing_docker_is_one_sentence(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TwinError) as caught:
        engine.docker("info")
    assert str(caught.value) == "The twin needs Docker, and there is no `docker` command on this machine."
