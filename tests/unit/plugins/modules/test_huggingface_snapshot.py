# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import getpass
import json
import tempfile
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.text import duration
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models import cache_inspector, hub
from ansible_collections.dgx_spark.speculative.plugins.modules import huggingface_snapshot

from tests.unit import modules
from tests.unit.another_user import another_user
from tests.unit.hub_server import ACCEPTED, COMMIT, Fault, HubServer, Model, running
from tests.unit.waiting import Clock


@pytest.fixture
def server() -> t.Iterator[HubServer]:
    models = {
        "lab/open": Model({"config.json": b"{}", "original/a.bin": b"x" * 10}),
        "lab/gated": Model({"config.json": b"{}"}, gated=True),
    }
    with running(HubServer(models)) as server:
        yield server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The module's own clock: `time` is everybody's, and threads of other tests sleep, too."""
    clock = Clock()
    monkeypatch.setattr(huggingface_snapshot, "time", clock)
    monkeypatch.setattr(hub, "time", clock)
    return clock


def run(server: HubServer, tmp_path: Path, repositories: list[t.Any], **more: t.Any) -> dict[str, t.Any]:
    arguments = {
        "repositories": repositories,
        "cache_directory": str(tmp_path / "hub"),
        "receipts_directory": str(tmp_path / "models"),
        "endpoint": server.endpoint,
        **more,
    }
    return modules.run(huggingface_snapshot, arguments)


def test_totals(server: HubServer, tmp_path: Path) -> None:
    wanted = {"id": "lab/open", "exclude": ["original/*"]}
    result = run(server, tmp_path, [wanted], _ansible_check_mode=True)
    assert result["changed"] is False
    assert (result["complete"], result["verified"], result["token_needed"]) == (False, False, False)
    assert (result["bytes_missing"], result["incomplete_bytes"]) == (2, 0)
    assert result["cache_free_bytes"] > 0
    assert result["repositories"][0]["missing"] == [{"path": "config.json", "size": 2}]
    wanted = {"id": "lab/open", "revision": "main", "commit": COMMIT, "include": [], "exclude": ["original/*"]}
    assert result["unverified"] == [wanted]
    snapshot = f"{tmp_path}/hub/models--lab--open/snapshots/{COMMIT}"
    assert result["models"] == {"lab/open": {"commit": COMMIT, "snapshot": snapshot, "bytes": 2}}
    assert list(tmp_path.iterdir()) == []


def test_the_files_without_weights_are_a_download_of_their_own(tmp_path: Path) -> None:
    model = Model({"config.json": b"{}", "model.safetensors": b"w" * 9, "original/x.bin": b"y"})
    with running(HubServer({"lab/weighty": model})) as server:
        wanted = {"id": "lab/weighty", "exclude": ["original/*"]}
        (part,) = run(server, tmp_path, [wanted])["configuration"]
        assert (part["id"], part["commit"], part["include"]) == ("lab/weighty", COMMIT, [])
        assert {"original/*", "*.safetensors"} <= {*part["exclude"]}
        # It is there, and the weights are not.
        snapshot = tmp_path / f"hub/models--lab--weighty/snapshots/{COMMIT}"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_bytes(b"{}")
        result = run(server, tmp_path, [wanted])
    assert (result["configuration"], result["complete"]) == ([], False)


def test_a_token_that_is_needed_can_be_reported(server: HubServer, tmp_path: Path) -> None:
    result = run(server, tmp_path, [{"id": "lab/open"}, {"id": "lab/gated"}], missing_token="report")
    assert result["token_needed"] is True
    assert result["repositories"][0]["bytes_missing"] == 12
    result = run(server, tmp_path, [{"id": "lab/gated"}], token=ACCEPTED)
    assert (result["token_needed"], result["bytes_missing"]) == (False, 2)
    assert ACCEPTED not in json.dumps(result)


def test_all_errors_at_once(server: HubServer, tmp_path: Path) -> None:
    result = run(server, tmp_path, [{"id": "lab/open", "revision": "v9"}, {"id": "lab/gated"}])
    assert result["failed"] is True
    for error, name in zip(result["errors"], ("lab/open", "lab/gated"), strict=True):
        assert name in error
    assert result["msg"] == "\n".join(f"- {error}" for error in result["errors"])


@pytest.mark.parametrize(("seconds", "text"), [("270", "4 min"), ("40", "25 s"), ("9", "1 s")])
def test_a_limit_of_the_hub_is_waited_out_and_told(
    server: HubServer,
    tmp_path: Path,
    clock: Clock,
    seconds: str,
    text: str,
) -> None:
    server.faults = [Fault("/api/*", status=429, headers={"Retry-After": seconds}, times=1)]
    result = run(server, tmp_path, [{"id": "lab/open"}], follow=True)
    assert (result["finished"], result["progress"]) == (
        False,
        {"text": f"the Hub limits requests: continues in {text}"},
    )
    assert clock.slept == [min(15, float(seconds))]
    result = run(server, tmp_path, [{"id": "lab/open"}], follow=True)
    assert (result["finished"], result["bytes_missing"]) == (True, 12)


def test_a_limit_of_no_seconds_is_waited_out_too(server: HubServer, tmp_path: Path, clock: Clock) -> None:
    server.faults = [Fault("/api/*", status=429, headers={"Retry-After": "0"})]
    result = run(server, tmp_path, [{"id": "lab/open"}], follow=True)
    assert (result["finished"], "failed" in result) == (False, False)
    # Besides what it waited between its own tries: whoever follows it does not call again at once.
    assert clock.slept[-1] == 1.0


@pytest.mark.parametrize(
    ("seconds", "more"),
    [("240", {}), ("240", {"follow": True, "_ansible_check_mode": True}), ("7200", {"follow": True})],
)
def test_a_limit_of_the_hub_that_nobody_waits_out(
    server: HubServer, tmp_path: Path, seconds: str, more: dict[str, t.Any]
) -> None:
    server.faults = [Fault("/api/*", status=429, headers={"Retry-After": seconds})]
    result = run(server, tmp_path, [{"id": "lab/open"}], **more)
    assert result["failed"] is True
    assert f"answers again in {duration(float(seconds))}" in result["msg"]


def test_offline_asks_nobody(server: HubServer, tmp_path: Path) -> None:
    result = run(server, tmp_path, [{"id": "lab/open"}], offline=True)
    assert result["repositories"][0]["source"] == "none"
    assert server.requests == []


def received(tmp_path: Path, commit: str) -> None:
    """The other host's model, with the receipt of a copy."""
    blobs = tmp_path / "hub/models--lab--open/blobs"
    blobs.mkdir(parents=True)
    snapshot = tmp_path / "hub/models--lab--open/snapshots" / commit
    snapshot.mkdir(parents=True)
    (blobs / "9e26dfeeb6e641a33dae4961196235bdb965b21b").write_bytes(b"{}")
    (snapshot / "config.json").symlink_to("../../blobs/9e26dfeeb6e641a33dae4961196235bdb965b21b")
    noted = {"size": 2, "mtime_ns": (snapshot / "config.json").stat().st_mtime_ns, "sha256": "a" * 64}
    receipt = {"commit": commit, "revisions": ["main"], "include": [], "exclude": ["original/*"]}
    (tmp_path / "models").mkdir()
    text = json.dumps({"id": "lab/open", **receipt, "files": {"config.json": noted}})
    (tmp_path / "models/models--lab--open.json").write_text(text)


