#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Run the twin's command line as root, because it builds root file systems and containers. Then give its files to the
# user: Ansible runs as the user and refuses to run under sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

if [ "$(id -u)" = 0 ]; then
    exec .venv/bin/python -m tests.twin "$@"
fi
kept=(PYTHONDONTWRITEBYTECODE=1 "PATH=$PATH" "TWIN=${TWIN:-}" "ISA=${ISA:-}")
for name in $(compgen -e | grep -iE '^(pip_.*|.*_proxy|ssl_cert_.*|.*_ca_bundle)$'); do
    kept+=("$name=${!name}") # root needs the same settings of the package index
done
status=0
as_root env "${kept[@]}" .venv/bin/python -m tests.twin "$@" || status=$?
if [ -d .cache/twin ]; then
    # Wait until no other twin builds there: chown fails if files disappear.
    as_root flock .cache/twin/build.lock chown -R "$(id -u):$(id -g)" .cache/twin
fi
exit "$status"
