# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in refuses before it serves anything, and the files of the twin's Hub."""

from __future__ import annotations

import hashlib
import json
import typing as t
from pathlib import Path

import pytest

from tests.twin import models
from tests.twin.trtllm.server import checkpoint, machine

pydantic = pytest.importorskip("pydantic")
from tests.twin.trtllm.server.options import TorchLlmArgs  # noqa: E402

EAGLE3 = {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/draft"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hub")
    models.write_models(directory)
    return directory


def test_repositories_are_described(hub: Path) -> None:
    draft = json.loads((hub / f"{models.DRAFT}.json").read_text())
    assert draft == {
        "id": models.DRAFT,
        "sha": models.DRAFT_COMMIT,
        "lfs": ["*.safetensors"],
        "refs": {"main": models.DRAFT_COMMIT},
    }
    target = json.loads((hub / f"{models.TARGET}.json").read_text())
    assert len(target["sha"]) == 40
    assert target["refs"] == {"main": target["sha"]}


def test_content_is_the_same_every_time(hub: Path, tmp_path: Path) -> None:
    def digests(directory: Path) -> dict[str, str]:
        files = (path for path in directory.rglob("*") if path.is_file())
        return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    models.write_models(tmp_path)
    assert digests(tmp_path) == digests(hub)


def test_checkpoints_belong_together(hub: Path) -> None:
    target = checkpoint.inspect(hub / models.TARGET)
    draft = checkpoint.inspect(hub / models.DRAFT)
    assert len(target.shards) == 5
    for shard in target.shards:
        assert checkpoint.read_shard(target, shard)
    checkpoint.read_shard(draft, draft.shards[0])
    checkpoint.check_tokenizer(target.directory)
    checkpoint.check_draft(target, draft, eagle=True)
    assert target.size * models.weight_scale() == pytest.approx(models.TARGET_REAL_BYTES)
    assert draft.size * models.draft_weight_scale() == pytest.approx(models.DRAFT_REAL_BYTES)
    assert checkpoint.kv_bytes_per_token(target.config) == 73728


def test_the_target_is_no_draft_of_itself(hub: Path) -> None:
    target = checkpoint.inspect(hub / models.TARGET)
    with pytest.raises(ValueError, match="is no EAGLE-3 head: its architecture is GptOssForCausalLM"):
        checkpoint.check_draft(target, target, eagle=True)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (4, "Error while deserializing header: header too small"),
        (100, "Error while deserializing header: invalid header length"),
        (700_000, "Error while deserializing header: incomplete metadata, file not fully covered"),
    ],
)
def test_truncated_shards_are_refused(hub: Path, tmp_path: Path, keep: int, message: str) -> None:
    source = checkpoint.inspect(hub / models.TARGET).shards[0]
    shard = tmp_path / "model.safetensors"
    shard.write_bytes(source.read_bytes()[:keep])
    with pytest.raises(checkpoint.SafetensorError) as failure:
        checkpoint.read_header(shard)
    assert str(failure.value) == message


@pytest.mark.parametrize("content", [None, b"other"])
def test_vocabularies_are_checked(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "o200k_base.tiktoken").write_bytes(content)
    with pytest.raises(checkpoint.HarmonyError, match="error downloading or loading vocab file"):
        checkpoint.check_vocabularies({"TIKTOKEN_ENCODINGS_BASE": str(tmp_path)})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"speculative_config": EAGLE3, "kv_cache_config": {"enable_block_reuse": False}},
        {"speculative_config": {"decoding_type": "Eagle", "max_draft_len": 1, "speculative_model_dir": "/draft"}},
        {"speculative_config": {"decoding_type": "Draft_Target", "max_draft_len": 4, "speculative_model": "/draft"}},
        {"speculative_config": {**EAGLE3, "max_concurrency": 4}},
        {"moe_config": {"backend": "CUTLASS"}, "cuda_graph_config": None},
    ],
)
def test_options_that_are_accepted(options: dict[str, t.Any]) -> None:
    args = TorchLlmArgs(model="m", **options)
    if args.speculative_config is not None:
        assert args.speculative_config.decoding_type in ("Eagle3", "Draft_Target")


@pytest.mark.parametrize(
    ("options", "where", "message"),
    [
        ({"use_torch_sampler": True}, "use_torch_sampler", "Extra inputs are not permitted"),
        ({"speculative_config": {**EAGLE3, "k": 1}}, "speculative_config.Eagle3.k", "Extra inputs are not permitted"),
        ({"speculative_config": {"max_draft_len": 1}}, "speculative_config", "Unable to extract tag"),
        (
            {"speculative_config": {**EAGLE3, "decoding_type": "DraftTarget"}},
            "speculative_config",
            "Input tag 'DraftTarget' found using 'decoding_type' does not match any of the expected tags",
        ),
        (
            {"speculative_config": {**EAGLE3, "max_draft_len": 0}},
            "speculative_config.Eagle3",
            "max_draft_len must be > 0 for Eagle",
        ),
        (
            {"speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 5}},
            "speculative_config.Eagle3",
            "Draft model must be provided for EAGLE",
        ),
        (
            {"speculative_config": {"decoding_type": "Draft_Target", "max_draft_len": 5}},
            "speculative_config.Draft_Target",
            "speculative_model must be specified for DraftTarget",
        ),
        (
            {"speculative_config": {**EAGLE3, "max_concurrency": 1, "draft_len_schedule": {1: 5}}},
            "speculative_config.Eagle3",
            "max_concurrency and draft_len_schedule are mutually exclusive",
        ),
        (
            {"speculative_config": {**EAGLE3, "decoding_type": "Eagle", "max_concurrency": 1}},
            "",
            "max_concurrency and draft_len_schedule are mutually exclusive",
        ),
        ({"speculative_config": {"decoding_type": "Medusa"}}, "", "does not support backend pytorch"),
        (
            {"kv_cache_config": {"free_gpu_memory_fraction": 1.1}},
            "kv_cache_config.free_gpu_memory_fraction",
            "less than or equal to 1",
        ),
        (
            {"cuda_graph_config": {"batch_sizes": [1, 2], "max_batch_size": 4}},
            "cuda_graph_config",
            "Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size",
        ),
        ({"moe_config": {"backend": "MARLIN"}}, "moe_config.backend", "Input should be"),
        ({"load_format": "npz"}, "load_format", "Invalid LoadFormat: npz"),
    ],
)
def test_options_that_are_refused(options: dict[str, t.Any], where: str, message: str) -> None:
    with pytest.raises(pydantic.ValidationError) as failure:
        TorchLlmArgs(model="m", **options)
    problem = failure.value.errors()[0]
    assert ".".join(map(str, problem["loc"])) == where
    assert message in problem["msg"]


def test_the_simulated_gpu_comes_from_the_twin_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text('{"memory_bytes": 1e9, "pass_ms": 5, "other": true}')
    gpu = machine.read_gpu(tmp_path, {"STANDIN_PASS_MS": "7"})
    assert (gpu.memory_bytes, gpu.pass_ms, gpu.draft_ms) == (1e9, 7.0, 1.5)


def test_faults_come_from_the_twin(tmp_path: Path) -> None:
    assert machine.read_faults(tmp_path) == machine.Faults()
    (tmp_path / "engine.json").write_text('{"nonsense": true}')
    assert machine.read_faults(tmp_path) == machine.Faults(nonsense=True)


def test_no_gpu_without_a_driver(tmp_path: Path) -> None:
    assert machine.count_gpus(tmp_path / "nvidia-smi") == 0
