# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What takes one file to add takes no other: a method, a family, a recipe, a failure, a bad combination, all invented.

An engine takes its packages, a line in the registry of each, its script and its option check.

They are put into a copy of the collection, in which ansible-playbook then reads, plans and validates with them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests.unit import plays

ROOT = Path(__file__).parents[3]
ENGINES = "plugins/plugin_utils/_engines"
TRTLLM = f"{ENGINES}/tensorrt_llm"
METHOD = """
lookup:
  words: Prompt Lookup
  description: drafts by looking back into the prompt
  engines:
    tensorrt_llm: {length: max_total_draft_tokens, decoding_type: {"1.2": null, "1.3": AUTO}}
    echo: {}
"""
FAMILY = """---
extends: "1.3"
first: 9.9.0rc1
known: [9.9.0rc1]
sections:
  TorchLlmArgs:
    fields:
      invented: {is: size, after: revision}
      enable_autotuner: null
"""
RECIPE = """---
title: An invented recipe
source: https://example.org/invented
sparks: 1
image: registry.example/release:9.9.0rc1
method: lookup
draft_length: 4
context: 8192
target_model: {id: example/target}
options: {invented: 3}
"""
ISSUE = """
invented-1:
  first: 9.9.0rc1
  method: lookup
  options: {invented: [3]}
  message: three inventions are one too many
  url: https://example.org/1
"""
ROW = """    KnownProblem(
        "invented_end",
        LOG,
        "It was invented",
        "Invent something else.",
        SERVE,
        substrings=("It ended as invented",),
    ),
"""
HERE = "ansible_collections.dgx_spark.speculative.plugins"
ECHO = f"""
import json
from {HERE}.plugin_utils._engines import engine as engines
from {HERE}.plugin_utils._engines.effects import Effects, Rows

NAMES = ("tokens", "requests", "cache", "part", "kind", "prompt", "pieces")


def build(request):
    options = {{**request.options, "look": {{"back": request.drafted}}}}
    return engines.Built(request.release, "", request.method or "none", options, [], [])


def limits(options):
    sizes = (options.get(name) for name in ("tokens", "requests", "cache"))
    return engines.Limits(*sizes, False, 1.0, "auto", 1, 0, 0)


def fill(options, planned):
    return {{"tokens": planned.context, "requests": planned.concurrency, "cache": planned.tokens}}


ECHO = engines.Engine(
    name="echo",
    words="Echo",
    keeps_entrypoint_of=".*",
    speculation="look",
    remote_code="",
    routes=("/echo",),
    methods=("lookup",),
    families=(),
    ranges=[["1.0.0", None]],
    names=engines.OptionNames(*NAMES),
    options=(*NAMES, "invented", "look"),
    effects=lambda: Effects({{}}, Rows({{}}, {{}}), Rows({{}}, {{}}), frozenset(), False),
    beyond_head="",
    build=build,
    render=lambda options: json.dumps(dict(options), sort_keys=True),
    section=lambda given: engines.Section("lookup", None, given.get("back"), "back"),
    judges_models=False,
    misfits=lambda _request, _target, _draft: [],
    limits=limits,
    fill=fill,
    container_role="echo_container",
    ranks_by_ssh=False,
    fabric=lambda ends: {{"ECHO_HERE": ends.addresses[0]}},
    known_issues=(),
)
"""
ECHO_LOG = f"""
from {HERE}.module_utils._engines.engine import Log, Stage

LOG_OF_ECHO = Log(
    **dict.fromkeys(("first", "rows", "prefixes", "variables"), ()),
    engine="echo",
    speculation="look",
    starts=("echo begins",),
    stages=(Stage("echoing", ("echo loads",), "echoing the weights"),),
    tag="",
    cache_planned=lambda options: options.get("cache"),
    cache_made=lambda _lines: None,
    longest_prompt=lambda _options, _context: None,
    metrics="figures",
    metrics_option="",
)
"""
ECHO_IN_CONTAINER = """
from server.engines.engine import OWN_PROCESS, Engine

ECHO = Engine(
    name="echo",
    launcher=OWN_PROCESS,
    variables=(),
    per_spark=(),
    versions=dict,
    front="echo",
    metrics="/figures",
    figures="echo_",
    running="echo_requests",
    all_read=(b"echo has read",),
    last_words=(),
    cache_planned=lambda _options: None,
    cache_lines=list,
)
"""
# By the registry, the module of the engine and its name there, and what they are put behind.
REGISTRIES = {
    f"{ENGINES}/registry.py": (f"{HERE}.plugin_utils._engines.echo.engine", "ECHO", "VLLM)"),
    "plugins/module_utils/_engines/registry.py": (f"{HERE}.module_utils._engines.echo", "LOG_OF_ECHO", "LOG_OF_VLLM)"),
    "roles/speculative_serve/files/server/engines/registry.py": ("server.engines.echo", "ECHO", "VLLM)"),
}
ECHO_FILES = {
    f"{ENGINES}/echo/engine.py": ECHO,
    "plugins/module_utils/_engines/echo.py": ECHO_LOG,
    "roles/speculative_serve/files/server/engines/echo.py": ECHO_IN_CONTAINER,
    "roles/speculative_serve/files/option_check/echo.py": "def judge(*_anything): return True, '', []\n",
    "roles/speculative_serve/templates/serve_echo.sh.j2": (
        '{% extends "serve.sh.j2" %}{% block command %}exec echo serve {{ script.target }}{% endblock %}'
    ),
    "playbooks/recipes/echoed.yml": RECIPE.replace("sparks: 1", "engine: echo\nsparks: 1").replace("9.9.0rc1", "1.0.0"),
}
# Whatever else is not known of the model, the plan counts.
FACTS = {"weights_bytes": 8_000_000_000, "layers": 32, "kv_heads": 8, "head_dim": 128, "max_context": 131_072}
PLAY: dict[str, t.Any] = {
    "name": "Plan and validate",
    "hosts": "all",
    "gather_facts": False,
    "vars": {
        "deployment_recipe": "{{ read.recipe }}",
        "huggingface_cache_snapshot": {
            "model_facts": {"example/target": FACTS},
            "models": {"example/target": {"commit": "1"}},
        },
        "engine_container_facts": {
            "memory": {"total": 128_000_000_000, "available": 120_000_000_000, "slot": 0, "usage": []}
        },
        "__speculative_serve_facts": {
            "docker": {"slot": None},
            "records": {"choice": None, "latest": None, "files": {}},
        },
        **{"speculative_serve_state_directory": "/srv/state", "huggingface_cache_resolved_directory": "/srv/cache"},
    },
    "tasks": [
        {
            "name": "Read",
            "dgx_spark.speculative.recipe_info": {"recipe": "{{ recipe | default('invented') }}"},
            "register": "read",
        },
        {"name": "List", "dgx_spark.speculative.recipe_info": {}, "register": "listed"},
        {
            "name": "Plan",
            "ansible.builtin.include_role": {
                **{"name": "dgx_spark.speculative.speculative_serve", "tasks_from": "plan", "public": True},
            },
        },
        {
            "name": "Plan what runs",
            "ansible.builtin.include_role": {
                **{"name": "dgx_spark.speculative.speculative_serve", "tasks_from": "render", "public": True},
            },
        },
        {
            "name": "Show",
            "ansible.builtin.copy": {"content": "{{ found | to_json }}", "dest": "{{ playbook_dir }}/found.json"},
            "check_mode": False,
            "vars": {
                "found": {
                    "listed": "{{ listed.lines }}",
                    "plan": "{{ speculative_serve_plan }}",
                    "validated": "{{ speculative_serve_plan.config }}",
                    "nodes": "{{ {inventory_hostname: __speculative_serve_node_plan} }}",
                }
            },
        },
    ],
}


