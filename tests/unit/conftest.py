# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for each unit test."""

from __future__ import annotations

import os

# Tests read what Ansible itself prints, whatever ansible.cfg chooses for people.
os.environ["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"
