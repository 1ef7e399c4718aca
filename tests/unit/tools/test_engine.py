# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""tools/engine.sh in a checkout of its own, with something that is called dockerd."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest

from tests.unit.waiting import WITHIN_S

TOOLS = Path(__file__).parents[3] / "tools"


class Checkout(t.NamedTuple):
    root: Path
    engine: subprocess.Popen[bytes]

    def down(self, docker: str) -> str:
        """What `down` says where `docker ps` does this."""
        for name, text in {"docker": docker, "sudo": 'exec "$@"'}.items():
            path = self.root / "bin" / name
            path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            path.chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        command = [str(self.root / "tools" / "engine.sh"), "down"]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=WITHIN_S
        ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> t.Iterator[Checkout]:
    for directory in ("tools", "bin", ".cache"):
        (tmp_path / directory).mkdir()
    for name in ("engine.sh", "apt.sh"):
        shutil.copy(TOOLS / name, tmp_path / "tools")
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / "dockerd")
    with subprocess.Popen([program, "60"]) as engine:
        # Its end is noticed at once, as by the service manager that the real one has for a parent.
        threading.Thread(target=engine.wait, daemon=True).start()
        (tmp_path / ".cache" / "dockerd.pid").write_text(str(engine.pid), encoding="utf-8")
        yield Checkout(tmp_path, engine)
        engine.kill()


def test_an_engine_that_others_use_goes_on(checkout: Checkout) -> None:
    said = checkout.down("echo somebodys-database; echo dgx-spark-twin-b-1")
    assert "keeps running, because it has containers: somebodys-database, dgx-spark-twin-b-1." in said
    assert checkout.engine.poll() is None
    assert "Stopping the dockerd that was started here" in checkout.down("")
    assert checkout.engine.wait(WITHIN_S) != 0
    assert checkout.down("") == ""


def test_an_engine_that_does_not_answer_is_stopped(checkout: Checkout) -> None:
    assert "Stopping the dockerd that was started here" in checkout.down("exit 1")
    assert checkout.engine.wait(WITHIN_S) != 0
