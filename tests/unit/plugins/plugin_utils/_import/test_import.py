# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recipes of other launchers, written here with every trap of the public ones."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.methods import METHODS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.command import parse, words
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.convert import convert
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.formats import FORMATS, RecipeImportError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.imported import Choices, Imported
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.source import MOST_BYTES, read
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.text import file_text, lines, refusal
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import complete

# Format 1: doubled braces, a key that is there twice, flags with underscores, a comment behind a backslash, numbers as
# text, tensor_parallel 2 of what serves on one Spark, a variable that is gone, one of a shell, and no mods.
FIRST = r"""
recipe_version: "1"
name: Example-NVFP4
description: |
  An example
  of two lines
model: example/Example-NVFP4
container: vllm-node-b12x
solo_only: "true"
mods: []
env:
  VLLM_MARLIN_USE_ATOMIC_ADD: 1
  VLLM_NVFP4_GEMM_BACKEND: marlin
  VLLM_USE_FLASHINFER_MOE_MXFP4_BF16: 1
  VLLM_USE_V1: 1
  NCCL_DEBUG: INFO
  HF_TOKEN: hf_secret
  CACHE: $HOME/cache
container: vllm-node
defaults:
  port: 8000
  host: 0.0.0.0
  tensor_parallel: 2
  gpu_memory_utilization: 0.7
  max_model_len: "262144"
  max_num_seqs: "8"
  unused: sk-secret
command: |
  # the server
  vllm serve example/Example-NVFP4 \
    --host {host} --port={port} \
    --trust-remote-code \
    --mamba_ssm_cache_dtype float32 \  # a comment
    # --enforce-eager \
    --max-model-len {max_model_len} \
    --max-num-seqs {max_num_seqs} \
    --gpu-memory-utilization {gpu_memory_utilization} \
    --speculative-config '{{"method":"mtp","num_speculative_tokens":3,"moe_backend":"triton"}}' \
    --compilation-config '{{"pass_config":{{"fuse_norm_quant":true}}}}' \
    --tool-call-parser qwen3_xml \
    --enable-auto-tool-choice \
    --no-enable-prefix-caching \
    --seed 1 --seed 2 \
    --api-key sk-secret \
    --an-option-of-tomorrow 0.5 \
    -tp {tensor_parallel} \
    --distributed-executor-backend ray
"""
# Format 2: JSON in defaults, doubled braces in spite of that, dotted keys, a revision, and a note on a name.
SECOND = r"""
recipe_version: "2"
model: example/Example-FP8
model_revision: 1d4bf0f2ff6012fd82039f2fa52739d0dd7c60c0
runtime: vllm
container: vllm/vllm-openai:v0.32.0@sha256:61fc8a896b0a4fbbbdc063bc4b0dbc25ce98e02b5050c24aeb7830ac02039b14
min_nodes: 1
max_nodes: 1
metadata: {description: An example of format 2, model_params: 27B}
benchmark: {args: {tg: [32]}}
surprise: 1
defaults:
  tensor_parallel: 1
  length: 5
  drafts: '{"method": "eagle3", "model": "example/head", "revision": "v1", "num_speculative_tokens": {length}}'
  max_model_len: 32k
  served_model_name: example
command: |
  vllm serve {model} \
    --max-model-len {max_model_len} \
    --speculative-config '{drafts}' \
    --kv-transfer-config '{{"a":{{"b":1}}}}' \
    --default-chat-template-kwargs.enable_thinking=true \
    --default_chat_template_kwargs.effort high \
    -tp {tensor_parallel} -O2
"""
GENERATED = """
model: example/Example
runtime: vllm-distributed
container: vllm/vllm-openai:v0.32.0
defaults:
  tensor_parallel: 1
  max_model_len: 4096
  max_num_seqs: 2
  enforce_eager: true
  enable_prefix_caching: "true"
  trust_remote_code: false
  speculative_config: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 4}
  helper: value
"""
TOMORROW = "an-option-of-tomorrow"
EUGR = Choices(allow_code_of=["eugr/spark-vllm"], allow_options=[TOMORROW])
TRANSFER = "kv-transfer-config.a.b"
ALLOWED = Choices(allow_options=[TRANSFER])


