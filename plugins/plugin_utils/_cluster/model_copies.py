# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Compare the models of the Sparks by the results of huggingface_snapshot: missing ones, and differences."""

from __future__ import annotations

import typing as t

from .._recipe.recipe import TIKTOKEN_ENCODINGS

# Published with the vocabularies' readers.
TIKTOKEN_URL = "https://openaipublic.blob.core.windows.net/encodings"

View = t.Mapping[str, t.Any]


def tiktoken_files(names: t.Iterable[str], directory: str) -> dict[str, str]:
    """Return the checksum of each vocabulary by its path on a Spark."""
    return {f"{directory}/{name}.tiktoken": TIKTOKEN_ENCODINGS[name] for name in names}


def downloads(missing: t.Iterable[str], files: t.Mapping[str, str]) -> list[dict[str, str]]:
    """Return URL and checksum of each missing file."""
    return [
        {"path": path, "url": f"{TIKTOKEN_URL}/{path.rpartition('/')[2]}", "checksum": f"sha256:{files[path]}"}
        for path in missing
    ]


def size(view: View) -> int:
    """Return the known bytes of all models."""
    return sum(model["bytes"] or 0 for model in view["models"].values())


def known_facts(view: View, head: View) -> dict[str, t.Any]:
    """Return the facts of a Spark's models; for those to be copied they come from the head."""
    own = {name: facts for name, facts in view["model_facts"].items() if facts}
    return {"model_facts": {**head["model_facts"], **own}, "bytes": size(head)}


def missing_models(host: str, text: str, errors: t.Iterable[str]) -> str:
    """Return why a Spark lacks a model. Models in directories are not copied."""
    hint = " Models in directories are not copied: they have to lie in the same place on each Spark."
    in_directories = any(" /" in f" {error}" for error in errors)
    return f"{host}: {text.removeprefix(f'{host}: ')}{hint if in_directories else ''}"


def _in_directories(view: View) -> dict[str, int]:
    return {name: model["bytes"] for name, model in view["models"].items() if model["commit"] is None}


def copy_targets(views: t.Mapping[str, View]) -> list[str]:
    """Return the Sparks to which the previous one copies models and vocabularies. Views are in the order of ranks."""
    _first, *others = views
    return [name for name in others if not views[name]["verified"] or views[name]["files_missing"]]


def copy_content(view: View, state_directory: str, verify: bool) -> dict[str, t.Any]:
    """Return the models that a Spark sends, and the directories in which it may receive them."""
    places = {"cache": view["cache"]["directory"], "receipts": f"{state_directory}/models"}
    paths = [{"path": path, "sha256": checksum} for path, checksum in view["tiktoken_encodings"].items()]
    content = {
        **places,
        "repositories": [{key: repository[key] for key in ("id", "commit")} for repository in view["repositories"]],
        "tiktoken_encodings": paths,
        "verify": verify,
    }
    tiktoken_encodings = paths[0]["path"].rpartition("/")[0] if paths else state_directory
    return {"content": content, "places": {**places, "tiktoken_encodings": tiktoken_encodings}}


def directory_mismatch(views: t.Mapping[str, View], host: str) -> str:
    """Return why a Spark cannot use models in directories, which are not copied; empty if it can."""
    names = list(views)
    here, head = names.index(host), views[names[0]]
    result = [name for name, size_ in _in_directories(views[host]).items() if size_ != _size_of(head, name)]
    if not here or not result:
        return ""
    return (
        f"{host}: {' and '.join(result)} {'is' if len(result) == 1 else 'are'} not as large as on {names[here - 1]}. "
        "Copy the whole directory from there, as with 'rsync -a', and run again."
    )


def changed_since(host: str, view: View, cache: str, since: str) -> str:
    """Return why a Spark cannot use the models that were just copied to it. Empty if it can."""
    if view["verified"] and not view["files_missing"]:
        return ""
    names = " and ".join(model["id"] for model in view["unverified"]) or "a vocabulary"
    return f"{host}: {names} changed in the cache {cache} since {since} ended. Run the same again."


def _size_of(view: View, name: str) -> int | None:
    return view["models"].get(name, {}).get("bytes")
