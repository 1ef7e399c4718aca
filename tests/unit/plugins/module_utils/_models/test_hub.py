# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models import hub as hub_module
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.hub import (
    CachedRepository,
    CacheError,
    GeneralHubError,
    Hub,
    HubError,
    ModelSpec,
    RemoteFile,
    TokenNeededError,
    _remote_file,
    check_writable,
    choose_files,
    free_space,
    is_wanted,
    read_receipt,
    receipt_covers,
    survey,
    unwritable_path_error,
)

from tests.unit.another_user import another_user
from tests.unit.hub_server import ACCEPTED, COMMIT, UNACCEPTED, Fault, HubServer, Model, running
from tests.unit.waiting import WITHIN_S, Clock

MODEL = "lab/small"


@pytest.fixture
def server() -> t.Iterator[HubServer]:
    model = Model({"config.json": b"{}", "weights-1.bin": b"a" * 1000, "original/weights.bin": b"b" * 2000})
    model.large = {"weights-1.bin", "original/weights.bin"}
    with running(HubServer({MODEL: model})) as server:
        yield server


def hub(server: HubServer, token: str = "") -> Hub:
    return Hub(server.endpoint, token, delays=(0.0, 0.0), timeout=WITHIN_S)


def store(cache: Path, model: Model, paths: t.Iterable[str], size: int | None = None) -> None:
    """Put files into the cache as huggingface_hub does."""
    cached = CachedRepository(cache, MODEL)
    cached.blobs.mkdir(parents=True, exist_ok=True)
    for path in paths:
        blob = cached.blobs / model.blob(path)
        blob.write_bytes(model.files[path][:size])
        pointer = cached.snapshot(model.commit) / path
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.symlink_to(os.path.relpath(blob, pointer.parent))


def write_receipt(receipts: Path, cache: Path, model: Model, paths: t.Iterable[str], **changes: t.Any) -> None:
    snapshot = CachedRepository(cache, MODEL).snapshot(model.commit)
    noted = {
        path: {"size": (s := (snapshot / path).stat()).st_size, "mtime_ns": s.st_mtime_ns, "sha256": "a" * 64}
        for path in paths
    }
    receipt = {"revisions": ["main"], "commit": model.commit, "include": [], "exclude": [], "files": noted, **changes}
    receipts.mkdir(exist_ok=True)
    (receipts / "models--lab--small.json").write_text(json.dumps(receipt))


@pytest.mark.parametrize(
    ("path", "include", "exclude", "expected"),
    [
        ("config.json", [], [], True),
        ("original/a.bin", [], ["original/*"], False),
        ("original/deep/a.bin", [], ["original/*"], False),
        ("original/a.bin", [], ["original/"], False),
        ("a.json", ["*.json"], [], True),
        ("sub/a.json", ["*.json"], [], True),
        ("a.bin", ["*.json"], [], False),
        ("a.json", ["*.json"], ["a*"], False),
    ],
)
def test_is_wanted(path: str, include: list[str], exclude: list[str], expected: bool) -> None:
    assert is_wanted(path, ModelSpec(MODEL, "main", tuple(include), tuple(exclude))) is expected


@pytest.mark.parametrize(
    ("include", "exclude", "message"),
    [
        (
            ("*.json", "orignal/*"),
            (),
            "The include pattern 'orignal/*' matches none of the 1 files of lab/small: "
            "compare it with https://hub/lab/small/tree/main",
        ),
        (
            (),
            ("*",),
            "The include and exclude patterns leave none of the 1 files of lab/small: "
            "compare them with https://hub/lab/small/tree/main",
        ),
    ],
)
def test_patterns_that_can_only_be_mistakes(include: tuple[str, ...], exclude: tuple[str, ...], message: str) -> None:
    with pytest.raises(HubError) as caught:
        choose_files(ModelSpec(MODEL, "main", include, exclude), [RemoteFile("a.json", 1, "b" * 40)], "https://hub")
    assert str(caught.value) == message


def test_hub_lists_all_pages(server: HubServer) -> None:
    server.page = 2
    assert hub(server).resolve(MODEL, "main") == (COMMIT, False)
    files = hub(server).files(MODEL, COMMIT)
    assert [(file.path, file.size, len(file.blob)) for file in files] == [
        ("config.json", 2, 40),
        ("original/weights.bin", 2000, 64),
        ("weights-1.bin", 1000, 64),
    ]


