#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ansible-test sanity, which only runs on a collection that lies under ansible_collections/: on the built artifact,
# installed into a scratch tree. Its home is the scratch tree too, so that nothing is left in the user's.
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

# ansible-test bootstraps pip into each of its environments with a script that it downloads from a host of its own, unless
# its cache has one. This one does the same with the pip that Python brings along, so that the package index is enough.
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

# With another home and a filtered environment, pip would forget where the package index is and whom to trust.
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

# Told its root, ansible-test does not look for a git repository above, where all of this is ignored.
cd "$collections/ansible_collections/dgx_spark/speculative"
export HOME=$home ANSIBLE_TEST_CONTENT_ROOT=$PWD
status=0
ansible-test sanity --color no --python "$python" "$@" 2>&1 | tee "$home/sanity.log" || status=$?

# ansible-test goes on without what it cannot run; say so.
echo "$(grep -c '^Running sanity test' "$home/sanity.log") sanity tests ran with Python $python; skipped:" \
    "$(grep -ciE '^WARNING: (skipping|all targets skipped)' "$home/sanity.log" || true)"
exit "$status"
