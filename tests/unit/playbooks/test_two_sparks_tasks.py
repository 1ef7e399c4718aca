# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role's tasks for two Sparks; what runs a container is a test double that writes down what it was asked for."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays

ROOT = Path(__file__).parents[3]
DOUBLE = """#!/usr/bin/python
import json
from ansible.module_utils.basic import AnsibleModule
names = ("name", "image", "devices", "state", "labels", "env", "mounts", "ulimits", "command")
names += ("cap_drop", "capabilities", "read_only", "tmpfs")
known = {name: {"type": "raw"} for name in (*names, %s)}
module = AnsibleModule(known, supports_check_mode=True)
with open(%r, "a", encoding="utf-8") as file:
    file.write(json.dumps({name: module.params[name] for name in names}) + "\\n")
module.exit_json(changed=False, container={"State": {"StartedAt": "2026-01-01T00:00:00Z"}})
"""
OTHERS = (
    *("pull", "restart_policy", "stop_timeout", "device_requests", "network_mode", "published_ports", "ipc_mode"),
    *("command_handling", "healthcheck", "log_driver", "log_options", "security_opts"),
)
PLAY = """
- name: Play
  hosts: sparks
  connection: local
  gather_facts: false
  any_errors_fatal: true
  vars:
    ansible_facts: {user_dir: /home/spark}
  tasks:
    - name: Read the recipe
      dgx_spark.speculative.recipe_info:
        recipe: qwen3_235b_a22b_eagle3
      register: __recipe

    - name: Hand it out
      ansible.builtin.set_fact:
        deployment_recipe: "{{ __recipe.recipe | combine({'sparks': ansible_play_hosts_all | length}) }}"

    - name: Do it
      ansible.builtin.include_role:
        name: dgx_spark.speculative.speculative_serve
        tasks_from: "{{ item }}"
      loop: "{{ entries }}"
"""
RAIL = {"interface": "enp1s0f1np1", "rdma": "rocep1s0f1", "subnet": "192.168.100.0/24"}
CONFIGURATION = "dgx_spark.speculative.configuration"


class Played(t.NamedTuple):
    code: int
    output: str
    containers: list[dict[str, t.Any]]

    @property
    def message(self) -> str:
        return " ".join(self.output.split())


# An empty slot, and nothing recorded.
LOOK = {
    "docker": {"slot": None},
    "records": {"choice": None, "latest": None, "slot": None, "present": None, "files": {}},
}
Play = t.Callable[..., Played]
# What is planned, and made to run.
UP = ("plan", "render", "run")


def spark(rank: int) -> dict[str, t.Any]:
    """What the roles before have handed out."""
    rail = {**RAIL, "address": f"192.168.100.1{rank}", "peer_address": f"192.168.100.1{1 - rank}"}
    return {
        "spark_network_rails": [rail],
        "spark_network_facts": {"cluster_image": "the-pairs:1"},
        "spark_network_directory": "/home/spark/cluster",
        "huggingface_cache_resolved_directory": "/home/spark/.cache/huggingface/hub",
        "huggingface_cache_snapshot": {
            "models": {
                name: {"commit": "0123"}
                for name in ("nvidia/Qwen3-235B-A22B-FP4", "nvidia/Qwen3-235B-A22B-Eagle3", "draft", "target")
            }
        },
        "__speculative_serve_facts": LOOK,
        "__engine_container_open_ports": [],
    }


@pytest.fixture(name="play")
def fixture_play(tmp_path: Path) -> Play:
    place = tmp_path / "ansible_collections/community/docker/plugins/modules"
    place.mkdir(parents=True)
    calls = tmp_path / "calls"
    (place / "docker_container.py").write_text(DOUBLE % (", ".join(map(repr, OTHERS)), str(calls)), encoding="utf-8")

    def play(entries: t.Sequence[str], *arguments: str, sparks: int = 2, **variables: t.Any) -> Played:
        hosts = {f"spark-{rank + 1}": {**spark(rank), **variables} for rank in range(sparks)}
        inventory = {"sparks": {"hosts": hosts, "vars": {"entries": entries}}}
        (tmp_path / "hosts.yml").write_text(json.dumps(inventory), encoding="utf-8")
        calls.unlink(missing_ok=True)
        where = f"{tmp_path}:{plays.COLLECTIONS}"
        play = yaml.safe_load(PLAY)[0]
        if entries == ["run_fallback"]:
            # A record needs no recipe.
            del play["tasks"][:-1]
        done = plays.run(tmp_path, play, *arguments, hosts=str(tmp_path / "hosts.yml"), where=where)
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        return Played(done.returncode, done.stdout + done.stderr, [json.loads(line) for line in lines])

    return play


