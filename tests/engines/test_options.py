# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option check in a container of the image, and our data against its parser.

tests/verdicts asks the same program all questions, of each release.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.effects import joined
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Planned, Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.engine import VLLM
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.vllm.rules import (
    KINDS,
    READ_RELEASE,
    SHAPES,
)

from tests.twin.vllm import build
from tools import vllm_options

PROGRAMS = Path(__file__).parents[2] / "roles/speculative_serve/files/option_check"
# A model's own configuration: it needs this code, and knows that it runs in a container without network.
OWN_CODE = """
import os
from transformers import LlamaConfig

if sorted(os.listdir("/sys/class/net")) != ["lo"]:
    raise RuntimeError("there is a network")


class OwnConfig(LlamaConfig):
    model_type = "own"
"""


@pytest.fixture(name="models")
def fixture_models(tag: str, tmp_path: Path) -> Path:
    """Return a directory with the models of the judge, all without weights."""
    whole, directory = build.checkpoint(tag), tmp_path / "models"
    changes: dict[str, dict[str, t.Any]] = {
        "target": {},
        "own-code": {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}},
    }
    for name, changed in changes.items():
        shutil.copytree(whole, directory / name, ignore=shutil.ignore_patterns("*.safetensors"))
        config = directory / name / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text(encoding="utf-8")), **changed}), encoding="utf-8")
    (directory / "own-code/own.py").write_text(OWN_CODE, encoding="utf-8")
    (directory / "empty").mkdir()
    subprocess.run(["chmod", "-R", "a+rX", str(directory)], check=True)
    return directory


@pytest.fixture(name="tag", scope="module")
def fixture_tag() -> str:
    return build.build()


def run(tag: str, *arguments: str, options: t.Sequence[str] = ()) -> t.Any:
    """Return the JSON in the last line that Python in a container of the image writes."""
    command = ["docker", "run", "--rm", "--network", "none", *options, "--entrypoint", "python3", tag, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def judged(
    tag: str, place: Path, options: t.Mapping[str, t.Any], *words: str, models: t.Mapping[str, t.Any] | None = None
) -> dict[str, t.Any]:
    """Return what the option check says of options, laid out as the role does; further words are for Docker."""
    (place / "options.yml").write_text(yaml.safe_dump(dict(options)), encoding="utf-8")
    (place / "models.json").write_text(json.dumps(dict(models or {})), encoding="utf-8")
    shutil.copy(PROGRAMS / "check_options.py", place)
    shutil.copy(PROGRAMS / "vllm.py", place / "judge.py")
    for file in place.iterdir():
        file.chmod(0o644)
    place.chmod(0o755)
    return dict(run(tag, "/check/check_options.py", options=["--volume", f"{place}:/check:ro", *words]))


def test_the_options_of_the_data_are_those_of_the_parser(tag: str) -> None:
    """Those of other releases are joined in, and so nothing is lost by joining them again."""
    program = vllm_options.PROGRAM.read_text(encoding="utf-8")
    release, kinds, shapes = run(tag, "-c", program, *vllm_options.PARSERS)
    assert (release.partition("+")[0], kinds) == (READ_RELEASE, KINDS)
    known = {**KINDS, **SHAPES}
    assert joined([known, shapes]) == joined([known, known])


def test_the_image_judges(tag: str, tmp_path: Path) -> None:
    answer = judged(tag, tmp_path, {"bogus-option": 3})
    assert (answer["available"], answer["accepted"]) == (True, False), answer


def with_models(target: str) -> dict[str, t.Any]:
    return {"target": f"/models/{target}", "draft": "", "sparks": 1, "environment": {}}


@pytest.mark.parametrize(
    ("options", "asked", "complaint"),
    [
        ({"max-model-len": 16384}, with_models("target"), "is greater than the derived max_model_len"),
        ({"trust-remote-code": True, "max-model-len": 2048}, with_models("own-code"), None),
    ],
)
def test_the_image_judges_with_the_configuration_of_the_models(
    tag: str, tmp_path: Path, models: Path, options: dict[str, t.Any], asked: dict[str, t.Any], complaint: str | None
) -> None:
    (tmp_path / "check").mkdir()
    answer = judged(tag, tmp_path / "check", options, "--volume", f"{models}:/models:ro", models=asked)
    assert (answer["available"], answer["with_models"]) == (True, True), answer
    assert answer["accepted"] is (complaint is None), answer
    assert (complaint or "") in (answer["error"] or "")


def test_models_without_files_leave_the_answer_on_the_options(tag: str, tmp_path: Path, models: Path) -> None:
    (tmp_path / "check").mkdir()
    words = ("--volume", f"{models}:/models:ro")
    answer = judged(tag, tmp_path / "check", {}, *words, models=with_models("empty"))
    assert (answer["accepted"], answer["with_models"]) == (True, False), answer
    assert answer["without_models"]


@pytest.mark.parametrize("method", VLLM.methods)
def test_it_accepts_what_is_rendered(tag: str, tmp_path: Path, method: str) -> None:
    planned = Planned(2, 2048, tokens=4096, chunked=False, cache_bytes=2**27, share=0.1)
    request = Request(f"v{READ_RELEASE}", method, "/draft", 3, options=VLLM.fill({}, planned), target_model="a/b")
    built = VLLM.build(request)
    assert built.errors == []
    assert judged(tag, tmp_path, built.options)["error"] is None
