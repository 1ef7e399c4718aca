# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pwd
import signal
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models import cache_facts as cache_found
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import CachedModel, Piece
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache_facts import (
    CacheFacts,
    EnvironmentValueError,
    ForeignPath,
    environment_directory,
    foreign_paths,
    login_environment,
    statement,
    token_files,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import ModelSpec

from tests.unit.another_user import another_user
from tests.unit.waiting import WITHIN_S

ME = os.geteuid()


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return make_cache(tmp_path)


def make_cache(top: Path) -> Path:
    hub = top / "hub"
    for name in ("models--lab--small/blobs", "models--lab--other/blobs", ".locks/models--lab--small"):
        (hub / name).mkdir(parents=True)
    return hub


def paths(found: list[ForeignPath]) -> list[str]:
    return [item.path for item in found]


def test_a_cache_of_ones_own_has_nothing_foreign(hub: Path, tmp_path: Path) -> None:
    assert foreign_paths(hub, ["lab/small", "lab/none"], ME) == []
    assert foreign_paths(tmp_path / "not" / "yet", ["lab/small"], ME) == []


class TestForeignPaths:
    """A cache of somebody else's, as nobody sees it."""

    OWNER = pwd.getpwuid(ME).pw_name

    @pytest.fixture
    def top(self) -> t.Iterator[Path]:
        # Where nobody may look, which is not so of tmp_path.
        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o755)
            yield Path(name)

    def close(self, top: Path, mode: int = 0o555) -> None:
        """Nobody may write there, nor may the owner who plays nobody."""
        for path in (*top.rglob("*"), top):
            if path.is_dir():
                path.chmod(mode)

    def look(self, hub: Path, *repositories: str) -> list[ForeignPath]:
        with another_user() as user:
            return foreign_paths(hub, repositories, user)

    def test_only_what_the_run_must_write(self, top: Path) -> None:
        hub = make_cache(top)
        self.close(top)
        assert self.look(hub, "lab/small", "lab/none") == [
            ForeignPath(str(hub), self.OWNER, False),
            ForeignPath(str(hub / ".locks"), self.OWNER, False),
            ForeignPath(str(hub / ".locks" / "models--lab--small"), self.OWNER, True),
            ForeignPath(str(hub / "models--lab--small"), self.OWNER, True),
        ]

    def test_a_cache_that_users_share_is_left_to_them(self, top: Path) -> None:
        hub = make_cache(top)
        self.close(hub, 0o777)
        assert self.look(hub, "lab/small") == []

    @pytest.mark.parametrize(("name", "foreign"), [("a.incomplete", True), ("a", False)])
    def test_a_file_that_is_continued_and_one_that_is_only_read(self, top: Path, name: str, foreign: bool) -> None:
        hub = make_cache(top)
        self.close(hub, 0o777)
        (hub / "models--lab--small" / "blobs" / name).touch(0o444)
        assert paths(self.look(hub, "lab/small")) == ([str(hub / "models--lab--small")] if foreign else [])

    def test_a_link_is_not_taken_over(self, top: Path) -> None:
        hub = make_cache(top)
        (top / "linked").symlink_to(hub)
        (hub / "models--lab--link").symlink_to("/etc")
        self.close(top)
        assert paths(self.look(top / "linked", "lab/link")) == [str(hub), str(hub / ".locks")]

    def test_a_cache_that_cannot_be_made(self, top: Path) -> None:
        self.close(top)
        assert self.look(top / "a" / "hub", "lab/small") == [ForeignPath(str(top / "a" / "hub"), self.OWNER, False)]


def test_the_commands_of_an_administrator(hub: Path) -> None:
    assert ForeignPath(str(hub), "root", False).command("me") == f"sudo chown me: {hub}"
    assert ForeignPath(str(hub), "root", True).command("me") == f"sudo chown -R me: {hub}"
    assert ForeignPath("/nowhere/a b", "root", False).command("me") == "sudo install -d -o me '/nowhere/a b'"


def test_token_files_are_named(hub: Path) -> None:
    assert token_files(hub) == []
    (hub.parent / "token").write_text("hf_secret")
    assert token_files(hub) == [str(hub.parent / "token")]


