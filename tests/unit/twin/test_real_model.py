# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM on the twin: what it takes from the Hub, the registry and a Spark, without a container."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml

from tests.twin import __main__ as command
from tests.twin import lifecycle, real_model
from tests.twin.drafts import __main__ as drafts
from tests.twin.internet import hub
from tests.twin.names import KEPT_PORT, PACKAGE, REGISTRY_PORT, TwinError
from tests.twin.spark import clamp_limits
from tests.twin.wheels import BuildError

WEIGHTS = bytes(range(256)) * 4


@pytest.fixture(name="checkpoint")
def fixture_checkpoint(tmp_path: pathlib.Path) -> pathlib.Path:
    """A checkpoint with large and small files."""
    result = tmp_path / "model-0123"
    result.mkdir()
    (result / "model.safetensors").write_bytes(WEIGHTS)
    (result / "config.json").write_text("{}")
    return result


def test_the_hub_has_the_files_themselves(checkpoint: pathlib.Path, tmp_path: pathlib.Path) -> None:
    place = tmp_path / "hub"
    place.mkdir()
    real_model.offer(checkpoint, place)
    offered = hub.Content(place).repository(real_model.IDENTIFIER)
    assert offered
    assert sorted(offered.files) == ["README.md", "config.json", "model.safetensors"]
    page = offered.files["README.md"].path.read_text()
    assert (offered.license, offered.commit("main")) == ("apache-2.0", real_model.commit(checkpoint, page))
    weights = offered.files["model.safetensors"]
    assert weights.lfs
    assert not offered.files["config.json"].lfs
    assert weights.path.samefile(checkpoint / "model.safetensors")
    assert "license: apache-2.0" in page


