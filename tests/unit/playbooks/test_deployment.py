# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the playbooks hand to roles is one mapping, of which only what is read is worked out; a role needs none."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from tests.unit import plays

ROOT = Path(__file__).parents[3]
READ = (
    *(
        "__api_proxy_deployment.become",
        "__api_proxy_deployment.become_method",
        "api_proxy_expose",
        "api_proxy_upstream",
    ),
    "(deployment_settings | default({})).endpoint | default('')",
)
ROLES = ("docker_permissions", "api_proxy")


def shown(
    directory: Path, *tasks: dict[str, t.Any], given: dict[str, t.Any], read: t.Sequence[str] = READ, **play: t.Any
) -> list[t.Any]:
    """What two roles take for their inputs, after these tasks."""
    roles = [
        {"ansible.builtin.import_role": {"name": f"dgx_spark.speculative.{role}"}, "when": False} for role in ROLES
    ]
    content = "{{ [" + ", ".join(read) + "] | to_json }}"
    show = {"ansible.builtin.copy": {"content": content, "dest": str(directory / "shown.json")}}
    extra = json.dumps(given)
    done = plays.run(directory, {"gather_facts": False, "tasks": [*roles, *tasks, show], **play}, "-e", extra)
    assert done.returncode == 0, done.stdout + done.stderr
    return t.cast(list[t.Any], json.loads((directory / "shown.json").read_text(encoding="utf-8")))


FOUND = {
    "ansible.builtin.set_fact": {
        "docker_permissions_become": True,
        "docker_permissions_become_method": "dgx_spark.speculative.sg",
        "api_proxy_endpoint": {"urls": [{"scope": "docker", "url": "http://172.17.0.1:8200"}]},
    }
}


def test_a_role_alone_has_its_own_defaults(tmp_path: Path) -> None:
    local = "http://127.0.0.1:8000"
    found = shown(tmp_path, FOUND, given={})
    assert found == [False, "ansible.builtin.sudo", "local", local, ""]


def test_what_is_handed_over_without_a_recipe(tmp_path: Path) -> None:
    """The name of a deployment leads to the recipe, and is nobody's business here."""
    files = [str(ROOT / "playbooks/group_vars/all.yml")]
    given = {"speculative_serve_port": 8100, "speculative_serve_expose": "lan"}
    found = shown(tmp_path, given=given, vars_files=files)
    assert found == [False, "ansible.builtin.sudo", "lan", "http://127.0.0.1:8100", ""]
    found = shown(tmp_path, FOUND, given=given, vars_files=files)
    assert found == [True, "dgx_spark.speculative.sg", "lan", "http://127.0.0.1:8100", "http://172.17.0.1:8200"]


def test_a_deployment_of_ones_own_may_say_a_part(tmp_path: Path) -> None:
    own = {"deployment_settings": {"become": "{{ docker_permissions_become }}", "port": 8300}}
    found = shown(tmp_path, FOUND, given={}, vars=own)
    assert found == [True, "ansible.builtin.sudo", "local", "http://127.0.0.1:8300", ""]


def test_the_known_issues_are_those_of_the_plan(tmp_path: Path) -> None:
    files, read = [str(ROOT / "playbooks/group_vars/all.yml")], ["deployment_settings.known_issues"]
    plan = {"config": {"known_issues": [{"id": "mine-1"}]}}
    assert shown(tmp_path, vars_files=files, given={}, read=read) == [[]]
    assert shown(tmp_path, vars_files=files, given={"speculative_serve_plan": plan}, read=read) == [[{"id": "mine-1"}]]


def test_the_proxy_knows_the_engine_from_its_caller_or_the_recipe(tmp_path: Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/api_proxy/tasks/routes.yml").read_text(encoding="utf-8"))
    (task,) = tasks
    said = task["dgx_spark.speculative.deployment_plan"]["placement"]["api_routes"]["engine"]
    engine = [said.removeprefix("{{ ").removesuffix(" }}")]
    recipe, handover = {"deployment_recipe": {"engine": "vllm"}}, {"api_proxy_handover": {"engine": "tensorrt_llm"}}
    assert shown(tmp_path, given={}, read=engine) == [""]
    assert shown(tmp_path, given=recipe, read=engine) == ["vllm"]
    assert shown(tmp_path, given={**recipe, **handover}, read=engine) == ["tensorrt_llm"]


def test_the_proxy_refuses_what_the_planned_or_the_recorded_deployment_does_not_bear(tmp_path: Path) -> None:
    routes = {"ansible.builtin.include_role": {"name": "dgx_spark.speculative.api_proxy", "tasks_from": "routes"}}
    planned = {"deployment_settings": {"known_issues": [{"refuse": ["mine"], "url": "https://example.org/1"}]}}
    options = {"speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 3, "speculative_model": "/m"}}
    record = {"engine": "tensorrt_llm", "image": {"reference": "release:1.3.0rc12"}, "options": options}
    # A server may have no record.
    for handed_over, field in ((None, "mine"), (record, "logprobs")):
        given = {**planned, "api_proxy_handover": {"record": handed_over}}
        assert shown(tmp_path, routes, given=given, read=["__api_proxy_api.refused.fields[0]"]) == [field]
