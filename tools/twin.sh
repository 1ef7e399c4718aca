#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The twin's command line as root (it builds root file systems and containers), its files back in the user's hands:
# Ansible runs as the user and refuses to run under sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

if [ "$(id -u)" = 0 ]; then
    exec .venv/bin/python -m tests.twin "$@"
fi
kept=(PYTHONDONTWRITEBYTECODE=1 "PATH=$PATH" "TWIN=${TWIN:-}")
for name in $(compgen -e | grep -iE '^(pip_.*|.*_proxy|ssl_cert_.*|.*_ca_bundle)$'); do
    kept+=("$name=${!name}") # what leads to the package index from here leads there for root as well
done
status=0
as_root env "${kept[@]}" .venv/bin/python -m tests.twin "$@" || status=$?
if [ -d .cache/twin ]; then
    # Not while another twin's run builds there: chown fails at what vanishes under its hands.
    as_root flock .cache/twin/build.lock chown -R "$(id -u):$(id -g)" .cache/twin
fi
exit "$status"
