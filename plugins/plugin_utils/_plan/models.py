# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Which models the Sparks have, by what huggingface_snapshot returned on each: who lacks some, and what is unlike."""

from __future__ import annotations

import typing as t

# Published with the vocabularies' readers.
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings"
VOCABULARIES = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}

View = t.Mapping[str, t.Any]


def vocabulary_files(names: t.Iterable[str], directory: str) -> dict[str, str]:
    """The checksum of each vocabulary by its path on a Spark."""
    return {f"{directory}/{name}.tiktoken": VOCABULARIES[name] for name in names}


def downloads(missing: t.Iterable[str], files: t.Mapping[str, str]) -> list[dict[str, str]]:
    """Where the files come from that are not there, and how each is checked."""
    return [
        {"path": path, "url": f"{VOCABULARY_URL}/{path.rpartition('/')[2]}", "checksum": f"sha256:{files[path]}"}
        for path in missing
    ]


def size(view: View) -> int:
    """What all models take, as far as that is known, in bytes."""
    return sum(model["bytes"] or 0 for model in view["models"].values())


def beside(view: View, head: View) -> dict[str, t.Any]:
    """What is known of the models of a Spark that may yet have to be copied to: what it lacks, the head has read."""
    own = {name: facts for name, facts in view["facts"].items() if facts}
    return {"facts": {**head["facts"], **own}, "bytes": size(head)}


def lacking(host: str, said: str, errors: t.Iterable[str]) -> str:
    """Why a Spark cannot have what the one before it has: models in directories are not copied."""
    hint = " Models in directories are not copied: they have to lie in the same place on each Spark."
    in_directories = any(" /" in f" {error}" for error in errors)
    return f"{host}: {said.removeprefix(f'{host}: ')}{hint if in_directories else ''}"


def _in_directories(view: View) -> dict[str, int]:
    return {name: model["bytes"] for name, model in view["models"].items() if model["commit"] is None}


def copies(views: t.Mapping[str, View], host: str) -> dict[str, t.Any]:
    """Who has models and vocabularies copied to it, and why those in directories of a Spark cannot be used.

    The views are in the order of the ranks; each Spark takes copies from the one before it.
    """
    first, *others = views
    refusal, here = "", list(views).index(host)
    unlike = [name for name, size_ in _in_directories(views[host]).items() if size_ != _size_of(views[first], name)]
    if here and unlike:
        refusal = (
            f"{host}: {' and '.join(unlike)} {'is' if len(unlike) == 1 else 'are'} not as large as on "
            f"{list(views)[here - 1]}. Copy the whole directory from there, as with 'rsync -a', and run again."
        )
    to = [name for name in others if not views[name]["verified"] or views[name]["files_missing"]]
    return {"to": to, "refusal": refusal}


def _size_of(view: View, name: str) -> int | None:
    return view["models"].get(name, {}).get("bytes")