@pytest.fixture(name="load")
def fixture_load(tmp_path: Path) -> t.Callable[..., Imported]:
    def load(text: str, choices: Choices = EUGR, **changes: t.Any) -> Imported:
        path = tmp_path / "example.yaml"
        path.write_text(text, encoding="utf-8")
        if changes:
            path.write_text(yaml.safe_dump({**read(path).data, **changes}), encoding="utf-8")
        return convert(read(path), choices)

    return load


Load = t.Callable[..., Imported]


def refused(load: Load, choices: Choices, **changes: t.Any) -> RecipeImportError:
    """Return the refusal of a file."""
    with pytest.raises(RecipeImportError) as error:
        load(FIRST, choices, **changes)
    return error.value


def test_format_1(load: Load) -> None:
    imported = load(FIRST)
    assert imported.recipe == {
        "title": "An example of two lines",
        "source": "example.yaml, a recipe of spark-vllm-docker",
        "engine": "vllm",
        "sparks": 1,
        "image": "eugr/spark-vllm:latest",
        "method": "mtp",
        "draft_length": 3,
        "context": 262144,
        "concurrency": 8,
        "target_model": {"id": "example/Example-NVFP4", "tools": True},
        "environment": {"VLLM_MARLIN_USE_ATOMIC_ADD": "1"},
        "options": {
            "mamba-ssm-cache-dtype": "float32",
            "speculative-config": {"moe_backend": "triton"},
            "compilation-config": {"pass_config": {"fuse_norm_quant": True}},
            "tool-call-parser": "qwen3_xml",
            "enable-auto-tool-choice": True,
            "enable-prefix-caching": False,
            "seed": 2,
            "an-option-of-tomorrow": 0.5,
        },
    }
    dropped = dict(imported.dropped)
    assert set(dropped) == {
        *("--host 0.0.0.0", "--port 8000", "--trust-remote-code", "--gpu-memory-utilization 0.7", "--api-key"),
        *("--distributed-executor-backend ray", "--tensor-parallel-size 2", "defaults.unused"),
        *("VLLM_NVFP4_GEMM_BACKEND", "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16", "VLLM_USE_V1", "NCCL_DEBUG"),
        *("HF_TOKEN", "CACHE"),
    }
    assert "linear-backend" in dropped["VLLM_NVFP4_GEMM_BACKEND"]
    assert "moe-backend" in dropped["VLLM_USE_FLASHINFER_MOE_MXFP4_BF16"]
    assert "-e allow_code_of=example/Example-NVFP4" in dropped["--trust-remote-code"]
    assert {note.split(" is there twice")[0] for note in imported.notes if "twice" in note} == {"container", "seed"}
    assert "secret" not in str(imported.recipe) + str([name for name, _reason in imported.dropped])


def test_format_2(load: Load) -> None:
    imported = load(SECOND, ALLOWED)
    recipe = imported.recipe
    assert recipe["target_model"] == {
        "id": "example/Example-FP8",
        "revision": "1d4bf0f2ff6012fd82039f2fa52739d0dd7c60c0",
    }
    assert recipe["draft_model"] == {"id": "example/head", "revision": "v1"}
    assert (recipe["method"], recipe["draft_length"], recipe["context"]) == ("eagle3", 5, 32000)
    assert recipe["concurrency"] == 4
    assert recipe["options"] == {
        "kv-transfer-config": {"a": {"b": 1}},
        "default-chat-template-kwargs": {"enable_thinking": True, "effort": "high"},
        "optimization-level": 2,
        "served-model-name": "example",
    }
    assert recipe["title"] == "An example of format 2"
    assert [name for name, _reason in imported.dropped] == ["metadata", "benchmark", "surprise"]
    assert [note for note in imported.notes if "-e concurrency=" not in note] == []