def test_what_another_host_has_takes_the_place_of_the_hub(server: HubServer, tmp_path: Path) -> None:
    wanted = {"id": "lab/open", "exclude": ["original/*"]}
    known = run(server, tmp_path / "head", [wanted])["repositories"]
    assert known[0]["files"] == [{"path": "config.json", "size": 2, "blob": "9e26dfeeb6e641a33dae4961196235bdb965b21b"}]
    asked = len(server.requests)
    result = run(server, tmp_path, [wanted], reference=known)
    assert (result["bytes_missing"], result["verified"]) == (2, False)
    assert result["models"]["lab/open"]["commit"] == COMMIT
    received(tmp_path, COMMIT)
    result = run(server, tmp_path, [wanted], reference=known)
    assert (result["bytes_missing"], result["verified"]) == (0, True)
    # What is to be verified is here and complete, and nothing more.
    result = run(server, tmp_path, [wanted], reference=known, verify=True)
    assert (result["bytes_missing"], result["complete"], result["verified"]) == (0, True, False)
    assert [(model["id"], model["verify"]) for model in result["unverified"]] == [("lab/open", True)]
    result = run(server, tmp_path, [wanted], reference=known)
    # What was copied can be handed on.
    assert result["repositories"][0]["files"] == known[0]["files"]
    assert len(server.requests) == asked


