# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and variables that do more than tune the server are known by what they do."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.rows import DataError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines import effects
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.effects import (
    CODE,
    FILE,
    NETWORK,
    OTHER_MODEL,
    UNKNOWN,
    joined,
    option_effects,
    read_effects,
    variable_effect,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Built, Engine, Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES, build, engine_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPES, load

VLLM, TENSORRT_LLM = ENGINES["vllm"], ENGINES["tensorrt_llm"]
PLACE = "/cache/huggingface/hub/models--evil--model/snapshots/0"
CLASS = "evil.Class"


def kinds(engine: Engine, options: dict[str, t.Any]) -> dict[str, str]:
    return {effect.path: effect.kind for effect in option_effects(engine.effects(), options)}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"log-config-file": f"{PLACE}/log.json"}, CODE),
        ({"logging-config.pylogging_config_file": f"{PLACE}/log.json"}, CODE),
        ({"reasoning-parser-plugin": f"{PLACE}/a.py"}, CODE),
        ({"tool-parser-plugin": f"{PLACE}/a.py"}, CODE),
        ({"io-processor-plugin": "evil"}, CODE),
        ({"logits-processors": [CLASS]}, CODE),
        ({"scheduler-cls": CLASS}, CODE),
        ({"worker-cls": CLASS}, CODE),
        ({"worker-extension-cls": CLASS}, CODE),
        ({"middleware": [CLASS]}, CODE),
        ({"model-class-overrides": {"Model": CLASS}}, CODE),
        ({"kv-transfer-config.kv_connector_module_path": "evil"}, CODE),
        ({"ec-transfer-config.ec_connector_module_path": "evil"}, CODE),
        ({"ec-manager-config.encoder_cache_manager_cls": CLASS}, CODE),
        ({"compilation-config.backend": CLASS}, CODE),
        ({"compilation-config.inductor_passes.post_grad_custom_post_pass": CLASS}, CODE),
        ({"attention-backend": CLASS}, CODE),
        ({"distributed-executor-backend": CLASS}, CODE),
        ({"hf-overrides.auto_map": {"AutoConfig": "evil/r--c.C"}}, CODE),
        ({"hf-overrides.vision_config.auto_map": {"AutoModel": "evil/r--c.C"}}, CODE),
        ({"code-revision": "main"}, CODE),
        ({"speculative-config.code_revision": "main"}, CODE),
        ({"speculative-config.trust_remote_code": True}, CODE),
        ({"trust-remote-code": True}, CODE),
        ({"trust-request-chat-template": True}, CODE),
        ({"enable-prompt-embeds": True}, CODE),
        ({"chat-template": f"{PLACE}/a.jinja"}, FILE),
        ({"generation-config": "/etc"}, FILE),
        ({"allowed-local-media-path": "/"}, FILE),
        ({"ssl-keyfile": "/etc/key"}, FILE),
        ({"enable-log-requests": True}, FILE),
        ({"profiler-config.torch_profiler_dir": "/cache"}, FILE),
        ({"tool-call-parser": PLACE}, FILE),
        ({"quantization": "../../evil"}, FILE),
        ({"load-format": "tensorizer"}, NETWORK),
        ({"tool-server": "demo"}, NETWORK),
        ({"grpc": True}, NETWORK),
        ({"kv-transfer-config.kv_connector": "NixlConnector"}, NETWORK),
        ({"tokenizer-mode": "https://evil.example/a"}, NETWORK),
        ({"hf-config-path": "evil/r"}, OTHER_MODEL),
        ({"lora-modules": "a=other/repo"}, OTHER_MODEL),
        ({"tokenizer": "evil/r"}, OTHER_MODEL),
        ({"speculative-config.model": "evil/draft"}, OTHER_MODEL),
        # Without a row.
        ({"unheard": 1}, UNKNOWN),
        ({"model-loader-extra-config.tensorizer_uri": "s3"}, UNKNOWN),
        ({"hf-overrides.unheard": 1}, UNKNOWN),
        ({"mm-processor-kwargs.trust_remote_code": True}, UNKNOWN),
        ({"additional-config.unheard": 1}, UNKNOWN),
        ({"compilation-config.unheard": True}, UNKNOWN),
        # Of another shape than the release's own.
        ({"kv-cache-dtype": "fp9"}, UNKNOWN),
        ({"max-num-seqs": "many"}, UNKNOWN),
        ({"compilation-config": "no mapping"}, UNKNOWN),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_an_option_with_an_effect(options: dict[str, t.Any], kind: str) -> None:
    ((path, value),) = options.items()
    name, *keys = path.split(".")
    for key in reversed(keys):
        value = {key: value}
    assert kinds(VLLM, {name: value}) == {path: kind}


