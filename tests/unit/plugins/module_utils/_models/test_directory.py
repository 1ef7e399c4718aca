# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import os
import pwd
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.directory import (
    DirectoryError,
    ModelDirectory,
    header_problem,
    look_into,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 4976698672\n"


def tensors(size: int, name: str = "weight") -> bytes:
    """A file of safetensors with one tensor."""
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    ).encode()
    return len(header).to_bytes(8, "little") + header + b"\1" * size


def ends_at(end: str) -> bytes:
    """A file whose only tensor ends where no file does."""
    header = b'{"a": {"data_offsets": [0, %s]}}' % end.encode()
    return len(header).to_bytes(8, "little") + header


def write_model(directory: Path, config: dict[str, t.Any] | None = None, total_size: int = 200) -> Path:
    """A whole model in two shards."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config or {"architectures": ["SomeForCausalLM"]}))
    (directory / "tokenizer.json").write_text("{}")
    for shard in SHARDS:
        (directory / shard).write_bytes(tensors(100, shard))
    index = {"metadata": {"total_size": total_size}, "weight_map": {shard: shard for shard in SHARDS}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def problems(path: Path, is_draft: bool = False) -> list[str]:
    return ModelDirectory(path, is_draft).problems()


def problem(path: Path) -> str:
    (only,) = problems(path)
    return only


def test_a_whole_model(model: Path) -> None:
    assert problems(model) == []


def test_one_file_without_an_index(model: Path) -> None:
    for shard in SHARDS:
        (model / shard).unlink()
    (model / "model.safetensors.index.json").unlink()
    (model / "model.safetensors").write_bytes(tensors(10))
    assert problems(model) == []


def test_a_relative_path() -> None:
    with pytest.raises(DirectoryError, match="models/x is no absolute path"):
        look_into(Path("models/x"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "There is no directory"),
        ("model/config.json", "is a file"),
        ("a\0b", "cannot be looked at"),
        ("x" * 300, "cannot be looked at"),
    ],
)
def test_no_directory(model: Path, name: str, words: str) -> None:
    with pytest.raises(DirectoryError, match=words):
        look_into(model.parent / name)


@contextlib.contextmanager
def somebody() -> t.Iterator[str]:
    """Somebody whom a mode can keep out: root becomes nobody, anyone else is that already."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield pwd.getpwuid(os.geteuid()).pw_name
    finally:
        os.seteuid(user)


def test_what_is_closed_to_the_login_user() -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        model = write_model(top / "model")
        (model / SHARDS[0]).chmod(0)
        with somebody() as user:
            assert problem(model) == (
                f"{user} may not read {SHARDS[0]} in {model}: allow it with 'sudo chmod -R a+rX {model}', then "
                "run again"
            )
        model.chmod(0)
        try:
            with (
                somebody() as user,
                pytest.raises(DirectoryError, match=f"{user} may not look into {model}: allow it with 'sudo chmod"),
            ):
                look_into(model)
        finally:
            model.chmod(0o700)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\xff"])
def test_a_config_that_is_none(model: Path, text: str) -> None:
    (model / "config.json").write_bytes(text.encode("latin-1"))
    assert problem(model) == f"{model}/config.json is not a model's configuration in JSON: copy or download it again"


def test_the_directory_above_the_model(model: Path) -> None:
    assert (
        problem(model.parent)
        == f"{model.parent} has neither config.json nor weights and so is not a model's directory: give {model}"
    )


