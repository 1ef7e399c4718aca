# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# What Open WebUI's container runs. Secrets come from files: docker inspect shows what stands in the container's environment.
set -eu
secret="${DATA_DIR:-/app/backend/data}/.webui_secret_key"
# Kept with the data, so that sessions outlive the container. Renamed when whole: a start that is cut off leaves no half of one.
if [ ! -s "$secret" ]; then
  (umask 077 && head -c 32 /dev/urandom | base64 >"$secret.new")
  mv "$secret.new" "$secret"
fi
OPENAI_API_KEY="$(cat "${OPENAI_API_KEY_FILE:-/run/secrets/api_key}")"
WEBUI_SECRET_KEY="$(cat "$secret")"
export OPENAI_API_KEY WEBUI_SECRET_KEY
exec bash start.sh
