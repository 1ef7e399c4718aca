# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.modules import huggingface_snapshot

from tests.unit import modules
from tests.unit.plugins.module_utils._models.test_directory import write_model


def run(directories: t.Iterable[t.Any], **more: t.Any) -> dict[str, t.Any]:
    arguments = {
        "repositories": [],
        "directories": [str(path) for path in directories],
        "cache_directory": "/nowhere/hub",
        "receipts_directory": "/nowhere/models",
        # Nobody is asked about them.
        "endpoint": "http://127.0.0.1:9",
        **more,
    }
    return modules.run(huggingface_snapshot, arguments)


def test_a_whole_model(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", {"vocab_size": 5, "num_hidden_layers": 2}, total_size=77)
    size = sum(path.stat().st_size for path in model.iterdir())
    result = run([model, model], _ansible_check_mode=True)
    assert list(result["models"]) == list(result["model_facts"]) == [str(model)]
    found = result["models"][str(model)]
    assert (found["commit"], found["snapshot"], found["bytes"]) == (None, str(model), size)
    facts = result["model_facts"][str(model)]
    assert (facts["weights_bytes"], facts["layers"], facts["vocab_size"], facts["kv_heads"]) == (77, 2, 5, None)
    assert (result["changed"], result["model_pair_problems"]) == (False, [])
    assert result["lines"] == [f"Complete in a directory: {model} ({size} bytes)."]


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")

    def fingerprint() -> str:
        return str(run([model])["models"][str(model)]["fingerprint"])

    seen = [fingerprint()]
    (model / ".git").mkdir()
    (model / ".git" / "index").write_text("x")
    assert fingerprint() == seen[0]
    os.utime(model / "config.json", (1, 1))
    seen.append(fingerprint())
    (model / "README.md").write_text("x")
    seen.append(fingerprint())
    (model / "README.md").rename(model / "README.txt")
    seen.append(fingerprint())
    assert len(set(seen)) == 4


def test_no_directory() -> None:
    result = run([])
    assert (result["models"], result["model_facts"], result["lines"]) == ({}, {}, [])
    assert (result["complete"], result["bytes_missing"], result["model_pair_problems"]) == (True, 0, [])


def test_all_errors_at_once(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "tokenizer.json").unlink()
    (model / "config.json").write_text("[]")
    result = run([tmp_path / "absent", model])
    assert result["failed"]
    for error, name in zip(
        result["errors"], (f"{tmp_path}/absent", f"{model}/config.json", "tokenizer.json"), strict=True
    ):
        assert name in error
    assert result["msg"] == "\n".join(f"- {error}" for error in result["errors"])


def test_a_pair_of_directories(tmp_path: Path) -> None:
    target = write_model(tmp_path / "big", {"vocab_size": 5})
    draft = write_model(tmp_path / "small", {"vocab_size": 6})
    (draft / "tokenizer.json").unlink()
    pair = {"target": str(target), "draft": str(draft), "method": "draft_target"}
    (problem,) = run([target, draft], model_pair=pair)["model_pair_problems"]
    assert str(draft) in problem
    assert str(target) in problem
    # The same tokenizer excuses another padding of the vocabulary.
    (draft / "tokenizer.json").write_bytes((target / "tokenizer.json").read_bytes())
    assert run([target, draft], model_pair=pair)["model_pair_problems"] == []
    # A draft of which nothing is known is not judged.
    assert run([target], model_pair={**pair, "draft": "lab/small"})["model_pair_problems"] == []