def test_another_commit_than_the_other_host_has_is_not_what_is_wanted(server: HubServer, tmp_path: Path) -> None:
    wanted = {"id": "lab/open", "exclude": ["original/*"]}
    known = run(server, tmp_path / "head", [wanted])["repositories"]
    received(tmp_path, "f" * 40)
    result = run(server, tmp_path, [wanted], reference=known)
    assert (result["verified"], result["models"]["lab/open"]["commit"]) == (False, COMMIT)


def test_what_the_other_host_does_not_know_is_told(server: HubServer, tmp_path: Path) -> None:
    result = run(server, tmp_path, [{"id": "lab/open"}], reference=[])
    assert result["msg"] == "The other host does not know what the model lab/open consists of"
    assert server.requests == []


def test_further_files_are_compared_by_checksum(server: HubServer, tmp_path: Path) -> None:
    (tmp_path / "right").write_bytes(b"abc")
    (tmp_path / "wrong").write_bytes(b"abd")
    checksum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    files = {str(tmp_path / name): checksum for name in ("right", "wrong", "absent")}
    result = run(server, tmp_path, [{"id": "lab/open"}], files=files)
    assert result["files_missing"] == [str(tmp_path / "wrong"), str(tmp_path / "absent")]


@pytest.mark.parametrize("endpoint", ["huggingface.example", "http://a..b"])
def test_an_endpoint_that_is_none_gets_one_sentence(server: HubServer, tmp_path: Path, endpoint: str) -> None:
    result = run(server, tmp_path, [{"id": "lab/open"}], endpoint=endpoint)
    assert result["failed"]
    assert endpoint in result["msg"]


class TestPair:
    """A target and its draft, by what their files config.json say."""

    PAIR: t.ClassVar[dict[str, str]] = {"target": "lab/big", "draft": "lab/head", "method": "eagle3"}
    REPOSITORIES: t.ClassVar[list[t.Any]] = [{"id": "lab/big"}, {"id": "lab/head"}]

    @pytest.fixture
    def server(self) -> t.Iterator[HubServer]:
        target, head = (
            {"vocab_size": 201088, "hidden_size": 2880},
            {"vocab_size": 128256, "hidden_size": 4096},
        )
        models = {
            name: Model({"config.json": json.dumps(config).encode(), "tokenizer.json": tokenizer})
            for name, config, tokenizer in (("lab/big", target, b"1"), ("lab/head", head, b"2"))
        }
        with running(HubServer(models)) as server:
            yield server

    def test_a_wrong_draft_is_found_before_the_download(self, server: HubServer, tmp_path: Path) -> None:
        result = run(server, tmp_path, self.REPOSITORIES, model_pair=self.PAIR)
        for problem, figure in zip(result["model_pair_problems"], ("201088", "2880"), strict=True):
            assert figure in problem
        assert not (tmp_path / "hub").exists()

    def test_the_same_tokenizer_makes_a_pair(self, server: HubServer, tmp_path: Path) -> None:
        pair = {**self.PAIR, "method": "draft_target"}
        assert len(run(server, tmp_path, self.REPOSITORIES, model_pair=pair)["model_pair_problems"]) == 1
        server.models["lab/head"].files["tokenizer.json"] = b"1"
        assert run(server, tmp_path, self.REPOSITORIES, model_pair=pair)["model_pair_problems"] == []

    def test_a_model_without_that_file_is_not_judged(self, server: HubServer, tmp_path: Path) -> None:
        del server.models["lab/head"].files["config.json"]
        assert run(server, tmp_path, self.REPOSITORIES, model_pair=self.PAIR)["model_pair_problems"] == []

    @pytest.mark.parametrize("pair", [{}, {"target": "lab/big", "draft": "lab/absent", "method": "eagle3"}])
    def test_no_pair(self, server: HubServer, tmp_path: Path, pair: dict[str, str]) -> None:
        assert run(server, tmp_path, self.REPOSITORIES, model_pair=pair)["model_pair_problems"] == []
        assert not [request for request in server.requests if "tokenizer.json" in request]

    def test_what_receipts_vouch_for_is_read_from_the_disk(self, server: HubServer, tmp_path: Path) -> None:
        for name in ("big", "head"):
            file = tmp_path / "hub" / f"models--lab--{name}" / "snapshots" / COMMIT / "config.json"
            file.parent.mkdir(parents=True)
            file.write_bytes(server.models[f"lab/{name}"].files["config.json"])
            seen = {"size": file.stat().st_size, "mtime_ns": file.stat().st_mtime_ns, "sha256": "a" * 64}
            noted = {"config.json": seen}
            (tmp_path / "models").mkdir(exist_ok=True)
            (tmp_path / "models" / f"models--lab--{name}.json").write_text(
                json.dumps({"commit": COMMIT, "revisions": ["main"], "include": [], "exclude": [], "files": noted})
            )
        result = run(server, tmp_path, self.REPOSITORIES, model_pair=self.PAIR)
        assert (result["verified"], len(result["model_pair_problems"])) == (True, 2)
        assert server.requests == []

    def test_a_target_in_a_directory(self, server: HubServer, tmp_path: Path) -> None:
        target = tmp_path / "big"
        target.mkdir()
        for name, data in server.models["lab/big"].files.items():
            (target / name).write_bytes(data)
        pair = {"target": str(target), "draft": "lab/head", "method": "draft_target"}
        only_head = [{"id": "lab/head"}]
        (problem,) = run(server, tmp_path, only_head, model_pair=pair)["model_pair_problems"]
        assert str(target) in problem
        server.models["lab/head"].files["tokenizer.json"] = b"1"
        assert run(server, tmp_path, only_head, model_pair=pair)["model_pair_problems"] == []
        server.models["lab/head"].large = {"tokenizer.json"}
        assert run(server, tmp_path, only_head, model_pair=pair)["model_pair_problems"] == []


