# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Ask what is newer than a deployment: a release of the same minor version, a commit of a model."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
import typing as t

from .._docker.registry import Reference, Registry, RegistryError, describe, parse_reference
from .._docker.release import Range, Version, is_nightly, range_of, version_of
from .._models.disk import COMMIT, ModelSpec, RemoteFile, is_wanted
from .._models.hub import Hub, HubError, TokenNeededError

BRANCH = "main"
# A commit that changes nothing else is no reason to download a model again.
DOCUMENTATION = ("*.md", ".gitattributes", "LICENSE*", "USAGE_POLICY*", "*.png", "*.jpg", "*.jpeg", "*.svg", "*.pdf")
# The registry may not have a release for this platform; this many are tried, the newest first.
MOST_CANDIDATES = 3
NEWEST, NEWER, PINNED, LOCAL, UNKNOWN = "newest", "newer", "pinned", "directory", "unknown"
# Other exceptions while an answer is read.
STRANGE = (KeyError, TypeError, ValueError, AttributeError, RecursionError)

Answer = t.TypeVar("Answer")


@dataclasses.dataclass
class Row:
    """The image or a model with its newest version; `proposed` is what -e apply=true deploys."""

    kind: str
    name: str
    current: str | None = None
    newest: str | None = None
    verdict: str = UNKNOWN
    proposed: str | None = None
    bytes: int | None = None
    # The newest tag, if it may need other engine options.
    beyond: str | None = None
    notes: list[str] = dataclasses.field(default_factory=list)


# --- The image -------------------------------------------------------------------------------------------------------


def is_same_minor(now: Version, other: Version) -> bool:
    """Return whether both are releases of the same minor version, or candidates of the same release."""
    if now[3] == math.inf:
        return other[3] == math.inf and now[:2] == other[:2]
    return other[3] != math.inf and now[:3] == other[:3]


def suffix_of(tag: str) -> str:
    """Return what a tag has after its release, such as -arm64."""
    return "".join(re.findall(r"[-+].*$", tag))


def newer_tags(tag: str, tags: t.Iterable[str], families: t.Sequence[Range]) -> tuple[list[str], str | None]:
    """Return the newer tags to propose, newest first, and the newest tag if it is none of them.

    A tag is proposed if it has the same minor version and its engine options are those of a known release family.
    Only a nightly build is compared with nightly builds.
    """
    now = version_of(tag)
    if now is None:
        return [], None
    versions = [(version_of(other), other) for other in tags if suffix_of(other) == suffix_of(tag)]
    newer = sorted(
        ((version, other) for version, other in versions if version and version > now),
        reverse=True,
    )
    offered = [pair for pair in newer if is_nightly(now) or not is_nightly(pair[0])]
    proposed = [other for version, other in offered if is_same_minor(now, version) and range_of(version, families)]
    newest = offered[0][1] if offered else None
    return proposed, newest if newest not in proposed else None


def image_row(image: str, platform: str, families: t.Sequence[Range]) -> Row:
    """Ask the registry about the image of a deployment; `families` are the ranges of releases with known options."""
    row = Row("image", image.partition("@")[0])
    try:
        reference = parse_reference(image)
        row.current = reference.tag or reference.digest
        if reference.digest:
            row.newest, row.verdict = row.current, PINNED
        elif version_of(reference.tag) is None:
            row.notes.append(f"{reference.tag} names no release, so no newer one can be found.")
        else:
            row.name = row.name.removesuffix(f":{reference.tag}")
            _compare_tags(row, reference, platform, families)
    except RegistryError as error:
        row.notes.append(str(error))
    except STRANGE as error:
        row.notes.append(f"The answer for {image} is not that of a registry ({error!r}).")
    return row


