#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Run ansible-test sanity on the built artifact. It only works below ansible_collections/, so the artifact is installed in
# a scratch tree. The scratch tree is also HOME, so that no files are left in the user's.
set -euo pipefail
cd "$(dirname "$0")/.."

home=$PWD/.cache/sanity
collections=$home/collections
python=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

rm -rf "$collections"
mkdir -p "$collections" "$home/.ansible/test/cache"
.venv/bin/ansible-galaxy collection build --force --output-path "$home" >"$home/build.log" 2>&1
.venv/bin/ansible-galaxy collection install --no-deps --force --collections-path "$collections" \
    "$home"/dgx_spark-speculative-*.tar.gz >>"$home/build.log" 2>&1

# ansible-test installs pip into its environments with a script from its own host, unless the script is in its cache. The
# script below uses Python's own pip instead, so that only the package index is needed.
pip_version=$(.venv/bin/python -c '
from ansible_test._internal.python_requirements import get_venv_packages
from ansible_test._internal.host_configs import NativePythonConfig
import sys
print(get_venv_packages(NativePythonConfig(version=sys.argv[1], path=sys.executable))["pip"])' "$python")
cat >"$home/.ansible/test/cache/get_pip_${pip_version//./_}.py" <<'PYTHON'
import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
arguments = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *arguments]))
PYTHON

# With another HOME and a filtered environment, pip would not find the settings of the package index.
mkdir -p "$home/.config/pip"
.venv/bin/python -m pip config list | .venv/bin/python -c '
import ast
import sys
settings = dict(line.rstrip().split("=", 1) for line in sys.stdin)
names = sorted(settings, key=lambda name: name.startswith(":env:"))
known = {name.rpartition(".")[2]: ast.literal_eval(settings[name]) for name in names}
known["quiet"] = "1"
print("[global]", *(f"{name} = " + " ".join(value.split()) for name, value in known.items()), sep="\n")
' >"$home/.config/pip/pip.conf"

# With this root, ansible-test does not use the git repository above, which ignores this directory.
cd "$collections/ansible_collections/dgx_spark/speculative"
export HOME=$home ANSIBLE_TEST_CONTENT_ROOT=$PWD
status=0
ansible-test sanity --color no --python "$python" "$@" 2>&1 | tee "$home/sanity.log" || status=$?

# ansible-test skips the tests that it cannot run, so print their number.
echo "$(grep -c '^Running sanity test' "$home/sanity.log") sanity tests ran with Python $python; skipped:" \
    "$(grep -ciE '^WARNING: (skipping|all targets skipped)' "$home/sanity.log" || true)"
exit "$status"
