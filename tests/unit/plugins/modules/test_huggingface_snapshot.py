# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.modules import huggingface_snapshot

from tests.unit.hub_server import ACCEPTED, COMMIT, HubServer, Model, running


@pytest.fixture
def server() -> t.Iterator[HubServer]:
    models = {
        "lab/open": Model({"config.json": b"{}", "original/a.bin": b"x" * 10}),
        "lab/gated": Model({"config.json": b"{}"}, gated=True),
    }
    with running(HubServer(models)) as server:
        yield server


def run(
    capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path, repositories: list[t.Any], **more: t.Any
) -> dict[str, t.Any]:
    arguments = {
        "repositories": repositories,
        "cache_directory": str(tmp_path / "hub"),
        "receipts_directory": str(tmp_path / "models"),
        "endpoint": server.endpoint,
        **more,
    }
    with patch_module_args(arguments), pytest.raises(SystemExit):
        huggingface_snapshot.main()
    return json.loads(capsys.readouterr().out)


def test_totals(capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path) -> None:
    wanted = {"id": "lab/open", "exclude": ["original/*"]}
    result = run(capsys, server, tmp_path, [wanted], _ansible_check_mode=True)
    assert result["changed"] is False
    assert (result["complete"], result["verified"], result["token_needed"]) == (False, False, False)
    assert (result["bytes_missing"], result["bytes_orphaned"]) == (2, 0)
    assert result["cache_free_bytes"] > 0
    assert result["repositories"][0]["missing"] == [{"path": "config.json", "size": 2}]
    wanted = {"id": "lab/open", "revision": "main", "commit": COMMIT, "include": [], "exclude": ["original/*"]}
    assert result["unverified"] == [wanted]
    snapshot = f"{tmp_path}/hub/models--lab--open/snapshots/{COMMIT}"
    assert result["models"] == {"lab/open": {"commit": COMMIT, "snapshot": snapshot, "bytes": 2}}
    assert list(tmp_path.iterdir()) == []


def test_a_token_that_is_needed_can_be_reported(
    capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path
) -> None:
    result = run(capsys, server, tmp_path, [{"id": "lab/open"}, {"id": "lab/gated"}], missing_token="report")
    assert result["token_needed"] is True
    assert result["repositories"][0]["bytes_missing"] == 12
    result = run(capsys, server, tmp_path, [{"id": "lab/gated"}], token=ACCEPTED)
    assert (result["token_needed"], result["bytes_missing"]) == (False, 2)
    assert ACCEPTED not in json.dumps(result)


def test_all_errors_at_once(capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path) -> None:
    result = run(capsys, server, tmp_path, [{"id": "lab/open", "revision": "v9"}, {"id": "lab/gated"}])
    assert result["failed"] is True
    assert len(result["errors"]) == 2
    assert result["msg"] == (
        f"- The Hub's model lab/open has no revision 'v9': give a branch, a tag or a full commit listed on "
        f"{server.endpoint}/lab/open/commits/main\n"
        f"- The model lab/gated is gated and no token was found: accept its licence on {server.endpoint}/lab/gated, "
        f"make a read token on {server.endpoint}/settings/tokens and give it as huggingface_cache_token or in the "
        "environment variable HF_TOKEN"
    )


def test_offline_asks_nobody(capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path) -> None:
    result = run(capsys, server, tmp_path, [{"id": "lab/open"}], offline=True)
    assert result["repositories"][0]["source"] == "none"
    assert server.requests == []


def test_further_files_are_compared_by_checksum(
    capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path
) -> None:
    (tmp_path / "right").write_bytes(b"abc")
    (tmp_path / "wrong").write_bytes(b"abd")
    checksum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    files = {str(tmp_path / name): checksum for name in ("right", "wrong", "absent")}
    result = run(capsys, server, tmp_path, [{"id": "lab/open"}], files=files)
    assert result["files_missing"] == [str(tmp_path / "wrong"), str(tmp_path / "absent")]


@pytest.mark.parametrize("endpoint", ["huggingface.example", "http://a..b"])
def test_an_endpoint_that_is_none_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], server: HubServer, tmp_path: Path, endpoint: str
) -> None:
    result = run(capsys, server, tmp_path, [{"id": "lab/open"}], endpoint=endpoint)
    assert result["failed"]
    assert endpoint in result["msg"]