@pytest.mark.parametrize("status", [429, 503])
def test_a_passing_failure_is_tried_again(server: HubServer, status: int) -> None:
    server.faults = [Fault("/api/*", status=status, times=2)]
    assert hub(server).resolve(MODEL, "main") == (COMMIT, False)


@pytest.mark.parametrize(
    ("headers", "seconds", "words"),
    [
        ({"Retry-After": "240"}, 240, "4 min"),
        # As https://huggingface.co/docs/hub/rate-limits has it.
        ({"RateLimit": '"api";r=0;t=55', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}, 55, "55 s"),
    ],
)
def test_a_limit_that_is_announced_is_not_run_against(
    server: HubServer, headers: dict[str, str], seconds: float, words: str
) -> None:
    server.faults = [Fault("/api/*", status=429, headers=headers, times=1)]
    asking = hub(server)
    with pytest.raises(GeneralHubError) as caught:
        asking.resolve(MODEL, "main")
    assert str(caught.value) == (
        f"The Hub {server.endpoint} limits the requests of this network and answers again in {words}: "
        "wait that long, then run again; requests with a token have a limit of their own"
    )
    assert asking.limited_s == seconds
    assert len(server.requests) == 1
    assert asking.resolve(MODEL, "main") == (COMMIT, False)
    assert asking.limited_s is None


@pytest.mark.parametrize("said", ["Wed, 21 Oct 2026 07:28:00 GMT", "\xb2", "9" * 400, "-5", "1e9"])
def test_a_limit_that_is_not_announced_lasts_a_window(server: HubServer, said: str) -> None:
    server.faults = [Fault("/api/*", status=429, headers={"Retry-After": said})]
    asking = hub(server)
    with pytest.raises(GeneralHubError, match="answers again in 5 min"):
        asking.resolve(MODEL, "main")
    assert asking.limited_s == 300