def test_a_file_without_a_command(load: Load) -> None:
    imported = load(GENERATED, Choices())
    recipe = imported.recipe
    assert recipe["options"] == {
        "enforce-eager": True,
        "enable-prefix-caching": True,
        "speculative-config": {"prompt_lookup_max": 4},
    }
    assert (recipe["method"], recipe["draft_length"], recipe["concurrency"]) == ("ngram", 4, 2)
    assert [name for name, _reason in imported.dropped] == ["defaults.helper"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, {"method": "none"}),
        ({"method": "qwen3_next_mtp", "num_speculative_tokens": 2}, {"method": "mtp", "draft_length": 2}),
        # The target model itself is no draft model.
        (
            {"method": "mtp", "num_speculative_tokens": 2, "model": "example/Example"},
            {"method": "mtp", "draft_length": 2},
        ),
        ({"method": "draft_model", "num_speculative_tokens": 2, "model": "a/b"}, {"method": "draft_target"}),
        (
            {"method": "mtp", "num_speculative_tokens": 4, "model": "a/b"},
            {"method": "mtp", "draft_length": 4, "draft_model": {"id": "a/b"}},
        ),
        (
            {"method": "draft_model", "parallel_drafting": True, "num_speculative_tokens": 8, "model": "a/b"},
            {"method": "pard", "draft_length": 8, "draft_model": {"id": "a/b"}},
        ),
        # A method that is none of ours, and one with a draft model that ours does not have, stay as they are.
        ({"method": "medusa", "num_speculative_tokens": 3, "model": "a/b"}, {"draft_model": {"id": "a/b"}}),
        ({"method": "ngram", "num_speculative_tokens": 4, "model": "a/b"}, {"draft_model": {"id": "a/b"}}),
    ],
)
def test_speculation(load: Load, config: t.Any, expected: dict[str, t.Any]) -> None:
    defaults = {"max_model_len": 4096, "speculative_config": config}
    recipe = load(GENERATED, Choices(), defaults=defaults).recipe
    assert expected.items() <= recipe.items()
    assert ("options" in recipe) is (recipe.get("method") not in {*METHODS, "none"})
    assert "method" in recipe or recipe["options"] == {"speculative-config": config}
    complete("example", recipe)


@pytest.mark.parametrize(
    ("changes", "given", "sparks"),
    [
        ({"solo_only": False}, None, 2),
        ({"solo_only": False, "cluster_only": True}, None, 2),
        ({"solo_only": False}, 1, 1),
        ({"solo_only": None, "mode": "solo"}, None, 1),
        ({"solo_only": None, "max_nodes": 1}, None, 1),
        ({"solo_only": None, "min_nodes": "4"}, None, 4),
    ],
)
def test_the_number_of_sparks(load: Load, changes: dict[str, t.Any], given: int | None, sparks: int) -> None:
    imported = load(FIRST, dataclasses.replace(EUGR, sparks=given), **changes)
    assert imported.recipe["sparks"] == sparks
    assert ("sparks=1" in imported.hint) is (changes == {"solo_only": False} and given is None)


def test_pipeline_parallelism_needs_a_number_of_sparks(load: Load) -> None:
    command = "vllm serve a/b --max-model-len 1 -pp 3"
    with pytest.raises(RecipeImportError, match="pipeline-parallel-size is 3"):
        load(FIRST, command=command, solo_only=None)
    imported = load(FIRST, dataclasses.replace(EUGR, sparks=2), command=command, solo_only=None)
    assert imported.recipe["sparks"] == 2
    assert "--pipeline-parallel-size 3" in dict(imported.dropped)


def test_without_mods(load: Load) -> None:
    mods = {"mods": ["mods/fix"], "pre_exec": ["echo $(id)"]}
    command = "vllm serve a/b --max-model-len 1 --chat-template fixed.jinja"
    error = refused(load, EUGR, **mods, command=command)
    assert "(mods, pre_exec)" in error.args[0]
    assert (error.inputs, error.is_enough) == ({"without_mods": True}, True)
    choices = Choices(allow_code_of=["docker.io/eugr/spark-vllm"], without_mods=True)
    imported = load(FIRST, choices, **mods, command=command)
    assert "not verified without its mods, pre_exec, --chat-template" in imported.recipe["note"]
    assert {"mods", "pre_exec", "--chat-template"} <= dict(imported.dropped).keys()
    assert "options" not in imported.recipe


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.32.0", "docker.io/vllm/x", "nvcr.io/nvidia/vllm:26.07-py3"])
def test_images_that_need_no_permission(load: Load, image: str) -> None:
    assert load(GENERATED, Choices(), container=image).recipe["image"] == image


