#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Install QEMU if it is missing, and run the power cuts as root, who builds the machine's root file system.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

if ! command -v qemu-system-x86_64 >/dev/null || ! command -v qemu-img >/dev/null; then
    apt_install "QEMU" qemu-system-x86 qemu-utils
fi
status=0
as_root env PYTHONPATH=collections PYTHONDONTWRITEBYTECODE=1 "PATH=$PATH" .venv/bin/python -m tests.power "$@" || status=$?
as_root chown -R "$(id -u):$(id -g)" .cache/power .cache/twin
exit "$status"