@pytest.mark.parametrize(
    "options",
    [
        {"trust-remote-code": False, "enable-prefix-caching": True, "enforce-eager": "true"},
        {"max-model-len": "32k", "gpu-memory-utilization": 0.9, "seed": -1, "max-num-seqs": 4},
        {"kv-cache-dtype": "fp8", "attention-backend": "flashinfer", "moe-backend": "marlin", "max-lora-rank": 16},
        {"reasoning-parser": "qwen3", "tool-call-parser": "qwen3_coder", "quantization": "modelopt_fp4"},
        {"load-format": "fastsafetensors", "generation-config": "vllm", "served-model-name": ["a/b.c", "http://c"]},
        {"compilation-config": {"cudagraph_mode": "FULL_AND_PIECEWISE", "pass_config": {"eliminate_noops": True}}},
        {"compilation-config": '{"mode": 3, "custom_ops": ["+rms_norm", "none"], "compile_sizes": [1, 2]}'},
        {"hf-overrides": {"text_config": {"rope_parameters": {"factor": 4.0, "mrope_section": [1, 2]}}}},
        {"limit-mm-per-prompt": {"image": 3, "video": {"count": 1, "num_frames": 8}}},
        {"override-generation-config": {"temperature": 0.6}, "default-chat-template-kwargs": {"enable_thinking": True}},
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3, "moe_backend": "triton"}},
    ],
)
def test_plain_options(options: dict[str, t.Any]) -> None:
    assert kinds(VLLM, options) == {}