def test_a_directory_without_any_model(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    assert problem(tmp_path) == (
        f"{tmp_path} has neither config.json nor weights and so is not a model's directory: copy the whole model there"
    )


def test_weights_without_a_config(model: Path) -> None:
    (model / "config.json").unlink()
    assert problem(model) == (
        f"{model} has no config.json and so is not a model's directory: copy the whole model there"
    )


def test_a_directory_that_is_no_model_is_not_searched_to_the_bottom(model: Path) -> None:
    (model / "a" / "b").mkdir(parents=True)
    (model / "a" / "b" / "file").write_text("x")
    assert "a/b/file" in look_into(model).files
    assert f"model/{SHARDS[0]}" in look_into(model.parent).files
    assert "model/a/b/file" not in look_into(model.parent).files


@pytest.mark.parametrize("name", ["tokenizer.model", "o200k_base.tiktoken"])
def test_other_tokenizers(model: Path, name: str) -> None:
    (model / "tokenizer.json").rename(model / name)
    assert problems(model) == []


def test_a_draft_needs_no_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").unlink()
    assert problem(model) == (
        f"{model} has no tokenizer (tokenizer.json or tokenizer.model): copy the whole model there"
    )
    assert problems(model, is_draft=True) == []
    (model / "config.json").write_text('{"architectures": ["LlamaForCausalLMEagle3"]}')
    assert problems(model) == []


def test_a_shard_is_missing(model: Path) -> None:
    (model / SHARDS[1]).unlink()
    assert problem(model) == (
        f"{model}/model.safetensors.index.json names a file that is not there: {SHARDS[1]}. Copy or download it, then "
        "run again"
    )
    (model / "model.safetensors.index.json").unlink()
    assert problem(model) == (
        f"The names of the weights in {model} tell of a file that is not there: {SHARDS[1]}. Copy or download it, then "
        "run again"
    )


def test_shards_counted_from_zero(model: Path) -> None:
    (model / "model.safetensors.index.json").unlink()
    (model / SHARDS[1]).rename(model / "model-00000-of-00002.safetensors")
    assert problems(model) == []


def test_no_weights_at_all(model: Path) -> None:
    for shard in SHARDS:
        (model / shard).unlink()
    assert problem(model).startswith(
        f"{model}/model.safetensors.index.json names 2 files that are not there: {SHARDS[0]}"
    )
    (model / "model.safetensors.index.json").unlink()
    assert problem(model) == f"{model} has no weights (*.safetensors or *.bin): copy the whole model there"
    (model / "pytorch_model.bin").write_bytes(b"x")
    assert problems(model) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none(model: Path, text: str) -> None:
    (model / "model.safetensors.index.json").write_text(text)
    assert problem(model) == (
        f"{model}/model.safetensors.index.json is not an index of weights: copy or download it again"
    )


def test_an_index_that_leads_elsewhere(model: Path) -> None:
    (model.parent / "other.safetensors").write_bytes(tensors(1))
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../other.safetensors"}}')
    assert "names a file that is not there: ../other.safetensors" in problem(model)


def test_cut_off_weights(model: Path) -> None:
    data = tensors(5000)
    (model / SHARDS[0]).write_bytes(data[:-4000])
    (model / SHARDS[1]).write_bytes(data + b"x")
    assert problem(model) == (
        f"Weights in {model} are not whole: {SHARDS[0]} lacks 4 kB, {SHARDS[1]} is 1 bytes too long. Copy or download "
        "them again"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (tensors(10), ""),
        (tensors(10)[:20], "ends within its header"),
        (b"", "ends within its header"),
        (b"\0" * 100, "is not a file of safetensors"),
        (b"<html>" * 100, "is not a file of safetensors"),
        ((2).to_bytes(8, "little") + b"{}", ""),
        ((2).to_bytes(8, "little") + b"{]", "has a header that cannot be read"),
        ((8).to_bytes(8, "little") + b'{"a": 1}', "has a header that cannot be read"),
        *(
            (ends_at(end), "has a header that cannot be read")
            for end in ("NaN", "1e999", "1.5", "-1", "9" * 400, "true")
        ),
    ],
)
def test_header_problem(tmp_path: Path, data: bytes, expected: str) -> None:
    (tmp_path / "file").write_bytes(data)
    assert header_problem(tmp_path / "file") == expected


def test_git_lfs_pointers(model: Path) -> None:
    for name in (*SHARDS, "tokenizer.json"):
        (model / name).write_text(POINTER)
    assert problem(model) == (
        f"{SHARDS[0]}, {SHARDS[1]}, tokenizer.json in {model} are git-lfs pointers and not what git-lfs keeps for "
        f"them: fetch that with 'git -C {model} lfs pull' where the repository was cloned, then run again"
    )


