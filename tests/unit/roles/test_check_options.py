# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit.waiting import WITHIN_S

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "roles" / "speculative_serve" / "files" / "check_options.py"
STANDIN = ROOT / "tests" / "twin" / "trtllm"
EAGLE3 = {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/cache/huggingface/hub/draft"}

# Sections are turned into objects by a table, and a wrong attribute is a plain ValueError.
FAMILY_1_2 = """
class Eagle:
    def __init__(self, **fields):
        for name, value in fields.items():
            if name not in ("max_draft_len", "speculative_model_dir"):
                raise ValueError(f'"EagleDecodingConfig" object has no field "{name}"')

class DecodingBaseConfig:
    @classmethod
    def from_dict(cls, data):
        kind = data.pop("decoding_type", None)
        if kind != "Eagle":
            raise ValueError(f"Invalid decoding type: {kind}")
        return Eagle(**data)

class TorchLlmArgs:
    def __init__(self, model, backend, speculative_config=None, **rest):
        assert speculative_config is None or isinstance(speculative_config, Eagle), "no object"
        assert not rest, f"unexpected: {sorted(rest)}"
"""


def run(
    directory: Path, options: t.Any, *path: Path, text: str | None = None, release: str = "1.3.0rc12"
) -> tuple[dict[str, t.Any], str]:
    file = directory / "options.yml"
    file.write_text(yaml.safe_dump(options) if text is None else text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "TRT_LLM_VERSION": release}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(file)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=WITHIN_S,
    )
    last = done.stdout.splitlines()[-1]
    assert last.startswith('{"available": ')
    return json.loads(last), done.stdout


@pytest.fixture(name="package")
def fixture_package(tmp_path: Path) -> t.Callable[..., Path]:
    def package(llm_args: str, init: str = '__version__ = "9.9"') -> Path:
        folder = tmp_path / "packages" / "tensorrt_llm" / "llmapi"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text(textwrap.dedent(init), encoding="utf-8")
        (folder / "__init__.py").touch()
        (folder / "llm_args.py").write_text(textwrap.dedent(llm_args), encoding="utf-8")
        return tmp_path / "packages"

    return package


@pytest.fixture(name="standin")
def fixture_standin(tmp_path: Path) -> Path:
    """The stand-in of the twin, laid out as in its image."""
    pytest.importorskip("pydantic")
    folder = tmp_path / "standin"
    folder.mkdir()
    (folder / "standin").symlink_to(STANDIN / "server")
    (folder / "tensorrt_llm").symlink_to(STANDIN / "tensorrt_llm")
    return folder


@pytest.mark.parametrize("options", [{}, {"speculative_config": EAGLE3, "kv_cache_config": {"dtype": "fp8"}}])
def test_the_stand_in_accepts(tmp_path: Path, standin: Path, options: dict[str, t.Any]) -> None:
    answer, _output = run(tmp_path, options, standin)
    assert answer == {"available": True, "accepted": True, "version": "1.3.0rc12", "error": None}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"use_torch_sampler": True}, ["use_torch_sampler: Extra inputs are not permitted"]),
        ({"speculative_config": {**EAGLE3, "k": 1}}, ["speculative_config.Eagle3.k: Extra inputs are not permitted"]),
        ({"speculative_config": {**EAGLE3, "decoding_type": "DraftTarget"}}, ["Input tag 'DraftTarget'"]),
        ({"max_num_tokens": "many", "nonsense": 1}, ["max_num_tokens", "nonsense"]),
    ],
)
def test_the_stand_in_refuses(tmp_path: Path, standin: Path, options: dict[str, t.Any], words: list[str]) -> None:
    answer, _output = run(tmp_path, options, standin)
    assert (answer["available"], answer["accepted"]) == (True, False)
    for word in words:
        assert word in answer["error"]


def test_the_stand_in_of_the_older_family(tmp_path: Path, standin: Path) -> None:
    section = {"decoding_type": "Eagle", "max_draft_len": 5, "speculative_model_dir": "/draft"}
    answer, _output = run(tmp_path, {"speculative_config": section}, standin, release="1.2.0rc6")
    assert answer == {"available": True, "accepted": True, "version": "1.2.0rc6", "error": None}
    answer, _output = run(tmp_path, {"speculative_config": EAGLE3}, standin, release="1.2.0rc6")
    assert (answer["available"], answer["accepted"]) == (True, False)
    assert "Invalid decoding type: Eagle3" in answer["error"]


def test_the_older_family_makes_objects_of_sections(tmp_path: Path, package: t.Callable[..., Path]) -> None:
    path = package(FAMILY_1_2)
    section = {"decoding_type": "Eagle", "max_draft_len": 5, "speculative_model_dir": "/draft"}
    assert run(tmp_path, {"speculative_config": section}, path)[0]["accepted"] is True
    for wrong, message in (
        ({**section, "decoding_type": "Eagle3"}, "ValueError: Invalid decoding type: Eagle3"),
        ({**section, "k": 1}, 'ValueError: "EagleDecodingConfig" object has no field "k"'),
    ):
        answer, _output = run(tmp_path, {"speculative_config": wrong}, path)
        assert (answer["accepted"], answer["version"], answer["error"]) == (False, "9.9", message)