@pytest.mark.parametrize("value", [["a", "--middleware=evil.C"], "-cc.backend=evil.C"])
def test_a_value_cannot_add_an_option(value: t.Any) -> None:
    """The engine reads its file as a command line, in which words that begin with a dash are options."""
    assert kinds(VLLM, {"served-model-name": value}) == {"served-model-name": CODE}
    assert "dash" in errors(VLLM, {"served-model-name": value})["served-model-name"]


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("DGX_SPARK_OPTIONS", f"{PLACE}/o.yml", CODE),
        ("PYTHONPATH", PLACE, CODE),
        ("LD_PRELOAD", f"{PLACE}/a.so", CODE),
        ("LD_AUDIT", f"{PLACE}/a.so", CODE),
        ("PATH", PLACE, CODE),
        ("BASH_ENV", "`id`", CODE),
        ("VLLM_LOGGING_CONFIG_PATH", f"{PLACE}/log.json", CODE),
        ("VLLM_ALLOW_INSECURE_SERIALIZATION", "1", CODE),
        ("VLLM_NCCL_SO_PATH", f"{PLACE}/a.so", CODE),
        ("VLLM_PLUGINS", "evil", CODE),
        ("TORCHINDUCTOR_CACHE_DIR", PLACE, CODE),
        ("TRITON_PTXAS_PATH", f"{PLACE}/a", CODE),
        ("FLASHINFER_WORKSPACE_BASE", PLACE, CODE),
        ("NCCL_NET_PLUGIN", "evil", CODE),
        ("NCCL_CONF_FILE", "/a", FILE),
        ("VLLM_CACHE_ROOT", PLACE, FILE),
        ("VLLM_MODEL_REDIRECT_PATH", f"{PLACE}/a", OTHER_MODEL),
        ("VLLM_SERVER_DEV_MODE", "1", NETWORK),
        ("HF_HUB_OFFLINE", "0", NETWORK),
        ("HF_TOKEN", "hf_x", NETWORK),
        ("HTTPS_PROXY", "evil", NETWORK),
        ("NCCL_SOCKET_IFNAME", "eth0", NETWORK),
        ("UNHEARD", "1", UNKNOWN),
        ("OMP_NUM_THREADS", "many", UNKNOWN),
        ("NCCL_PROTO", PLACE, NETWORK),
        ("CUTE_DSL_ARCH", PLACE, FILE),
        # The launcher decides it.
        ("VLLM_NO_USAGE_STATS", "0", NETWORK),
        # FlashInfer has it in a command of a shell, without quotes.
        ("FLASHINFER_CUDA_ARCH_LIST", "12.0;env|sh;x", UNKNOWN),
        ("FLASHINFER_CUDA_ARCH_LIST", "12.1a 12.0f", UNKNOWN),
    ],
)
def test_a_variable_with_an_effect(name: str, value: str, kind: str) -> None:
    effect = variable_effect(VLLM.effects(), name, value)
    assert effect is not None
    assert (effect.path, effect.kind) == (f"environment.{name}", kind)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IGNORE_CPU_AFFINITY", "1"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_CUMEM_ENABLE", "0"),
        ("NCCL_MAX_NCHANNELS", "8"),
        ("HF_HUB_OFFLINE", "1"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:512"),
        ("TORCH_CUDA_ARCH_LIST", "12.1a"),
        ("CUTE_DSL_ARCH", "sm_121a"),
        ("FLASHINFER_CUDA_ARCH_LIST", "12.1a"),
        ("FLASHINFER_CUDA_ARCH_LIST", 12.0),
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", 1),
        ("VLLM_NO_USAGE_STATS", 1),
        ("VLLM_FLOAT32_MATMUL_PRECISION", "high"),
        ("VLLM_USE_B12X_MOE", "1"),
    ],
)
def test_a_variable_that_tunes(name: str, value: t.Any) -> None:
    assert variable_effect(VLLM.effects(), name, value) is None


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"custom_module_dirs": ["/a"]}, {"custom_module_dirs": CODE}),
        ({"env_overrides": {"LD_PRELOAD": "/a.so"}}, {"env_overrides": CODE}),
        ({"custom_tokenizer": CLASS}, {"custom_tokenizer": CODE}),
        ({"checkpoint_format": "evil"}, {"checkpoint_format": CODE}),
        (
            {"kv_connector_config": {"connector_module": "evil", "connector_worker_class": "C"}},
            {"kv_connector_config.connector_module": CODE, "kv_connector_config.connector_worker_class": CODE},
        ),
        ({"moe_config": {"load_balancer": "/a.yml", "backend": "CUTLASS"}}, {"moe_config.load_balancer": FILE}),
        ({"otlp_traces_endpoint": "http://a"}, {"otlp_traces_endpoint": NETWORK}),
        ({"model": "a/b", "tokenizer": "a/b"}, {"model": OTHER_MODEL, "tokenizer": OTHER_MODEL}),
        ({"revision": "main"}, {"revision": OTHER_MODEL}),
        ({"model_kwargs": {"unheard": 1}}, {"model_kwargs.unheard": UNKNOWN}),
        # Its file is no command line.
        ({"dtype": "-a"}, {}),
        ({"kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.8}, "max_batch_size": 4}, {}),
        ({"speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": 3}, "dtype": "auto"}, {}),
        ({"cuda_graph_config": {"batch_sizes": [1, 2], "enable_padding": True}, "trust_remote_code": False}, {}),
    ],
)
def test_options_of_tensorrt_llm(options: dict[str, t.Any], found: dict[str, str]) -> None:
    assert kinds(TENSORRT_LLM, options) == found