class TestLoginShell:
    @pytest.fixture
    def shell(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str, str], None]:
        """Give the user another shell and start-up file."""
        for name in cache_found.VARIABLES:
            monkeypatch.delenv(name, raising=False)
        real = pwd.getpwuid(ME)

        def use(path: str, start_up: str) -> None:
            (tmp_path / ".bash_profile").write_text(start_up)
            account = pwd.struct_passwd((*real[:5], str(tmp_path), path))
            monkeypatch.setattr(cache_found.pwd, "getpwuid", lambda _uid: account)

        return use

    def test_what_a_start_up_file_exports(self, shell: t.Callable[[str, str], None]) -> None:
        shell(
            "/bin/bash", "echo welcome\nexport HF_HOME='/data/my models' SECRET=hf_secret\nHF_HUB_CACHE=/not/exported\n"
        )
        assert login_environment(ME, WITHIN_S) == {"HF_HOME": "/data/my models", "HF_HUB_CACHE": None}

    def test_a_start_up_file_that_asks(self, shell: t.Callable[[str, str], None]) -> None:
        shell("/bin/bash", "read -p 'Which? ' answer\nexport HF_HOME=/data/$answer\n")
        assert login_environment(ME, WITHIN_S)["HF_HOME"] == "/data/"

    @pytest.mark.parametrize("said", ['{"HF_HOME": 5}', "[1]", "{", "[" * 20_000])
    def test_a_start_up_file_that_speaks_as_the_question_does(
        self, shell: t.Callable[[str, str], None], tmp_path: Path, said: str
    ) -> None:
        (tmp_path / "said").write_text(f"{cache_found.MARK}{said}\n")
        shell("/bin/bash", f"cat {tmp_path}/said; exit\n")
        assert login_environment(ME, WITHIN_S) == {"HF_HOME": None, "HF_HUB_CACHE": None}

    def test_a_start_up_file_that_hangs(
        self, shell: t.Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell("/bin/bash", "sleep 600\n")
        monkeypatch.setenv("HF_HOME", "/of/this/process")
        assert login_environment(ME, limit=0.5)["HF_HOME"] == "/of/this/process"

    def test_a_start_up_file_that_leaves_a_daemon(self, shell: t.Callable[[str, str], None], tmp_path: Path) -> None:
        shell("/bin/bash", f"sleep 600 &\necho $! > {tmp_path}/daemon\ndisown\nexport HF_HOME=/data\n")
        assert login_environment(ME, WITHIN_S)["HF_HOME"] == "/data"
        # It still runs, and was not waited for.
        os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)

    @pytest.mark.parametrize("path", ["/bin/false", "/nonexistent/shell"])
    def test_no_shell(self, shell: t.Callable[[str, str], None], path: str) -> None:
        shell(path, "")
        assert login_environment(ME, WITHIN_S) == {"HF_HOME": None, "HF_HUB_CACHE": None}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"HF_HOME": "/data"}, (Path("/data/hub"), "HF_HOME")),
        ({"HF_HOME": "~/hf"}, (Path("/home/me/hf/hub"), "HF_HOME")),
        ({"HF_HOME": "/data", "HF_HUB_CACHE": "/cache"}, (Path("/cache"), "HF_HUB_CACHE")),
    ],
)
def test_where_the_environment_leads(environment: dict[str, str | None], expected: tuple[Path, str] | None) -> None:
    assert environment_directory(environment, "/home/me") == expected


def test_an_environment_that_leads_nowhere() -> None:
    with pytest.raises(EnvironmentValueError, match="HF_HOME of the login shell is 'data', which is not an absolute"):
        environment_directory({"HF_HOME": "data"}, "/home/me")


BIG, SMALL = ModelSpec("lab/big", exclude=("original/*",)), ModelSpec("lab/small")


def model(name: str, fetched_here: bool = True, unused_files: tuple[Piece, ...] = ()) -> CachedModel:
    return CachedModel(name, f"/hub/{name}", 65_200_000_000, fetched_here, False, unused_files, ())


def found(**changes: t.Any) -> CacheFacts:
    values: dict[str, t.Any] = {
        "wanted": (BIG, SMALL),
        "verified": frozenset(),
        "models": (),
        "foreign": (),
        "neighbours": (),
        "directory": "/hub",
        "elsewhere": None,
        "user": "me",
        "take_over": True,
    }
    return CacheFacts(**{**values, **changes})


def test_an_empty_cache_and_an_unchanged_run_are_not_worth_a_word() -> None:
    assert statement(found()) == []
    both = (model("lab/big"), model("lab/small"))
    assert statement(found(models=both, verified=frozenset({"lab/big", "lab/small"}), neighbours=("/token",))) == []


def test_what_is_there_is_stated() -> None:
    both = (model("lab/big"), model("lab/small", fetched_here=False), model("lab/unrelated"))
    assert statement(found(models=both, verified=frozenset({"lab/big"}), neighbours=("/hf/token",))) == [
        "Complete already: lab/big (65.2 GB).",
        "Already in /hub: lab/small (65.2 GB). What is complete is used and not fetched again.",
        "/hf/token lies beside the cache and is not mounted into any container.",
    ]


def test_unserved_files_are_stated_with_the_command() -> None:
    pieces = (Piece("metal/", 65_200_000_000), Piece("original/", 65_200_000_000))
    everything = frozenset({"lab/big", "lab/small"})
    (line,) = statement(found(models=(model("lab/big", unused_files=pieces),), verified=everything))
    assert line == (
        "lab/big holds metal/ and original/, 130 GB that are not served; remove them with 'cleanup.yml -e unused=true'."
    )
    line = statement(found(models=(model("lab/big", False, pieces),)))[-1]
    assert "; remove them once this run has ended with 'cleanup.yml " in line


def test_owners_are_stated() -> None:
    foreign = (ForeignPath("/hub", "root", False), ForeignPath("/hub/models--lab--big", "root", True))
    assert statement(found(foreign=foreign)) == [
        "root owns /hub and /hub/models--lab--big with all that is in it: before the download they are given to me "
        "(huggingface_cache_fix_ownership)."
    ]
    assert statement(found(foreign=foreign[:1], take_over=False)) == ["root owns /hub."]


def test_another_directory_is_stated() -> None:
    assert statement(found(elsewhere=("/data/hub", "HF_HOME"))) == [
        "HF_HOME of the login shell leads to /data/hub, but /hub is used; set huggingface_cache_from_environment to "
        "true to use the former."
    ]