def ranks(played: Played) -> list[str]:
    assert played.code == 0, played.output
    return [container["env"].get("DGX_SPARK_RANK", "alone") for container in played.containers]


def test_the_workers_container_is_run_before_the_heads_and_each_once(play: Play) -> None:
    played = play(UP, "--check")
    assert ranks(played) == ["1", "0"]
    for container in played.containers:
        assert container["devices"] == ["/dev/infiniband:/dev/infiniband"]
    labels = [container["labels"] for container in played.containers]
    assert labels[0][CONFIGURATION] == labels[1][CONFIGURATION]
    # What both have served all along needs no order, and gets no more calls.
    running = {"state": "running", "labels": labels[0]}
    look = {**LOOK, "docker": {"slot": running}}
    assert sorted(ranks(play(UP, "--check", __speculative_serve_facts=look))) == ["0", "1"]


def test_of_one_spark_alone_the_container_is_run_once(play: Play) -> None:
    played = play(UP, "--check", sparks=1)
    assert ranks(played) == ["alone"]
    assert played.containers[0]["devices"] == []


@pytest.mark.parametrize("given", ["the inventory", "the command line"])
@pytest.mark.parametrize(("sparks", "further"), [(2, ["/dev/infiniband:/dev/infiniband"]), (1, [])])
def test_devices_of_the_users_own_are_added_to(play: Play, given: str, sparks: int, further: list[str]) -> None:
    wish = {"engine_container_devices": ["/dev/fuse:/dev/fuse"]}
    if given == "the inventory":
        played = play(UP, "--check", sparks=sparks, **wish)
    else:
        played = play(UP, "--check", "-e", json.dumps(wish), sparks=sparks)
    assert ranks(played)
    assert [container["devices"] for container in played.containers] == [["/dev/fuse:/dev/fuse", *further]] * sparks


def test_all_capabilities_are_dropped_but_those_that_are_planned_or_the_users(play: Play) -> None:
    played = play(UP, "--check", engine_container_capabilities=["CAP_SYS_PTRACE"], engine_container_read_only=True)
    assert ranks(played) == ["1", "0"]
    assert [container["cap_drop"] for container in played.containers] == [["ALL"]] * 2
    worker, head = (container["capabilities"] for container in played.containers)
    assert {"CAP_DAC_OVERRIDE", "CAP_SYS_PTRACE"} <= set(head) < set(worker)
    assert [container["read_only"] for container in played.containers] == [True] * 2
    # What is linked to the models, and where sshd keeps its keys.
    assert [container["tmpfs"] for container in played.containers] == [["/tmp:exec", "/run"]] * 2


def test_the_patience_with_a_lost_worker_and_the_memory_guards_limits_are_handed_to_both(play: Play) -> None:
    played = play(UP, "--check", speculative_serve_worker_timeout_s=7, speculative_serve_memory_guard={"seconds": 5})
    assert ranks(played) == ["1", "0"]
    assert [container["env"]["DGX_SPARK_PEER_LOST_S"] for container in played.containers] == ["7", "7"]
    guards = [container["env"]["DGX_SPARK_GUARD"] for container in played.containers]
    assert guards == [f"floor={4 * 2**30} seconds=5"] * 2


