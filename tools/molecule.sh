#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Run one scenario on the twin that TWIN names: `molecule.sh NAME`. The twin stays up for the next scenario. Each run has
# a fresh state directory, because molecule shares "prepared" between scenarios and between checkouts of the same name.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PWD/.venv/bin:$PATH
export MOLECULE_EPHEMERAL_DIRECTORY=$PWD/.cache/molecule${TWIN:+-$TWIN}
rm -rf "$MOLECULE_EPHEMERAL_DIRECTORY"
# Molecule finds the base config only in git checkouts, and without it reports success. So name it here.
exec molecule --base-config .config/molecule/config.yml test --no-command-borders --destroy never --scenario-name "$1"
