# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for each unit test."""

from __future__ import annotations

import os
import signal

# Tests read what Ansible itself prints, whatever ansible.cfg chooses for people.
os.environ["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"

# What is started in the background of a shell ignores Ctrl-C, and so would all that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
