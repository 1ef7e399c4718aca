# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The models' pages are given back around a start, by what the kernel keeps of them, and the KV cache is heard."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import render
from server import loading
from server.engines.tensorrt_llm import TENSORRT_LLM
from server.engines.vllm import VLLM

from tests.twin.spark.meminfo import resident_bytes
from tests.unit.entrypoint_container import Container

SIZE = 1_000_000
# From the real server, in its order: an estimate, and then the cache itself.
ESTIMATE = b"[TRT-LLM] [I] [MemUsageChange] Allocated 0.19 GiB for max tokens in paged KV cache (4128).\n"
CUT = b"[TRT-LLM] [W] Attention window size 131087 exceeds upper bound 17792 for available blocks. Reducing to 17792\n"
ESTIMATED = (
    b"[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 91.46 GiB, available KV cache "
    b"memory when calculating max tokens: 1.25 GiB, fraction is set 0.9, kv size is 75264\n"
)
HEAD = b"[TRT-LLM] [I] [MemUsageChange] Allocated 0.13 GiB for max tokens in paged KV cache (131168).\n"
MADE = b"[TRT-LLM] [I] [MemUsageChange] Allocated 1.25 GiB for max tokens in paged KV cache (17792).\n"
OPTIONS = {
    "max_batch_size": 1,
    "kv_cache_config": {"free_gpu_memory_fraction": 0.9, "max_attention_window": [128], "max_tokens": 131_168},
    "speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/draft"},
}


def cached(file: Path) -> bool:
    return resident_bytes(file) > 0


