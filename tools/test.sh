#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Everything there is to test, one stage after the other; a stage that fails does not keep the next from running, only
# the environment does. Ends with the wall times and with the sums.
set -uo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=()
times=()

stage() {  # stage "name" command...
    local name=$1 begin=$SECONDS verdict=passed
    shift
    printf '\n==> %s\n' "$name"
    if "$@" </dev/null; then
        passed=$((passed + 1))
    else
        verdict=FAILED
        failed+=("$name")
    fi
    times+=("$(printf '%6d s  %-6s  %s' $((SECONDS - begin)) "$verdict" "$name")")
}

summary() {
    printf '\n==> Wall times, slowest ten of %d stages in %d s\n' "${#times[@]}" "$SECONDS"
    printf '%s\n' "${times[@]}" | sort --numeric-sort --reverse | head -n 10
    if [ ${#failed[@]} -gt 0 ]; then
        printf '\nFailed: %s\n' "${failed[*]}"
    fi
    printf '\n%d passed, %d failed\n' "$passed" "${#failed[@]}"
    [ ${#failed[@]} -eq 0 ]
}

make="make --no-print-directory"
stage environment $make dev
if [ ${#failed[@]} -gt 0 ]; then
    summary
    exit 1
fi
for name in lint units sanity build engine; do
    stage "$name" $make "$name"
done
if [[ " ${failed[*]} " != *" engine "* ]]; then
    .venv/bin/python -m tests.twin.machine save
    stage twin tools/twin.sh up
    for scenario in molecule/*/molecule.yml; do
        name=$(basename "$(dirname "$scenario")")
        if [ "$name" != default ]; then
            stage "molecule $name" tools/molecule.sh "$name"
        fi
    done
    stage "twin down" tools/twin.sh down
    stage "machine untouched" .venv/bin/python -m tests.twin.machine compare
    tools/engine.sh down
fi
summary