@pytest.mark.parametrize("image", ["evil.example/vllm/x:1", "vllmx/y", "nvcr.io/other/x", "vllm-node"])
def test_images_that_need_permission(load: Load, image: str) -> None:
    error = refused(load, Choices(allow_options=[TOMORROW]), container=image)
    repository = {"evil.example/vllm/x:1": "evil.example/vllm/x", "vllm-node": "eugr/spark-vllm"}.get(image, image)
    assert (error.inputs, error.is_enough) == ({"allow_code_of": [repository]}, True)
    assert (f", the published build of {image}. " in str(error)) == ("/" not in image)
    # The name that the file has will do.
    assert load(GENERATED, Choices(allow_options=[TOMORROW], allow_code_of=[image]), container=image).recipe["image"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None, "command": "vllm serve --max-model-len 1"}, "Its model is missing"),
        ({"container": None}, "no registry has"),
        ({"container": "vllm-node-mxfp4"}, "no registry has"),
        ({"container": "vllm/Upper Case"}, "is no image"),
        ({"runtime": "sglang"}, "Its runtime is sglang"),
        ({"runtime": "llama-cpp"}, "Its runtime is llama-cpp"),
        ({"command": "trtllm-serve a/b"}, "must begin with 'vllm serve'"),
        ({"command": "vllm serve a/b --max-model-len auto"}, "the memory plan needs a number"),
        ({"command": "vllm serve a/b --max-model-len -1"}, "the memory plan needs a number"),
        ({"command": "vllm serve a/b --port {absent}"}, "defaults has no value for it"),
        ({"command": "vllm serve a/b --x ${CUDA_HOME}"}, "needs a shell"),
        ({"command": "vllm serve a/b --x {port"}, "must be doubled"),
        ({"command": "vllm serve a/b --x '{{]}}'"}, "begins like JSON"),
        ({"command": "vllm serve a/b && id"}, "needs a shell"),
        ({"command": "vllm serve a/b --x $(id)"}, "needs a shell"),
        ({"command": "vllm serve a/b --x `id`"}, "needs a shell"),
        ({"command": 'vllm serve a/b --x "$HOME"'}, "needs a shell"),
        ({"command": "vllm serve a/b --x 'open"}, "a quote without its end"),
        ({"command": "vllm serve a/b\nid"}, "A second command begins with 'id'"),
        ({"command": "vllm serve a/b -x 1"}, "short option -x"),
        ({"command": "vllm serve a/b --=1"}, "where an option must stand"),
        ({"command": "vllm serve a/b --max-model-len 1 -dp 2"}, "one copy of its model"),
        ({"command": "vllm serve a/b --max-model-len 1 -tp two"}, "must be a whole number above 0"),
        ({"command": "vllm serve a/b --max-model-len 1 --speculative-config x"}, "must be a mapping"),
        ({"defaults": ["a"]}, "defaults must be a mapping"),
        ({"env": {"A": ["b"]}}, "env.A must be text or a number"),
        ({"env": {f"NCCL_{number}": 1 for number in range(201)}}, "env has more than 200 variables"),
        ({"command": "vllm serve a/b --tool-call-parser --seed 1"}, "--tool-call-parser has no value"),
        ({"command": None, "defaults": {"tool_call_parser": True}}, "--tool-call-parser has no value"),
        ({"model": ["a"]}, "model must be text"),
    ],
)
def test_what_cannot_be_imported(load: Load, changes: dict[str, t.Any], words: str) -> None:
    with pytest.raises(RecipeImportError) as error:
        load(FIRST, **changes)
    assert words in str(error.value)


def test_code_of_a_model_needs_permission_and_a_commit(load: Load) -> None:
    choices = dataclasses.replace(EUGR, allow_code_of=["eugr/spark-vllm", "example/Example-NVFP4"])
    assert refused(load, choices).inputs == {"revision": "COMMIT"}
    for imported in (
        load(FIRST, choices, model_revision="a" * 40),
        load(FIRST, dataclasses.replace(choices, revision="a" * 40), model_revision="main"),
    ):
        assert imported.recipe["target_model"]["revision"] == "a" * 40
        assert imported.recipe["options"]["trust-remote-code"] is True
        assert "--trust-remote-code" not in dict(imported.dropped)


