# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this doc fragment is internal to the collection; its content may change at any time.

from __future__ import annotations


class ModuleDocFragment:
    """A module that its action calls again and again, until it has finished."""

    DOCUMENTATION = r"""
options:
  follow:
    description:
      - Whether to call the module again and again until it returns RV(finished=true), and to show the text of
        RV(progress) meanwhile. In check mode it is called once.
      - Interrupting the playbook ends the watching. The work on the host goes on, and the next run attaches to it. A
        line says so as soon as there is something to wait for.
      - The task fails when an C(error) is returned, with that sentence.
      - Then C(calls) says how often the module was called, and C(changed) whether one of the calls changed
        something.
    type: bool
  interval:
    description:
      - With O(follow=true), the least number of seconds between two lines about the same host. Besides there is one at
        the beginning and at the end, such as V(spark-1 | 3.1 of 8.2 GB (38 %\), 112 MB/s, 1 min left).
    type: float
    default: 10
  timeout:
    description:
      - With O(follow=true), fail when the work has not finished after so many seconds. It goes on nevertheless.
      - With V(0) there is no limit.
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