def test_the_images_own_merge_is_preferred(tmp_path: Path, package: t.Callable[..., Path]) -> None:
    path = package("""
        def update_llm_args_with_extra_dict(llm_args, llm_args_dict, extra_llm_api_options=None):
            return {**llm_args, "merged": llm_args_dict}

        class TorchLlmArgs:
            def __init__(self, model, backend, merged):
                if merged != {"a": 1}:
                    raise ValueError(f"not {merged}")
    """)
    assert run(tmp_path, {"a": 1}, path)[0]["accepted"] is True
    assert run(tmp_path, {"a": 2}, path)[0]["error"] == "ValueError: not {'a': 2}"


@pytest.mark.parametrize("what", ["model", "speculative_config['speculative_model']"])
def test_files_that_are_missing_on_purpose_do_not_count(
    tmp_path: Path, package: t.Callable[..., Path], what: str
) -> None:
    path = package(f"""
        class TorchLlmArgs:
            def __init__(self, model, backend, speculative_config):
                raise ValueError(f"{{{what}}} is no directory")
    """)
    answer, _output = run(tmp_path, {"speculative_config": EAGLE3}, path)
    assert (answer["available"], answer["accepted"], answer["error"]) == (True, True, None)


@pytest.mark.parametrize(
    ("llm_args", "init", "reason"),
    [
        ("", "", "this TensorRT-LLM has no class TorchLlmArgs"),
        ("", "import nowhere", "importing TensorRT-LLM failed: ModuleNotFoundError: No module named 'nowhere'"),
        ("class TorchLlmArgs: pass", "", "its option classes failed: TypeError: TorchLlmArgs() takes no arguments"),
        ("import os; print('no GPU', flush=True); os._exit(3)", "", "TensorRT-LLM ended with code 3: no GPU"),
        ("import os; os.kill(os.getpid(), 11)", "", "TensorRT-LLM ended with code -11: no output"),
    ],
)
def test_what_cannot_be_asked_says_why(
    tmp_path: Path, package: t.Callable[..., Path], llm_args: str, init: str, reason: str
) -> None:
    answer, _output = run(tmp_path, {}, package(llm_args, init))
    assert (answer["available"], answer["accepted"]) == (False, False)
    assert answer["error"] == reason


def test_an_image_without_tensorrt_llm(tmp_path: Path) -> None:
    answer, _output = run(tmp_path, {})
    assert answer["error"] == "importing TensorRT-LLM failed: ModuleNotFoundError: No module named 'tensorrt_llm'"


@pytest.mark.parametrize(("text", "reason"), [("- a", "does not hold a mapping"), ("a: [", "is not YAML")])
def test_options_that_are_none(tmp_path: Path, text: str, reason: str) -> None:
    answer, _output = run(tmp_path, None, text=text)
    assert answer["available"] is False
    assert reason in answer["error"]


def test_talkative_libraries_and_threads_that_stay_do_no_harm(tmp_path: Path, package: t.Callable[..., Path]) -> None:
    path = package("""
        import atexit, subprocess, threading, time
        subprocess.Popen(["sleep", "200"], start_new_session=True)
        threading.Thread(target=time.sleep, args=(200,)).start()
        atexit.register(print, "goodbye")
        print("hello")

        class TorchLlmArgs:
            def __init__(self, **given): ...
    """)
    answer, output = run(tmp_path, {}, path)
    assert answer["accepted"] is True
    assert "goodbye" not in output


@pytest.fixture(name="program")
def fixture_program(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    spec = importlib.util.spec_from_file_location("check_options", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    check_options = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_options", check_options)
    spec.loader.exec_module(check_options)
    return check_options


def test_one_that_hangs_is_ended(
    tmp_path: Path, package: t.Callable[..., Path], program: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(package("import time; time.sleep(60)")))
    (tmp_path / "options.yml").write_text("{}", encoding="utf-8")
    answer = program.ask(tmp_path / "options.yml", 0.5)
    assert answer == program.not_available("TensorRT-LLM did not answer within 0 s, twice")


def test_one_that_is_slow_while_it_is_cold_is_asked_again(
    tmp_path: Path, package: t.Callable[..., Path], program: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = "import pathlib, time\nif not pathlib.Path(__file__).with_name('warm').exists():\n    time.sleep(600)"
    packages = package("class TorchLlmArgs:\n    def __init__(self, **given): pass\n", cold)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    (tmp_path / "options.yml").write_text("{}", encoding="utf-8")
    ask_once, asked = program.ask_once, list[float]()

    def ask(options: Path, deadline: float) -> t.Any:
        asked.append(deadline)
        if len(asked) == 1:
            return ask_once(options, 0.5)
        (packages / "tensorrt_llm/warm").touch()
        return ask_once(options, WITHIN_S)

    monkeypatch.setattr(program, "ask_once", ask)
    assert program.ask(tmp_path / "options.yml", 240.0).accepted
    assert asked == [240.0, 240.0]


def test_the_stand_in_takes_as_long_as_it_is_told(
    tmp_path: Path, standin: Path, program: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(standin))
    monkeypatch.setenv("STANDIN_IMPORT_SECONDS", "60")
    (tmp_path / "options.yml").write_text("{}", encoding="utf-8")
    assert program.ask_once(tmp_path / "options.yml", 1.0) is None
