# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import platform
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_marks
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.lock import user_name
from ansible_collections.dgx_spark.speculative.plugins.modules import spark_info

from tests.unit import modules
from tests.unit.docker_server import DockerServer

ME = user_name(os.getuid())
INFO = {"ServerVersion": "28.3.3", "DockerRootDir": "/var/lib/docker", "Runtimes": {"runc": {}, "nvidia": {}}}
LISTED = {
    "Id": "c1",
    "Names": ["/other"],
    "Image": "nginx",
    "State": "running",
    "Status": "Up 2 hours",
    "Ports": [{"IP": "127.0.0.1", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}],
    "HostConfig": {"NetworkMode": "bridge"},
    "Labels": {"a": "b"},
}
SLOT = {
    "Id": "c2",
    "Name": "/slot",
    "Image": "sha256:1",
    "RestartCount": 2,
    "Config": {"Image": "release:1", "Labels": {"dgx_spark.speculative.recipe": "x"}},
    "State": {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "StartedAt": "S", "FinishedAt": "F"},
    "HostConfig": {
        "RestartPolicy": {"Name": "unless-stopped"},
        "NetworkMode": "bridge",
        "PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8001"}]},
    },
}
IMAGE = {
    "Id": "sha256:1",
    "RepoTags": ["r/x:1"],
    "RepoDigests": ["r/x@sha256:2"],
    "Size": 5,
    "Architecture": "arm64",
    "Config": {"Env": ["A=b"], "Labels": None},
}
PAGES: dict[str, t.Any] = {
    "/info": INFO,
    "/version": {"Components": [{"Name": "Engine"}]},
    "/containers/json": [LISTED],
    "/containers/c1/json": {"State": {"StartedAt": "2026-10-04T09:12:44Z", "Pid": 77}},
    "/containers/slot/json": SLOT,
    "/images/r/x:1/json": IMAGE,
}


@pytest.fixture(name="engine")
def fixture_engine(tmp_path: Path) -> t.Iterator[DockerServer]:
    with DockerServer(tmp_path / "docker.sock", dict(PAGES)) as server:
        yield server


@pytest.fixture(name="look")
def fixture_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., dict[str, t.Any]]:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 40 kB\n", encoding="ascii")
    machine = Machine(root=root, uid=os.getuid(), home=tmp_path, docker_host="", sockets=dict)
    monkeypatch.setattr(spark_info, "Machine", lambda: machine)

    def look(**params: t.Any) -> dict[str, t.Any]:
        docker = {"socket": str(tmp_path / "docker.sock"), **params}
        asked = {"gather": ["docker"], "state_directory": str(tmp_path / "state"), "docker": docker}
        result = modules.run(spark_info, asked)
        found: dict[str, t.Any] = result.get("docker", result)
        return found

    return look