def test_an_offered_model_is_left_alone_until_another_checkpoint(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    place = tmp_path / "hub"
    place.mkdir()
    real_model.offer(checkpoint, place)
    (checkpoint / "late.json").write_text("{}")
    real_model.offer(checkpoint, place)
    assert not (place / real_model.IDENTIFIER / "late.json").exists()
    real_model.offer(checkpoint.rename(tmp_path / "model-4567"), place)
    assert (place / real_model.IDENTIFIER / "late.json").exists()
    # What the Hub no longer needs is still the checkpoint's.
    assert (tmp_path / "model-4567" / "model.safetensors").read_bytes() == WEIGHTS


def test_the_drafts_are_those_that_a_recipe_wants(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in drafts.OFFERED:
        (tmp_path / "made" / name).mkdir(parents=True)
        (tmp_path / "made" / name / "config.json").write_text("{}")
    (tmp_path / "hub").mkdir()
    monkeypatch.setattr(drafts, "HUB", tmp_path / "hub")
    monkeypatch.setattr(drafts, "VLLM_LOCK", tmp_path / "lock")
    monkeypatch.setattr(drafts.build, "build", lambda: "tag")
    monkeypatch.setattr(drafts.build, "checkpoint", lambda _tag: tmp_path / "model")
    monkeypatch.setattr(drafts, "drafts", lambda _tag, _checkpoint: tmp_path / "made")
    drafts.offer()
    content = hub.Content(tmp_path / "hub")
    recipe = yaml.safe_load((PACKAGE / "recipes/methods.yml").read_text())
    wanted = {variant["draft_model"]["id"] for variant in recipe["variants"].values()}
    assert wanted == {identifier for identifier, _words in drafts.OFFERED.values()}
    offered = [content.repository(identifier) for identifier in wanted]
    assert len({one.commit("main") for one in offered if one}) == len(wanted)


def test_a_failed_build_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise BuildError("No disk.")

    monkeypatch.setattr(lifecycle.vllm_build, "build", fail)
    with pytest.raises(TwinError, match=r"^No disk\.$"):
        lifecycle.build_vllm()


@pytest.mark.parametrize("asked", [False, True])
def test_the_image_is_pushed_on_request_and_kept(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[tuple[str, str, str, int]] = []

    def push(tag: str, repository: str, remote_tag: str, port: int = REGISTRY_PORT) -> None:
        pushed.append((tag, repository, remote_tag, port))

    class Nothing:
        """A registry that takes everything."""

        def __init__(self, _address: str) -> None: ...

        def __getattr__(self, _name: str) -> t.Callable[..., None]:
            return lambda *_arguments: None

    # The name has the instruction set that the tests are held to.
    monkeypatch.setattr(lifecycle.vllm_build, "TAG", "dgx-spark-twin/vllm:0.32.0")
    monkeypatch.setattr(lifecycle, "push", push)
    monkeypatch.setattr(lifecycle, "Registry", Nothing)
    monkeypatch.setattr(lifecycle, "registry", lambda: "")
    lifecycle.fill_registry(asked)
    vllm = [("dgx-spark-twin/vllm:0.32.0", "vllm/vllm-openai-cpu", "v0.32.0", KEPT_PORT)]
    assert [entry for entry in pushed if "vllm" in entry[1]] == (vllm if asked else [])
    assert {entry[3] for entry in pushed if "vllm" not in entry[1]} == {REGISTRY_PORT}


@pytest.mark.parametrize("asked", [False, True])
def test_the_command_line_asks_for_it(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(lifecycle, "up", lambda *_how, vllm: calls.append(vllm))
    command.run(command.parser().parse_args(["up", *(["--vllm"] if asked else [])]))
    assert calls == [asked]


@pytest.mark.parametrize(
    ("trusted", "mounted"),
    [("real\n", True), ("real\ntwin\n", False), (None, False)],
)
def test_a_container_trusts_the_twins_internet(trusted: str | None, mounted: bool, tmp_path: pathlib.Path) -> None:
    authority = tmp_path / "twin.crt"
    authority.write_text("twin\n")
    place = tmp_path / "rootfs" / "etc" / "ssl" / "certs"
    place.mkdir(parents=True)
    if trusted:
        (place / "ca-certificates.crt").write_text(trusted)
    document: dict[str, t.Any] = {"mounts": [], "root": {"path": "rootfs"}}
    assert clamp_limits.add_authority(document, tmp_path, authority) is mounted
    assert [mount["destination"] for mount in document["mounts"]] == [clamp_limits.TRUSTED] * mounted


def test_a_process_in_a_container_gets_no_mount(tmp_path: pathlib.Path) -> None:
    document = json.loads('{"args": ["true"]}')
    assert not clamp_limits.add_authority(document, tmp_path)
    assert document == {"args": ["true"]}


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_busy_spark_has_more_time_to_end(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    def attempt(*arguments: str, **_options: t.Any) -> subprocess.CompletedProcess[str]:
        commands.append(arguments)
        return subprocess.CompletedProcess(arguments, len(commands) <= failures, "", "did not receive an exit event")

    monkeypatch.setattr(lifecycle.engine, "attempt", attempt)
    lifecycle.end("spark")
    assert commands == [("rm", "--force", "spark")] * (failures + 1)


def test_a_container_that_stays_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = subprocess.CompletedProcess([], 1, "", "Permission denied")
    monkeypatch.setattr(lifecycle.engine, "attempt", lambda *_arguments, **_options: refused)
    with pytest.raises(TwinError, match=r"^`docker rm` failed: Permission denied$"):
        lifecycle.end("spark")


@pytest.mark.parametrize("isa", ["", "avx2"])
def test_an_instruction_set_has_an_image_and_a_registry_of_its_own(isa: str) -> None:
    program = "from tests.twin import names; from tests.twin.vllm import build; print(build.TAG, names.KEPT_VOLUME)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ISA": isa},
        cwd=PACKAGE.parents[1],
        capture_output=True,
        check=True,
    )
    assert [name.endswith(b"-avx2") for name in done.stdout.split()] == [isa == "avx2"] * 2


def test_an_instruction_set_that_is_not_known_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.twin", "status"],
        env={**os.environ, "ISA": "avx1"},
        cwd=PACKAGE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("ISA is 'avx1' in the environment")