class TestLinks:
    def test_inside(self, model: Path) -> None:
        (model / "parts").mkdir()
        (model / SHARDS[0]).rename(model / "parts" / "a")
        (model / SHARDS[0]).symlink_to("parts/a")
        (model / "same").symlink_to(".")
        assert problems(model) == []

    def test_the_directory_itself_may_be_one(self, model: Path) -> None:
        (model.parent / "current").symlink_to(model)
        assert problems(model.parent / "current") == []

    @pytest.mark.parametrize("absolute", [True, False])
    def test_outside(self, model: Path, absolute: bool) -> None:
        (model / SHARDS[0]).rename(model.parent / "elsewhere")
        target = str(model.parent / "elsewhere") if absolute else "../elsewhere"
        (model / SHARDS[0]).symlink_to(target)
        assert problem(model) == (
            f"In {model}, {SHARDS[0]} -> {target} would lead nowhere, since a server is given only this directory: "
            f"copy it with 'cp -rL {model} NEW' and give the directory NEW"
        )

    @pytest.mark.parametrize("target", ["../model/{}", "{directory}/{}"])
    def test_inside_but_only_under_this_path(self, model: Path, target: str) -> None:
        (model / SHARDS[0]).rename(model / "a")
        (model / SHARDS[0]).symlink_to(target.format("a", directory=model))
        assert "would lead nowhere" in problem(model)

    def test_a_directory_outside(self, model: Path) -> None:
        (model.parent / "elsewhere").mkdir()
        (model / "more").symlink_to("../elsewhere")
        assert "more -> ../elsewhere would lead nowhere" in problem(model)

    def test_without_a_target(self, model: Path) -> None:
        (model / SHARDS[0]).unlink()
        (model / SHARDS[0]).symlink_to("gone")
        found = problems(model)
        assert found[0] == (
            f"In {model}, {SHARDS[0]} -> gone could not be followed: copy the files themselves there, as 'cp -rL' does "
            "where they are"
        )
        assert len(found) == 2


class TestCache:
    """Somebody gives a part of the Hugging Face cache."""

    @pytest.fixture
    def snapshot(self, model: Path) -> Path:
        blobs = model.parent / "huggingface" / "hub" / "models--lab--some" / "blobs"
        blobs.parent.mkdir(parents=True)
        model.rename(blobs)
        snapshot = blobs.parent / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        for path in blobs.iterdir():
            (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
        return snapshot

    def test_a_snapshot_of_links(self, snapshot: Path) -> None:
        assert problem(snapshot) == (
            f"In {snapshot}, config.json -> ../../blobs/config.json, {SHARDS[0]} -> ../../blobs/{SHARDS[0]} and 3 more "
            "would lead nowhere, since a server is given only this directory: give the model as id lab/some, or copy "
            f"it with 'cp -rL {snapshot} NEW' and give the directory NEW"
        )

    def test_a_snapshot_of_files(self, snapshot: Path) -> None:
        for path in snapshot.iterdir():
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)
        assert problems(snapshot) == []

    @pytest.mark.parametrize("part", [".", "snapshots"])
    def test_one_models_part(self, snapshot: Path, part: str) -> None:
        path = snapshot.parent.parent / part
        assert problem(path) == (
            f"{path} is a part of the Hugging Face cache and not a model's directory: give the model as id lab/some "
            f"with huggingface_cache_directory {snapshot.parents[2]}, or copy it with 'cp -rL {snapshot} NEW' and give "
            "the directory NEW"
        )

    @pytest.mark.parametrize("up", [2, 3])
    def test_the_whole_cache(self, snapshot: Path, up: int) -> None:
        path = snapshot.parents[up]
        assert problem(path) == (
            f"{path} is a Hugging Face cache and not a model's directory: give a model in it as id (lab/some) with "
            f"huggingface_cache_directory {snapshot.parents[2]}, or copy it with 'cp -rL {snapshot} NEW' and give the "
            "directory NEW"
        )
