# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this doc fragment is internal to the collection; its content may change at any time.

from __future__ import annotations


class ModuleDocFragment:
    """The options of a module that its action calls until it has finished."""

    DOCUMENTATION = r"""
options:
  follow:
    description:
      - Whether to call the module until it returns RV(finished=true), and to show the text of RV(progress) meanwhile.
        In check mode it is called once.
      - If you interrupt the playbook, only the watching ends. The work on the host continues, and the next run
        reattaches to it. A line says so when the wait begins.
      - If the module returns an C(error), the task fails with that sentence.
      - C(attempts) is then the number of calls, and C(changed) says whether one of the calls changed something.
    type: bool
  interval:
    description:
      - With O(follow=true), minimum seconds between two lines about the same host. Another line is printed at the
        beginning and at the end. A line reads like V(spark-1 | 3.1 of 8.2 GB (38 %\), 112 MB/s, 1 min left).
    type: float
    default: 10
  timeout:
    description:
      - With O(follow=true), seconds after which the task fails if the work has not finished. The work on the host
        continues.
      - V(0) sets no limit.
    type: float
    default: 0
attributes:
  action:
    support: full
    description:
      - Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
  async:
    support: none
    description:
      - Supports being used with the C(async) keyword.
"""
