# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entries of a role, run by the real ansible-playbook; test doubles answer as the Docker Engine and its modules do."""

from __future__ import annotations

import json
import shutil
import typing as t
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.unit import plays
from tests.unit.docker_server import DockerServer

ROOT = Path(__file__).parents[3]
NAME = "dgx-spark-speculative"
SOCKET = "/var/run/docker.sock"
FORMAT = "dgx_spark.speculative.format"
OWN = "dgx_spark.speculative.deployment"
LABELS = {
    FORMAT: "1",
    OWN: "mine",
    "dgx_spark.speculative.url": "http://127.0.0.1:8000",
}
SERVES: dict[str, t.Any] = {
    "Id": "c1",
    "Image": "sha256:1",
    "RestartCount": 0,
    "Config": {"Image": "release:1", "Labels": LABELS},
    "State": {"Status": "running", "Running": True, "ExitCode": 0, "OOMKilled": False, "StartedAt": "S"},
    "HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}, "NetworkMode": "host", "PortBindings": {}},
}
PAGES: dict[str, t.Any] = {
    "/info": {"ServerVersion": "28.3.3", "DockerRootDir": "/var/lib/docker", "Runtimes": {"nvidia": {}}},
    "/version": {"Components": [{"Name": "Engine"}]},
    "/containers/json": [],
}
# Makes none without an image. One is as it is to be.
CONTAINER = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
names = ("name", "state", "restart", "restart_policy", "stop_timeout")
module = AnsibleModule({name: {"type": "raw"} for name in names}, supports_check_mode=True)
if module.params["state"] != "absent" and module.params["name"] != %r:
    module.fail_json(msg="Cannot create container when image is not specified!")
module.exit_json(changed=module.params["name"] != "as-it-is", container={})
"""
# One of the volumes is a container's.
VOLUME = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({name: {"type": "raw"} for name in ("name", "state")}, supports_check_mode=True)
if module.params["name"].endswith("-cache-cccccccccccc"):
    said = '409 Client Error: Conflict ("remove x: volume is in use - [12]")'
    module.fail_json(msg="Error removing volume x: " + said)
module.exit_json(changed=module.params["name"].endswith("-cache-aaaaaaaaaaaa"))
"""
# Of each kind of image's ID, and others' volumes with a similar name.
VOLUMES = [f"{NAME}-cache{end}" for end in ("", "-aaaaaaaaaaaa", "-bbbbbbbbbbbb", "-cccccccccccc", "-of-mine")]
VOLUMES.append(f"my-{NAME}-cache-dddddddddddd")
USAGE = [
    {"Name": name, "UsageData": {"Size": 2_100_000_000, "RefCount": int(name == f"{NAME}-cache")}} for name in VOLUMES
]
PAGES |= {
    f"/volumes?filters={quote(json.dumps({'name': [f'{NAME}-cache']}))}": {"Volumes": [{"Name": x} for x in VOLUMES]},
    "/system/df?type=volume&verbose=1": {"Volumes": USAGE},
}
# Of three images one is here, and one has a container of somebody else's.
IMAGE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({name: {"type": "raw"} for name in ("name", "timeout")}, supports_check_mode=True)
if module.params["name"] == "release:used":
    said = '409 Client Error: Conflict ("conflict: container 12 is using its referenced image 34")'
    module.fail_json(msg="Error removing image release:used - " + said)
is_here = module.params["name"].endswith("release:here")
module.exit_json(changed=is_here, image={"Size": 20_400_000_000} if is_here else {})
"""
# Of images with an SSH server there are none.
HOST_INFO = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({name: {"type": "raw"} for name in ("images", "images_filters")}, supports_check_mode=True)
module.exit_json(changed=False, images=[])
"""


class Said(t.NamedTuple):
    code: int
    text: str


@pytest.fixture(name="check")
def fixture_check(tmp_path: Path) -> t.Callable[..., Said]:
    """Run an entry of a role, with a copy of the collection that asks the test doubles."""
    collections = tmp_path / "collections/ansible_collections"
    own = collections / "dgx_spark/speculative"
    for part in ("plugins", "roles", "meta"):
        shutil.copytree(ROOT / part, own / part)
    look = own / "plugins/module_utils/_docker/docker_facts.py"
    text = look.read_text(encoding="utf-8")
    assert SOCKET in text
    look.write_text(text.replace(SOCKET, str(tmp_path / "docker.sock")), encoding="utf-8")
    doubles = collections / "community/docker/plugins/modules"
    doubles.mkdir(parents=True)
    (doubles / "docker_volume.py").write_text(VOLUME, encoding="utf-8")
    (doubles / "docker_image_remove.py").write_text(IMAGE, encoding="utf-8")
    (doubles / "docker_host_info.py").write_text(HOST_INFO, encoding="utf-8")

    def check(
        role: str,
        entry: str,
        name: str = NAME,
        *arguments: str,
        inputs: dict[str, t.Any] | None = None,
        labels: dict[str, str | None] | None = None,
        container: dict[str, t.Any] | None = None,
        **play: t.Any,
    ) -> Said:
        (doubles / "docker_container.py").write_text(CONTAINER % name, encoding="utf-8")
        config = {
            **SERVES["Config"],
            "Labels": {name: text for name, text in {**LABELS, **(labels or {})}.items() if text is not None},
        }
        inspected = {**SERVES, "Name": f"/{name}", "Config": config, **(container or {})}
        pages = {**PAGES, f"/containers/{name}/json": inspected}
        include = {"name": f"dgx_spark.speculative.{role}", "tasks_from": entry}
        run = {"name": "Do it", "ansible.builtin.include_role": include}
        begin = {"name": "Play", "hosts": "all", "gather_subset": ["min"], **play}
        directory = str(tmp_path / NAME)
        state = {"speculative_serve_state_directory": directory, "deployment_settings": {"state_directory": directory}}
        with DockerServer(tmp_path / "docker.sock", pages):
            done = plays.run(
                tmp_path,
                {**begin, "vars": {**state, **(inputs or {})}, "tasks": [run]},
                *arguments,
                where=tmp_path / "collections",
            )
        (tmp_path / "docker.sock").unlink()
        return Said(done.returncode, " ".join(done.stdout.split()))

    return check