def read(file: Path) -> None:
    file.read_bytes()
    assert cached(file)


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A shard of a snapshot, which is a link, one of a draft in a directory, and one of a model that is not served."""
    made = {}
    for name in ("target", "draft", "other"):
        blob = tmp_path / "blobs" / name
        shard = tmp_path / name / "model.safetensors"
        for path in (blob, shard):
            path.parent.mkdir(exist_ok=True)
        blob.write_bytes(os.urandom(SIZE))
        with blob.open("rb") as file:
            os.fsync(file.fileno())
        shard.symlink_to(blob)
        made[name] = blob
    monkeypatch.setenv("DGX_SPARK_TARGET", str(tmp_path / "target"))
    monkeypatch.setenv("DGX_SPARK_DRAFT", str(tmp_path / "draft"))
    return made


@pytest.fixture
def meminfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[int], None]:
    path = tmp_path / "meminfo"
    monkeypatch.setattr(loading, "MEMINFO", path)

    def write(free: int) -> None:
        path.write_text(f"MemTotal: 125509400 kB\nMemFree: {free // 1024} kB\n", encoding="ascii")

    return write


def test_only_what_is_served_is_given_back(shards: dict[str, Path]) -> None:
    for shard in shards.values():
        read(shard)
    loading.PageCache().give_back()
    assert [name for name, shard in shards.items() if cached(shard)] == ["other"]


def test_nothing_is_given_back_without_models(monkeypatch: pytest.MonkeyPatch, shards: dict[str, Path]) -> None:
    monkeypatch.setenv("DGX_SPARK_TARGET", "/nowhere")
    monkeypatch.delenv("DGX_SPARK_DRAFT")
    read(shards["target"])
    loading.PageCache().give_back()
    assert cached(shards["target"])


@pytest.mark.parametrize(("free", "kept"), [(20 * 2**30, True), (7 * 2**30, False)])
def test_while_it_reads_pages_stay_unless_memory_is_short(
    shards: dict[str, Path], meminfo: t.Callable[[int], None], tmp_path: Path, free: int, kept: bool
) -> None:
    meminfo(free)
    server = loading.Loading(tmp_path / "options.yml", TENSORRT_LLM)
    read(shards["target"])
    server.hear(b"Loading safetensors weights in parallel:  20%|##        | 1/5\r")
    server.look()
    assert cached(shards["target"]) is kept


@pytest.mark.parametrize(
    "said", [b"\rLoading weights: 100%|##########| 1185/1185\n", b"[TRT-LLM] [I] Model init total -- 94.54s\n"]
)
def test_what_has_been_read_is_given_back_at_once_and_again(
    shards: dict[str, Path], meminfo: t.Callable[[int], None], tmp_path: Path, said: bytes
) -> None:
    meminfo(20 * 2**30)
    server = loading.Loading(tmp_path / "options.yml", TENSORRT_LLM)
    server.look()
    read(shards["draft"])
    # In pieces, as a pipe has them.
    server.hear(said[:20])
    server.look()
    assert cached(shards["draft"])
    server.hear(said[20:])
    server.look()
    assert not cached(shards["draft"])
    read(shards["draft"])
    server.pages.look_at = 0.0
    server.look()
    assert not cached(shards["draft"])


def test_an_unreadable_meminfo_is_no_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MEMINFO", Path("/nowhere"))
    assert not loading.memory_is_short()


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        (b"", None),
        (ESTIMATE, 4128),
        (ESTIMATE + CUT + MADE, 17_792),
        # Target and drafts in one engine have a cache each.
        (ESTIMATE * 2 + ESTIMATED + CUT + MADE + HEAD, 17_792),
        (ESTIMATE * 2 + ESTIMATED + HEAD + CUT + MADE, 17_792),
        # Of two ranks, one says later how its estimate ended.
        (ESTIMATE + ESTIMATED + ESTIMATE + ESTIMATED + MADE + HEAD, 17_792),
        # A release that makes its cache another way.
        (CUT, 17_792),
    ],
)
def test_the_last_word_on_the_kv_cache_counts(tmp_path: Path, said: bytes, tokens: int | None) -> None:
    (tmp_path / "options.yml").write_text(render(OPTIONS), encoding="utf-8")
    server = loading.Loading(tmp_path / "options.yml", TENSORRT_LLM)
    for number in range(0, len(said), 7):
        server.hear(said[number : number + 7])
    assert server.kv_cache() == {"tokens": tokens, "planned": 131_168}


@pytest.mark.parametrize(
    "options", [{}, {"max_tokens": 5}, {"kv_cache_config": {"dtype": "fp8"}, "b": {"max_tokens": 5}}]
)
def test_without_a_plan_nothing_was_planned(tmp_path: Path, options: dict[str, t.Any]) -> None:
    (tmp_path / "options.yml").write_text(render(options), encoding="utf-8")
    assert loading.Loading(tmp_path / "options.yml", TENSORRT_LLM).kv_cache() == {"tokens": None, "planned": None}


def test_the_kv_cache_of_vllm(tmp_path: Path) -> None:
    (tmp_path / "options.yml").write_text("max-model-len: 2048\nmax-num-seqs: 4\n", encoding="utf-8")
    server = loading.Loading(tmp_path / "options.yml", VLLM)
    assert server.kv_cache() == {"tokens": None, "planned": 8192}
    server.hear(b"(EngineCore pid=99) INFO 11-28 04:15:20 [kv_cache_utils.py:2328] CPU KV cache size: 5,824 tok")
    server.hear(b"ens, Maximum concurrency for 2,048 tokens per request: 2.84x\n")
    assert server.kv_cache() == {"tokens": 5824, "planned": 8192}


def test_options_without_sizes_plan_no_kv_cache(tmp_path: Path) -> None:
    (tmp_path / "options.yml").write_text("max-model-len: 2048\n", encoding="utf-8")
    assert loading.Loading(tmp_path / "options.yml", VLLM).kv_cache()["planned"] is None


def test_a_start_gives_back_and_notes_the_kv_cache(shards: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "options.yml").write_text(render(OPTIONS), encoding="utf-8")
    read(shards["target"])
    said = (ESTIMATE + CUT + MADE).decode()
    container = Container(tmp_path, f"cat <<'END'\n{said}END\nexec sleep 60")
    try:
        state = container.wait_until(lambda state: (state.get("kv_cache") or {}).get("tokens") == 17_792)
        assert (state["state"], state["kv_cache"]) == ("loading", {"tokens": 17_792, "planned": 131_168})
        assert not cached(shards["target"])
    finally:
        container.end()
