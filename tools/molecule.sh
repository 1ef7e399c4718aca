#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# One scenario on the twin (the one that TWIN names), which stays up for the next: `molecule.sh NAME`. A fresh state directory each time, because
# molecule remembers "prepared" for all scenarios together, and for all checkouts of the same name, and then skips it.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PWD/.venv/bin:$PATH
export MOLECULE_EPHEMERAL_DIRECTORY=$PWD/.cache/molecule${TWIN:+-$TWIN}
rm -rf "$MOLECULE_EPHEMERAL_DIRECTORY"
# Named, because molecule looks for it in git checkouts only, and calls a scenario without it successful.
exec molecule --base-config .config/molecule/config.yml test --no-command-borders --destroy never --scenario-name "$1"
