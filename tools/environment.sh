#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Create the Python environment in .venv: `environment.sh` for users, `environment.sh GROUP...` with dependency groups
# from pyproject.toml. A second call with the same requirements does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

groups=$*
venv=$PWD/.venv

if [ -L .venv ]; then
    echo ".venv is a link to $(readlink .venv), which this would empty: remove the link with 'rm .venv' and run this again." >&2
    exit 1
fi

suitable_python() {  # The first interpreter that is new enough. Those with venv and ensurepip come first.
    local python modules
    for modules in venv,ensurepip venv sys; do
        for python in python3 python3.13 python3.12 python3.11; do
            if "$python" -c "import sys, $modules; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then
                echo "$python"
                return
            fi
        done
    done
    return 1
}

create() {
    local python
    command -v python3 >/dev/null || apt_install "Python" python3 python3-venv
    python=$(suitable_python) || {
        echo "Python 3.11 or newer is needed, and python3 here is $(python3 --version 2>&1): install a newer one" \
            "(Ubuntu 22.04: apt-get install python3.11-venv) and run this again." >&2
        exit 1
    }
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        apt_install "Python's venv module" "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    echo "Creating .venv with $("$python" --version) ..."
    "$python" -m venv --clear .venv
}

# Create the environment again if its interpreter was removed (a system upgrade) or the checkout was moved.
if ! .venv/bin/python -m pip --version >/dev/null 2>&1 || ! grep -qF "$venv" .venv/bin/activate; then
    create
fi

requirements=$(.venv/bin/python - "$@" <<'PYTHON'
import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
print(*project["project"]["dependencies"], sep="\n")
for group in sys.argv[1:]:
    print(*project["dependency-groups"][group], sep="\n")
PYTHON
)

stamp=.venv/.installed${groups:+-${groups// /-}}
if [ "$(cat "$stamp" 2>/dev/null)" = "$requirements" ]; then
    exit 0
fi

echo "Installing ${groups:+what $groups needs and }Ansible into .venv (the first time takes a minute or two) ..."
if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement /dev/stdin <<<"$requirements"; then
    echo "pip could not install Ansible into .venv: see its message above. Without a package index within reach, point" \
        "PIP_NO_INDEX=1 PIP_FIND_LINKS=/directory at a directory of wheels: pip download" $(printf "'%s' " $requirements) >&2
    exit 1
fi
printf '%s\n' "$requirements" >"$stamp"
