# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for each unit test."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.lines import WIDTH, Page

from tests.twin import models

# Tests read what Ansible itself prints, whatever ansible.cfg chooses for people.
os.environ["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"

# What is started in the background of a shell ignores Ctrl-C, and so would all that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are as wide as they may be, whatever terminal the tests run in and whatever one of them has had."""
    monkeypatch.setattr(Page, "columns", WIDTH)
    monkeypatch.setenv("COLUMNS", str(WIDTH))


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of the twin's Hub, which are read only."""
    directory = tmp_path_factory.mktemp("hub")
    models.write_models(directory)
    return directory