def test_each_image_has_a_volume_for_its_kernels(play: Play) -> None:
    """The image of another name was not inspected, and in check mode it may be missing."""
    image = {"id": "sha256:0123456789abcdef", "repo_tags": ["the-pairs:1"], "repo_digests": []}
    shared = {"cluster_image": "the-pairs:1", "images": {"cluster": {"id": "sha256:abcdef0123456789"}}}
    for facts, name, end in (
        ({}, "the-pairs:1", "0123456789ab"),
        ({}, "the-pairs:2", "unknown"),
        ({"spark_network_facts": shared}, "the-pairs:2", "abcdef012345"),
    ):
        facts = {**facts, "engine_container_facts": {"memory": {}, "image": {**image, "repo_tags": [name]}}}
        played = play(UP, "--check", **facts)
        assert ranks(played) == ["1", "0"]
        for container in played.containers:
            volumes = {mount["target"]: mount["source"] for mount in container["mounts"] if mount["type"] == "volume"}
            name = "dgx-spark-speculative-cache"
            assert volumes == {"/cache/modules": name, "/cache/kernels": f"{name}-{end}"}


def test_a_bridge_between_two_sparks_is_refused(play: Play) -> None:
    played = play(["preflight"], engine_container_network="bridge")
    assert played.code != 0
    assert "spark-1: engine_container_network is bridge" in played.message


def test_what_cannot_be_planned_is_said(play: Play) -> None:
    played = play(UP, "--check", huggingface_cache_snapshot={"models": {}})
    assert played.code != 0
    assert (
        "node_plan.spec needs the variable 'nvidia/Qwen3-235B-A22B-FP4'. Register it with dgx_spark.speculative."
        in played.message
    )


def recorded(address: str, directory: str) -> dict[str, t.Any]:
    """A deployment on two Sparks that was seen to answer, as each of them has it."""
    rank, own = "{{ inventory_hostname[-1] | int - 1 }}", "{{ (inventory_hostname[-1] | int - 1) | string }}"
    rail = {"interface": "enp1s0f1np1", "address": address}
    return {
        **{"deployment": "mine", "deployed_at": "2026-01-01T00:00:00Z", "url": "http://127.0.0.1:8000"},
        "listens_on": "127.0.0.1",
        "cluster": {"rank": rank, "nodes": ["spark-1", "spark-2"], "rails": [rail]},
        "container": {
            **{name: [] for name in ("command", "mounts", "ulimits", "devices", "device_requests", "published_ports")},
            "image": "the-pairs:1",
            "environment": {"DGX_SPARK_RANK": own},
            "labels": {
                CONFIGURATION: "abc",
                "dgx_spark.speculative.directory": f"{directory}/mine",
                "dgx_spark.speculative.generation": "0123456789ab",
            },
            **{"network": "host", "ipc_mode": "host", "stop_timeout": 120, "log_max_size": "50m", "log_max_files": 3},
            "healthcheck": {},
        },
        "files": {"entrypoint.py": "pass\n"},
    }


def test_what_was_recorded_comes_back_as_what_was_planned_is_run(play: Play, tmp_path: Path) -> None:
    place = str(tmp_path / "dgx-spark-speculative")
    here = {"speculative_serve_state_directory": place}
    played = play(
        ["run_fallback"], "--check", __speculative_serve_failure={"fallback": recorded("127.0.0.1", place)}, **here
    )
    assert ranks(played) == ["1", "0"]
    assert {container["image"] for container in played.containers} == {"the-pairs:1"}
    # No record of the release that made it tells any, so that it has Docker's.
    assert [container["cap_drop"] for container in played.containers] == [None] * 2
    played = play(
        ["run_fallback"], "--check", __speculative_serve_failure={"fallback": recorded("192.168.100.10", place)}, **here
    )
    assert (played.code != 0, played.containers) == (True, [])
    assert "192.168.100.10 on enp1s0f1np1" in played.message


def test_programs_that_went_on_and_do_not_answer_are_not_tried_again() -> None:
    rescue = yaml.safe_load((ROOT / "roles/speculative_serve/tasks/recover.yml").read_text(encoding="utf-8"))
    _forget, stop, once_more, _back = rescue
    assert stop["ansible.builtin.include_role"]["tasks_from"] == "stop"
    assert once_more["when"] == "__speculative_serve_failure.can_retry"
    look, plan, again = once_more["block"]
    # What is planned for what does not run has the programs of this release.
    assert look["ansible.builtin.include_tasks"] == "gather.yml"
    assert plan["ansible.builtin.include_tasks"] == "render.yml"
    assert "when" not in plan
    assert again["ansible.builtin.include_tasks"] == "run.yml"
