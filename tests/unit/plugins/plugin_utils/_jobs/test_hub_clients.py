# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cache that the download job makes, for the clients of the Hub in the images of both engines."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import fetch_models

from tests.unit.hub_server import COMMIT, HubServer, Model, running

MODEL = "lab/small"
FILES = {"config.json": b"{}", "sub/weights.bin": os.urandom(300_000), "sub/again.bin": b"", "empty.txt": b""}
CACHE = Path(__file__).parents[5] / ".cache" / "huggingface_hub"
ASK = """
import json, sys
import huggingface_hub
cache, endpoint = sys.argv[1:]
there = huggingface_hub.snapshot_download("lab/small", cache_dir=cache, local_files_only=True)
again = huggingface_hub.snapshot_download("lab/small", cache_dir=cache, endpoint=endpoint)
known = huggingface_hub.scan_cache_dir(cache)
(repository,) = known.repos
print(json.dumps({
    "version": huggingface_hub.__version__,
    "snapshots": [there, again],
    "warnings": [str(warning) for warning in known.warnings],
    "files": repository.nb_files,
    "refs": sorted(repository.refs),
}))
"""


def client(version: str) -> Path:
    """The client of this version, in a directory of its own, which one test process installs."""
    place = CACHE / version
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--target", str(place), f"huggingface_hub=={version}"], check=True)
            (place / "complete").touch()
    return place


@pytest.fixture
def server() -> t.Iterator[HubServer]:
    with running(HubServer({MODEL: Model(dict(FILES), large={"sub/weights.bin"})})) as server:
        yield server


# Of TensorRT-LLM's images, and of vLLM's.
@pytest.mark.parametrize("version", ["0.36.2", "2.4.0"])
def test_the_client_finds_the_cache_complete(server: HubServer, tmp_path: Path, version: str) -> None:
    model = server.models[MODEL]
    repository = {"id": MODEL, "revision": "main", "commit": COMMIT, "include": [], "exclude": []}
    places = {"cache": str(tmp_path / "hub"), "receipts": str(tmp_path / "models")}
    files = [{"path": path, "size": len(data), "blob": model.blob(path)} for path, data in FILES.items()]
    spec = {"endpoint": server.endpoint, **places, "repositories": [repository]}
    fetch_models.Fetch(spec, "", {MODEL: files}).run()
    server.sent.clear()
    asked = subprocess.run(
        [sys.executable, "-c", ASK, places["cache"], server.endpoint],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(client(version)), "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    snapshot = str(tmp_path / "hub/models--lab--small/snapshots" / COMMIT)
    assert json.loads(asked.stdout) == {
        "version": version,
        "snapshots": [snapshot, snapshot],
        "warnings": [],
        "files": len(set(FILES.values())),
        "refs": ["main"],
    }
    # It was asked, and fetched nothing.
    assert f"GET /api/models/{MODEL}/revision/main" in server.requests
    assert server.sent == {}