def test_a_limit_of_no_seconds_is_neither_run_against_nor_waited_for_ever(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(hub_module, "time", clock)
    server.faults = [Fault("/api/*", status=429, headers={"Retry-After": "0"})]
    asking = Hub(server.endpoint, "", delays=(2.0, 4.0), timeout=WITHIN_S)
    with pytest.raises(GeneralHubError, match="answers again in 1 s"):
        asking.resolve(MODEL, "main")
    assert (clock.slept, len(server.requests), asking.limited_s) == ([2.0, 4.0], 3, 1.0)


def test_a_lasting_failure_is_reported(server: HubServer) -> None:
    server.faults = [Fault("/api/*", status=503)]
    with pytest.raises(GeneralHubError) as caught:
        hub(server).resolve(MODEL, "main")
    assert str(caught.value) == (
        f"The Hub {server.endpoint} could not be asked for lab/small in 3 attempts (it answered 503): "
        "check this host's network, name resolution and proxy, then run again"
    )


def test_an_unreachable_hub_is_reported() -> None:
    with pytest.raises(
        GeneralHubError, match=r"in 1 attempts \(.*[Cc]onnection refused.*\): check this host's network"
    ):
        Hub("http://127.0.0.1:9", delays=()).resolve(MODEL, "main")


@pytest.mark.parametrize(
    ("repository", "revision", "token", "kind", "message"),
    [
        (
            MODEL,
            "v9",
            "",
            HubError,
            "The Hub's model lab/small has no revision 'v9': "
            "give a branch, a tag or a full commit listed on {}/lab/small/commits/main",
        ),
        (
            "lab/none",
            "main",
            "",
            TokenNeededError,
            "The Hub has no public model lab/none: check the name on {}/lab/none, or, if it is private, give a "
            "token that may read it as huggingface_cache_token or in the environment variable HF_TOKEN",
        ),
        (
            "lab/none",
            "main",
            ACCEPTED,
            HubError,
            "The Hub has no model lab/none (or it is private and the token may not see it): "
            "check the name on {}/lab/none",
        ),
        (
            MODEL,
            "main",
            "hf_mistyped",
            GeneralHubError,
            "The Hub {} refuses the token as invalid (asked for lab/small): it is mistyped, expired or revoked, so "
            "make a new read token on {}/settings/tokens and give that one",
        ),
    ],
)
def test_refusals(
    server: HubServer, repository: str, revision: str, token: str, kind: type[HubError], message: str
) -> None:
    with pytest.raises(HubError) as caught:
        hub(server, token).resolve(repository, revision)
    assert type(caught.value) is kind
    assert str(caught.value) == message.replace("{}", server.endpoint)


@pytest.mark.parametrize(
    ("token", "kind", "message"),
    [
        (
            "",
            TokenNeededError,
            "The model lab/small is gated and no token was found: accept its licence on {}/lab/small, make a read "
            "token on {}/settings/tokens and give it as huggingface_cache_token or in the environment variable "
            "HF_TOKEN",
        ),
        (
            UNACCEPTED,
            HubError,
            "The token is valid but its owner may not download lab/small: accept the licence on {}/lab/small as that "
            "user (and let a fine-grained token read gated repositories), then run again",
        ),
    ],
)
def test_access_to_a_gated_model(server: HubServer, token: str, kind: type[HubError], message: str) -> None:
    server.models[MODEL].gated = True
    assert hub(server, token).resolve(MODEL, "main") == (COMMIT, True)
    with pytest.raises(HubError) as caught:
        hub(server, token).check_access(MODEL, COMMIT, "config.json")
    assert type(caught.value) is kind
    assert str(caught.value) == message.replace("{}", server.endpoint)
    hub(server, ACCEPTED).check_access(MODEL, COMMIT, "config.json")


def test_something_else_answers(server: HubServer) -> None:
    server.models[MODEL].commit = "not-a-commit"
    with pytest.raises(GeneralHubError) as caught:
        hub(server).resolve(MODEL, "main")
    assert str(caught.value) == (
        f"What answers at {server.endpoint} is not a Hugging Face Hub: check the endpoint, and for a proxy or a login "
        "page in between"
    )


STRANGE = "is not a Hugging Face Hub: check the endpoint"


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"sha":', b"\xff\xfe", rb'{"sha": "\ud800"}', b"<html>"])
def test_an_answer_that_no_hub_gives(server: HubServer, body: bytes) -> None:
    server.faults = [Fault("/api/*", body=body)]
    with pytest.raises(GeneralHubError, match=STRANGE):
        hub(server).resolve(MODEL, "main")
    with pytest.raises(GeneralHubError, match=STRANGE):
        hub(server).files(MODEL, COMMIT)


def test_a_list_goes_on_nowhere(server: HubServer) -> None:
    server.faults = [Fault("/api/*", body=b"[]", headers={"Link": '<http://[>; rel="next"'})]
    with pytest.raises(GeneralHubError, match=STRANGE):
        hub(server).files(MODEL, COMMIT)


def test_an_answer_has_a_bound(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MOST_ANSWER_BYTES", 1000, raising=False)
    server.faults = [Fault("/api/*", body=b"[" + b" " * 1000 + b"]")]
    with pytest.raises(GeneralHubError, match=STRANGE):
        hub(server).files(MODEL, COMMIT)


def test_a_drip_without_end_is_not_waited_for(server: HubServer) -> None:
    server.faults = [Fault("/api/*", body=b"", bytes_per_second=20)]
    asking = Hub(server.endpoint, delays=(0.0,), timeout=WITHIN_S, deadline=0.3)
    with pytest.raises(GeneralHubError, match=r"in 2 attempts \(its answer was not complete after 0\.3 s\)"):
        asking.resolve(MODEL, "main")


@pytest.mark.parametrize(
    "path", ["a" * 5000, "a" * 256, "/".join(["a" * 200] * 11), "a\0b", "a\nb", "a\x1b[2J", "a\ud800b"]
)
def test_a_path_that_no_file_system_has(path: str) -> None:
    with pytest.raises(ValueError, match=r"a"):
        _remote_file({"type": "file", "path": path, "size": 1, "oid": "1" * 40})


@pytest.mark.parametrize("path", ["/etc/passwd", "../../outside"])
def test_a_file_outside_of_the_repository_is_refused(server: HubServer, path: str) -> None:
    server.models[MODEL].files[path] = b"x"
    with pytest.raises(GeneralHubError):
        hub(server).files(MODEL, COMMIT)


@pytest.mark.parametrize(
    "changes",
    [
        *({"size": size} for size in (-1, "12", 1.5, True, 10**400, float("inf"))),
        {"path": 5},
        {"path": None},
        {"lfs": 5},
    ],
)
def test_a_list_of_what_are_no_files_is_refused(changes: dict[str, t.Any]) -> None:
    entry = {"type": "file", "path": "a", "size": 1, "oid": "1" * 40, **changes}
    with pytest.raises((ValueError, TypeError, AttributeError)):
        _remote_file(entry)


def test_an_empty_cache_misses_everything(server: HubServer, tmp_path: Path) -> None:
    found = survey([ModelSpec(MODEL, exclude=("original/*",))], tmp_path / "hub", tmp_path / "models", hub(server))
    assert found.errors == []
    assert found.token_needed == []
    (view,) = found.views
    assert view["commit"] == COMMIT
    assert view["snapshot"] == f"{tmp_path}/hub/models--lab--small/snapshots/{COMMIT}"
    assert view["missing"] == [{"path": "config.json", "size": 2}, {"path": "weights-1.bin", "size": 1000}]
    assert (view["bytes_total"], view["bytes_missing"], view["bytes_on_disk"]) == (1002, 1002, 0)
    assert (view["complete"], view["verified"], view["gated"], view["source"]) == (False, False, False, "hub")


def test_parts_count_if_they_can_be_continued(server: HubServer, tmp_path: Path) -> None:
    model = server.models[MODEL]
    store(tmp_path, model, ["config.json"])
    blobs = CachedRepository(tmp_path, MODEL).blobs
    weights, other = model.blob("weights-1.bin"), model.blob("original/weights.bin")
    (blobs / f"{weights}.incomplete").write_bytes(b"a" * 300)
    (blobs / f"{weights}.1a2b3c4d.incomplete").write_bytes(b"a" * 400)
    (blobs / f"{other}.incomplete").write_bytes(b"b" * 500)
    (view,) = survey([ModelSpec(MODEL, exclude=("original/*",))], tmp_path, tmp_path / "models", hub(server)).views
    assert view["missing"] == [{"path": "weights-1.bin", "size": 1000}]
    assert view["bytes_missing"] == 700
    assert view["bytes_on_disk"] == 2 + 300 + 400 + 500
    assert sorted(part["size"] for part in view["incomplete_downloads"]) == [400, 500]


def test_a_file_of_a_wrong_size_is_missing_as_a_whole(server: HubServer, tmp_path: Path) -> None:
    store(tmp_path, server.models[MODEL], server.models[MODEL].files, size=900)
    (view,) = survey([ModelSpec(MODEL)], tmp_path, tmp_path / "models", hub(server)).views
    assert view["bytes_missing"] == 1000 + 2000


def test_a_complete_cache_without_receipt_is_not_verified(server: HubServer, tmp_path: Path) -> None:
    store(tmp_path, server.models[MODEL], server.models[MODEL].files)
    (view,) = survey([ModelSpec(MODEL)], tmp_path, tmp_path / "models", hub(server)).views
    assert (view["complete"], view["verified"], view["bytes_missing"]) == (True, False, 0)


def test_a_receipt_spares_the_hub(server: HubServer, tmp_path: Path) -> None:
    model = server.models[MODEL]
    store(tmp_path, model, model.files)
    write_receipt(tmp_path / "models", tmp_path, model, model.files)
    for revision in ("main", COMMIT):
        (view,) = survey([ModelSpec(MODEL, revision)], tmp_path, tmp_path / "models", hub(server)).views
        assert (view["complete"], view["verified"], view["source"]) == (True, True, "receipt")
        assert (view["commit"], view["bytes_total"], view["bytes_missing"]) == (COMMIT, 3002, 0)
    assert server.requests == []


def test_what_is_to_be_verified_the_hub_says_and_no_receipt(server: HubServer, tmp_path: Path) -> None:
    model = server.models[MODEL]
    store(tmp_path, model, model.files)
    write_receipt(tmp_path / "models", tmp_path, model, model.files)
    (view,) = survey([ModelSpec(MODEL)], tmp_path, tmp_path / "models", hub(server), verify=True).views
    assert (view["complete"], view["verified"], view["source"]) == (True, False, "hub")
    assert {file["path"]: file["blob"] for file in view["files"]} == {path: model.blob(path) for path in model.files}


def test_a_changed_file_makes_the_receipt_void_but_keeps_its_commit(server: HubServer, tmp_path: Path) -> None:
    model = server.models[MODEL]
    store(tmp_path, model, model.files)
    write_receipt(tmp_path / "models", tmp_path, model, model.files)
    os.utime(CachedRepository(tmp_path, MODEL).snapshot(COMMIT) / "config.json", (1, 1))
    (view,) = survey([ModelSpec(MODEL)], tmp_path, tmp_path / "models", hub(server)).views
    assert (view["complete"], view["verified"], view["source"]) == (True, False, "hub")
    assert server.requests[0] == f"GET /api/models/lab/small/revision/{COMMIT}"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ModelSpec(MODEL), True),
        (ModelSpec(MODEL, COMMIT), True),
        (ModelSpec(MODEL, "v2"), False),
        (ModelSpec(MODEL, include=("*.json",)), False),
        (ModelSpec(MODEL, exclude=("*.json",)), False),
    ],
)
def test_receipt_covers(wanted: ModelSpec, expected: bool) -> None:
    receipt = {"revisions": ["main"], "commit": COMMIT, "include": [], "exclude": [], "files": {}}
    assert receipt_covers(receipt, wanted) is expected


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"commit": 1}', '{"commit": "x", "revisions": [], "files": {}}'])
def test_an_unreadable_receipt_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "models--lab--small.json").write_text(text)
    assert read_receipt(tmp_path, MODEL) is None


