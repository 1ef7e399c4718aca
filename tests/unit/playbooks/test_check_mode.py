# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said in check mode of a server that goes on; a test double answers as the Docker Engine does."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from tests.unit import plays
from tests.unit.docker_server import DockerServer

ROOT = Path(__file__).parents[3]
NAME = "dgx-spark-speculative"
SOCKET = "/var/run/docker.sock"
SERVES = {
    "Id": "c1",
    "Image": "sha256:1",
    "RestartCount": 0,
    "Config": {"Image": "release:1", "Labels": {"dgx_spark.speculative.deployment": "mine"}},
    "State": {"Status": "running", "Running": True, "ExitCode": 0, "OOMKilled": False, "StartedAt": "S"},
    "HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}, "NetworkMode": "host", "PortBindings": {}},
}
PAGES = {
    "/info": {"ServerVersion": "28.3.3", "DockerRootDir": "/var/lib/docker", "Runtimes": {"nvidia": {}}},
    "/version": {"Components": [{"Name": "Engine"}]},
    "/containers/json": [],
}
# Makes none without an image.
CONTAINER = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
names = ("name", "state", "restart_policy", "stop_timeout")
module = AnsibleModule({name: {"type": "raw"} for name in names}, supports_check_mode=True)
if module.params["name"] != %r:
    module.fail_json(msg="Cannot create container when image is not specified!")
module.exit_json(changed=True, container={})
"""


class Said(t.NamedTuple):
    code: int
    text: str


@pytest.fixture(name="check")
def fixture_check(tmp_path: Path) -> t.Callable[..., Said]:
    """Run entries of a role in check mode, with a copy of the collection that asks the test double."""
    collections = tmp_path / "collections/ansible_collections"
    own = collections / "dgx_spark/speculative"
    for part in ("plugins", "roles", "meta"):
        shutil.copytree(ROOT / part, own / part)
    look = own / "plugins/module_utils/_docker/look.py"
    text = look.read_text(encoding="utf-8")
    assert SOCKET in text
    look.write_text(text.replace(SOCKET, str(tmp_path / "docker.sock")), encoding="utf-8")
    double = collections / "community/docker/plugins/modules/docker_container.py"
    double.parent.mkdir(parents=True)

    def check(role: str, entry: str, name: str = NAME, *arguments: str, **play: t.Any) -> Said:
        double.write_text(CONTAINER % name, encoding="utf-8")
        pages = {**PAGES, f"/containers/{name}/json": {**SERVES, "Name": f"/{name}"}}
        include = {"name": f"dgx_spark.speculative.{role}", "tasks_from": entry}
        run = {"name": "Do it", "ansible.builtin.include_role": include}
        begin = {"name": "Play", "hosts": "all", "gather_subset": ["min"], **play}
        state = {f"{one}_state_directory": str(tmp_path / NAME) for one in ("speculative_serve", "trtllm_container")}
        with DockerServer(tmp_path / "docker.sock", pages):
            done = plays.run(
                tmp_path, {**begin, "vars": state, "tasks": [run]}, *arguments, where=tmp_path / "collections"
            )
        (tmp_path / "docker.sock").unlink()
        return Said(done.returncode, " ".join(done.stdout.split()))

    return check


def test_a_server_that_goes_on_was_not_stopped(check: t.Callable[..., Said]) -> None:
    said = check("speculative_serve", "stop", NAME, "--check")
    assert said.code == 0, said.text
    assert "Would be stopped." in said.text
    assert "Stopped." not in said.text


def test_who_removes_a_server_is_not_told_how_to_start_it_again(check: t.Callable[..., Said]) -> None:
    assert "start.yml" not in check("speculative_serve", "stop").text
    assert "until you run start.yml" in (ROOT / "playbooks/stop.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "changed"), [(f"{NAME}-aside", 1), (NAME, 0)])
def test_a_switch_that_would_be_finished_is_a_change(check: t.Callable[..., Said], name: str, changed: int) -> None:
    said = check("trtllm_container", "settle", name, "--check")
    assert said.code == 0, said.text
    assert f"changed={changed}" in said.text
    # Who only looks in a run that may change something, as preflight.yml does, changes nothing.
    assert "changed=0" in check("trtllm_container", "settle", name, check_mode=True).text


def test_what_was_put_aside_would_be_started_by_who_finishes_the_switch(check: t.Callable[..., Said]) -> None:
    said = check("speculative_serve", "start", f"{NAME}-aside", "--check")
    assert said.code == 0, said.text
    assert "changed=1" in said.text
    assert "changed=1" in check("speculative_serve", "start", NAME, "--check").text