IMAGES = {"vllm": "vllm/vllm-openai:v0.32.0", "tensorrt_llm": "release:1.3.0rc12"}
PINNED = {"target_model": "a/target", "revisions": {"a/target": "b" * 40}}


def built(engine: Engine, options: dict[str, t.Any], **request: t.Any) -> Built:
    return build(engine, Request(IMAGES[engine.name], options=options, **{**PINNED, **request}))


def errors(engine: Engine, options: dict[str, t.Any], **request: t.Any) -> dict[str, str]:
    return {error.path: error.message for error in built(engine, options, **request).errors}


def test_what_a_user_wrote_is_named_and_served() -> None:
    """The rules have their own word about an option that is not known here."""
    options = {"middleware": [CLASS], "allowed-local-media-path": "/srv/media", "hf-overrides": {"unheard": 1}}
    made = built(VLLM, options, environment={"PYTHONPATH": "/a", "UNHEARD": "1", "OMP_NUM_THREADS": "4"})
    assert made.errors == []
    assert [warning.path for warning in made.warnings] == [*list(options)[:2], "environment.PYTHONPATH"]
    assert "middleware: runs the code that it names with each request" in map(str, made.warnings)


@pytest.mark.parametrize(
    ("engine", "options", "environment", "path"),
    [
        (VLLM, {"code-revision": "main"}, {}, "code-revision"),
        (VLLM, {"hf-config-path": "evil/r"}, {}, "hf-config-path"),
        (VLLM, {"hf-overrides": {"auto_map": {"AutoConfig": "e/r--c.C"}}}, {}, "hf-overrides.auto_map"),
        (
            VLLM,
            {"hf-overrides": {"vision_config": {"auto_map": {"AutoModel": "e/r--c.C"}}}},
            {},
            "hf-overrides.vision_config.auto_map",
        ),
        (
            VLLM,
            {"speculative-config": {"method": "mtp", "num_speculative_tokens": 1, "code_revision": "main"}},
            {},
            "speculative-config.code_revision",
        ),
        (VLLM, {}, {"HF_HUB_OFFLINE": "0"}, "environment.HF_HUB_OFFLINE"),
        (TENSORRT_LLM, {"tokenizer": "evil/r"}, {}, "tokenizer"),
        (TENSORRT_LLM, {}, {"TRANSFORMERS_OFFLINE": "0"}, "environment.TRANSFORMERS_OFFLINE"),
    ],
)
def test_nothing_undoes_the_commit_of_remote_code(
    engine: Engine, options: dict[str, t.Any], environment: dict[str, str], path: str
) -> None:
    alone = errors(engine, options, environment=environment)
    beside = errors(engine, {**options, engine.remote_code: True}, environment=environment)
    assert (path in alone, path in beside) == (False, True)
    assert "other Python than that of the commit" in beside[path]