def test_offline_without_a_receipt_nothing_is_known(tmp_path: Path) -> None:
    (view,) = survey([ModelSpec(MODEL)], tmp_path, tmp_path, None).views
    assert (view["complete"], view["commit"], view["bytes_missing"], view["source"]) == (False, None, None, "none")


def test_all_errors_are_collected(server: HubServer, tmp_path: Path) -> None:
    wanted = [ModelSpec(MODEL, "v9"), ModelSpec("lab/none"), ModelSpec(MODEL, include=("*.gguf",)), ModelSpec(MODEL)]
    found = survey(wanted, tmp_path, tmp_path, hub(server))
    assert [error.split(":")[0] for error in found.errors] == [
        "The Hub's model lab/small has no revision 'v9'",
        "The include pattern '*.gguf' matches none of the 3 files of lab/small",
    ]
    assert len(found.token_needed) == 1
    assert [view["id"] for view in found.views] == [MODEL, "lab/none", MODEL, MODEL]


def test_an_unreachable_hub_is_asked_for_one_repository_only(server: HubServer, tmp_path: Path) -> None:
    server.faults = [Fault("*", status=500)]
    found = survey([ModelSpec(MODEL), ModelSpec("lab/other")], tmp_path, tmp_path, hub(server))
    assert len(found.errors) == 1
    assert len(server.requests) == 3


