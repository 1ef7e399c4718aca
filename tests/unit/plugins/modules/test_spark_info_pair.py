# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import time
import typing as t
from pathlib import Path
from urllib.parse import quote

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._cluster.cluster_facts import (
    ClusterInspector,
    digest,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_marks
from ansible_collections.dgx_spark.speculative.plugins.modules import spark_info

from tests.unit import modules
from tests.unit.another_user import another_user
from tests.unit.docker_server import DockerServer

BASE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
PAIR = "dgx-spark-speculative/release:1.3.0rc12"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0f2b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0"


def image(**config: t.Any) -> dict[str, t.Any]:
    return {
        "Id": "sha256:1",
        "Os": "linux",
        "Architecture": "arm64",
        "Size": 7,
        "RootFS": {"Layers": []},
        "Config": config,
    }


@pytest.fixture
def docker(tmp_path: Path) -> t.Iterator[DockerServer]:
    pages: dict[str, t.Any] = {
        "/info": {"ServerVersion": "28.3.3", "DockerRootDir": str(tmp_path)},
        "/containers/json": [],
        f"/images/{quote(BASE, safe='/:@')}/json": image(Env=["A=1"]),
        f"/images/{quote(PAIR, safe='/:@')}/json": image(Labels={"dgx_spark.speculative.base": "f"}),
    }
    with DockerServer(tmp_path / "docker.sock", pages) as server:
        yield server


def look(tmp_path: Path, **more: t.Any) -> dict[str, t.Any]:
    what = {
        "container": "dgx-spark-speculative",
        "image": BASE,
        "socket": str(tmp_path / "docker.sock"),
        **more,
    }
    arguments = {"gather": ["cluster"], "state_directory": str(tmp_path / "state"), "cluster": what}
    result = modules.run(spark_info, arguments)
    assert result.get("failed") or set(result) == {"changed", "cluster"}
    return dict(result.get("cluster", result))


def test_both_images_and_the_engine(docker: DockerServer, tmp_path: Path) -> None:
    result = look(tmp_path)
    assert result["cluster_image"] == PAIR
    assert result["images"]["base"]["base"] is None
    assert result["images"]["cluster"]["base"] == "f"
    assert result["images"]["base"]["fingerprint"] != result["images"]["cluster"]["fingerprint"]
    assert result["docker"]["version"] == "28.3.3"
    assert result["docker"]["free"] > 0
    assert result["hostname"] == socket.gethostname()
    assert result["memory_total"] > 0
    assert (result["has_directory"], result["client_key"], result["authorized"]) == (False, None, None)
    assert (result["clock_offset"], result["ports"], result["slot"]) == (None, [], None)


def test_an_image_that_a_power_cut_left_unfinished_is_missing(docker: DockerServer, tmp_path: Path) -> None:
    jobs = tmp_path / "state/jobs"
    image_marks.begin(jobs, PAIR)
    image_marks.mark_of(jobs, PAIR).write_text("an earlier boot", encoding="ascii")
    result = look(tmp_path)
    assert (result["images"]["cluster"], result["image_made"]) == (None, False)
    assert result["images"]["base"] is not None


def test_what_is_there_of_an_earlier_run(docker: DockerServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tmp_path / "state/cluster"
    (pair / "spool" / "ab").mkdir(parents=True)
    pair.chmod(0o700)
    (pair / "spool/ab/member").write_bytes(b"12345")
    (pair / "id_ed25519.pub").write_text(f"{KEY} dgx-spark-speculative\n")
    authorized = f'restrict,from="10.0.0.1",command="x" {KEY}\n'
    (pair / "authorized_keys").write_text(authorized)
    (pair / "authorized_keys").chmod(0o600)
    result = look(tmp_path)
    known = {"name": "authorized_keys", "mode": "0600"}
    assert result["trusted"] == digest([{**known, "content": authorized}])
    (pair / "authorized_keys").write_bytes(authorized.replace("\n", "\r\n").encode())
    assert look(tmp_path)["trusted"] != result["trusted"]
    (pair / "authorized_keys").write_text(authorized)
    (pair / "authorized_keys").chmod(0o644)
    assert look(tmp_path)["trusted"] != result["trusted"]

    def refuse(_path: Path) -> bytes:
        raise PermissionError

    # Somebody else's file; who writes it says what to do.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert look(tmp_path)["trusted"] == ""
    assert result["has_directory"] is True
    assert result["spooled_bytes"] == 5
    assert result["client_key"] == KEY
    assert result["authorized"] == {"from": ["10.0.0.1"], "key": KEY}


def test_a_directory_that_others_may_enter_is_not_taken_for_ours(docker: DockerServer, tmp_path: Path) -> None:
    (tmp_path / "state/cluster").mkdir(parents=True)
    (tmp_path / "state/cluster").chmod(0o755)
    assert look(tmp_path)["has_directory"] is False


def test_the_clock_is_compared_with_the_controllers(docker: DockerServer, tmp_path: Path) -> None:
    offset = look(tmp_path, sent=time.time() - 100)["clock_offset"]
    assert 100 <= offset < 130


@pytest.mark.parametrize("use", ["container", "copies"])
def test_a_port_that_somebody_else_has(docker: DockerServer, tmp_path: Path, use: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asked = {"address": "127.0.0.1", "port": port, "input": "spark_network_worker_port", "use": use}
        (found,) = look(tmp_path, ports=[asked])["ports"]
    assert (found["in_use"], found["ours"], found["input"]) == (True, False, "spark_network_worker_port")
    assert str(os.getpid()) in found["holder"]
    (free,) = look(tmp_path, ports=[{**asked, "address": "192.0.2.7"}])["ports"]
    assert (free["in_use"], free["ours"]) == (False, False)


def test_our_own_worker_may_have_its_port() -> None:
    labels = {"dgx_spark.speculative.deployment": "x", "dgx_spark.speculative.rank": "1"}
    slot = {"name": "slot", "labels": labels}
    is_slots = ClusterInspector.is_slots
    assert is_slots({"container": "slot", "suspects": []}, slot)
    # Who listens is known to root only.
    assert is_slots({"container": None, "suspects": ["other", "slot"]}, slot)
    assert not is_slots({"container": None, "suspects": ["other"]}, slot)
    assert not is_slots({"container": "other", "suspects": []}, slot)
    assert not is_slots({"container": "slot", "suspects": []}, {**slot, "labels": {}})
    assert not is_slots({"container": "slot", "suspects": []}, None)


def test_a_docker_that_cannot_be_asked_is_told(tmp_path: Path) -> None:
    result = look(tmp_path)
    assert result["docker"]["state"] == "unusable"
    assert "docker.sock" in result["docker"]["detail"]
    assert result["images"] == {"base": None, "cluster": None}


def test_the_own_key_is_told_and_whether_others_can_read_it(tmp_path: Path, docker: DockerServer) -> None:
    pair = tmp_path / "state/cluster"
    pair.mkdir(parents=True, mode=0o700)
    key = pair / "ssh_host_ed25519_key"
    assert look(tmp_path, key=str(key))["key"] is None
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text(encoding="ascii")
    assert look(tmp_path, key=str(key))["key"] == " ".join(public.split()[:2])
    assert look(tmp_path)["key"] is None
    assert look(tmp_path, key=str(key))["key_is_open"] is False
    key.chmod(0o644)
    found = look(tmp_path, key=str(key))
    # It is closed, and not made anew: ssh-keygen refuses to touch one that is open.
    assert (found["key"], found["key_is_open"]) == (" ".join(public.split()[:2]), True)


@pytest.mark.parametrize("closed", ["state", "state/cluster", "state/cluster/id_ed25519"])
def test_what_belongs_to_another_user_is_named(docker: DockerServer, tmp_path: Path, closed: str) -> None:
    key = tmp_path / "state/cluster/id_ed25519"
    (tmp_path / "state/cluster/spool").mkdir(parents=True)
    key.touch()
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    for path, mode in ((key, 0o666), (key.parent, 0o777), (key.parent.parent, 0o777)):
        path.chmod(mode)
    (tmp_path / closed).chmod(0o000)
    with another_user() as user:
        found = look(tmp_path, key=str(key))
    (tmp_path / closed).chmod(0o700)
    own, name = pwd.getpwuid(os.getuid()).pw_name, pwd.getpwuid(user).pw_name
    assert found["msg"] == (
        f"{tmp_path / closed} belongs to {own} and not to {name}, as a run with sudo or a restored backup leaves it: "
        f"give it back with 'sudo chown -R {name}: {tmp_path / 'state'}', then run again."
    )


def test_what_lies_below_a_closed_directory_is_named(docker: DockerServer, tmp_path: Path) -> None:
    (tmp_path / "state/cluster").mkdir(parents=True)
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    tmp_path.chmod(0o700)
    with another_user():
        found = look(tmp_path, key=str(tmp_path / "state/cluster/id_ed25519"))
    assert found["msg"].startswith(f"{tmp_path} is closed to ")


def test_a_port_at_no_address_is_refused(docker: DockerServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asked = {"address": "nowhere", "port": port, "input": "spark_network_worker_port", "use": "copies"}
        result = look(tmp_path, ports=[asked])
    assert result["failed"]
    assert result["msg"].startswith("Looking at the ports failed, since one has no IP address: ")


def test_a_pair_has_to_be_described() -> None:
    result = modules.run(spark_info, {"gather": ["cluster"]})
    assert result["msg"].startswith("gather has cluster, but the option cluster is missing.")


@pytest.mark.usefixtures("docker")
def test_a_link_is_proven_where_there_is_one(tmp_path: Path) -> None:
    rail = {
        **{"interface": "no-such-port", "address": "192.168.100.10", "peer_address": "192.168.100.11"},
        **{"peer_interface": "x", "subnet": "192.168.100.0/24", "mtu": 9000},
    }
    found = look(tmp_path, proof={"rails": [rail], "host": "spark-1", "timeout": 0})["proof"]
    assert found["error"].startswith("spark-1: there is no interface no-such-port.")
    assert (found["rails"], found["findings"], len(found["table"])) == ([rail], [], 1)
    broken = look(tmp_path, proof={"rails": [{"interface": "lo"}], "host": "spark-1"})["proof"]["error"]
    assert broken.startswith("spark-1: The rails have no address and no mtu")
    assert look(tmp_path, proof={"rails": []})["proof"] is None
    assert look(tmp_path)["proof"] is None
