# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.keys import (
    ACCEPTED,
    OWNERS,
    Keys,
    KeysError,
)
from ansible_collections.dgx_spark.speculative.plugins.modules import api_keys

from tests.unit import modules

Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Run:
    def run(check: bool = False, **args: t.Any) -> dict[str, t.Any]:
        args = {"directory": str(tmp_path / "proxy/keys"), **args}
        if check:
            args["_ansible_check_mode"] = True
        return modules.run(api_keys, args)

    return run


def content(directory: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in directory.iterdir()} if directory.exists() else {}


def test_keys_are_made_once_and_only_their_owner_may_read_them(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    result = run(names=["default", "laptop"])
    assert result["changed"] is True
    assert result["created"] == ["default", "laptop"]
    assert result["created_paths"] == {"default": str(keys / "default"), "laptop": str(keys / "laptop")}
    assert keys.stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in keys.iterdir()} == {0o600}
    before = content(keys)
    assert before["default"] != before["laptop"]
    assert len(before["default"].strip()) > 40
    again = run(names=["default", "laptop"])
    assert again["changed"] is False
    assert again["created"] == []
    assert content(keys) == before


def test_no_result_holds_a_key(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    for names in (["a"], ["a"], []):
        before = [(keys / "a").read_text()] if (keys / "a").exists() else []
        result = json.dumps(run(names=names))
        after = [(keys / "a").read_text()] if (keys / "a").exists() else []
        for text in before + after:
            assert text.strip() not in result


def test_check_mode_tells_and_leaves_everything(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    result = run(check=True, names=["default"])
    assert result["changed"] is True
    assert result["created"] == ["default"]
    assert not keys.exists()
    run(names=["default"])
    before = content(keys)
    result = run(check=True, names=["other"])
    assert result["created"] == ["other"]
    assert result["owners"] == {"other": "api_proxy"}
    assert content(keys) == before


def test_a_name_left_out_is_revoked_and_another_owners_key_stays(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    run(names=["default", "laptop"])
    run(names=["open-webui"], owner="open_webui")
    accepted = (keys / ".accepted.caddy").read_text()
    for name in ("default", "laptop", "open-webui"):
        assert (keys / name).read_text().strip() in accepted
    gone = (keys / "laptop").read_text().strip()
    result = run(names=["default"])
    assert result["owners"] == {"default": "api_proxy", "open-webui": "open_webui"}
    assert not (keys / "laptop").exists()
    assert gone not in (keys / ".accepted.caddy").read_text()
    assert run(names=[], owner="open_webui")["owners"] == {"default": "api_proxy"}
    assert not (keys / "open-webui").exists()


def test_without_a_key_nothing_is_accepted(run: Run, tmp_path: Path) -> None:
    run(names=["default"])
    run(names=[])
    assert "handle" not in (tmp_path / "proxy/keys/.accepted.caddy").read_text()


def test_a_key_put_there_by_hand_counts_and_stays(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    keys.mkdir(parents=True)
    (keys / "mine").write_text("my-own-key-0123456789-abcdef\n")
    (keys / "mine").chmod(0o644)
    result = run(names=["default"])
    assert result["owners"] == {"default": "api_proxy", "mine": ""}
    assert "could be read by others" in json.dumps(result["warnings"])
    assert (keys / "mine").stat().st_mode & 0o777 == 0o600
    assert "my-own-key-0123456789-abcdef" in (keys / ".accepted.caddy").read_text()
    assert run(names=["default"])["changed"] is False


def test_a_key_put_there_by_hand_is_taken_over_by_who_names_it(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    run(names=["default"])
    (keys / "mine").write_text("my-own-key-0123456789-abcdef\n")
    (keys / "mine").chmod(0o600)
    run(names=["default"])
    before = content(keys)
    # Nothing but the mark is new, and from now on the key can be revoked.
    assert run(check=True, names=["default", "mine"])["changed"] is True
    assert content(keys) == before
    assert run(names=["default", "mine"])["changed"] is True
    assert run(names=["default", "mine"])["changed"] is False
    assert run(names=["default"])["owners"] == {"default": "api_proxy"}


def test_a_directory_that_others_may_enter_is_closed(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "proxy/keys"
    run(names=["default"])
    keys.chmod(0o755)
    assert run(check=True, names=["default"])["changed"] is True
    assert keys.stat().st_mode & 0o777 == 0o755
    assert run(names=["default"])["changed"] is True
    assert keys.stat().st_mode & 0o777 == 0o700
    assert run(names=["default"])["changed"] is False


def test_what_is_accepted_is_written_anew_after_a_run_that_was_cut_off(run: Run, tmp_path: Path) -> None:
    run(names=["default"])
    (tmp_path / "proxy/keys/.accepted.caddy").unlink()
    assert run(check=True, names=["default"])["changed"] is True
    assert run(names=["default"])["changed"] is True
    assert run(names=["default"])["changed"] is False


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../a", "a b", "-a", "x" * 64, "ä"])
def test_bad_names_are_refused(run: Run, tmp_path: Path, name: str) -> None:
    result = run(names=[name])
    assert result["failed"] is True
    assert f"'{name}' is no name for a key" in result["msg"]
    assert not (tmp_path / "proxy").exists()


def test_a_name_of_another_owner_is_refused(run: Run) -> None:
    run(names=["open-webui"], owner="open_webui")
    assert run(names=["open-webui"])["msg"] == (
        "There is a key 'open-webui' already, made for open_webui; choose another name."
    )


@pytest.mark.parametrize(
    "text", ["", "short", 'with "quotes" 0123456789 0123456789', "two-lines-0123456789\nx" * 2, "ä" * 30]
)
def test_a_file_without_a_key_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    run(names=["default"])
    (tmp_path / "proxy/keys/default").write_text(text)
    result = run(names=["default"])
    assert "default holds no key" in result["msg"]
    assert "Remove the file to get a new one." in result["msg"]


def test_two_files_with_the_same_key_are_refused(run: Run, tmp_path: Path) -> None:
    run(names=["a"])
    (tmp_path / "proxy/keys/b").write_text((tmp_path / "proxy/keys/a").read_text())
    assert "b holds the same key as another file" in run(names=["a"])["msg"]


def test_what_is_no_file_is_refused(run: Run, tmp_path: Path) -> None:
    run(names=["a"])
    (tmp_path / "proxy/keys/a").unlink()
    (tmp_path / "proxy/keys/a").symlink_to("/etc/hostname")
    assert "a is no key of this collection" in run(names=["a"])["msg"]


def test_a_list_of_owners_that_is_none_is_named(run: Run, tmp_path: Path) -> None:
    run(names=["a"])
    (tmp_path / "proxy/keys/.owners.json").write_text("[1]")
    assert ".owners.json is no list of the keys' owners any more; remove it" in run(names=["a"])["msg"]
    (tmp_path / "proxy/keys/.owners.json").unlink()
    assert run(names=["a"])["created"] == []


def test_a_directory_that_is_a_file_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "proxy").write_text("")
    result = run(names=["a"])
    assert result["failed"] is True
    assert str(tmp_path / "proxy/keys") in result["msg"]


def test_two_runs_at_once_do_not_lose_each_others_keys(tmp_path: Path) -> None:
    for number in range(20):
        directory = tmp_path / str(number)
        runs = [threading.Thread(target=Keys(directory).ensure, args=([name], name)) for name in ("laptop", "webui")]
        for one in runs:
            one.start()
        for one in runs:
            one.join()
        assert set(Keys(directory).owners().items()) == {("laptop", "laptop"), ("webui", "webui")}
        accepted = (directory / ACCEPTED).read_text()
        assert all((directory / name).read_text().strip() in accepted for name in ("laptop", "webui"))


def test_bad_names_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeysError):
        Keys(tmp_path / "keys").ensure(["a/b"], "api_proxy")
    assert not (tmp_path / "keys").exists()


def test_a_list_of_owners_without_an_end_is_named(tmp_path: Path) -> None:
    (tmp_path / OWNERS).write_text("[" * 100_000)
    with pytest.raises(KeysError, match="is no list of the keys' owners any more"):
        Keys(tmp_path).owners()


def test_a_key_of_somebody_else_keeps_the_door_for_containers_open(run: Run) -> None:
    assert run(names=["a"])["scope"] == "local"
    run(names=["open-webui"], owner="open_webui")
    assert run(names=["a"])["scope"] == "docker"
    assert run(names=["a"], expose="lan")["scope"] == "lan"
    run(names=[], owner="open_webui")
    assert run(names=["a"])["scope"] == "local"
