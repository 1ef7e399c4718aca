# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the shipped playbooks make of a Spark, written down: the containers they ask Docker for, the files they leave.

`expected/` holds a file for each case; `python -m tests.golden --record` writes them anew. Nothing here names a role's
variable or a module: what is between the playbook and the Spark may move. What is
written already is referred to: see `once`.

`choices/` holds what a benchmark kept on the Spark, `benchmark.json` of a deployment. It holds for one text of the
recipe, one image and one commit of each model: when these change, a benchmark on the twin gives the next one.
"""
