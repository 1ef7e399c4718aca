# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What makes two deployments the same wish: not their programs, nor how these say it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import container_spec

TEXTS = {"options.yml": "# Managed\nmax_batch_size: 1\n", "serve.sh": "exec trtllm-serve /tmp/models/m\n"}
SCRIPT = {"served": "/tmp/models/m", "environment": {"MINE": "a b"}}
HOST = "127.0.0.1"
COMMIT = {"a/model": {"commit": "0123", "bytes": 1}}
DIRECTORY = {"/srv/model": {"commit": None, "fingerprint": "one"}}


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
    assert container_spec.same_models(before, now) is same


RECORD: dict[str, t.Any] = {
    "files": TEXTS,
    "script": SCRIPT,
    "models": COMMIT,
    "container": {"image": "release:1"},
    "listens_on": HOST,
}


@pytest.mark.parametrize(
    ("texts", "script", "models", "host", "same"),
    [
        (TEXTS, SCRIPT, COMMIT, HOST, True),
        # Programs and words are another release's.
        ({**TEXTS, "serve.sh": "true\n", "entrypoint.py": "pass\n"}, SCRIPT, COMMIT, HOST, True),
        ({**TEXTS, "options.yml": "max_batch_size: 1  # a word\n"}, SCRIPT, COMMIT, HOST, True),
        ({**TEXTS, "options.yml": "max_batch_size: 2\n"}, SCRIPT, COMMIT, HOST, False),
        # Nor is it before it is known what the files say.
        ({**TEXTS, "options.yml": ""}, SCRIPT, COMMIT, HOST, False),
        (TEXTS, {**SCRIPT, "environment": {}}, COMMIT, HOST, False),
        (TEXTS, {**SCRIPT, "served": "/tmp/models/n"}, COMMIT, HOST, False),
        (TEXTS, SCRIPT, {}, HOST, False),
        # Where it listens may not be told by anything else.
        (TEXTS, SCRIPT, COMMIT, "0.0.0.0", False),
    ],
)
def test_what_was_recorded_for_the_same(
    texts: dict[str, str], script: dict[str, t.Any], models: t.Any, host: str, same: bool
) -> None:
    assert container_spec.container(RECORD, texts, script, models, host) == (RECORD["container"] if same else None)


@pytest.mark.parametrize("record", [None, {}, {**RECORD, "files": {**TEXTS, "options.yml": "a: [\n"}}])
def test_only_a_record_has_a_container(record: t.Any) -> None:
    assert container_spec.container(record, TEXTS, SCRIPT, COMMIT, HOST) is None


def test_settings_are_what_somebody_asks_for() -> None:
    recorded = {
        "ulimits": ["memlock:-1:-1"],
        "log_max_files": 3,
        "device_requests": [{"count": -1, "driver": "nvidia"}],
    }
    same = {"log_max_files": "3", "device_requests": [{"driver": "nvidia", "count": -1}]}
    assert container_spec.same_settings(recorded, {})
    assert container_spec.same_settings(recorded, same)
    others: list[dict[str, t.Any]] = [{"ulimits": []}, {"log_max_files": 4}, {"ipc_mode": "private"}]
    for other in others:
        assert not container_spec.same_settings(recorded, {**same, **other})
