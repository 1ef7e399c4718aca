# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the queries read of a run, and that a decision is made once for the same inputs."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.dgx_spark.speculative.plugins.action.deployment_plan import QUERIES
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._query.query import Run, form_spec, with_facts
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import (
    node_plan_query,
    placement_query,
    served_query,
)

RECIPE = {
    "name": "mine",
    "image": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
    "target": "a/target",
    "draft": "a/draft",
    "method": "eagle3",
    "draft_length": 5,
    "context": 32768,
    "concurrency": 1,
    "kv_cache": "planned",
    "family": "auto",
    "sparks": 1,
    "options": {},
}
VARIABLES: dict[str, t.Any] = {
    "inventory_hostname": "spark-1",
    "ansible_play_hosts_all": ["spark-1"],
    "deployment_recipe": RECIPE,
    "speculative_serve_deployment": "mine",
    "speculative_serve_target_model": "a/target",
    "speculative_serve_draft_model": "a/draft",
    "speculative_serve_context": "32768",
    "speculative_serve_concurrency": 1,
    "speculative_serve_kv_cache": "planned",
    "speculative_serve_family": "auto",
    "speculative_serve_break_even": "{{ deployment_recipe.break_even }}",
    "speculative_serve_options": "{}",
    "speculative_serve_use_benchmark": "yes",
    "speculative_serve_overcommit": False,
    "speculative_serve_reserve_gib": 12,
    "speculative_serve_memory_guard": True,
    "speculative_serve_environment": {"MINE": 1},
    "speculative_serve_host": "127.0.0.1",
    "speculative_serve_port": 8000,
    "speculative_serve_stall_timeout_s": 300,
    "speculative_serve_probe_interval_s": 60,
    "speculative_serve_worker_timeout_s": 60,
    "speculative_serve_ready_timeout": 3600,
    "speculative_serve_log_level": "info",
    "speculative_serve_state_directory": "/state",
    "engine_container_facts": {
        "memory": {"total": 128_000_000_000, "available": 120_000_000_000, "slot": 0, "usage": []}
    },
    "huggingface_cache_resolved_directory": "/hub",
    "huggingface_cache_snapshot": {"models": {"a/target": {"commit": "1"}}},
}
SHAPE = {"layers": 36, "kv_heads": 8, "head_dim": 64, "max_context": 131_072}
MODELS = {"a/target": {"weights_bytes": 65_200_000_000, **SHAPE}, "a/draft": {"weights_bytes": 431_000_000, **SHAPE}}
LITTLE = {"memory": {**VARIABLES["engine_container_facts"]["memory"], "available": 20_000_000_000}}
FACTS: dict[str, t.Any] = {
    "slots": {"spark-1": {}},
    "records": {"spark-1": {}},
    "facts": {"spark-1": MODELS},
    "models": {"spark-1": {}},
}


def template(value: t.Any) -> t.Any:
    """What leads nowhere is undefined."""
    if isinstance(value, str) and "{{" in value:
        raise AnsibleUndefinedVariable(value)
    return value


def run(**changes: t.Any) -> Run:
    action = types.SimpleNamespace(_templar=types.SimpleNamespace(template=template))
    return Run(t.cast("t.Any", action), "spark-1", {**VARIABLES, **changes})


def test_what_was_decided_holds_for_the_same_inputs() -> None:
    plan = served_query.decide(run(), **FACTS)
    assert plan["served"]["draft_length"] == 5
    # Whatever has been found out meanwhile.
    assert served_query.reuse_or_decide(run(), {**plan, "mark": 1})["mark"] == 1


def test_a_plan_without_warnings_is_registered_without_that_key() -> None:
    plan = served_query.decide(run(), **FACTS)
    del plan["warnings"]
    assert served_query.reuse_or_decide(run(), plan)["warnings"] == []
    assert served_query.memory(run(), plan, FACTS["facts"])["warnings"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"speculative_serve_draft_length": 3},
        {"speculative_serve_options": {"max_batch_size": 2}},
        {"engine_container_image": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13"},
        {"deployment_recipe": {**RECIPE, "draft_length": 4}},
    ],
)
def test_whoever_includes_the_role_again_with_other_inputs_is_heard_again(changes: dict[str, t.Any]) -> None:
    plan = served_query.decide(run(), **FACTS)
    again = served_query.reuse_or_decide(run(**changes), plan, **FACTS)
    assert again["checked"] != plan["checked"]
    assert again["inputs"] != plan["inputs"]


