# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import stat
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.modules import trtllm_config

HEADER = "# Managed by Ansible, module dgx_spark.speculative.trtllm_config; local edits are overwritten.\n"
TEXT = (
    HEADER
    + """\
max_batch_size: 1
kv_cache_config:
  free_gpu_memory_fraction: 0.9
speculative_config:
  decoding_type: Eagle3
  max_draft_len: 5
  speculative_model: /models/head
"""
)
VALID: dict[str, t.Any] = {
    "release": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12@sha256:00",
    "method": "eagle3",
    "draft_model": "/models/head",
    "max_draft_len": 5,
    "options": {"kv_cache_config": {"free_gpu_memory_fraction": 0.9}, "max_batch_size": 1},
}

Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the module, without the parameters that are None, and return its result."""

    def call(**parameters: t.Any) -> dict[str, t.Any]:
        given = {key: value for key, value in {**VALID, **parameters}.items() if value is not None}
        with patch_module_args(given), pytest.raises(SystemExit):
            trtllm_config.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return call


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_without_a_path_it_only_validates(run: Run) -> None:
    result = run()
    assert result["changed"] is False
    assert (result["release"], result["family"], result["text"]) == ("1.3.0rc12", "1.3", TEXT)
    assert (result["method"], "warnings" in result) == ("eagle3", False)
    assert result["options"] == yaml.safe_load(TEXT)
    assert "path" not in result
    assert "diff" not in result


def test_it_writes_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "options.yml"
    first = run(path=str(path), mode="0640")
    assert (first["changed"], first["path"]) == (True, str(path))
    assert path.read_text() == TEXT
    assert mode_of(path) == 0o640
    assert run(path=str(path), mode="0640")["changed"] is False


def test_check_mode_predicts_without_writing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "not yet there" / "options.yml"
    result = run(path=str(path), mode="0640", _ansible_check_mode=True)
    assert result["changed"] is True
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "options.yml"
    path.write_text("old: 1\n")
    assert run(path=str(path), _ansible_check_mode=True)["changed"] is True
    assert path.read_text() == "old: 1\n"


@pytest.mark.parametrize("check", [True, False])
def test_the_diff_has_both_texts(run: Run, tmp_path: Path, check: bool) -> None:
    path = tmp_path / "options.yml"
    path.write_text("old: 1\n")
    content = run(path=str(path), _ansible_check_mode=check, _ansible_diff=True)["diff"][0]
    assert content == {"before": "old: 1\n", "after": TEXT, "before_header": str(path), "after_header": str(path)}


def test_a_new_file_differs_from_nothing(run: Run, tmp_path: Path) -> None:
    assert run(path=str(tmp_path / "options.yml"))["diff"][0]["before"] == ""


@pytest.mark.parametrize("check", [True, False])
def test_a_change_of_the_mode_alone(run: Run, tmp_path: Path, check: bool) -> None:
    path = tmp_path / "options.yml"
    path.write_text(TEXT)
    path.chmod(0o600)
    result = run(path=str(path), mode="0644", backup=True, _ansible_check_mode=check)
    assert result["changed"] is True
    assert mode_of(path) == (0o600 if check else 0o644)
    assert result["diff"][1]["before"] == {"mode": "0600"}
    assert result["diff"][1]["after"] == {"mode": "0644"}
    assert "backup_file" not in result


def test_backup(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "options.yml"
    assert "backup_file" not in run(path=str(path), backup=True)
    path.write_text("mine: 1\n")
    result = run(path=str(path), backup=True)
    assert Path(result["backup_file"]).read_text() == "mine: 1\n"
    assert path.read_text() == TEXT


def test_a_file_that_is_not_text_is_replaced(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "options.yml"
    path.write_bytes(b"\xff\xfe")
    assert run(path=str(path))["changed"] is True
    assert path.read_text() == TEXT


def test_errors_are_listed_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "options.yml"
    result = run(path=str(path), max_draft_len=0, options={"max_bach_size": 1})
    assert result["failed"] is True
    assert result["msg"] == (
        "Validating the engine options for TensorRT-LLM 1.3.0rc12 found 2 errors, to be corrected:\n"
        "- max_bach_size: is not a key of release family 1.3; did you mean 'max_batch_size'?\n"
        "- max_draft_len: must be at least 1 for Eagle3"
    )
    assert result["errors"] == [
        {"path": "max_bach_size", "message": "is not a key of release family 1.3; did you mean 'max_batch_size'?"},
        {"path": "max_draft_len", "message": "must be at least 1 for Eagle3"},
    ]
    assert not path.exists()


def test_one_error(run: Run) -> None:
    result = run(release="1.2.0rc7")
    assert result["msg"] == (
        "Validating the engine options for TensorRT-LLM 1.2.0rc7 found 1 error, to be corrected:\n"
        "- release: the engine options of 1.2.0rc7 are not known here; use a release of the known release families,"
        " 1.2 (1.2.0rc1 to 1.2.0rc6), 1.3 (1.3.0rc3 and later), or set family (in playbooks speculative_serve_family)"
        " to the one to check by"
    )
    assert (result["family"], result["method"]) == ("", "eagle3")


def test_a_family_can_be_chosen_as_yaml_reads_it(run: Run) -> None:
    result = run(release="1.2.0rc7", family=1.2)
    assert "failed" not in result
    assert result["family"] == "1.2"
    assert result["options"]["speculative_config"]["decoding_type"] == "Eagle"
    assert "value of family must be one of: auto, 1.2, 1.3" in run(family="1.4")["msg"]


def test_a_section_of_ones_own_needs_no_method(run: Run) -> None:
    section = {"decoding_type": "NGram", "max_draft_len": 4}
    result = run(method=None, options={"speculative_config": section})
    assert (result["method"], result["options"]) == ("raw", {"speculative_config": section})
    assert "excludes method none" in run(method="none", options={"speculative_config": section})["msg"]


def test_a_known_issue_is_told_with_its_thread(run: Run) -> None:
    result = run(release="1.3.0rc13", target_model="openai/gpt-oss-120b")
    url = "https://github.com/NVIDIA/TensorRT-LLM/issues/16377"
    assert [issue["url"] for issue in result["known_issues"]] == [
        "https://github.com/NVIDIA/TensorRT-LLM/pull/15739",
        url,
    ]
    assert url in str(result["warnings"])
    assert run(target_model="meta-llama/Llama-3.3-70B-Instruct")["known_issues"] == []


def test_advice_is_a_warning(run: Run) -> None:
    result = run(options={"moe_config": {"backend": "TRTLLM"}})
    assert "failed" not in result
    # How a result carries its warnings differs between versions of ansible-core.
    assert len(result["warnings"]) == 1
    assert "moe_config.backend: TRTLLM does not run FP4 experts on a GB10; use CUTLASS" in str(result["warnings"])


def test_a_missing_directory(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "no" / "options.yml"
    assert run(path=str(path))["msg"] == (
        f"Writing the engine options to {path} failed: there is no directory {path.parent}; create it first."
    )


def test_a_path_that_is_a_directory(run: Run, tmp_path: Path) -> None:
    assert run(path=str(tmp_path))["msg"] == f"Reading the engine options in {tmp_path} failed: Is a directory."


def test_a_mode_needs_a_path(run: Run) -> None:
    assert run(mode="0644")["msg"] == "missing parameter(s) required by 'mode': path"


def test_a_host_without_pyyaml(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trtllm_config, "HAS_YAML", False)
    assert "Failed to import the required Python library (PyYAML)" in run()["msg"]
