# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: job
short_description: The text of a program for long work on a Spark
version_added: 0.1.0
description:
  - Programs that outlive the run that starts them have parts in common, and run where nothing of Ansible is. Each is
    handed out as one text with the parts that it needs, for M(dgx_spark.speculative.watched_job) or to be written to a
    file. The text is the same as long as program and parts are.
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
    arguments: ["hello-world"]
"""

RETURN = r"""
_raw:
  description: The programs.
  type: list
  elements: str
"""

import ast
import typing as t
from pathlib import Path

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

PLUGINS = Path(__file__).resolve().parent.parent
JOBS = PLUGINS / "plugin_utils" / "_jobs"
# What a module has in common with a job; it must need nothing else of the collection.
SHARED = "ansible_collections.dgx_spark.speculative.plugins."
# The parts come in an order in which none needs a later one; the last is the program itself.
TEMPLATE = """# Written by dgx_spark.speculative: a program, and before it the parts that it shares with others.
import sys
import types

SOURCES = {{
{sources}}}
package = sys.modules["jobs"] = types.ModuleType("jobs")
package.__path__ = []
*parts, last = [(name, compile("\\n".join(lines), name + ".py", "exec")) for name, lines in SOURCES.items()]
for name, code in parts:
    name = name if "." in name else "jobs." + name
    part = sys.modules[name] = types.ModuleType(name)
    part.__package__ = "jobs"
    exec(code, part.__dict__)
__package__ = "jobs"
exec(last[1])
"""


def parts(name: str) -> dict[str, str]:
    """The sources of a program and of the parts that it imports, each after those that it needs."""
    path = PLUGINS / name.removeprefix(SHARED).replace(".", "/") if name.startswith(SHARED) else JOBS / name
    try:
        source = path.with_suffix(".py").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise AnsibleLookupError(f"There is no job {name!r}.") from None
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            shared = node.module.startswith(SHARED)
            if shared or node.level:
                found |= {part: text for part, text in parts(node.module).items() if part not in found}
    return {**found, name: source}


def program(name: str) -> str:
    """One text that runs by itself."""
    sources = "".join(
        f"    {part!r}: [\n{''.join(f'        {line!r},{chr(10)}' for line in text.splitlines())}    ],\n"
        for part, text in parts(name).items()
    )
    return TEMPLATE.format(sources=sources)


class LookupModule(LookupBase):
    """Read on the controller what is to run on a Spark."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        return [program(str(term)) for term in terms]
