# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the data about vLLM's options, options.yml, from the parsers of its releases.

Run as: PYTHONPATH=collections python -m tools.vllm_options PYTHON [PYTHON ...], each the interpreter of an environment
that has a release of vLLM. The first one is the release whose options the rules know by name.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.effects import Shape, joined

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests/engines/parser_options.py"
# vLLM's half of the option check.
JUDGE = runpy.run_path(str(ROOT / "roles/speculative_serve/files/option_check/vllm.py"))
PARSERS: list[str] = [parser for parser, _server in JUDGE["MODULES"]]
DATA = ROOT / "plugins/plugin_utils/_engines/vllm/options.yml"
HEAD = """\
---
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The options of `vllm serve` as the parsers and the configuration classes of its releases have them. Written by
# tools/vllm_options.py; rules.py explains the keys.
# yamllint disable rule:indentation rule:line-length
"""
ORDER = ("switch", "int", "number", "other")


class Indented(yaml.SafeDumper):
    """A dumper that indents the items of a list, as the other data files do."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def read(output: str) -> tuple[str, dict[str, str], dict[str, Shape]]:
    """Return the release, the kinds and the shapes in the output of the program."""
    release, kinds, shapes = json.loads(output.splitlines()[-1])
    return release.partition("+")[0], kinds, shapes


def written(releases: t.Sequence[tuple[str, dict[str, str], dict[str, Shape]]]) -> str:
    """Return the text of options.yml."""
    release, kinds, _shapes = releases[0]
    shapes = joined(one for _release, _kinds, one in releases)
    data = {
        "release": release,
        "read": [name for name, *_rest in releases],
        "kinds": {kind: sorted(name for name, own in kinds.items() if own == kind) for kind in ORDER},
    }
    more = {name: shape for name, shape in sorted(shapes.items()) if shape != kinds.get(name)}
    lists = yaml.dump(data, Dumper=Indented, sort_keys=False)
    return HEAD + lists + yaml.dump({"shapes": more}, Dumper=Indented, default_flow_style=None, width=140)


def main(interpreters: t.Sequence[str]) -> None:
    commands = [[one, str(PROGRAM), *PARSERS] for one in interpreters]
    outputs = [subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in commands]
    DATA.write_text(written([read(output) for output in outputs]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