@pytest.fixture(name="collection", scope="module")
def fixture_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with one more of each."""
    copy = tmp_path_factory.mktemp("copy") / "ansible_collections/dgx_spark/speculative"
    for part in ("plugins", "playbooks", "roles", "meta"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "galaxy.yml", copy)
    with (copy / ENGINES / "methods.yml").open("a", encoding="utf-8") as file:
        file.write(METHOD)
    with (copy / TRTLLM / "known_issues.yml").open("a", encoding="utf-8") as file:
        file.write(ISSUE)
    (copy / TRTLLM / "families/9.9.yml").write_text(FAMILY, encoding="utf-8")
    (copy / "playbooks/recipes/invented.yml").write_text(RECIPE, encoding="utf-8")
    catalogue = copy / "plugins/module_utils/_problems/catalogue.py"
    begin = "CATALOGUE: tuple[KnownProblem, ...] = (\n"
    catalogue.write_text(catalogue.read_text(encoding="utf-8").replace(begin, begin + ROW), encoding="utf-8")
    for name, text in ECHO_FILES.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(text, encoding="utf-8")
    for name, (module, value, last) in REGISTRIES.items():
        text = (copy / name).read_text(encoding="utf-8")
        assert text.count(last) == 1
        text = text.replace(last, f"{last[:-1]}, {value})")
        first = "from __future__ import annotations\n"
        (copy / name).write_text(text.replace(first, f"{first}from {module} import {value}\n"), encoding="utf-8")
    return copy


def test_they_are_planned_and_validated(collection: Path, tmp_path: Path) -> None:
    done = plays.run(tmp_path, PLAY, "--check", where=collection.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert "example/target, Prompt Lookup, draft length 4" in next(
        line for line in found["listed"] if line.startswith("invented ")
    )
    assert found["plan"]["verdict"] == "fits"
    assert found["plan"]["lines"][0].endswith("example/target with Prompt Lookup, draft length 4")
    assert found["validated"]["family"] == "9.9"
    options = found["validated"]["options"]
    assert options["invented"] == 3
    assert options["speculative_config"] == {"decoding_type": "AUTO", "max_total_draft_tokens": 4}
    assert [issue["id"] for issue in found["validated"]["known_issues"]] == ["invented-1"]
    script = found["nodes"]["spark-1"]["script"]
    assert (script["draft"], script["target"].endswith("models--example--target/snapshots/1")) == ("", True)


def test_an_engine_is_planned_and_rendered(collection: Path, tmp_path: Path) -> None:
    done = plays.run(tmp_path, PLAY, "--check", "-e", "recipe=echoed", where=collection.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["plan"]["verdict"] == "fits"
    options = found["validated"]["options"]
    assert (options["look"], options["invented"], options["tokens"]) == ({"back": 4}, 3, 8192)
    node = found["nodes"]["spark-1"]
    assert node["container"]["environment"]["DGX_SPARK_ENGINE"] == "echo"
    script = next(file["content"] for file in node["files"] if file["name"] == "serve.sh")
    assert script.endswith("exec echo serve /cache/huggingface/hub/models--example--target/snapshots/1")


def test_an_engine_is_known_in_its_container_and_by_its_log(collection: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from server.engines.registry import engine_of\n"
        "from server.launchers.registry import launcher_of\n"
        f"from {HERE}.module_utils._engines.registry import STAGES\n"
        "engine = engine_of({'DGX_SPARK_ENGINE': 'echo'})\n"
        "print(engine.front, launcher_of(engine).rank, [stage.text for stage in STAGES if stage.id == 'echoing'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(collection / "roles/speculative_serve/files")],
        env={**os.environ, "PYTHONPATH": str(collection.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "echo DGX_SPARK_RANK ['echoing the weights']", done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-e", "engine_container_image=registry.example/release:1.2.0rc6"],
            "release family 1.2 does not have lookup",
        ),
        (
            ["-e", '{"speculative_serve_options": {"enable_autotuner": false}}'],
            "enable_autotuner: is not a key of release family 9.9",
        ),
    ],
)
def test_what_they_do_not_have_is_refused(collection: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = plays.run(tmp_path, PLAY, "--check", *arguments, where=collection.parents[2])
    assert done.returncode != 0
    assert said in " ".join((done.stdout + done.stderr).split())


def test_an_end_is_told_by_its_row(collection: Path) -> None:
    program = (
        "from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.log import reason\n"
        "print(reason('It ended as invented\\n[entrypoint] the server ended with exit code 1\\n').problem.id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(collection.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "invented_end", done.stderr
