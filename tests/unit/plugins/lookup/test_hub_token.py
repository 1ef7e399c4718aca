# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.dgx_spark.speculative.plugins.lookup.hub_token import token

LOGIN = ".cache/huggingface/token"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which somebody has logged in, and other places that have a token."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (LOGIN, "hf/token", "mine"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f" {name}\n", encoding="utf-8")
    return tmp_path


def test_it_is_from_the_first_place_that_has_one(home: Path) -> None:
    everywhere = {"HF_TOKEN": "of-env ", "HF_TOKEN_PATH": "~/mine", "HF_HOME": f"{home}/hf"}
    assert token(["", " given "], everywhere) == "given"
    assert token(["", " "], everywhere) == "of-env"
    assert token([], {**everywhere, "HF_TOKEN": ""}) == "mine"
    assert token([], {"HF_HOME": f"{home}/hf", "HF_TOKEN_PATH": ""}) == "hf/token"
    assert token([], {}) == LOGIN


def test_there_may_be_none(home: Path) -> None:
    (home / LOGIN).unlink()
    assert token([""], {}) == ""
    assert token([""], {"HF_TOKEN_PATH": "~/hf"}) == ""


def test_one_that_cannot_be_read_is_refused_by_its_place(home: Path) -> None:
    (home / LOGIN).write_bytes(b"\xff")
    with pytest.raises(AnsibleLookupError, match=rf"The token in {home}/.cache/huggingface/token cannot be read"):
        token([], {})
