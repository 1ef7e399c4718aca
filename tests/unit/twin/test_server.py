# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in refuses before it serves anything, and the files of the twin's Hub."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import pytest

from tests.twin import models
from tests.twin.trtllm.server import checkpoint, machine

pydantic = pytest.importorskip("pydantic")
from tests.twin.trtllm.server import options_1_2  # noqa: E402
from tests.twin.trtllm.server.options import TorchLlmArgs  # noqa: E402

NGRAM = {"decoding_type": "NGram", "max_draft_len": 5, "max_matching_ngram_size": 2}
MTP = {"decoding_type": "MTP", "num_nextn_predict_layers": 3}
EAGLE3 = {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/draft"}


def test_target_and_draft_of_one_family_share_the_vocabulary(hub: Path) -> None:
    target, draft = (checkpoint.inspect(hub / name) for name in (models.LLAMA_TARGET, models.LLAMA_DRAFT))
    checkpoint.check_draft(target, draft, eagle=False)
    with pytest.raises(ValueError, match=r"vocab_size of the draft model \(128256\)"):
        checkpoint.check_draft(checkpoint.inspect(hub / models.TARGET), draft, eagle=False)


@pytest.mark.parametrize(("name", "accepted"), [(models.TARGET, False), ("nemotron_h", True)])
def test_mtp_needs_a_target_with_prediction_layers(hub: Path, name: str, accepted: bool) -> None:
    target = checkpoint.inspect(hub / models.TARGET)
    if accepted:
        target.config["model_type"] = name
        checkpoint.check_prediction_layers(target)
        return
    with pytest.raises(ValueError, match="Model type gpt_oss not supported for MTP"):
        checkpoint.check_prediction_layers(target)


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
        *(
            ({"speculative_config": {**section, **wrong}}, f"speculative_config.{section['decoding_type']}{where}", why)
            for section, wrong, where, why in (
                (MTP, {"num_nextn_predict_layers": 0}, ".num_nextn_predict_layers", "greater than 0"),
                (MTP, {"num_nextn_predict_layers": None}, ".num_nextn_predict_layers", "valid integer"),
                (MTP, {"max_matching_ngram_size": 2}, ".max_matching_ngram_size", "Extra inputs are not permitted"),
                (NGRAM, {"num_nextn_predict_layers": 3}, ".num_nextn_predict_layers", "Extra inputs are not permitted"),
                (NGRAM, {"max_matching_ngram_size": 0}, ".max_matching_ngram_size", "greater than 0"),
                (NGRAM, {"max_draft_len": 0}, "", "max_draft_len must be > 0 for NGram"),
            )
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


class Refusal(t.NamedTuple):
    kind: str
    message: str


PROGRAM = """
import json, sys
from tensorrt_llm.llmapi.llm_args import *

def refusal(options):
    section = options.get("speculative_config")
    try:
        if section and hasattr(DecodingBaseConfig, "from_dict"):
            options["speculative_config"] = DecodingBaseConfig.from_dict(section)
        TorchLlmArgs(model="m", **options)
    except Exception as failure:
        return [type(failure).__name__, str(failure)]

print(json.dumps([refusal(options) for options in json.loads(sys.argv[1])]))
"""


@functools.cache
def verdicts(release_: str) -> list[Refusal | None]:
    """What an image of this release says of all its options below, by the names that the real package has."""
    server = Path(machine.__file__).parent
    options = [case[1] for case in (*ACCEPTED, *REFUSED) if case[0] == release_]
    with tempfile.TemporaryDirectory() as place:
        Path(place, "standin").symlink_to(server)
        Path(place, "tensorrt_llm").symlink_to(server.parent / "tensorrt_llm")
        environment = {"TRT_LLM_VERSION": release_, "PYTHONPATH": place, "PYTHONDONTWRITEBYTECODE": "1"}
        program = [sys.executable, "-c", PROGRAM, json.dumps(options)]
        answer = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    said = json.loads(answer.stdout.strip().splitlines()[-1])
    return [Refusal(*refusal) if refusal else None for refusal in said]


def verdict(release_: str, options: dict[str, t.Any]) -> Refusal | None:
    own = [case[1] for case in (*ACCEPTED, *REFUSED) if case[0] == release_]
    return verdicts(release_)[own.index(options)]


EAGLE = {"decoding_type": "Eagle", "max_draft_len": 5, "speculative_model_dir": "/draft"}


ACCEPTED: list[tuple[str, dict[str, t.Any]]] = [
    ("1.2.0rc1", {"speculative_config": EAGLE, "kv_cache_config": {"free_gpu_memory_fraction": 0.9}}),
    ("1.2.0rc1", {"build_config": None, "fail_fast_on_attention_window_too_large": True}),
    ("1.1.0rc5", {"speculative_config": {**EAGLE, "decoding_type": "DraftTarget"}}),
    ("1.2.0rc6", {"speculative_config": {**NGRAM, "draft_len_schedule": {1: 5, 8: 2}}}),
    ("1.2.0rc6", {"nvfp4_gemm_config": {"allowed_backends": ["cutlass"]}, "moe_config": {"backend": "CUTLASS"}}),
    ("1.2.0rc6", {"cuda_graph_config": {"batch_sizes": [1, 2, 3], "max_batch_size": 3}}),
    ("1.3.0rc13", {"speculative_config": EAGLE, "moe_config": {"backend": "AUTO"}}),
    ("1.3.0rc13", {"speculative_config": {**EAGLE, "eagle3_one_model": False, "acceptance_window": 2}}),
    ("1.3.0rc13", {"speculative_config": {**MTP, "mtp_eagle_one_model": True, "allow_advanced_sampling": True}}),
    ("1.3.0rc29", {"speculative_config": {**MTP, "max_draft_len": 3, "relaxed_topk": 2}}),
    ("1.3.0rc29", {"speculative_config": {**EAGLE3, "acceptance_rate_window_size": 2}}),
    ("1.3.0rc29", {"kv_cache_config": {"max_gpu_total_bytes": 1, "use_kv_cache_manager_v2": "auto"}}),
]
REFUSED: list[tuple[str, dict[str, t.Any], str, str]] = [
    (
        "1.2.0rc1",
        {"speculative_config": {**EAGLE, "decoding_type": "Eagle3"}},
        "ValueError",
        "Invalid decoding type: Eagle3",
    ),
    ("1.2.0rc6", {"speculative_config": {"max_draft_len": 5}}, "ValueError", "Invalid decoding type: None"),
    *(
        ("1.3.0rc29", options, "ValidationError", "Extra inputs are not permitted")
        for options in (
            {"speculative_config": {**EAGLE3, "eagle3_one_model": True}},
            {"speculative_config": {**EAGLE3, "eagle_choices": [[0]]}},
            {"speculative_config": {**MTP, "mtp_eagle_one_model": True}},
            {"kv_cache_config": {"onboard_blocks": True}},
        )
    ),
    (
        "1.2.0rc6",
        {"speculative_config": {**EAGLE, "speculative_model": "/draft"}},
        "ValueError",
        '"EagleDecodingConfig" object has no field "speculative_model"',
    ),
    (
        "1.2.0rc6",
        {"speculative_config": {"decoding_type": "Eagle", "speculative_model_dir": "/draft"}},
        "ValueError",
        "max_draft_len is required for Eagle",
    ),
    # Not refused by its type, and not before something compares it with a number.
    ("1.2.0rc6", {"speculative_config": {**EAGLE, "max_draft_len": "5"}}, "TypeError", "'>' not supported"),
    (
        "1.2.0rc6",
        {"speculative_config": {"decoding_type": "Eagle", "max_draft_len": 5}},
        "ValidationError",
        "Path to EAGLE3 weights must be specified.",
    ),
    (
        "1.2.0rc6",
        {"speculative_config": {"decoding_type": "DraftTarget", "max_draft_len": 5}},
        "ValidationError",
        "Path to draft model must be specified.",
    ),
    ("1.2.0rc6", {"speculative_config": {**NGRAM, "k": 1}}, "ValidationError", "Extra inputs are not permitted"),
    (
        "1.2.0rc1",
        {"speculative_config": {**NGRAM, "draft_len_schedule": {1: 5}}},
        "ValidationError",
        "Extra inputs are not permitted",
    ),
    (
        "1.2.0rc6",
        {"speculative_config": {"decoding_type": "Medusa"}},
        "ValidationError",
        "does not support backend pytorch",
    ),
    ("1.2.0rc1", {"nvfp4_gemm_config": {}}, "ValidationError", "Extra inputs are not permitted"),
    ("1.2.0rc6", {"moe_config": {"backend": "AUTO"}}, "ValidationError", "Input should be 'CUTLASS'"),
    ("1.2.0rc6", {"scheduler_config": {"dynamic_batch_config": {}}}, "ValidationError", "Field required"),
    (
        "1.2.0rc6",
        {"cuda_graph_config": {"batch_sizes": [1, 2], "max_batch_size": 4}},
        "ValidationError",
        "Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size.",
    ),
]


@pytest.mark.parametrize(("release_", "options"), ACCEPTED)
def test_options_that_a_release_accepts(release_: str, options: dict[str, t.Any]) -> None:
    assert verdict(release_, options) is None


@pytest.mark.parametrize(("release_", "options", "kind", "message"), REFUSED)
def test_options_that_a_release_refuses(release_: str, options: dict[str, t.Any], kind: str, message: str) -> None:
    refusal = verdict(release_, options)
    assert refusal is not None
    assert refusal.kind == kind
    assert message in refusal.message


def test_only_objects_are_sections_of_1_2() -> None:
    with pytest.raises(pydantic.ValidationError, match="should be an instance of a decoding config"):
        options_1_2.TorchLlmArgs(model="m", speculative_config=EAGLE)


@pytest.mark.parametrize(
    ("release_", "arguments", "words"),
    [
        ("1.3.0rc12", ["--help"], "--grpc"),
        ("1.3.0rc12", ["--no-telemetry", "m"], "No such option"),
        ("1.3.0rc29", ["--help"], "--telemetry / --no-telemetry"),
    ],
)
def test_only_newer_releases_know_telemetry(release_: str, arguments: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "standin").symlink_to(Path(machine.__file__).parent)
    environment = {"TRT_LLM_VERSION": release_, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    program = [sys.executable, "-m", "standin.cli", *arguments]
    answer = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    output = answer.stdout + answer.stderr
    assert words in output
    assert (release_ == "1.3.0rc29") == ("--telemetry" in output.replace("--no-telemetry", ""))


@pytest.mark.parametrize(
    ("release_", "variables", "reports"),
    [
        ("1.3.0rc29", {}, True),
        ("1.3.0rc29", {"TRTLLM_NO_USAGE_STATS": "1"}, False),
        ("1.3.0rc29", {"TRTLLM_NO_USAGE_STATS": "0"}, True),
        ("1.3.0rc12", {}, False),
    ],
)
def test_newer_releases_report_their_use_unless_they_are_told_not_to(
    release_: str, variables: dict[str, str], reports: bool, tmp_path: Path
) -> None:
    (tmp_path / "standin").symlink_to(Path(machine.__file__).parent)
    environment = {**variables, "TRT_LLM_VERSION": release_, "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, "-m", "standin.cli", "--config", "/nonexistent", "m"]
    answer = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert "FileNotFoundError" in answer.stderr
    assert reports == ("usage data would be sent" in answer.stdout + answer.stderr)