def test_a_gated_model_that_is_complete_needs_no_token(server: HubServer, tmp_path: Path) -> None:
    server.models[MODEL].gated = True
    assert survey([ModelSpec(MODEL)], tmp_path, tmp_path, hub(server)).token_needed
    store(tmp_path, server.models[MODEL], server.models[MODEL].files)
    assert not survey([ModelSpec(MODEL)], tmp_path, tmp_path, hub(server)).token_needed


@pytest.fixture
def foreign_cache() -> t.Iterator[Path]:
    """A cache that another user may read but not write."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        blobs = top / "hub" / "models--lab--small" / "blobs"
        blobs.mkdir(parents=True)
        # What a link leads to is not taken over.
        (top / "hub" / "models--lab--linked").symlink_to(top / "hub" / "models--lab--small")
        blobs.chmod(0o555)
        yield top / "hub"


def test_a_foreign_cache_is_named(foreign_cache: Path) -> None:
    said = r"cannot be written: .* belongs to .* and not to nobody, .*give it back with 'sudo chown -R nobody: /.*/hub'"
    with another_user(), pytest.raises(CacheError, match=said):
        check_writable(foreign_cache, MODEL)


def test_a_foreign_cache_may_be_one_that_is_taken_over(foreign_cache: Path) -> None:
    with another_user():
        check_writable(foreign_cache, MODEL, take_over=True)
        with pytest.raises(CacheError, match="belongs to"):
            check_writable(foreign_cache, "lab/linked", take_over=True)


def test_a_write_protected_cache_of_ones_own_is_named(tmp_path: Path) -> None:
    message = str(unwritable_path_error(tmp_path, tmp_path))
    assert message == (
        f"The Hugging Face cache {tmp_path} cannot be written: {tmp_path} is write-protected; allow it with "
        f"'chmod -R u+rwX {tmp_path}', then run again"
    )


def test_a_missing_config_is_none(server: HubServer) -> None:
    assert hub(server).small_json(MODEL, COMMIT, "config.json") == {}
    del server.models[MODEL].files["config.json"]
    assert hub(server).small_json(MODEL, COMMIT, "config.json") is None


def test_free_space_of_a_path_that_does_not_exist_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    free, mount_point = free_space(tmp_path / "link" / "not" / "yet")
    assert free > 0
    assert mount_point.is_mount()
    assert tmp_path.is_relative_to(mount_point)
