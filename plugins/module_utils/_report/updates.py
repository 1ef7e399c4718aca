# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Ask what is newer than a deployment: a release of its image's line, a commit of a model."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import nodes_of
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.registry import (
    Reference,
    Registry,
    RegistryError,
    describe,
    parse_reference,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import (
    Range,
    Version,
    is_nightly,
    range_of,
    version_of,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.hub import (
    COMMIT,
    GeneralHubError,
    Hub,
    HubError,
    RemoteFile,
    TokenNeededError,
    Wanted,
    is_wanted,
)

BRANCH = "main"
# A commit that differs in nothing else is no reason to load a model again.
DOCUMENTATION = ("*.md", ".gitattributes", "LICENSE*", "USAGE_POLICY*", "*.png", "*.jpg", "*.jpeg", "*.svg", "*.pdf")
# Releases of a line that the registry does not have for this platform; older ones than these are not looked at.
MOST_CANDIDATES = 3

NEWEST, NEWER, PINNED, SUPERSEDED, LOCAL, ABSENT, UNKNOWN = (
    "newest",
    "newer",
    "pinned",
    "superseded",
    "directory",
    "not deployed",
    "unknown",
)

Mapping = t.Mapping[str, t.Any]


@dataclasses.dataclass
class Row:
    """One thing that could be newer; the proposal is what a switch would take."""

    kind: str
    name: str
    current: str | None = None
    newest: str | None = None
    verdict: str = UNKNOWN
    proposed: str | None = None
    bytes: int | None = None
    notes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of a deployment. Its key in a recipe is target_model or draft_model."""

    key: str
    name: str
    revision: str = BRANCH
    commit: str | None = None
    directory: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Deployment:
    """What newer things are compared with."""

    image: str
    digests: tuple[str, ...]
    models: tuple[Model, ...]
    method: str
    options: Mapping
    sparks: int = 1

    @property
    def target(self) -> str:
        return next((model.name for model in self.models if model.key == "target_model"), "")

    @property
    def draft(self) -> str:
        return next((model.name for model in self.models if model.key == "draft_model"), "")


def model_name(model: Mapping | None) -> str:
    """A recipe's model by the name that records have for it."""
    return str((model or {}).get("id") or (model or {}).get("directory") or "")


def is_recipe_of(record: Mapping, recipe: Mapping) -> bool:
    """Whether a recipe has the models of a deployment. One that is served without drafts still has its recipe."""
    draft = model_name(recipe.get("draft_model"))
    return model_name(recipe.get("target_model")) == record.get("target_model") and (
        record.get("method") == "none" or draft == (record.get("draft_model") or "")
    )


def subject_of(record: Mapping, recipe: Mapping, subject: str) -> tuple[Mapping, Mapping, bool, list[str]]:
    """What is asked about, with a sentence where one is left aside, and whether the recipe is that of what serves."""
    fits = bool(record and recipe) and is_recipe_of(record, recipe)
    if record and recipe and not fits and subject == "record":
        return (
            record,
            {},
            fits,
            [f"Recipe '{recipe.get('name')}' has other models than what serves, so it is left aside."],
        )
    return ({}, recipe, fits, []) if recipe and not fits else (record, recipe, fits, [])


def _commit(record: Mapping, name: str) -> str | None:
    model = (record.get("models") or {}).get(name)
    return (model if isinstance(model, dict) else {}).get("commit")


def _recipe_models(recipe: Mapping, record: Mapping) -> t.Iterator[Model]:
    for key in ("target_model", "draft_model"):
        model = recipe.get(key)
        name = model_name(model)
        if model and not (key == "draft_model" and record.get("method") == "none"):
            yield Model(
                key=key,
                name=name,
                revision=model.get("revision") or BRANCH,
                commit=_commit(record, name),
                directory=not model.get("id"),
                include=tuple(model.get("include") or ()),
                exclude=tuple(model.get("exclude") or ()),
            )


def _recorded_models(record: Mapping) -> t.Iterator[Model]:
    for key in ("target_model", "draft_model"):
        name = record.get(key)
        if name:
            yield Model(key=key, name=name, commit=_commit(record, name), directory=name.startswith("/"))


def deployment_of(record: Mapping, recipe: Mapping) -> Deployment:
    """What serves, by its record, and with its recipe also what is pinned; without a record what the recipe says."""
    image = record.get("image") or {}
    return Deployment(
        image=image.get("reference") or recipe.get("image") or "",
        digests=tuple(str(digest) for digest in image.get("digests") or ()),
        models=tuple(_recipe_models(recipe, record) if recipe else _recorded_models(record)),
        method=(record or recipe).get("method") or "",
        options=(record or recipe).get("options") or {},
        sparks=len(nodes_of(record.get("pair") or {})) or recipe.get("sparks") or 1,
    )


# --- The image -------------------------------------------------------------------------------------------------------


def split_tag(tag: str) -> tuple[Version, str] | None:
    """A tag's release and what is appended to it; None for a tag that names no release."""
    version = version_of(tag)
    suffix = re.search(r"[-+].*$", tag)
    return (version, suffix[0] if suffix else "") if version else None


def is_same_line(now: Version, other: Version, families: t.Sequence[Range]) -> bool:
    """Candidates go on with the next candidate of their release, releases with the next of their minor version.

    What is of another family of releases, or of none where the other is of one, is beyond the line.
    """
    if now[3] == math.inf:
        same = other[3] == math.inf and now[:2] == other[:2]
    else:
        same = other[3] != math.inf and now[:3] == other[:3]
    return same and range_of(now, families) == range_of(other, families)


def newer_tags(tag: str, tags: t.Iterable[str], families: t.Sequence[Range]) -> tuple[list[str], str | None]:
    """The tags that follow one in its line, newest first, and the newest tag beyond its line.

    Nightly builds are offered to a nightly build only.
    """
    now = split_tag(tag)
    if now is None:
        return [], None
    found = [(parts[0], other) for other in tags for parts in [split_tag(other)] if parts and parts[1] == now[1]]
    offered = [pair for pair in found if is_nightly(now[0]) or not is_nightly(pair[0])]
    newer = sorted((pair for pair in offered if pair[0] > now[0]), reverse=True)
    line = [other for version, other in newer if is_same_line(now[0], version, families)]
    beyond = [other for version, other in newer if not is_same_line(now[0], version, families)]
    return line, beyond[0] if beyond else None


def with_tag(image: str, tag: str) -> str:
    """The same image at another tag."""
    return f"{image.partition('@')[0].rpartition(':')[0]}:{tag}"


class ImageQuestion:
    """Ask a registry about the image of a deployment."""

    def __init__(
        self,
        deployment: Deployment,
        platform: str,
        families: t.Sequence[Range],
        ask: t.Callable[[Reference], Registry],
    ) -> None:
        self._deployment = deployment
        self._platform = platform
        self._families = families
        self._ask = ask

    def row(self) -> Row:
        image = self._deployment.image
        row = Row("image", image.partition("@")[0])
        try:
            reference = parse_reference(image)
            row.name = image[: -len(f"@{reference.digest}")] if reference.digest else image
            row.current = reference.tag or reference.digest
            if reference.tag and not reference.digest:
                row.name = row.name[: -len(f":{reference.tag}")] if row.name.endswith(f":{reference.tag}") else row.name
            self._compare(row, reference, self._ask(reference))
        except RegistryError as error:
            row.notes.append(str(error))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            row.notes.append(f"What answers for {image} does not speak as a registry does ({error!r}).")
        return row

    def _compare(self, row: Row, reference: Reference, registry: Registry) -> None:
        if reference.digest:
            row.newest, row.verdict = row.current, PINNED
            row.notes.append(f"The image is pinned to the digest {reference.digest}.")
        if split_tag(reference.tag) is None:
            if not reference.digest:
                self._compare_digest(row, reference, registry)
            return
        line, beyond = newer_tags(reference.tag, registry.tags(), self._families)
        if reference.digest:
            if line:
                row.notes.append(f"Its line goes on to {line[0]}.")
            return
        self._propose(row, reference, registry, line)
        if beyond:
            row.notes.append(
                f"{beyond} is the newest release beyond the line of {reference.tag}; it may need other engine options, "
                f"and is tried with -e trtllm_container_image={with_tag(self._deployment.image, beyond)}."
            )

    def _compare_digest(self, row: Row, reference: Reference, registry: Registry) -> None:
        """A tag that names no release may lead to another image than it did."""
        answer = registry.manifest(reference.tag)
        recorded = {digest.rpartition("@")[2] for digest in self._deployment.digests}
        if answer is None:
            row.notes.append(f"The registry has no tag {reference.tag} any more; what was pulled goes on to work.")
            return
        row.newest = reference.tag
        if not recorded:
            row.notes.append(f"{reference.tag} names no release, and the digest that was pulled is not recorded.")
        elif answer[0] in recorded:
            row.verdict = NEWEST
        else:
            row.verdict = NEWER
            row.notes.append(
                f"{reference.tag} names no release and leads to another image by now. To take that one, remove the "
                "present one (cleanup.yml -e image=true) and deploy again; this cannot be undone."
            )

    def _propose(self, row: Row, reference: Reference, registry: Registry, line: list[str]) -> None:
        row.newest, row.verdict = reference.tag, NEWEST
        for tag in line[:MOST_CANDIDATES]:
            found = describe(registry, dataclasses.replace(reference, tag=tag), self._platform)
            if not found["exists"] or (found["platforms"] and not found["platform_digest"]):
                row.notes.append(f"{tag} is not there for {self._platform}.")
                continue
            row.newest, row.verdict, row.bytes = tag, NEWER, found["compressed_bytes"]
            row.proposed = with_tag(self._deployment.image, tag)
            return


# --- The models ------------------------------------------------------------------------------------------------------


Answer = t.TypeVar("Answer")


class Hubs:
    """The Hub, asked anonymously first, and not again once it cannot be asked at all."""

    def __init__(self, anonymous: Hub, authorized: Hub | None = None) -> None:
        self._anonymous = anonymous
        self._authorized = authorized
        self._broken: GeneralHubError | None = None

    def ask(self, question: t.Callable[[Hub], Answer]) -> Answer:
        if self._broken:
            raise self._broken
        try:
            return question(self._anonymous)
        except TokenNeededError:
            if self._authorized is None:
                raise
            return question(self._authorized)
        except GeneralHubError as error:
            self._broken = error
            raise


def differing(old: t.Iterable[RemoteFile], new: t.Iterable[RemoteFile], wanted: Wanted) -> list[RemoteFile]:
    """The wanted files that are new in a commit, or of another content; one that only went away counts as well."""
    before = {file.path: file for file in old if is_wanted(file.path, wanted)}
    after = {file.path: file for file in new if is_wanted(file.path, wanted)}
    gone = [dataclasses.replace(file, size=0) for path, file in before.items() if path not in after]
    return gone + [file for path, file in after.items() if path not in before or before[path].blob != file.blob]


def is_documentation(path: str) -> bool:
    return any(fnmatch.fnmatchcase(path.rpartition("/")[2], pattern) for pattern in DOCUMENTATION)


def short(commit: str | None) -> str:
    return commit[:8] if commit and COMMIT.fullmatch(commit) else commit or "-"


def model_row(model: Model, hubs: Hubs) -> Row:
    """Ask the Hub about one model."""
    row = Row("model", model.name, current=model.commit)
    if model.directory:
        row.verdict = LOCAL
        return row
    pinned = bool(COMMIT.fullmatch(model.revision))
    if pinned:
        _follow_pin(row, model)
    try:
        commit, _gated = hubs.ask(lambda hub: hub.resolve(model.name, BRANCH if pinned else model.revision))
        if pinned:
            if commit != model.revision:
                row.notes.append(
                    f"{model.name} is pinned by the recipe to {short(model.revision)}; its branch {BRANCH} is at "
                    f"{short(commit)}."
                )
        else:
            _follow_revision(row, model, commit, hubs)
    except HubError as error:
        row.notes.append(f"{str(error).rstrip('.')}.")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        row.notes.append(f"What answers for {model.name} does not speak as the Hub does ({error!r}).")
    return row


def _follow_pin(row: Row, model: Model) -> None:
    """A pinned model moves only as the recipe does."""
    row.newest, row.verdict = model.revision, PINNED
    if model.commit and model.commit != model.revision:
        row.verdict, row.proposed = NEWER, model.revision
        row.notes.append(f"The recipe pins {model.name} to another commit than the one that serves.")


def _follow_revision(row: Row, model: Model, commit: str, hubs: Hubs) -> None:
    row.newest = commit
    if not model.commit:
        row.verdict = ABSENT
        return
    if commit == model.commit:
        row.verdict = NEWEST
        return
    row.verdict, row.proposed = NEWER, commit
    wanted = Wanted(model.name, model.revision, model.include, model.exclude)
    old_commit = model.commit
    try:
        old = hubs.ask(lambda hub: hub.files(model.name, old_commit))
        new = hubs.ask(lambda hub: hub.files(model.name, commit))
    except HubError:
        return
    changed = differing(old, new, wanted)
    there = {file.blob for file in old}
    row.bytes = sum({file.blob: file.size for file in changed if file.blob not in there}.values())
    if all(is_documentation(file.path) for file in changed):
        row.verdict, row.proposed, row.bytes = NEWEST, None, None
        row.notes.append(
            f"{model.name} has the commit {short(commit)}, which changes nothing of what is served"
            f"{' but documentation' if changed else ''}."
        )
