# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the template of a report's page, which shows texts out of models and servers."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import jinja2
from markupsafe import Markup

from ...module_utils._deployment.lines import printable


@functools.cache
def page_template(path: Path, **filters: t.Callable[..., t.Any]) -> jinja2.Template:
    """Return the template of a page with these filters; it escapes the values."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_finalize
    )
    environment.filters |= filters
    return environment.from_string(path.read_text(encoding="utf-8"))


def _finalize(value: t.Any) -> t.Any:
    """Convert a value to text for the page."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(printable(line) for line in value.split("\n"))
    return value