def test_without_a_plan_it_is_decided_where_it_is_needed() -> None:
    assert served_query.reuse_or_decide(run(), {}, **FACTS) == served_query.decide(run(), **FACTS)


def test_what_does_not_fit_is_refused_with_the_plan_unless_somebody_insists() -> None:
    refused = served_query.decide(run(engine_container_facts=LITTLE), **FACTS)
    assert (refused["failed"], list(refused)) == (True, ["lines", "failed", "msg"])
    plan = served_query.decide(run(speculative_serve_overcommit="true", engine_container_facts=LITTLE), **FACTS)
    assert plan["message"] != ""
    # As soon as it is known that it does not.
    plan = {**served_query.decide(run(), **FACTS), "changed": False}
    assert served_query.memory(run(engine_container_facts=LITTLE), plan, FACTS["facts"])["failed"]
    assert not served_query.memory(run(), plan, FACTS["facts"]).get("failed")


def test_the_inputs_of_four_roles_are_looked_up_by_their_names() -> None:
    assert node_plan_query.node_inputs(run()) == {
        "name": "spark-1",
        "deployment": "mine",
        "directory": "/state/mine",
        "cache": "/hub",
        "host": "127.0.0.1",
        "port": 8000,
        "stall_timeout_s": 300,
        "probe_interval_s": 60,
        "worker_timeout_s": 60,
        "ready_timeout": 3600,
        **{"environment": {"MINE": 1}, "log_level": "info", "models": {"a/target": {"commit": "1"}}},
        "cluster_directory": "",
        "cluster_image": "",
        "volume": "dgx-spark-speculative-cache",
        "rails": [],
        "worker_port": 2233,
        "trust": "",
        "devices": [],
        "capabilities": [],
        "settings": {"network": "host"},
    }
    given = {
        "engine_container_name": "slot",
        "engine_container_devices": "/dev/fuse",
        "engine_container_capabilities": "CAP_SYS_PTRACE",
        "engine_container_log_max_files": 0,
        "spark_network_facts": {"cluster_image": "pair:1"},
        "spark_network_keys_fingerprint": "abc",
    }
    found = node_plan_query.node_inputs(run(**given))
    assert (found["volume"], found["devices"], found["cluster_image"]) == ("slot-cache", ["/dev/fuse"], "pair:1")
    assert found["capabilities"] == ["CAP_SYS_PTRACE"]
    assert (found["settings"], found["trust"]) == ({"network": "host", "log_max_files": 0}, "abc")


def test_a_form_is_completed_by_what_is_known_of_each_host() -> None:
    variables = {**VARIABLES, "hostvars": {"spark-1": {"look": {"fabric": 1}}}}
    asked = with_facts(variables, {"fabric": {"plan": {"mtu": 1}}, "from_hosts": {"hosts": "look.fabric"}})
    assert asked == {"fabric": {"plan": {"mtu": 1, "hosts": {"spark-1": 1}}}}
    asked = with_facts(variables, {"fabric": {"plan": None}, "from_hosts": {"hosts": "look.fabric"}})
    assert asked == {"fabric": {"plan": {"hosts": {"spark-1": 1}}}}


