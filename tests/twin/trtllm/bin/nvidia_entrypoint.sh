#!/bin/sh
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# As images of NVIDIA's catalogue do: greets on standard output, whatever is run.
cat <<EOF

==================
== TensorRT LLM ==
==================

Stand-in for NVIDIA Release ${TRT_LLM_VERSION:-} (build 0)

EOF
exec "$@"
