# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role's entry point with the real ansible-playbook."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from tests.unit import plays

TARGET, DRAFT = "openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3"
SHAPE = {"layers": 36, "kv_heads": 8, "head_dim": 64, "max_context": 131_072}
VARIABLES: dict[str, t.Any] = {
    "speculative_serve_deployment": "mine",
    "speculative_serve_target_model": TARGET,
    "speculative_serve_draft_model": DRAFT,
    "speculative_serve_draft_length": 5,
    "speculative_serve_method": "eagle3",
    "speculative_serve_family": "auto",
    "speculative_serve_context": 131_072,
    "speculative_serve_concurrency": 1,
    "speculative_serve_kv_cache": "planned",
    "speculative_serve_show_plan": False,
    "deployment_recipe": {
        "sparks": 1,
        "image": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
        "options": {"kv_cache_config": {"free_gpu_memory_fraction": 0.9}},
    },
    "huggingface_cache_snapshot": {
        "model_facts": {
            TARGET: {"weights_bytes": 65_200_000_000, **SHAPE},
            DRAFT: {"weights_bytes": 431_000_000, **SHAPE, "layers": 1},
        }
    },
    "engine_container_facts": {
        "memory": {"total": 128_000_000_000, "available": 120_000_000_000, "slot": 0, "usage": []}
    },
}
SMALL = {"total": 60_000_000_000, "available": 55_000_000_000, "slot": 0, "usage": []}


def include(tasks: str) -> dict[str, t.Any]:
    role = {"name": "dgx_spark.speculative.speculative_serve", "tasks_from": tasks, "public": True}
    return {"name": tasks, "ansible.builtin.include_role": role}


def play(
    directory: Path, *arguments: str, then: t.Sequence[dict[str, t.Any]] = (), **changes: t.Any
) -> subprocess.CompletedProcess[str]:
    shown = "{'plan': speculative_serve_plan, 'options': speculative_serve_plan.config.options}"
    show = {
        "name": "Show",
        "ansible.builtin.copy": {
            "content": f"{{{{ {shown} | to_json }}}}",
            "dest": f"{directory}/out.json",
        },
        "check_mode": False,
    }
    tasks = [include("plan"), *then, show]
    content = {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": tasks}
    return plays.run(directory, {**content, "vars": {**VARIABLES, **changes}}, *arguments)


def result(directory: Path) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads((directory / "out.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_what_fits_is_planned_without_a_word(tmp_path: Path, check: list[str]) -> None:
    done = play(tmp_path, *check)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weights of" not in done.stdout
    assert result(tmp_path)["plan"]["verdict"] == "fits"
    options = result(tmp_path)["options"]
    # The recipe's own option is still there, and the sum of both is what the engine takes.
    assert options["kv_cache_config"] == {"max_tokens": 131_168, "free_gpu_memory_fraction": 0.9}
    assert (options["max_seq_len"], options["max_batch_size"]) == (131_072, 1)


def test_what_cuda_calls_free_counts_the_memory_again(tmp_path: Path) -> None:
    memory = VARIABLES["engine_container_facts"]["memory"]
    cuda = {"free": 50_000_000_000, "unused": 60_000_000_000, "available": 118_000_000_000}
    asked = {
        "name": "Ask CUDA",
        "ansible.builtin.set_fact": {"engine_container_facts": {"memory": {**memory, "cuda": cuda}}},
    }
    done = play(tmp_path, then=[asked, include("plan_memory")])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "free for the GPU: 50.0 GB according to CUDA" in done.stdout
    assert " ".join((done.stdout + done.stderr).split()).count("CUDA calls 50.0 GB free") == 1
    found = result(tmp_path)["plan"]
    assert (found["verdict"], found["free_for_gpu"]) == ("fits", "50.0 GB according to CUDA, 118 GB available")
    assert len(found["checked"]) == 64


def test_the_plan_is_shown_when_asked_for(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "speculative_serve_show_plan=true", "-e", "speculative_serve_context=8192")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n" + "\n".join(result(tmp_path)["plan"]["lines"]) + "\n" in done.stdout
    assert "KV cache for 1 request of 8,192 tokens" in done.stdout


def test_what_does_not_fit_is_refused_with_the_plan(tmp_path: Path) -> None:
    done = play(tmp_path, engine_container_facts={"memory": SMALL})
    assert done.returncode != 0
    assert "\n  weights of openai/gpt-oss-120b" in done.stdout
    assert "spark-1: openai/gpt-oss-120b with EAGLE-3, draft length 5, with 1 request" in done.stdout + done.stderr


def test_what_does_not_fit_can_be_insisted_on(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "speculative_serve_overcommit=true", engine_container_facts={"memory": SMALL})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Does not fit" in done.stdout
    assert result(tmp_path)["options"]["max_seq_len"] == 131_072


def test_unknown_models_are_warned_about(tmp_path: Path) -> None:
    done = play(tmp_path, huggingface_cache_snapshot={}, speculative_serve_method="none", engine_container_facts={})
    assert done.returncode == 0, done.stdout + done.stderr
    assert result(tmp_path)["plan"]["verdict"] == "unknown"
    assert "do not give the size of its weights" in " ".join((done.stdout + done.stderr).split())


def test_a_wrong_input_is_one_sentence(tmp_path: Path) -> None:
    done = play(tmp_path, "-e", "speculative_serve_context=0")
    assert done.returncode != 0
    assert "speculative_serve_context is '0'" in " ".join((done.stdout + done.stderr).split())


def test_what_to_do_about_refused_options_ends_where_there_is_nothing_to_run_instead(tmp_path: Path) -> None:
    assert play(tmp_path).returncode == 0
    assert result(tmp_path)["plan"]["fix"] == "Correct the options, and open an issue about the difference."


def test_what_to_run_instead_of_the_image_is_for_the_sparks_of_the_run(tmp_path: Path) -> None:
    inventory = tmp_path / "two.yml"
    inventory.write_text(json.dumps({"sparks": {"hosts": {"spark-1": {}, "spark-2": {}}}}), encoding="utf-8")
    recipe = {**VARIABLES["deployment_recipe"], "fallback": "single_eagle3_page"}
    done = play(tmp_path, "-i", str(inventory), "--limit", "spark-1", deployment_recipe=recipe)
    assert done.returncode == 0, done.stdout + done.stderr
    command = "ansible-playbook playbooks/serve.yml -e recipe=single_eagle3_page"
    first, *lines = result(tmp_path)["plan"]["fix"].splitlines()
    assert first.startswith(
        "Correct the options, and open an issue about the difference. Recipe single_eagle3_page has the image "
    )
    assert lines[::2] == [f"{command} -e speculation=off --limit spark-1", f"{command} --limit spark-1"]
