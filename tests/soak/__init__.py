# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random faults on the twin while clients stream, and whether all that was promised held.

`promises` is what is promised, `faults` what goes wrong, `run` what makes it go wrong and writes the history of it, and
`judge` what reads a history and holds it against the promises. The judge knows nothing of the collection: it imports
neither plugins nor roles, nor what they import.
"""