class TestFacts:
    """What is known of a model before and after its download."""

    CONFIG = json.dumps({"architectures": ["Some"], "num_hidden_layers": 2}).encode()

    @pytest.fixture
    def server(self) -> t.Iterator[HubServer]:
        files = {
            "config.json": self.CONFIG,
            "hf_quant_config.json": b'{"quantization": {"kv_cache_quant_algo": "FP8"}}',
            "model.safetensors.index.json": b'{"metadata": {"total_size": 77}}',
            "model-00001-of-00001.safetensors": b"x" * 90,
            "original/model.safetensors": b"x" * 10,
        }
        with running(HubServer({"lab/some": Model(files)})) as server:
            yield server

    def facts(self, result: dict[str, t.Any]) -> tuple[t.Any, ...]:
        assert list(result["model_facts"]) == ["lab/some"]
        return tuple(result["model_facts"]["lab/some"][key] for key in ("weights_bytes", "layers", "kv_cache_dtype"))

    def test_from_the_hub(self, server: HubServer, tmp_path: Path) -> None:
        result = run(server, tmp_path, [{"id": "lab/some", "exclude": ["original/*"]}])
        assert self.facts(result) == (77, 2, "fp8")
        assert result["repositories"][0]["bytes_weights"] == 90
        # One list, and each of the three small files once.
        assert len(server.requests) == 1 + 1 + 3
        assert not (tmp_path / "hub").exists()

    @pytest.mark.parametrize("index", [b"{", b"[]", b'{"metadata": {}}', None])
    def test_without_a_usable_index_the_files_count(
        self, server: HubServer, tmp_path: Path, index: bytes | None
    ) -> None:
        files = server.models["lab/some"].files
        if index is None:
            del files["model.safetensors.index.json"]
        else:
            files["model.safetensors.index.json"] = index
        assert self.facts(run(server, tmp_path, [{"id": "lab/some"}])) == (90, 2, "fp8")

    def test_what_is_not_wanted_says_nothing(self, server: HubServer, tmp_path: Path) -> None:
        wanted = {"id": "lab/some", "include": ["config.json", "*.safetensors"]}
        assert self.facts(run(server, tmp_path, [wanted])) == (90, 2, None)

    def test_while_a_token_is_needed_nothing_is_known(self, server: HubServer, tmp_path: Path) -> None:
        server.models["lab/some"].gated = True
        result = run(server, tmp_path, [{"id": "lab/some"}], missing_token="report")
        assert (result["token_needed"], result["model_facts"]) == (True, {})
        assert self.facts(run(server, tmp_path, [{"id": "lab/some"}], token=ACCEPTED)) == (77, 2, "fp8")

    def test_what_a_receipt_vouches_for_is_read_from_the_disk(self, server: HubServer, tmp_path: Path) -> None:
        snapshot = tmp_path / "hub" / "models--lab--some" / "snapshots" / COMMIT
        noted = {}
        for name, data in server.models["lab/some"].files.items():
            file = snapshot / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            noted[name] = {"size": len(data), "mtime_ns": file.stat().st_mtime_ns, "sha256": "a" * 64}
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "models--lab--some.json").write_text(
            json.dumps({"commit": COMMIT, "revisions": ["main"], "include": [], "exclude": [], "files": noted})
        )
        assert self.facts(run(server, tmp_path, [{"id": "lab/some"}])) == (77, 2, "fp8")
        assert server.requests == []