def _compare_tags(row: Row, reference: Reference, platform: str, families: t.Sequence[Range]) -> None:
    registry = Registry(reference.base_url, reference.repository)
    proposed, beyond = newer_tags(reference.tag, registry.tags(), families)
    row.newest, row.verdict = reference.tag, NEWEST
    for tag in proposed[:MOST_CANDIDATES]:
        result = describe(registry, dataclasses.replace(reference, tag=tag), platform)
        if result["exists"] and (not result["platforms"] or result["platform_digest"]):
            row.newest, row.verdict, row.bytes = tag, NEWER, result["compressed_bytes"]
            row.proposed = f"{row.name}:{tag}"
            break
        row.notes.append(f"{tag} is not there for {platform}.")
    row.beyond = beyond


# --- The models ------------------------------------------------------------------------------------------------------


def ask(hubs: t.Sequence[Hub], question: t.Callable[[Hub], Answer]) -> Answer:
    """Ask the Hub without a token, and with the token only for a model that needs it."""
    for hub in hubs[:-1]:
        try:
            return question(hub)
        except TokenNeededError:
            pass
    return question(hubs[-1])


def differing(old: t.Iterable[RemoteFile], new: t.Iterable[RemoteFile], wanted: ModelSpec) -> list[RemoteFile]:
    """Return the requested files that a commit changes, and those that it removes, with a size of 0."""
    before = {file.path: file for file in old if is_wanted(file.path, wanted)}
    after = {file.path: file for file in new if is_wanted(file.path, wanted)}
    gone = [dataclasses.replace(file, size=0) for path, file in before.items() if path not in after]
    return gone + [file for path, file in after.items() if path not in before or before[path].blob != file.blob]


def is_documentation(path: str) -> bool:
    return any(fnmatch.fnmatchcase(path.rpartition("/")[2], pattern) for pattern in DOCUMENTATION)


def short(commit: str | None) -> str:
    return commit[:8] if commit and COMMIT.fullmatch(commit) else commit or "-"


def model_row(commit: str | None, wanted: ModelSpec, hubs: t.Sequence[Hub]) -> Row:
    """Ask the Hub about a model of which a commit is deployed."""
    row = Row("model", wanted.id, current=commit)
    if wanted.id.startswith("/"):
        row.verdict = LOCAL
        return row
    try:
        if COMMIT.fullmatch(wanted.revision):
            _compare_pin(row, wanted, hubs)
        else:
            _compare_branch(row, wanted, hubs)
    except HubError as error:
        row.notes.append(f"{str(error).rstrip('.')}.")
    except STRANGE as error:
        row.notes.append(f"The answer for {wanted.id} is not that of the Hub ({error!r}).")
    return row


def _compare_pin(row: Row, wanted: ModelSpec, hubs: t.Sequence[Hub]) -> None:
    """Compare a pinned model, which changes only with the recipe."""
    row.newest, row.verdict = wanted.revision, PINNED
    if row.current and row.current != wanted.revision:
        row.verdict, row.proposed = NEWER, wanted.revision
        row.notes.append(f"The recipe pins {wanted.id} to another commit than the deployed one.")
    head, _gated = ask(hubs, lambda hub: hub.resolve(wanted.id, BRANCH))
    if head != wanted.revision:
        row.notes.append(
            f"{wanted.id} is pinned by the recipe to {short(wanted.revision)}; its branch {BRANCH} is at {short(head)}."
        )


def _compare_branch(row: Row, wanted: ModelSpec, hubs: t.Sequence[Hub]) -> None:
    commit, _gated = ask(hubs, lambda hub: hub.resolve(wanted.id, wanted.revision))
    row.newest, current = commit, row.current
    if not current:
        return
    if commit == current:
        row.verdict = NEWEST
        return
    old = ask(hubs, lambda hub: hub.files(wanted.id, current))
    new = ask(hubs, lambda hub: hub.files(wanted.id, commit))
    changed = differing(old, new, wanted)
    if all(is_documentation(file.path) for file in changed):
        row.verdict = NEWEST
        row.notes.append(f"{wanted.id} has the commit {short(commit)}, which changes no file that is used.")
    else:
        row.verdict, row.proposed, row.bytes = NEWER, commit, sum(file.size for file in changed)
