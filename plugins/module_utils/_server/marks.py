# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Marks in the log of a server that its container's main process writes."""

from __future__ import annotations

# The container's main process writes into the same log: this before it starts a server, and that when one ended by
# itself. A server that is stopped leaves no end.
ENTRYPOINT_MARK = "[entrypoint]"
BEGIN_MARKER = "[entrypoint] the server starts"
END_MARKER = "[entrypoint] the server ended with "
