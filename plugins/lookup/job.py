# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: job
short_description: Return a program for long work on a Spark (internal)
version_added: 0.1.0
description:
  - Returns a program that continues after the run that started it has ended. It therefore needs nothing of Ansible.
  - The program is a zip application with all files of the collection that it imports, in base64. It is for
    M(dgx_spark.speculative.watched_job).
  - The same files always give the same text.
options:
  _terms:
    description:
      - Names of the programs, such as V(pull_image).
    type: list
    elements: str
    required: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Pull an image as a watched job
  dgx_spark.speculative.watched_job:
    name: pull
    directory: ~/.local/share/dgx-spark-speculative/jobs
    program: "{{ lookup('dgx_spark.speculative.job', 'pull_image') }}"
    arguments: ["--marks=/home/user/.local/share/dgx-spark-speculative/jobs", "hello-world"]
"""

RETURN = r"""
_raw:
  description: The programs, in the order of the names.
  type: list
  elements: str
"""

import ast
import base64
import typing as t
from importlib.util import resolve_name
from pathlib import Path

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ..module_utils._spark.application import zip_application

PLUGINS = Path(__file__).resolve().parent.parent
COLLECTION = "ansible_collections.dgx_spark.speculative.plugins."
JOBS = f"{COLLECTION}plugin_utils._jobs."


def file_of(module: str) -> Path:
    """Return the file of a module of the collection, which may not exist."""
    return PLUGINS.joinpath(*module.removeprefix(COLLECTION).split(".")).with_suffix(".py")


def imported_modules(module: str, source: str) -> t.Iterator[str]:
    """Yield the modules of the collection that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            name = resolve_name("." * node.level + (node.module or ""), module.rpartition(".")[0])
            if name.startswith(COLLECTION):
                # An import names an object of a file, or a file of a package.
                yield from [name] if file_of(name).exists() else [f"{name}.{alias.name}" for alias in node.names]


def sources(module: str) -> dict[str, str]:
    """Return the sources of a module and of all modules of the collection that it needs, by their names."""
    source = file_of(module).read_text(encoding="utf-8")
    result = {module: source}
    for name in imported_modules(module, source):
        result |= sources(name)
    return result


def program(name: str) -> bytes:
    """Return a zip application, which Python runs without the collection."""
    module = f"{JOBS}{name}"
    if not file_of(module).exists():
        raise AnsibleLookupError(f"There is no job {name!r}.")
    return zip_application(module, sources(module))


class LookupModule(LookupBase):
    """Read on the controller what is to run on a Spark."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        return [base64.b64encode(program(str(term))).decode("ascii") for term in terms]