def test_all_reasons_at_once_and_one_command(load: Load) -> None:
    command = (
        "vllm serve a/b --max-model-len auto --chat-template fixed.jinja --log-config-file /etc/x.json "
        "--scheduler-cls a.B --compilation-config.backend evil.Class"
    )
    error = refused(load, Choices(allow_options=["scheduler-cls"]), command=command, mods=["mods/fix"])
    for part in ("(mods)", "eugr/spark-vllm:latest", "max-model-len is auto", "no fixed.jinja", "no /etc/x.json"):
        assert [reason for reason in error.args if part in reason]
    assert error.is_enough
    given = {"from": "my file.yaml", "to": "", "replace": True, "allow_options": ["scheduler-cls"]}
    text = refusal(error, {**given, "allow_code_of": [], "without_mods": False, "context": None})
    assert text.startswith("- It changes the image or runs commands of its own (mods)")
    assert text.partition("run:\n")[2].splitlines()[0].strip() == (
        'ansible-playbook playbooks/import_recipe.yml -e \'{"from": "my file.yaml"}\' -e replace=true '
        "-e allow_options=scheduler-cls,compilation-config.backend -e allow_code_of=eugr/spark-vllm "
        "-e without_mods=true -e context=32768"
    )


def test_a_title_that_is_no_text(load: Load) -> None:
    assert load(FIRST, EUGR, description={"a": "b"}).recipe["title"] == "Example-NVFP4"
    assert load(FIRST, EUGR, description=["a"], name=None).recipe["title"] == "example/Example-NVFP4"


def test_what_no_permission_allows(load: Load) -> None:
    error = refused(load, EUGR, command="vllm serve a/b --max-model-len 1 --max-num-seqs none")
    assert not error.is_enough
    assert not error.inputs
    assert not refused(load, Choices(), env={"A": ["b"]}).is_enough
    assert "cannot be allowed" in refusal(refused(load, Choices(), env={"A": ["b"]}), {"allow_code_of": []})


@pytest.mark.parametrize(
    ("file", "is_there"),
    [
        ("/cache/huggingface/hub/models--a--b/snapshots/c/x.jinja", True),
        ("/cache/huggingface/hub/../../../etc/x", False),
        ("~/x.jinja", False),
        ("x.jinja", False),
    ],
)
def test_an_option_that_is_allowed(load: Load, file: str, is_there: bool) -> None:
    choices = Choices(allow_options=["chat-template"])
    changes = {"container": "vllm/vllm-openai:v0.32.0", "command": f"vllm serve a/b --chat-template {file}"}
    if is_there:
        assert refused(load, Choices(), **changes).inputs == {"allow_options": ["chat-template"]}
        assert load(FIRST, choices, **changes).recipe["options"] == {"chat-template": file}
    else:
        error = refused(load, choices, **changes)
        assert (error.inputs, error.is_enough) == ({}, False)
    assert "options" not in load(FIRST, Choices(without_mods=True), **changes).recipe


def test_an_option_that_no_recipe_has_can_be_left_out(load: Load) -> None:
    changes = {"container": "vllm/vllm-openai:v0.32.0", "command": "vllm serve a/b --enable-prefx-caching"}
    error = refused(load, Choices(), **changes)
    assert [reason.partition(": ")[0] for reason in error.args] == ["options.enable-prefx-caching"]
    assert (error.inputs, error.is_enough) == ({"without_mods": True}, True)


def test_an_option_of_another_release_can_be_left_out(load: Load) -> None:
    command = "vllm serve a/b --override-attention-dtype fp8 --block-size big --seed 1"
    changes = {"container": "vllm/vllm-openai:v0.32.0", "command": command}
    error = refused(load, Choices(), **changes)
    names = ["block-size", "override-attention-dtype"]
    assert sorted(reason.partition(": ")[0] for reason in error.args) == [f"options.{name}" for name in names]
    assert (error.inputs, error.is_enough) == ({"without_mods": True}, True)
    imported = load(FIRST, Choices(without_mods=True), **changes)
    assert imported.recipe["options"] == {"seed": 1}
    assert {f"--{name}" for name in names} <= {*dict(imported.dropped)}
    assert "--override-attention-dtype" in imported.recipe["note"]


def test_keys_in_a_list_and_keys_with_dots_are_found(load: Load) -> None:
    config = '{"kv_connector_extra_config": [{"a": 1, "b": 2}], "kv.role": "x", "kv role": "y"}'
    command = f"vllm serve a/b --kv-transfer-config '{config}' --seed 1"
    changes = {"recipe_version": "2", "container": "vllm/vllm-openai:v0.32.0", "command": command}
    error = refused(load, Choices(), **changes)
    assert error.inputs["without_mods"]
    keys = ("kv_connector_extra_config.a", "kv_connector_extra_config.b", "kv.role")
    assert error.inputs["allow_options"] == [f"kv-transfer-config.{key}" for key in keys]
    imported = load(FIRST, Choices(without_mods=True), **changes)
    assert imported.recipe["options"] == {"seed": 1}
    assert "--kv-transfer-config.kv_connector_extra_config" in dict(imported.dropped)


