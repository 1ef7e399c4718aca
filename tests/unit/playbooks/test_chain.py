# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role spark_network does of its own on any number of Sparks, each a directory of this machine."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._cluster.cluster_facts import trusted_digest

from tests.unit import plays

ROOT = Path(__file__).parents[3]
KEY_FILE = (
    "{{ deployment_settings.state_directory }}/cluster/{{ 'ssh_host_ed25519_key' if spark_network_copy_source else "
    "'id_ed25519' }}"
)
NOTHING = {"has_directory": False, "key": None, "key_is_open": False, "trusted": ""}
PLAY = """
- name: Play
  hosts: sparks
  connection: local
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Know each
      ansible.builtin.set_fact:
        user_id: me
        user_dir: /home/me
        python: {executable: /usr/bin/python3.12}
        cacheable: true

    - name: Do it
      ansible.builtin.include_role:
        name: "dgx_spark.speculative.{{ item | dirname or 'spark_network' }}"
        tasks_from: "{{ item | basename }}"
        public: true
      loop: "{{ entries }}"

    - name: Show it
      ansible.builtin.copy:
        content: "{{ shown | to_json }}"
        dest: "{{ deployment_settings.state_directory }}.json"
        mode: "0600"
"""


def play(directory: Path, hosts: dict[str, dict[str, t.Any]], shown: str, *entries: str) -> dict[str, t.Any]:
    """What each host hands out at the end, by its name."""
    deployment = {"image": "release:1", "state_directory": f"{directory}/{{{{ inventory_hostname }}}}"}
    given = {"entries": entries, "shown": shown, "engine_container_image": "release:1"}
    inventory = {"sparks": {"hosts": hosts, "vars": {**given, "deployment_settings": deployment}}}
    (directory / "hosts.yml").write_text(json.dumps(inventory), encoding="utf-8")
    done = plays.run(directory, yaml.safe_load(PLAY)[0], hosts=str(directory / "hosts.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((directory / f"{name}.json").read_text(encoding="utf-8")) for name in hosts}


def chain(many: int) -> dict[str, dict[str, t.Any]]:
    """What preflight and compare have handed out on each."""
    names = ["", *(f"spark-{number + 1}" for number in range(many))]
    return {
        name: {
            "spark_network_copy_source": names[rank],
            "spark_network_rails": [{"address": f"10.0.{rail}.{rank + 1}"} for rail in (0, 1)],
            "spark_network_facts": {**NOTHING, "key_file": KEY_FILE},
        }
        for rank, name in enumerate(names[1:])
    }


def public(directory: Path, name: str) -> str:
    (file,) = (directory / name / "cluster").glob("*.pub")
    return " ".join(file.read_text(encoding="ascii").split()[:2])


def test_each_of_three_lets_the_one_before_in_and_has_a_key_for_the_one_after(tmp_path: Path) -> None:
    shown = "{{ __spark_network_keys | combine({'key': spark_network_facts.key_file}) }}"
    found = play(tmp_path, chain(3), shown, "ssh_keys")
    keys = {name: public(tmp_path, name) for name in found}
    assert len(set(keys.values())) == 3
    assert [found[name]["connection"].get("worker") for name in keys] == ["spark-2", "spark-3", None]
    for before, name in (("spark-1", "spark-2"), ("spark-2", "spark-3")):
        (copies,) = (one for one in found[name]["copies"] if one["name"] == "authorized_keys")
        assert copies["content"].endswith(f" {keys[before]}\n")
        # Only the head starts ranks.
        let_in = (tmp_path / name / "cluster/authorized_keys").read_text(encoding="ascii")
        assert let_in.endswith(f" {keys['spark-1']}\n")
    middle = (tmp_path / "spark-2/cluster/known_hosts").read_text(encoding="ascii")
    assert middle == "".join(f"[10.0.{rail}.3]:2234 {keys['spark-3']}\n" for rail in (0, 1))
    assert not (tmp_path / "spark-3/cluster/known_hosts").exists()
    head = (tmp_path / "spark-1/cluster/known_hosts").read_text(encoding="ascii").splitlines()
    assert sorted(head) == sorted(
        [f"[10.0.{rail}.2]:{port} {keys['spark-2']}" for rail in (0, 1) for port in (2233, 2234)]
        + [f"[10.0.{rail}.3]:2233 {keys['spark-3']}" for rail in (0, 1)]
    )
    assert found["spark-2"]["key"].endswith("/cluster/ssh_host_ed25519_key")


def test_a_key_that_others_may_read_is_closed_and_stays_the_key(tmp_path: Path) -> None:
    shown = "{{ spark_network_keys_fingerprint }}"
    made = play(tmp_path, chain(2), shown, "ssh_keys")
    keys = {name: public(tmp_path, name) for name in ("spark-1", "spark-2")}
    private = tmp_path / "spark-2/cluster/ssh_host_ed25519_key"
    private.chmod(0o644)
    hosts = chain(2)
    for name, values in hosts.items():
        mine = {"has_directory": True, "key": keys[name], "key_is_open": name == "spark-2"}
        mine["trusted"] = trusted_digest(tmp_path / name / "cluster")
        values["spark_network_facts"] = {**mine, "key_file": KEY_FILE}
    assert play(tmp_path, hosts, shown, "ssh_keys") == made
    assert private.stat().st_mode & 0o777 == 0o600
    assert public(tmp_path, "spark-2") == keys["spark-2"]


@pytest.mark.parametrize(
    "entries", [("preflight", "compare", "main", "ssh_keys", "trtllm_container/cluster_image"), ("main",)]
)
def test_one_spark_has_nothing_to_do(tmp_path: Path, entries: tuple[str, ...]) -> None:
    names = ("rails", "copy_source")
    shown = "{{ {" + ", ".join(f"'{name}': spark_network_{name}" for name in names) + "} }}"
    found = play(tmp_path, {"spark-1": {}}, shown, *entries)
    assert found == {"spark-1": {"rails": [], "copy_source": ""}}
    assert not (tmp_path / "spark-1").exists()
