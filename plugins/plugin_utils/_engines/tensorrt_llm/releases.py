# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find the version of a TensorRT-LLM release, and its release family."""

from __future__ import annotations

import dataclasses
import typing as t

from ....module_utils._docker.release import Range, Version, is_nightly, range_of, release_of, version_of
from ..findings import Report, shown
from .schema import FAMILIES, Family

RANGES: list[Range] = [[family["first"], family["last"]] for family in FAMILIES]
FAMILY_NAMES = tuple(str(family["name"]) for family in FAMILIES)
MOVING_TAGS: dict[str, str] = {tag: release for family in FAMILIES for tag, release in family["tags"].items()}

DOUBT = "the server may refuse what passes here and accept what is refused"
UNREAD = "options are judged by the image only"


@dataclasses.dataclass(frozen=True)
class Release:
    """A release, and the rules its engine options get."""

    name: str
    family: Family

    @property
    def version(self) -> Version | None:
        """None if the name is a tag that does not say."""
        return version_of(self.name)

    @property
    def is_unread(self) -> bool:
        """Return whether it is newer than each release that the rules of its family were written for.

        Such a release may have keys and values that are not known here, so the image has the last word on them.
        """
        return self.is_newer_than(self.family["known"])

    def is_newer_than(self, releases: t.Iterable[str]) -> bool:
        """Return whether its name says that it is newer than each of some releases."""
        return self.version is not None and _is_newer(self.version, releases)

    @property
    def about(self) -> Version | None:
        """The version for comparing with what is known of releases, near enough for a tag that moves."""
        return version_of(MOVING_TAGS.get(self.name, self.name))


def family_of(version: Version) -> Family | None:
    result = range_of(version, RANGES)
    return None if result is None else FAMILIES[RANGES.index(result)]


def _versions(releases: t.Iterable[str]) -> list[Version]:
    return [version for version in map(version_of, releases) if version is not None]


def _is_newer(version: Version, releases: t.Iterable[str]) -> bool:
    """Return whether a release is newer than all others; a post release belongs to the release it repairs."""
    return version[:4] > max(_versions(releases))[:4]


def in_words(number: int) -> str:
    """Return the releases of a family; one without a last release ends where the next family begins."""
    family, *following = FAMILIES[number:]
    if family["last"]:
        return f"{family['first']} to {family['last']}"
    return f"{family['first']} and later" + (f", before {following[0]['first']}" if following else "")


def _families_in_words() -> str:
    return ", ".join(f"{family['name']} ({in_words(number)})" for number, family in enumerate(FAMILIES))


def find_release(text: str, choice: str, report: Report) -> Release | None:
    """Return a release or image reference with its family; none is an error, an unread one a warning.

    The choice of a family counts only where the release does not say which one it is.
    """
    name = release_of(text)
    version = version_of(name)
    chosen = next((family for family in FAMILIES if family["name"] == choice), None)
    if version is None:
        family = _family_of_tag(text, name, chosen, report)
    else:
        family = _family_of_version(name, version, chosen, report)
    return Release(name, family) if family else None


def _family_of_tag(text: str, name: str, chosen: Family | None, report: Report) -> Family | None:
    usual = version_of(MOVING_TAGS.get(name, ""))
    family = chosen or (family_of(usual) if usual else None)
    if family is None:
        report.error(
            "release",
            f"{shown(text)} names no TensorRT-LLM release such as 1.3.0rc12; give the release, or an image reference"
            " with its tag, or set family (in playbooks speculative_serve_family) to one of the known release families:"
            f" {_families_in_words()}",
        )
    elif usual:
        report.warn(
            "release",
            f"{name} is a tag that moves, so its options are checked by the rules of release family {family['name']};"
            " only the image itself knows what it accepts",
        )
    else:
        report.warn(
            "release",
            f"{shown(text)} names no release, so its options are checked by the rules of release family"
            f" {family['name']}, as family says; {DOUBT}",
        )
    return family


def _family_of_version(name: str, version: Version, chosen: Family | None, report: Report) -> Family | None:
    family = family_of(version)
    if family is not None and chosen is not None and family is not chosen:
        report.error("family", f"{name} belongs to release family {family['name']}, not {chosen['name']}; remove it")
        return None
    if family is not None:
        _check_release_is_known(family, name, version, report)
        return family
    if chosen is not None:
        report.warn(
            "release",
            f"{name} belongs to none of the known release families, so its options are checked by the rules of"
            f" {chosen['name']}, as family says; {DOUBT}",
        )
        return chosen
    report.error(
        "release",
        f"the engine options of {name} are not known here; use a release of the known release families,"
        f" {_families_in_words()}, or set family (in playbooks speculative_serve_family) to the one to check by",
    )
    return None


def _check_release_is_known(family: Family, release: str, version: Version, report: Report) -> None:
    known = _versions(family["known"])
    if not is_nightly(version) and any(version[:4] == other[:4] for other in known):
        return
    if _is_newer(version, family["known"]):
        report.warn(
            "release", f"{release} is newer than the releases known here ({', '.join(family['known'])}): {UNREAD}"
        )
        return
    relation = "older than" if version < min(known) else "none of"
    report.warn(
        "release",
        f"{release} is {relation} the releases these rules were written for ({', '.join(family['known'])}); {DOUBT}",
    )