@pytest.mark.parametrize(
    ("ranks", "kept"),
    [(2, {}), (1, {"draft_tensor_parallel_size": 1}), (3, None)],
)
def test_the_sparks_of_a_draft_model(load: Load, ranks: int, kept: dict[str, int] | None) -> None:
    config = f'{{"method":"dflash","model":"a/c","num_speculative_tokens":3,"draft_tensor_parallel_size":{ranks}}}'
    command = f"vllm serve a/b --speculative-config '{config}' -tp 2"
    changes = {"recipe_version": "2", "container": "vllm/vllm-openai:v0.32.0", "command": command, "solo_only": None}
    if kept is None:
        assert not refused(load, Choices(sparks=1), **changes).is_enough
        return
    imported = load(FIRST, Choices(sparks=1), **changes)
    assert imported.recipe["sparks"] == 1
    assert imported.recipe.get("options", {}).get("speculative-config", {}) == kept
    assert ("--speculative-config.draft_tensor_parallel_size 2" in dict(imported.dropped)) is (not kept)


@pytest.mark.parametrize("option", ["--runner pooling", "--convert embed", "--task score"])
def test_a_server_that_generates_no_text(load: Load, option: str) -> None:
    error = refused(load, EUGR, command=f"vllm serve a/b {option}")
    assert f"{option} makes a server that generates no text" in error.args[0]
    assert not error.is_enough


def test_a_name_of_an_image_with_its_tag(load: Load) -> None:
    assert load(FIRST, EUGR, container="vllm-node:latest").recipe["image"] == "eugr/spark-vllm:latest"


def test_variables(load: Load) -> None:
    secrets = ("PASSWD", "DB_PASS", "GH_PAT", "AUTH", "OPENAI_KEY", "COOKIE", "CREDENTIALS", "hf_token", "VLLM_API_KEY")
    others = {
        **dict.fromkeys(("PYTHONPATH", "LD_PRELOAD", "PATH", "BASH_ENV", "DGX_SPARK_OPTIONS", "NCCL_NET_PLUGIN"), "/x"),
        **dict.fromkeys(("HF_HUB_OFFLINE", "NCCL_SOCKET_IFNAME", "TOMORROW"), 0),
    }
    kept = {"NCCL_IGNORE_CPU_AFFINITY": 1, "OMP_NUM_THREADS": 4}
    env = {**dict.fromkeys(secrets, "x"), **others, **kept}
    choices = dataclasses.replace(EUGR, allow_options=[TOMORROW, "environment.TOMORROW"])
    imported = load(FIRST, EUGR, env=env)
    assert imported.recipe["environment"] == {name: str(value) for name, value in kept.items()}
    assert {*secrets, *others} <= dict(imported.dropped).keys()
    assert {reason for name, reason in imported.dropped if name in secrets} == {"a secret does not belong in a recipe"}
    assert load(FIRST, choices, env=env).recipe["environment"]["TOMORROW"] == "0"


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve a/b --max-model-len " + "9" * 400 + "k",
        "vllm serve a/b --x " + "9" * 400 + ".5",
        "vllm serve a/b --x '[1e999]'",
        "vllm serve a/b --x '[" + "9" * 400 + "]'",
        "vllm serve a/b --" + ".".join("a" * 5000),
        "vllm serve a/b --host '" + "[" * 600 + "]" * 600 + "'",
        "vllm serve a/b --x 'x{{[1]}}'",
        "vllm serve a/b --x '[\"{{(lookup)(1)}}\"]'",
        "vllm serve {{(lookup)}}",
        "vllm serve a/b " + "--x " * 9000,
    ],
)
def test_commands_beyond_all_bounds(load: Load, command: str) -> None:
    with pytest.raises(RecipeImportError):
        load(SECOND, Choices(), command=command)


