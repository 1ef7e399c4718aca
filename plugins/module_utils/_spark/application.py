# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Pack a program that runs on a Spark without the collection."""

from __future__ import annotations

import io
import typing as t
import zipfile
from pathlib import PurePosixPath

MAIN = """# Written by dgx_spark.speculative.
import runpy

runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def zip_application(module: str, sources: t.Mapping[str, str]) -> bytes:
    """Return a zip application that runs a module. The sources are those of all modules, by their names."""
    files = {PurePosixPath(*part.split(".")).with_suffix(".py"): text for part, text in sources.items()}
    packages = {package / "__init__.py": "" for file in files for package in file.parents if package.name}
    everything = {PurePosixPath("__main__.py"): MAIN.format(module=module), **packages, **files}
    content = io.BytesIO()
    # Neither times nor compression, which is another one with another zlib: the same job is the same bytes.
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for path, text in sorted(everything.items()):
            archive.writestr(zipfile.ZipInfo(str(path)), text)
    return content.getvalue()
