# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports of benchmarks whose truth is known, and what a browser would make of a page."""

from __future__ import annotations

import dataclasses
import functools
import html.parser
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.analyse import analyse

from tests.unit import benchmark_results as measured

Report = dict[str, t.Any]

VOID = ("meta", "path", "circle", "use", "rect", "br")


def report(
    truth: measured.Truth = measured.WINS, draft_lengths: t.Sequence[int] = (0, 1, 2, 3, 5), **changes: t.Any
) -> Report:
    """What the controller makes of a benchmark; changes are of the context."""
    return analyse(measured.results(truth, draft_lengths), measured.context(**changes))


@functools.cache
def wins() -> Report:
    return report()


@functools.cache
def loses() -> Report:
    return report(measured.LOSES, (0, 1, 3))


@functools.cache
def fails() -> Report:
    """Length 8 did not come up."""
    results = measured.results(draft_lengths=(0, 1, 3, 8), errors={8: "The server ended: CUDA out of memory."})
    results["skipped"] = [{"id": "5", "reason": "draft length 3 was no faster than 2."}]
    results["left_out"] = [{"prompt": "long-1", "reason": "it has 18231 tokens, the server takes 16384."}]
    return analyse(results, measured.context(draft_length=3))


@functools.cache
def disturbed() -> Report:
    """Something else used the Spark while it was measured without speculation."""
    return report(measured.Truth(draft_ms=-2.0), (0, 1, 3))


@functools.cache
def older() -> Report:
    """Of an older image, whose passes took a fifth longer."""
    truth = dataclasses.replace(measured.WINS, target_ms=24.0, draft_ms=3.6)
    image = {"reference": "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "id": "sha256:" + "8" * 64, "digests": []}
    return report(truth, (0, 1, 2, 3), date="2026-09-30", image=image)


class Page(html.parser.HTMLParser):
    """Elements, ids and text of a page; fails where an element is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"{self._open} is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += f"{data} "
        if self._open and set(self._open) & {"th", "td"}:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, attribute: str) -> list[str]:
        return [
            value
            for _tag, attributes in self.elements
            for key, value in attributes.items()
            if key == attribute and value
        ]