@pytest.mark.parametrize("version", ["1", "2"])
def test_defaults_that_multiply(load: Load, version: str) -> None:
    names = "abcdefghi"
    defaults = {name: f"{{{other}}}" * 10 for name, other in zip(names, names[1:])} | {"i": "x" * 40_000}
    command = "vllm serve a/b --x {a} " + "{i}" * 1000
    with pytest.raises(RecipeImportError, match="more than 100 kB"):
        load(SECOND, Choices(), recipe_version=version, defaults=defaults, command=command)


def test_values_that_name_each_other(load: Load) -> None:
    defaults = {"a": "{b}", "b": "{a}"}
    with pytest.raises(RecipeImportError, match="in a circle"):
        load(SECOND, Choices(), defaults=defaults, command="vllm serve {model} --x {a}")


def test_a_given_context_and_concurrency_count(load: Load) -> None:
    recipe = load(FIRST, dataclasses.replace(EUGR, context=8192, concurrency=2)).recipe
    assert (recipe["context"], recipe["concurrency"]) == (8192, 2)


def test_the_number_of_sparks_that_is_none(load: Load) -> None:
    with pytest.raises(RecipeImportError, match="not for 2 Sparks"):
        load(SECOND, Choices(sparks=2))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdef", "bcdefg")
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "There is no such file"),
        (b"", "must be a mapping"),
        (b"- a\n- b\n", "must be a mapping"),
        (b"a: [", "is not valid YAML: line 1"),
        (b"a: !!python/object/apply:os.system [id]\n", "is not valid YAML"),
        (b"model: \xff\n", "not text in UTF-8: byte 8"),
        (BOMB.encode(), "more than 10,000 parts"),
        (b"# " + b"x" * MOST_BYTES, "more than 50 kB"),
        (b"model: a\nruntime: '{{ runtime }}'\n", "runtime has a Jinja template"),
        (b"model: {{ model }}\n", "is not valid YAML"),
        (b"model: a{% raw %}\n", "model has a Jinja template"),
        (b'model: "\\x7b\\x7b lookup(1) }}"\n', "model has a Jinja template"),
        (b"env: {A: '{{(lookup)(1)}}'}\n", "env.A has a Jinja template"),
        (b"'x{{[1]}}': 1\n", "The file has a Jinja template"),
        (b'"a\\e": 1\n', "has a control character"),
        (b"a: 0x" + b"f" * 9000, "too large"),
        (b"a: .nan\n", "too large"),
        (b"a: &a {b: *a}\n", "contains itself"),
        (b"a: " + b"[" * 5000, "is not valid YAML"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "example.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeImportError) as error:
        read(path)
    assert words in str(error.value)


def test_a_directory_and_a_device_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(RecipeImportError, match="It is not a file"):
            read(path)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"mods": ["a"]}, "1"),
        ({"mods": []}, "2"),
        ({}, "2"),
        ({"recipe_version": 1}, "1"),
        ({"recipe_version": 4}, "2"),
    ],
)
def test_the_format(tmp_path: Path, data: dict[str, t.Any], expected: str) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(yaml.safe_dump({"model": "a", **data}), encoding="utf-8")
    assert read(path).format == expected


def test_the_words_of_a_command() -> None:
    assert words('a \'b c\'d "e\\"f" g\\ h i#j # k\n# l\n') == ["a", "b cd", 'e"f', "g h", "i#j"]
    assert parse("vllm serve m --served-model-name a b --x=-1 --y -2").options == {
        "served-model-name": ["a", "b"],
        "x": -1,
        "y": -2,
    }


def test_the_file_and_what_is_said(load: Load, tmp_path: Path) -> None:
    imported = load(SECOND, ALLOWED)
    source = read(tmp_path / "example.yaml")
    text = file_text(source, imported)
    assert text.startswith("---\n# Made by import_recipe.yml from example.yaml, a recipe of sparkrun.\n")
    assert f"# SHA-256 of that file: {source.digest}\n" in text
    assert yaml.safe_load(text) == imported.recipe
    told = "\n".join(lines(source, imported, "recipes/example.yml", "Written"))
    for part in (*imported.notes, *(name for pair in imported.dropped for name in pair), "recipe=recipes/example.yml"):
        assert part in told


def test_a_key_is_read_refused_or_left_out() -> None:
    assert not {*FORMATS.patches} & {*FORMATS.read, *FORMATS.unread}