@pytest.mark.parametrize(("foreign_paths", "failed"), [("refuse", True), ("accept", False)])
def test_a_cache_that_will_be_taken_over(server: HubServer, foreign_paths: str, failed: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        blobs = top / "hub" / "models--lab--open" / "blobs"
        blobs.mkdir(parents=True)
        blobs.chmod(0o555)
        with another_user():
            result = run(server, top, [{"id": "lab/open"}], foreign_paths=foreign_paths)
    assert result.get("failed", False) is failed
    if failed:
        assert f"belongs to {getpass.getuser()} and not to nobody" in result["msg"]


def test_the_cache_is_looked_at_in_the_same_call(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setattr(cache_inspector, "login_environment", lambda _uid: {"HF_HUB_CACHE": str(elsewhere)})
    received(tmp_path, COMMIT)
    wanted = [{"id": "lab/open", "exclude": ["original/*"]}]
    state = {"state_directory": str(tmp_path)}
    here = run(server, tmp_path, wanted, cache=state)
    assert (here["cache"]["directory"], here["bytes_missing"]) == (str(tmp_path / "hub"), 0)
    assert [model["id"] for model in here["cache"]["models"]] == ["lab/open"]
    # What the login shell names is used for the models, too.
    there = run(server, tmp_path, wanted, cache={**state, "from_environment": True})
    assert (there["cache"]["directory"], there["bytes_missing"]) == (str(elsewhere), 2)
    assert there["models"]["lab/open"]["snapshot"].startswith(str(elsewhere))
    assert "cache" not in run(server, tmp_path, wanted)


def test_an_environment_that_makes_no_sense_is_told(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_inspector, "login_environment", lambda _uid: {"HF_HUB_CACHE": "some/where"})
    cache = {"state_directory": str(tmp_path), "from_environment": True}
    result = run(server, tmp_path, [{"id": "lab/open"}], cache=cache)
    assert result["failed"] is True
    assert "some/where" in result["msg"]
    assert server.requests == []


def test_the_cache_alone_is_looked_at_without_the_hub(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cache_inspector, "login_environment", lambda _uid: {"HF_HUB_CACHE": str(tmp_path / "elsewhere")}
    )
    cache = {"state_directory": str(tmp_path), "from_environment": True}
    result = run(server, tmp_path, [], cache=cache, offline=True)
    assert (result["cache"]["directory"], server.requests) == (str(tmp_path / "elsewhere"), [])


def test_what_is_returned_is_documented(server: HubServer, tmp_path: Path) -> None:
    received(tmp_path, COMMIT)
    wanted = [{"id": "lab/open", "exclude": ["original/*"]}]
    result = run(server, tmp_path, wanted, verify=True, cache={"state_directory": str(tmp_path)})
    documented = yaml.safe_load(huggingface_snapshot.RETURN)
    for name in ("models", "model_facts"):
        sample = documented.pop(name)["sample"]
        assert result.pop(name)["lab/open"].keys() == next(iter(sample.values())).keys()
    assert modules.wrong_documentation(documented, result) == []
    assert result["cache"]["models"][0].keys() == documented["cache"]["sample"]["models"][0].keys()
