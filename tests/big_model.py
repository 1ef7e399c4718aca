# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put a model of some size into a Spark's cache, with the receipt of one that was fetched. Runs on the Spark.

The arguments: how many shards, and the bytes of each.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

REPOSITORY, COMMIT = "big/model", "b" * 40
MEBIBYTE = 1 << 20


def main() -> None:
    count, size = int(sys.argv[1]), int(sys.argv[2])
    model = Path.home() / ".cache/huggingface/hub/models--big--model"
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    (model / "blobs").mkdir(exist_ok=True)
    files = {}
    for number in range(count):
        content = os.urandom(MEBIBYTE) * (size // MEBIBYTE) + bytes([number])
        digest = hashlib.sha256(content).hexdigest()
        (model / "blobs" / digest).write_bytes(content)
        place = snapshot / f"model-{number}.safetensors"
        place.unlink(missing_ok=True)
        place.symlink_to(f"../../blobs/{digest}")
        files[place.name] = {"size": len(content), "mtime_ns": place.stat().st_mtime_ns, "sha256": digest}
    receipt = {"id": REPOSITORY, "revisions": ["main"], "commit": COMMIT, "include": [], "exclude": [], "checked": 1}
    receipts = Path.home() / ".local/share/dgx-spark-speculative/models"
    (receipts / "models--big--model.json").write_text(json.dumps({**receipt, "files": files}), encoding="utf-8")


if __name__ == "__main__":
    main()