def test_the_arguments_of_a_form_are_the_parameters_of_its_function() -> None:
    assert form_spec(placement_query.firewall_rules)["options"] == {
        "network": {"type": "str", "required": True},
        "published_ports": {"type": "list", "elements": "str", "default": []},
        "previous_ports": {"type": "list", "elements": "str", "default": []},
    }
    options = form_spec(placement_query.check_container)["options"]
    assert options["unpack_factor"] == {"type": "float", "default": 0.0}
    assert options["listens"] == {"type": "list", "elements": "dict", "default": []}
    assert options["labels"] == {"type": "dict", "default": {}}
    assert (options["publish"]["type"], options["publish"]["default"]) == ("dict", None)
    assert options["publish"]["options"]["server"] == {"type": "int", "required": True}
    options = form_spec(placement_query.endpoint)["options"]
    assert options["port"] == {"type": "raw", "required": True}
    assert options["published_ports"] == {"type": "list", "elements": "str", "default": None}
    assert options["allow_unauthenticated"] == {"type": "bool", "required": True}


def test_the_proxy_forwards_the_routes_of_the_engine() -> None:
    common = ["/v1/chat/completions", "/v1/completions", "/v1/responses"]
    assert placement_query.api_routes(run(), "tensorrt_llm")["routes"] == common
    assert placement_query.api_routes(run(), "vllm")["routes"] == [*common, "/v1/messages", "/v1/messages/count_tokens"]
    # The role alone does not know the engine.
    assert (
        placement_query.api_routes(run())["routes"] == placement_query.api_routes(run(), "another")["routes"] == common
    )


DRAFTS = {"speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 3, "speculative_model": "/m"}}


@pytest.mark.parametrize(("release", "refuses"), [("1.3.0rc12", True), ("1.3.0rc29", False)])
def test_the_proxy_refuses_what_a_recorded_deployment_does_not_bear(release: str, refuses: bool) -> None:
    record = {
        "engine": "tensorrt_llm",
        "image": {"reference": f"nvcr.io/nvidia/tensorrt-llm/release:{release}"},
        "options": DRAFTS,
        "family": "1.3",
        "target_model": "openai/gpt-oss-120b",
        "cluster": {},
    }
    refused = placement_query.api_routes(run(), "tensorrt_llm", record=record)["refused"]
    assert (refused.get("fields", [])[:1] == ["logprobs"]) == refuses
    assert placement_query.api_routes(run(), "tensorrt_llm")["refused"] == {}


def test_a_query_has_forms_and_none_is_asked_twice() -> None:
    assert len(QUERIES) == 6
    answers = [form.answer for forms in QUERIES.values() for form in forms.values()]
    assert len(set(answers)) == len(answers)


def test_a_default_is_data_that_ansible_can_check() -> None:
    """A mapping that nothing can change, for instance, fails in a run only."""
    for forms in QUERIES.values():
        for form in forms.values():
            for argument in form_spec(form.answer)["options"].values():
                assert type(argument.get("default")) in (type(None), bool, int, float, str, list, dict), argument


@pytest.mark.parametrize(("same", "needed"), [(True, 30_000_000_000), (None, 30_000_000_000), (False, 0)])
def test_a_pull_takes_room_from_models_on_the_same_file_system(same: bool | None, needed: int) -> None:
    store = {"path": "/var/lib/docker", "free_bytes": 1, "unpack_factor": 3.0, "way_out": "Docker's data-root"}
    nothing: dict[str, t.Any] = {name: [] for name in ("addresses", "published_ports", "ports_in_use")}
    look = {"state": "usable", "slot": None, "image": None, "port": None, "architecture": "arm64", **nothing}
    look |= {"image_store": store, "same_filesystem": same}
    there = {"exists": True, "platform_digest": "sha256:1", "compressed_bytes": 10_000_000_000}
    refused = placement_query.check_container(run(), "server", "release:1", look, registry=there)
    # Also if it is refused, since the disk space for the models is checked in any case.
    assert (refused["image_bytes"], refused["failed"]) == (needed, True)
    assert placement_query.check_container(run(), "server", "release:1", look) == {
        "image_bytes": 0,
        "keep_entrypoint": True,
    }
    for engine, image, kept in (("vllm", "vllm/vllm-openai:v1", False), ("vllm", "nvcr.io/nvidia/vllm:1", True)):
        asked = {"engine": engine, "image": image}
        assert placement_query.check_container(run(), "server", "", look, entrypoint=asked)["keep_entrypoint"] is kept
