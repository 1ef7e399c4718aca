#!/usr/bin/env bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Like this script in the real image: reads or creates the secret of the sessions, and starts the server.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit
KEY_FILE="${WEBUI_SECRET_KEY_FILE:-.webui_secret_key}"
if test "$WEBUI_SECRET_KEY $WEBUI_JWT_SECRET_KEY" = " "; then
    echo "Loading WEBUI_SECRET_KEY from file, not provided as an environment variable."
    if ! [ -e "$KEY_FILE" ]; then
        echo "Generating WEBUI_SECRET_KEY"
        head -c 12 /dev/random | base64 >"$KEY_FILE"
    fi
    echo "Loading WEBUI_SECRET_KEY from $KEY_FILE"
    WEBUI_SECRET_KEY=$(cat "$KEY_FILE")
fi
WEBUI_SECRET_KEY="$WEBUI_SECRET_KEY" exec python3 server.py