Look = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="nvidia_smi")
def fixture_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str], None]:
    """An nvidia-smi that says something."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    def says(text: str) -> None:
        program = tmp_path / "bin/nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n", encoding="utf-8")
        program.chmod(0o755)

    return says


@pytest.mark.usefixtures("engine")
def test_an_image_whose_pull_did_not_end_is_missing(look: Look, tmp_path: Path) -> None:
    image_marks.begin(tmp_path / "state/jobs", "r/x:1")
    assert look(image="r/x:1")["image"]["id"] == "sha256:1"
    image_marks.mark_of(tmp_path / "state/jobs", "r/x:1").write_text("an earlier boot", encoding="ascii")
    assert look(image="r/x:1")["image"] is None


@pytest.mark.usefixtures("engine")
def test_usable(look: Look) -> None:
    result = look(container="slot", image="r/x:1", port=8080)
    assert (result["state"], result["detail"]) == ("usable", "")
    assert (result["server_version"], result["gpu"]) == ("28.3.3", True)
    assert result["containers"] == [
        {
            "name": "other",
            "id": "c1",
            "image": "nginx",
            "state": "running",
            "status": "Up 2 hours",
            "up": "2 hours",
            "pid": 77,
            "ports": [{"address": "127.0.0.1", "port": 8080, "container_port": 80, "protocol": "tcp"}],
            "network_mode": "bridge",
            "started_at": "2026-10-04T09:12:44Z",
            "labels": {"a": "b"},
        }
    ]
    assert result["slot"] == {
        "name": "slot",
        "id": "c2",
        "image": "release:1",
        "image_id": "sha256:1",
        "labels": {"dgx_spark.speculative.recipe": "x"},
        "state": "exited",
        "health": None,
        "exit_code": 137,
        "oom_killed": True,
        "error": None,
        "started_at": "S",
        "finished_at": "F",
        "restart_count": 2,
        "restart_policy": "unless-stopped",
        "is_stopped": False,
        "network_mode": "bridge",
        "published_ports": ["127.0.0.1:8001:8000/tcp"],
        "rdma_filter": "",
    }
    assert result["image"] == {
        "id": "sha256:1",
        "repo_tags": ["r/x:1"],
        "repo_digests": ["r/x@sha256:2"],
        "size": 5,
        "architecture": "arm64",
        "labels": {},
        "env": ["A=b"],
    }
    assert (result["port"]["in_use"], result["port"]["container"]) == (True, "other")
    assert result["port"]["description"] == (
        "other (nginx, up 2 hours, not this collection's) holds port 8080; stop it with: docker stop other"
    )
    assert (result["memory"], result["same_filesystem"]) == (None, None)
    assert result["user"] == ME
    assert result["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@pytest.mark.usefixtures("engine")
def test_what_is_not_there_is_null(look: Look) -> None:
    result = look(container="none", image="none")
    assert (result["slot"], result["image"], result["port"]) == (None, None, None)


@pytest.mark.parametrize(
    ("pages", "detail"),
    [
        (
            {"/version": {"Components": [{"Name": "Podman Engine"}]}},
            "Podman answers in Docker's place; this needs Docker Engine itself. Remove the shim with "
            "'sudo apt-get remove podman-docker' and install Docker Engine.",
        ),
        (
            {"/info": {**INFO, "SecurityOptions": ["name=rootless"]}},
            "Docker runs rootless for this user; this needs the Docker Engine that root runs. Go back to it with "
            "'dockerd-rootless-setuptool.sh uninstall', 'docker context use default' and "
            "'sudo systemctl enable --now docker'.",
        ),
        (
            {"/info": {**INFO, "DockerRootDir": "/var/snap/docker/common/var-lib-docker"}},
            "Docker comes from a snap, which cannot hand out the GPU. Remove it with 'sudo snap remove docker' and "
            "install Docker Engine from the distribution or from Docker.",
        ),
    ],
)
def test_unsupported(engine: DockerServer, look: Look, pages: dict[str, t.Any], detail: str) -> None:
    engine.pages.update(pages)
    result = look()
    assert (result["state"], result["detail"]) == ("unsupported", detail)


def test_not_installed_and_not_running(look: Look, tmp_path: Path) -> None:
    result = look()
    assert (result["state"], result["detail"]) == ("not_installed", "Docker is not installed.")
    assert (result["containers"], result["image_store"], result["gpu"]) == ([], None, False)
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/usr/bin/dockerd").touch(0o755)
    result = look()
    assert (result["state"], result["detail"]) == (
        "not_running",
        f"Docker is installed and does not answer on {tmp_path}/docker.sock (No such file or directory).",
    )


@pytest.mark.usefixtures("engine")
def test_denied(look: Look, tmp_path: Path) -> None:
    (tmp_path / "docker.sock").chmod(0)
    # Nothing is denied to root.
    os.seteuid(65534 if os.geteuid() == 0 else os.geteuid())
    try:
        result = look()
    finally:
        os.seteuid(os.getuid())
    assert result["state"] == "denied"
    assert result["detail"] == f"The user {ME} may not open {tmp_path}/docker.sock."


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ((500, {"message": "disk on fire"}), "failed with status 500: disk on fire."),
        (b"<html>", "failed: it did not answer with JSON."),
        ((404, {}), "failed with status 404: it has no such page."),
    ],
)
def test_an_engine_in_trouble(engine: DockerServer, look: Look, page: t.Any, message: str) -> None:
    engine.pages["/info"] = page
    assert look()["msg"] == f"Asking the Docker Engine for /info {message}"


def test_the_address_is_one(look: Look) -> None:
    assert look(address="localhost", port=1)["msg"] == (
        "Looking at a port needs an IP address, which 'localhost' is not."
    )


@pytest.mark.usefixtures("engine")
def test_the_ports_that_are_to_be_published(look: Look) -> None:
    """192.0.2.0/24 is for documentation, so no host has it."""
    wanted = ["127.0.0.1:8080:8000", "192.0.2.1:8081:8000", "8082:8000/udp"]
    found = look(container="slot", published_ports=wanted)
    taken, away = found["published_ports"]
    assert found["ports_in_use"] == [row for row in (taken, away) if row["in_use"]]
    assert (taken["in_use"], taken["container"], taken["slot"], taken["address_here"]) == (True, "other", False, True)
    assert (taken["container_port"], taken["text"]) == (8000, "127.0.0.1:8080:8000/tcp")
    assert (away["in_use"], away["address"], away["port"], away["address_here"]) == (False, "192.0.2.1", 8081, False)


def test_a_published_port_that_docker_would_not_take(look: Look) -> None:
    assert look(published_ports=["8000"])["msg"] == (
        "The published port '8000' is not understood; write it as in 127.0.0.1:8000:8000, which is address, port of "
        "the host and port of the container."
    )


@pytest.mark.usefixtures("engine")
def test_the_slots_own_port(engine: DockerServer, look: Look) -> None:
    listed = {**LISTED, "Id": "c2", "Names": ["/slot"]}
    engine.pages.update({"/containers/json": [listed], "/containers/c2/json": {"State": {}}})
    use = look(container="slot", port=8080)["port"]
    assert (use["in_use"], use["slot"], use["address_here"]) == (True, True, True)
    assert look(container="another", port=8080)["port"]["slot"] is False


@pytest.mark.parametrize(
    ("is_there", "runs", "slot"),
    # Put aside; back after a power cut; and cut off before its successor was made, or after that was removed.
    [
        (True, False, "slot"),
        (True, True, "slot-standby"),
        (False, False, "slot-standby"),
        (False, True, "slot-standby"),
    ],
)
def test_what_was_put_aside_is_in_the_slot_if_it_runs_or_is_alone(
    engine: DockerServer, look: Look, is_there: bool, runs: bool, slot: str
) -> None:
    assert look(container="slot")["standby"] is False
    state = {"Status": "running" if runs else "exited", "Running": runs}
    engine.pages["/containers/slot-standby/json"] = {**SLOT, "Id": "c3", "Name": "/slot-standby", "State": state}
    if not is_there:
        del engine.pages["/containers/slot/json"]
    found = look(container="slot")
    assert (found["slot"]["name"], found["standby"]) == (slot, True)


def test_what_somebody_else_calls_so_was_not_put_aside(engine: DockerServer, look: Look) -> None:
    theirs = {**SLOT, "Id": "c3", "Name": "/slot-standby", "Config": {"Image": "hers", "Labels": None}}
    engine.pages["/containers/slot-standby/json"] = {**theirs, "State": {"Status": "running", "Running": True}}
    found = look(container="slot")
    assert (found["slot"]["name"], found["standby"]) == ("slot", False)


@pytest.mark.parametrize(
    ("health", "health_aside", "slot"),
    [("starting", "healthy", "slot-standby"), ("healthy", "unhealthy", "slot"), ("starting", "starting", "slot")],
)
def test_of_two_that_run_the_one_that_serves_is_in_the_slot(
    engine: DockerServer, look: Look, health: str, health_aside: str, slot: str
) -> None:
    for name, said in (("slot", health), ("slot-standby", health_aside)):
        state = {"Status": "running", "Running": True, "Health": {"Status": said}}
        engine.pages[f"/containers/{name}/json"] = {**SLOT, "Name": f"/{name}", "State": state}
    assert look(container="slot")["slot"]["name"] == slot


def test_what_is_back_holds_its_own_memory(
    engine: DockerServer, running: Path, look: Look, nvidia_smi: t.Callable[[str], None]
) -> None:
    nvidia_smi("11, trtllm-serve, 64000")
    before = look(container="slot", usage=True)["memory"]
    engine.pages["/containers/slot-standby/json"] = {**SLOT, "Name": "/slot-standby", "State": {"Running": True}}
    listed = engine.pages["/containers/json"]
    engine.pages["/containers/json"] = [
        {**one, "Names": ["/slot-standby"]} if one["Names"] == ["/slot"] else one for one in listed
    ]
    assert look(container="slot", usage=True)["memory"] == before


def test_the_addresses_of_the_host(look: Look, tmp_path: Path) -> None:
    (tmp_path / "root/proc/net").mkdir()
    (tmp_path / "root/proc/net/if_inet6").write_text(
        "00000000000000000000000000000001 01 80 10 80       lo\nfe80000000000000042fcfffeb38c7b0 72 40 20 80 eth0\n",
        encoding="ascii",
    )
    assert look()["addresses"] == ["::1"]


def belongs_to(root: Path, pid: int, container: str) -> None:
    (root / "proc" / str(pid)).mkdir(parents=True, exist_ok=True)
    (root / "proc" / str(pid) / "cgroup").write_text(f"0::/system.slice/docker-{container}.scope\n", encoding="ascii")


@pytest.fixture(name="running")
def fixture_running(engine: DockerServer, tmp_path: Path) -> Path:
    """Our slot and somebody else's container, both in the host's network; the root directory of the machine."""
    ours, theirs = "a" * 64, "b" * 64
    host = {"HostConfig": {"NetworkMode": "host"}, "Ports": [], "State": "running"}
    engine.pages["/containers/json"] = [
        {**host, "Id": ours, "Names": ["/slot"], "Image": "x", "Labels": {"dgx_spark.speculative.url": "u"}},
        {**host, "Id": theirs, "Names": ["/vllm"], "Image": "vllm:1", "Status": "Up 3 days", "Labels": None},
    ]
    engine.pages[f"/containers/{ours}/json"] = {"State": {"Pid": 10}}
    engine.pages[f"/containers/{theirs}/json"] = {"State": {"Pid": 20}}
    root = tmp_path / "root"
    for pid, container in ((10, ours), (11, ours), (20, theirs), (21, theirs)):
        belongs_to(root, pid, container)
    for container, size in ((ours, 1_000_000_000), (theirs, 2_000_000_000)):
        group = root / f"sys/fs/cgroup/system.slice/docker-{container}.scope"
        group.mkdir(parents=True)
        (group / "memory.stat").write_text(f"anon {size}\nfile 99\n", encoding="ascii")
    return root


def test_who_holds_memory(running: Path, look: Look, nvidia_smi: t.Callable[[str], None]) -> None:
    (running / "proc/30").mkdir()
    nvidia_smi("11, trtllm-serve, 64000\n21, /usr/bin/python3, 65804\n30, a,b, 11445")
    result = look(container="slot", usage=True)
    gib = 1024**2
    assert [one["memory_bytes"] for one in result["containers"]] == [
        64000 * gib + 1_000_000_000,
        65804 * gib + 2_000_000_000,
    ]
    assert result["memory"] == {
        "total": 100 * 1024,
        "available": 40 * 1024,
        "slot": 64000 * gib + 1_000_000_000,
        "usage": [
            "vllm (vllm:1, up 3 days, not this collection's) holds 71.0 GB; stop it with: docker stop vllm",
            f"process a,b (30) of user {ME} holds 12.0 GB; stop it with: kill 30",
        ],
    }


@pytest.mark.parametrize("text", ["", "11, trtllm-serve, [N/A]"])
@pytest.mark.usefixtures("running")
def test_what_the_slot_holds_can_be_unknown(look: Look, nvidia_smi: t.Callable[[str], None], text: str) -> None:
    nvidia_smi(text)
    assert look(container="slot", usage=True)["memory"]["slot"] is None
    assert look(container="another", usage=True)["memory"]["slot"] == 0


@pytest.mark.usefixtures("running")
def test_without_a_driver_the_control_groups_still_tell(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert [one["memory_bytes"] for one in look(usage=True)["containers"]] == [1_000_000_000, 2_000_000_000]


def test_the_file_system_of_images(engine: DockerServer, look: Look, tmp_path: Path) -> None:
    engine.pages["/info"] = {**INFO, "DockerRootDir": str(tmp_path)}
    result = look(compare_path=str(tmp_path / "not/yet/there"))
    assert result["same_filesystem"] is True
    assert look(compare_path="/proc")["same_filesystem"] is False
    assert result["image_store"]["path"] == str(tmp_path)
    assert result["image_store"]["free_bytes"] > 0
    engine.pages["/info"] = {**INFO, "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    assert look()["image_store"]["path"] == "/var/lib/containerd"
    engine.pages["/info"] = {**INFO, "DockerRootDir": "/nowhere"}
    assert look(compare_path="/proc")["same_filesystem"] is None


def test_what_the_collections_containers_have_mounted(engine: DockerServer, look: Look) -> None:
    ours, mounts = {"dgx_spark.speculative.deployment": "x"}, [{"Type": "bind", "Source": "/b"}, {"Type": "tmpfs"}]
    engine.pages["/containers/json?all=1"] = [
        {"Id": "c3", "Labels": ours, "State": "exited", "Mounts": [*mounts, {"Type": "bind", "Source": "/a"}]},
        {"Id": "c4", "Labels": ours, "State": "running", "Mounts": mounts},
        {"Id": "c5", "Labels": None, "Mounts": [{"Type": "bind", "Source": "/theirs"}]},
    ]
    assert look(mounts=True)["mounted"] == ["/a", "/b"]
    assert look()["mounted"] is None


def test_which_of_some_images_are_here(engine: DockerServer, look: Look) -> None:
    engine.pages["/images/vllm/vllm-openai:v0.28.0@sha256:1/json"] = {"Id": "sha256:1"}
    here = "vllm/vllm-openai:v0.28.0@sha256:1"
    assert look(images=[here, "absent:1"])["images"] == [here]
    assert look()["images"] == []


def test_without_an_engine_no_image_is_known(look: Look) -> None:
    assert look(images=["absent:1"])["images"] is None