DRAFTS: dict[str, dict[str, t.Any]] = {
    "vllm": {"speculative-config": {"method": "eagle3", "model": "evil/d", "num_speculative_tokens": 1}},
    "tensorrt_llm": {
        "speculative_config": {"decoding_type": "Eagle3", "speculative_model": "evil/d", "max_draft_len": 1}
    },
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_remote_code_of_a_draft_model_in_the_options_needs_its_commit(engine: Engine) -> None:
    options = {**DRAFTS[engine.name], engine.remote_code: True}
    assert engine.remote_code not in errors(engine, DRAFTS[engine.name])
    assert "would run Python from evil/d, of which no commit" in errors(engine, options)[engine.remote_code]
    named = {"draft_model": "evil/d", "revisions": {"a/target": "b" * 40, "evil/d": "c" * 40}}
    assert engine.remote_code not in errors(engine, options, **named)
    # The code of a directory has no commit at all.
    (section,) = DRAFTS[engine.name].values()
    directory = {key: "/cache/d" if value == "evil/d" else value for key, value in section.items()}
    options = {engine.speculation: directory, engine.remote_code: True}
    assert "from the directory /cache/d" in errors(engine, options)[engine.remote_code]


def test_the_offline_mode_itself_stays_beside_remote_code() -> None:
    assert errors(VLLM, {"trust-remote-code": True}, environment={"HF_HUB_OFFLINE": "1"}) == {}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_recipes_are_plain(path: Path) -> None:
    recipe = load(path)
    for one in (recipe, *recipe["variants"].values()):
        known = engine_of(recipe).effects()
        variables = [variable_effect(known, *variable) for variable in (one.get("environment") or {}).items()]
        assert [*option_effects(known, one.get("options") or {}), *filter(None, variables)] == []


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_rows_are_of_options_that_there_are(engine: Engine) -> None:
    """The others are keys that no class has, and options of later releases and of builds for a Spark."""
    others = {
        *("mxfp4-backend", "mxfp4-layers", "speculative-config.trust_remote_code"),
        *("custom_module_dirs", "hf_revision", "lora_config.lora_dir", "speculative_config.draft_model"),
        *("speculative_config.speculative_model_dir",),
    }

    def is_there(path: str) -> bool:
        shape: t.Any = engine.effects().shapes
        for part in path.split("."):
            if not isinstance(shape, dict):
                # The keys of a free mapping, but no keys of a single value.
                return shape == "other"
            shape = next(iter(shape.values())) if part == "*" else shape.get(part, shape.get("*"))
        return shape is not None

    rows = engine.effects().options
    unknown = {path for path in (*rows.plain, *rows.effects) if not is_there(path)}
    assert unknown <= others
    assert engine.effects().unpins <= {
        *rows.effects,
        *(f"environment.{name}" for name in engine.effects().variables.effects),
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"plain": {"a": "unheard"}}, "a has no shape, but 'unheard'"),
        ({"code": {"a": "runs"}, "file": {"a": "reads"}}, "a has two effects"),
        ({"virus": {}}, "virus is not known"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, data: dict[str, t.Any], message: str) -> None:
    path = tmp_path / "effects.yml"
    path.write_text(yaml.safe_dump({"variables": {}, **data}), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_effects(path, {})


def test_a_deep_value_has_an_end() -> None:
    assert kinds(VLLM, {"hf-overrides": "{" * 5000}) == {"hf-overrides": UNKNOWN}
    assert effects.as_mapping("{no") == "{no"


def test_a_long_value_takes_no_longer_than_it_is() -> None:
    """Both took 39 s as they were: each beginning of what is almost a class was tried with each end."""
    started = time.monotonic()
    assert kinds(VLLM, {"tokenizer-mode": "a." * 15_000 + "a"}) == {"tokenizer-mode": CODE}
    assert kinds(VLLM, {"tokenizer-mode": "a." * 15_000 + "!"}) == {}
    assert time.monotonic() - started < 5


def test_a_long_list_takes_one_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, paths = {"compilation-config": {"compile_sizes": [*range(9000), [1, "evil.Class"]]}}, list[str]()
    find = effects.Rows.find

    def counted(rows: effects.Rows, path: str) -> t.Any:
        paths.append(path)
        return find(rows, path)

    monkeypatch.setattr(effects.Rows, "find", counted)
    assert kinds(VLLM, sizes) == {"compilation-config.compile_sizes": CODE}
    assert paths == ["compilation-config", "compilation-config.compile_sizes"]


@pytest.mark.parametrize(
    ("shapes", "one"),
    [
        ([["b", "A"], ["a", "b"]], ["A", "a", "b"]),
        (["int", "switch"], "number"),
        (["int", ["a"]], "other"),
        ([["a"], "text"], "other"),
        (["other", {"key": "int"}, {"key": "int", "more": ["a"]}], {"key": "int", "more": ["a"]}),
        ([{"key": ["b"]}, {"key": ["a"]}, "other"], {"key": ["a", "b"]}),
        ([], None),
    ],
)
def test_the_shape_of_an_option_holds_for_each_release(shapes: list[t.Any], one: t.Any) -> None:
    assert joined(shapes) == one
