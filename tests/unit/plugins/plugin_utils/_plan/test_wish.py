# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What makes two deployments the same wish: not their programs, nor how these say it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import wish

SCRIPT = """#
# Ansible managed
# image: release:1
set -euo pipefail
export HF_HUB_OFFLINE=1
export MINE='a b'
mkdir -p /tmp/models
exec trtllm-serve /tmp/models/m \\
  --tp_size 1 \\
  --extra_llm_api_options "${DGX_SPARK_OPTIONS:-/deployment/options.yml}"
"""
RANKS = SCRIPT.replace("exec ", "exec python3 /deployment/RANKS serve \\\n  --head a \\\n  -- trtllm-llmapi-launch ")
TEXTS = {"serve.sh": SCRIPT, "options.yml": "# Managed\nmax_batch_size: 1\n", "entrypoint.py": "pass\n"}
HOST = "127.0.0.1"
COMMIT = {"a/model": {"commit": "0123", "bytes": 1}}
DIRECTORY = {"/srv/model": {"commit": None, "fingerprint": "one"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"entrypoint.py": "print()\n", "server/head.py": ""},
        {"options.yml": "max_batch_size: 1  # a word\n"},
        {"serve.sh": SCRIPT.replace("# image", "# the image").replace("mkdir", "install")},
    ],
)
def test_programs_and_words_are_no_wish(changes: dict[str, str]) -> None:
    assert wish.same_texts(TEXTS, {**TEXTS, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"options.yml": "max_batch_size: 2\n"},
        {"serve.sh": SCRIPT.replace("tp_size 1", "tp_size 2")},
        {"serve.sh": SCRIPT.replace("'a b'", "c")},
        {"serve.sh": SCRIPT.replace("'a b'", "'a b\n# c'")},
        {"serve.sh": SCRIPT.replace("export HF_HUB_OFFLINE=1\n", "")},
        {"serve.sh": SCRIPT.replace("export MINE", "export TRTLLM_NO_USAGE_STATS=0\nexport MINE")},
        {"serve.sh": ""},
    ],
)
def test_what_the_server_is_told_is(changes: dict[str, str]) -> None:
    assert not wish.same_texts(TEXTS, {**TEXTS, **changes})


def test_how_ranks_are_started_is_the_programs_own() -> None:
    before, now = RANKS.replace("RANKS", "ranks.py"), RANKS.replace("RANKS", "entrypoint.py ranks")
    assert before != now
    assert wish.same_texts({**TEXTS, "serve.sh": before}, {**TEXTS, "serve.sh": now})
    assert not wish.same_texts({**TEXTS, "serve.sh": before}, {**TEXTS, "serve.sh": now.replace("size 1", "size 2")})


def test_a_worker_has_no_script() -> None:
    (files,) = [{name: text for name, text in TEXTS.items() if name != "serve.sh"}]
    assert wish.same_texts(files, files)


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (COMMIT, {"a/model": {"commit": "0123", "bytes": 2}}, True),
        (COMMIT, {"a/model": {"commit": "4567"}}, False),
        (COMMIT, {**COMMIT, **DIRECTORY}, False),
        (DIRECTORY, {"/srv/model": {"fingerprint": "one"}}, True),
        (DIRECTORY, {"/srv/model": {"fingerprint": "two"}}, False),
    ],
)
def test_models_are_what_they_hold(before: t.Any, now: t.Any, same: bool) -> None:
    assert wish.same_models(before, now) is same


def test_only_a_record_has_a_container() -> None:
    record = {"files": TEXTS, "models": COMMIT, "container": {"image": "release:1"}}
    assert wish.container(record, TEXTS, COMMIT, HOST) == {"image": "release:1"}
    assert wish.container(record, {**TEXTS, "options.yml": "x: 1\n"}, COMMIT, HOST) is None
    assert wish.container(record, TEXTS, {}, HOST) is None
    # What somebody has spoilt says nothing.
    for name, text in (("options.yml", "a: [\n"), ("serve.sh", "exec trtllm-serve 'm\n")):
        assert wish.container({**record, "files": {**TEXTS, name: text}}, TEXTS, COMMIT, HOST) is None
    # Nor before it is known what the files say.
    for own, texts in ((None, TEXTS), ({}, TEXTS), (record, {"options.yml": ""})):
        assert wish.container(own, texts, COMMIT, HOST) is None
    # Where it listens may not be told by anything else.
    for host, found in ((HOST, {"image": "release:1"}), ("0.0.0.0", None)):
        assert wish.container({**record, "listens_on": HOST}, TEXTS, COMMIT, host) == found


def test_settings_are_what_somebody_asks_for() -> None:
    recorded = {
        "ulimits": ["memlock:-1:-1"],
        "log_max_files": 3,
        "device_requests": [{"count": -1, "driver": "nvidia"}],
    }
    same = {"log_max_files": "3", "device_requests": [{"driver": "nvidia", "count": -1}]}
    assert wish.same_settings(recorded, {})
    assert wish.same_settings(recorded, same)
    others: list[dict[str, t.Any]] = [{"ulimits": []}, {"log_max_files": 4}, {"ipc_mode": "private"}]
    for other in others:
        assert not wish.same_settings(recorded, {**same, **other})
