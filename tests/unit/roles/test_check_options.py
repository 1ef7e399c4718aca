# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit.waiting import WITHIN_S, until

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "roles" / "speculative_serve" / "files" / "option_check"
STANDIN = ROOT / "tests" / "twin" / "trtllm"
EAGLE3 = {"decoding_type": "Eagle3", "max_draft_len": 5, "speculative_model": "/cache/huggingface/hub/draft"}
ANSWER = {"available": True, "accepted": True, "error": None, "with_models": False, "without_models": None}

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


def lay_out(directory: Path, engine: str = "tensorrt_llm") -> Path:
    """Return the program, with the engine's half beside it, as the role writes them."""
    shutil.copy(PROGRAMS / f"{engine}.py", directory / "judge.py")
    return Path(shutil.copy(PROGRAMS / "check_options.py", directory / "check_options.py"))


def run(
    directory: Path,
    options: t.Any,
    *path: Path,
    text: str | None = None,
    release: str = "1.3.0rc12",
    engine: str = "tensorrt_llm",
    models: t.Any = None,
) -> tuple[dict[str, t.Any], str]:
    (directory / "models.json").write_text(json.dumps(models or {}), encoding="utf-8")
    file = directory / "options.yml"
    file.write_text(yaml.safe_dump(options) if text is None else text, encoding="utf-8")
    program = lay_out(directory, engine)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "TRT_LLM_VERSION": release}
    done = subprocess.run(
        [sys.executable, str(program), str(file)],
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
    assert answer == {**ANSWER, "version": "1.3.0rc12"}


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
    assert answer == {**ANSWER, "version": "1.2.0rc6"}
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
        ("import os; print('no GPU', flush=True); os._exit(3)", "", "the engine ended with code 3: no GPU"),
        ("import os; os.kill(os.getpid(), 11)", "", "the engine ended with code -11: no output"),
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
def fixture_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    spec = importlib.util.spec_from_file_location("check_options", lay_out(tmp_path))
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
    assert answer == program.not_available("the engine did not answer within 0 s, twice")


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
    assert program.ask_once(tmp_path / "options.yml", 1.0)[1]


# What of vLLM is asked, in the place where releases before 0.33 have it.
VLLM = {
    "vllm/__init__.py": '__version__ = "0.32.0+cu130"',
    "vllm/utils/__init__.py": "",
    "vllm/utils/argparse_utils.py": """
        import argparse, yaml

        class FlexibleArgumentParser(argparse.ArgumentParser):
            def parse_args(self, args):
                at = args.index("--config")
                options = yaml.safe_load(open(args[at + 1])) or {}
                words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
                return super().parse_args([*args[:at], *args[at + 2 :], *words])
    """,
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/launchers/__init__.py": "",
    "vllm/entrypoints/launchers/cli_args.py": """
        def make_arg_parser(parser):
            parser.add_argument("--model")
            parser.add_argument("--max-model-len", type=int)
            for name in ("--tensor-parallel-size", "--nnodes", "--node-rank"):
                parser.add_argument(name, type=int, default=1)
            parser.add_argument("--master-addr")
            parser.add_argument("--tool-call-parser")
            parser.add_argument("--speculative-config")
            return parser

        def validate_parsed_serve_args(args):
            if args.tool_call_parser == "none":
                raise TypeError("Error: --enable-auto-tool-choice requires --tool-call-parser")
    """,
    "vllm/entrypoints/launchers/launcher.py": """
        def validate_api_server_args(args):
            if args.tool_call_parser == "unknown":
                raise KeyError("invalid tool call parser: unknown (chose from { hermes })")
    """,
    "vllm/usage/__init__.py": "",
    "vllm/usage/usage_lib.py": "class UsageContext:\n    OPENAI_API_SERVER = 1\n",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": """
        import os, time

        class AsyncEngineArgs:
            @classmethod
            def from_cli_args(cls, args):
                made = cls()
                made.args = args
                return made

            def create_engine_config(self, usage_context):
                if self.args.model == "/odd" and self.args.tensor_parallel_size == 2:
                    raise ValueError(os.environ["REFUSED"])
                if self.args.model == "/hangs":
                    open(os.environ["HANGS"], "w").close()
                    time.sleep(600)
                if self.args.model == "/crashes":
                    os._exit(3)
                if os.environ.get("REFUSES"):
                    raise Error()
                if os.environ.get("CONFIG"):
                    from vllm import config
                    config.check(os.environ["CONFIG"], os.environ.get("ERROR", "ValueError"))

        class Error(ValueError):
            title = "Sequence"

            def errors(self):
                return [{"msg": "Value error, " + os.environ["REFUSES"]}]
    """,
    "vllm/config/__init__.py": """
        import builtins, os

        class ModelConfig:
            "The class of pydantic's error."

        class Error(ValueError):
            title = "ModelConfig"

            def __init__(self, cause):
                self.row = {"msg": f"Value error, {cause}", "ctx": {"error": cause}} if cause else {"msg": "no number"}

            def errors(self):
                return [self.row]

        def check(text, kind):
            if kind == "field":
                raise Error(None)
            if kind == "forked" and os.environ.get("VLLM_WORKER_MULTIPROC_METHOD") != "spawn":
                raise ValueError(text)
            if kind == "forked":
                return
            if kind == "elsewhere":
                from vllm import elsewhere
                try:
                    elsewhere.fail(text)
                except ValueError as error:
                    raise Error(error)
            if kind != "validator":
                raise getattr(builtins, kind)(text)
            try:
                raise ValueError(text)
            except ValueError as error:
                raise Error(error)
    """,
    "vllm/elsewhere.py": "def fail(text):\n    raise ValueError(text)\n",
    "vllm/config/speculative.py": """
        import dataclasses
        from typing import Literal, Union

        SpeculativeMethod = Union[Literal["ngram", "eagle3"], Literal["mtp"]]

        @dataclasses.dataclass
        class SpeculativeConfig:
            method: str = ""
            num_speculative_tokens: int = 0
    """,
}


@pytest.fixture(name="vllm")
def fixture_vllm(tmp_path: Path) -> Path:
    for name, text in VLLM.items():
        file = tmp_path / "packages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path / "packages"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max-model-len": 2048}, None),
        ({"speculative-config": {"method": "mtp", "num-speculative-tokens": 3}}, None),
        ({"bogus": 1}, "unrecognized arguments: --bogus 1"),
        ({"max-model-len": "many"}, "argument --max-model-len: invalid int value: 'many'"),
        ({"tool-call-parser": "none"}, "Error: --enable-auto-tool-choice requires --tool-call-parser"),
        ({"tool-call-parser": "unknown"}, "invalid tool call parser: unknown (chose from { hermes })"),
        (
            {"speculative-config": {"method": "ngramm", "num_speculative_token": 3}},
            "speculative-config.num_speculative_token: unknown key; "
            "speculative-config.method: 'ngramm' is none of eagle3, mtp, ngram",
        ),
    ],
)
def test_the_parser_of_vllm_judges(tmp_path: Path, vllm: Path, options: dict[str, t.Any], error: str | None) -> None:
    answer, _output = run(tmp_path, options, vllm, engine="vllm")
    assert answer == {**ANSWER, "accepted": error is None, "version": "0.32.0+cu130", "error": error}


@pytest.mark.parametrize("place", ["openai.cli_args openai.api_server", "common.cli_args common.launcher"])
def test_the_parser_is_found_in_each_place_that_a_release_has(tmp_path: Path, vllm: Path, place: str) -> None:
    moved = vllm / "vllm/entrypoints/launchers"
    for file, name in zip(("cli_args", "launcher"), place.split(), strict=True):
        target = vllm / "vllm/entrypoints" / f"{name.replace('.', '/')}.py"
        target.parent.mkdir(exist_ok=True)
        (moved / f"{file}.py").rename(target)
    shutil.rmtree(moved)
    answer, _output = run(tmp_path, {"tool-call-parser": "unknown"}, vllm, engine="vllm")
    assert (answer["available"], answer["accepted"]) == (True, False), answer


def test_an_image_without_vllm(tmp_path: Path) -> None:
    answer, _output = run(tmp_path, {}, engine="vllm")
    assert (answer["available"], answer["error"].partition(":")[0]) == (False, "importing vLLM failed")


def test_a_parser_that_needs_a_gpu_is_no_refusal(tmp_path: Path, vllm: Path) -> None:
    broken = "def make_arg_parser(parser):\n    raise RuntimeError('Failed to infer device type')\n"
    (vllm / "vllm/entrypoints/launchers/cli_args.py").write_text(broken, encoding="utf-8")
    answer, _output = run(tmp_path, {}, vllm, engine="vllm")
    assert (answer["available"], answer["version"]) == (False, "0.32.0+cu130")
    assert answer["error"] == "its parser failed: RuntimeError: Failed to infer device type"


HEADS = "Total number of attention heads (9) must be divisible by tensor parallel size (2)."
LONG = "User-specified max_model_len (9) is greater than the derived max_model_len (8)."


def of_models(target: str = "/target", sparks: int = 1, **environment: str) -> dict[str, t.Any]:
    return {"target": target, "draft": "", "sparks": sparks, "environment": environment}


@pytest.mark.parametrize(
    ("models", "changes"),
    [
        (of_models(), {"with_models": True}),
        (of_models("/odd", REFUSED=HEADS), {"with_models": True}),
        (of_models("/odd", 2, REFUSED=HEADS), {"with_models": True, "accepted": False, "error": HEADS}),
        (of_models(REFUSES=LONG), {"with_models": True, "accepted": False, "error": LONG}),
        # Not about options: pydantic raises the same class for a missing file.
        (of_models(REFUSES="No file"), {"without_models": "Error:"}),
        # What the classes of vllm/config raise, whatever it says.
        (of_models(CONFIG="no such pair"), {"with_models": True, "accepted": False, "error": "no such pair"}),
        (
            of_models(CONFIG="no such pair", ERROR="validator"),
            {"with_models": True, "accepted": False, "error": "no such pair"},
        ),
        (of_models(CONFIG="x", ERROR="field"), {"with_models": True, "accepted": False, "error": "no number"}),
        (of_models(CONFIG="no config.json", ERROR="elsewhere"), {"without_models": "Error: no config.json"}),
        (of_models(CONFIG="no file", ERROR="OSError"), {"without_models": "OSError: no file"}),
        (of_models(CONFIG="no ray", ERROR="ImportError"), {"without_models": "ImportError: no ray"}),
        (of_models(CONFIG="It requires Triton."), {"without_models": "ValueError: It requires Triton."}),
        *(
            (of_models(CONFIG=text), {"without_models": f"ValueError: {text}"})
            for text in (
                "Sleep mode is not supported on current platform.",
                "--enable-hc-sp currently requires CUDA",
                "The Proton profiler currently supports NVIDIA CUDA only",
            )
        ),
        # `vllm serve` decides that its processes are spawned before it makes the configuration, if nothing else did.
        (of_models(CONFIG="torch_shm is known to fail", ERROR="forked"), {"with_models": True}),
        (
            of_models(CONFIG="torch_shm fails", ERROR="forked", VLLM_WORKER_MULTIPROC_METHOD="fork"),
            {"with_models": True, "accepted": False, "error": "torch_shm fails"},
        ),
        (of_models("/crashes"), {"without_models": "it gave no answer on them"}),
    ],
)
def test_the_configuration_of_vllm_judges_the_models(
    tmp_path: Path, vllm: Path, models: dict[str, t.Any], changes: dict[str, t.Any]
) -> None:
    answer, _output = run(tmp_path, {}, vllm, engine="vllm", models=models)
    assert answer == {**ANSWER, "version": "0.32.0+cu130", **changes}


def test_only_known_texts_refuse_in_a_release_that_was_not_asked(tmp_path: Path, vllm: Path) -> None:
    (vllm / "vllm/__init__.py").write_text('__version__ = "0.30.0"', encoding="utf-8")
    answer, _output = run(tmp_path, {}, vllm, engine="vllm", models=of_models(CONFIG="no such pair"))
    assert (answer["accepted"], answer["without_models"]) == (True, "ValueError: no such pair")
    answer, _output = run(tmp_path, {}, vllm, engine="vllm", models=of_models(CONFIG=LONG))
    assert (answer["accepted"], answer["error"]) == (False, LONG)


def test_the_environment_of_a_recipe_replaces_no_part_of_the_check(tmp_path: Path, vllm: Path) -> None:
    """PYTHONPATH is the user's own choice for the engine. With PYTHONSAFEPATH it would win over the script's place."""
    for name in ("judge.py", "check_options.py"):
        (vllm / name).write_text("def judge(*_anything): return True, 'replaced', []\n", encoding="utf-8")
    environment = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(vllm), "PYTHONDONTWRITEBYTECODE": "1"}
    models = {**of_models(), "environment": environment}
    answer, _output = run(tmp_path, {"bogus": 1}, vllm, engine="vllm", models=models)
    assert (answer["version"], answer["accepted"]) == ("0.32.0+cu130", False)


def test_options_that_are_refused_are_not_judged_with_the_models(tmp_path: Path, vllm: Path) -> None:
    answer, _output = run(tmp_path, {"bogus": 1}, vllm, engine="vllm", models=of_models())
    assert (answer["accepted"], answer["with_models"], answer["without_models"]) == (False, False, None)


def test_models_that_take_too_long_leave_the_answer_on_the_options(
    tmp_path: Path, vllm: Path, monkeypatch: pytest.MonkeyPatch, program: t.Any
) -> None:
    hangs = tmp_path / "hangs"

    class Impatient(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                until(hangs.exists)
                raise subprocess.TimeoutExpired("", timeout)
            return super().wait()

    monkeypatch.setattr(program.subprocess, "Popen", Impatient)
    monkeypatch.setenv("PYTHONPATH", str(vllm))
    lay_out(tmp_path, "vllm")
    (tmp_path / "options.yml").write_text("{}", encoding="utf-8")
    models = of_models("/hangs", HANGS=str(hangs))
    (tmp_path / "models.json").write_text(json.dumps(models), encoding="utf-8")
    answer, is_late = program.ask_once(tmp_path / "options.yml", 240.0)
    assert (answer.accepted, answer.without_models, is_late) == (True, "it gave no answer on them", True)
