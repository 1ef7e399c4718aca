# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._cluster import model_copies


def view(verified: bool = True, missing: t.Sequence[str] = (), size: int = 5) -> dict[str, t.Any]:
    return {
        "verified": verified,
        "files_missing": list(missing),
        "models": {"lab/one": {"commit": "1", "bytes": 7}, "/here": {"commit": None, "bytes": size}},
        "model_facts": {"lab/one": {"layers": 3}, "/here": {}},
    }


def test_a_vocabulary_is_fetched_by_its_name_and_checked() -> None:
    files = model_copies.tiktoken_files(["o200k_base"], "/state/tiktoken_encodings")
    path = "/state/tiktoken_encodings/o200k_base.tiktoken"
    assert files == {path: model_copies.TIKTOKEN_ENCODINGS["o200k_base"]}
    assert model_copies.downloads([path], files) == [
        {
            "path": path,
            "url": "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
            "checksum": f"sha256:{files[path]}",
        }
    ]


def test_sizes_that_are_not_known_do_not_count() -> None:
    assert model_copies.size({"models": {"a": {"bytes": 5}, "b": {"bytes": None}}}) == 5


def test_what_a_spark_lacks_the_head_has_read() -> None:
    head = {**view(size=9), "model_facts": {"lab/one": {"layers": 1}, "/here": {"layers": 2}}}
    assert model_copies.known_facts(view(), head) == {
        "model_facts": {"lab/one": {"layers": 3}, "/here": {"layers": 2}},
        "bytes": 16,
    }


@pytest.mark.parametrize(
    ("errors", "hint"),
    [
        (
            ["/here is empty"],
            " Models in directories are not copied: they have to lie in the same place on each Spark.",
        ),
        (
            ["The directory /here"],
            " Models in directories are not copied: they have to lie in the same place on each Spark.",
        ),
        (["The cache is a/b"], ""),
        ([], ""),
    ],
)
def test_models_in_directories_are_not_copied(errors: list[str], hint: str) -> None:
    assert model_copies.missing_models("spark-2", "spark-2: No.", errors) == model_copies.missing_models(
        "spark-2", "No.", errors
    )
    assert model_copies.missing_models("spark-2", "No.", errors) == f"spark-2: No.{hint}"


def test_who_lacks_something_has_it_copied() -> None:
    views = {"a": view(verified=False), "b": view(), "c": view(missing=["/v"]), "d": view(verified=False)}
    assert model_copies.copy_targets(views) == ["c", "d"]


def test_models_in_directories_are_as_large_as_on_the_head() -> None:
    views = {"a": view(), "b": view(size=4), "c": view()}
    assert model_copies.directory_mismatch(views, "a") == model_copies.directory_mismatch(views, "c") == ""
    assert model_copies.directory_mismatch(views, "b") == (
        "b: /here is not as large as on a. Copy the whole directory from there, as with 'rsync -a', and run again."
    )


def test_what_is_sent_of_them_and_where_it_may_be_taken_in() -> None:
    paths = {"/v/o200k_base.tiktoken": "12", "/v/cl100k_base.tiktoken": "34"}
    repositories = [{"id": "lab/one", "commit": "1", "verified": True}]
    own = {"cache": {"directory": "/hub"}, "repositories": repositories, "tiktoken_encodings": paths}
    places = {"cache": "/hub", "receipts": "/state/models"}
    assert model_copies.copy_content(own, "/state", True) == {
        "content": {
            **places,
            "repositories": [{"id": "lab/one", "commit": "1"}],
            "tiktoken_encodings": [{"path": path, "sha256": checksum} for path, checksum in paths.items()],
            "verify": True,
        },
        "places": {**places, "tiktoken_encodings": "/v"},
    }
    assert (
        model_copies.copy_content({**own, "tiktoken_encodings": {}}, "/state", True)["places"]["tiktoken_encodings"]
        == "/state"
    )


def test_what_was_brought_and_is_not_there() -> None:
    whole = {"verified": True, "files_missing": [], "unverified": []}
    assert model_copies.changed_since("a", whole, "/cache", "the copy") == ""
    lost = {**whole, "verified": False, "unverified": [{"id": "lab/one"}, {"id": "lab/two"}]}
    assert model_copies.changed_since("a", lost, "/cache", "the download") == (
        "a: lab/one and lab/two changed in the cache /cache since the download ended. Run the same again."
    )
    assert model_copies.changed_since("a", {**whole, "files_missing": ["/v"]}, "/cache", "the copy") == (
        "a: a vocabulary changed in the cache /cache since the copy ended. Run the same again."
    )
