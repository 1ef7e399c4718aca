#!/bin/bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Manage the Docker Engine of the twin. `engine.sh up` starts it if needed, `engine.sh down` stops it if `up` started it
# and no container runs, and `engine.sh answers` only tests it.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

pid_file=.cache/dockerd.pid
log=.cache/dockerd.log

answers() { as_root timeout 20 docker info >/dev/null 2>&1; }

wait_for_engine() {
    local second
    for ((second = 0; second < 60; second++)); do
        if answers; then
            return 0
        fi
        if [ -s "$pid_file" ] && ! [ -d "/proc/$(cat "$pid_file")" ]; then
            return 1
        fi
        sleep 1
    done
    return 1
}

install_missing() {
    local missing=()
    command -v docker >/dev/null || missing+=(docker.io)
    [ -x /usr/sbin/debootstrap ] || missing+=(debootstrap)
    command -v openssl >/dev/null || missing+=(openssl)
    command -v ssh >/dev/null || missing+=(openssh-client)
    if [ ${#missing[@]} -gt 0 ]; then
        apt_install "What the simulated Spark is built with" "${missing[@]}"
    fi
}

up() {
    install_missing
    if answers; then
        return
    fi
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker || true
        wait_for_engine || {
            echo "systemctl start docker did not give a Docker Engine that answers: see journalctl -u docker." >&2
            exit 1
        }
        return
    fi
    command -v dockerd >/dev/null || apt_install "A Docker Engine" docker.io
    # An engine that was killed leaves this file. If its PID is reused, dockerd would take that process for a running engine.
    if [ -s /var/run/docker.pid ] && [ "$(cat "/proc/$(cat /var/run/docker.pid)/comm" 2>/dev/null)" != dockerd ]; then
        as_root rm -f /var/run/docker.pid
    fi
    echo "No Docker Engine answers and no service manager runs: starting dockerd (log: $log) ..."
    # Its own session, so that Ctrl-C here does not reach it. No inherited descriptors, so that no program waits for it.
    as_root setsid bash -c "dockerd >$log 2>&1 </dev/null & echo \$! >$pid_file"
    wait_for_engine || {
        tail -n 5 "$log" >&2
        echo "dockerd does not come up here: see above and $log. It needs root, cgroups and iptables; a container" \
            "without privileges cannot run it." >&2
        as_root rm -f "$pid_file"
        exit 1
    }
}

down() {
    local pid running
    [ -s "$pid_file" ] || return 0
    pid=$(cat "$pid_file")
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]; then
        # The twin is down already, so running containers belong to others, such as the twin of another checkout. An engine
        # that does not answer is stopped.
        running=$(as_root timeout 20 docker ps --format '{{.Names}}' 2>/dev/null) || running=
        if [ -n "$running" ]; then
            echo "The dockerd that was started here keeps running, because it has containers: ${running//$'\n'/, }." \
                "Once they are stopped, tools/engine.sh down stops it."
            return 0
        fi
        echo "Stopping the dockerd that was started here ..."
        as_root kill "$pid"
        while [ -d "/proc/$pid" ]; do sleep 0.2; done
    fi
    as_root rm -f "$pid_file"
}

case "${1:-}" in
    up) up ;;
    down) down ;;
    answers) answers ;;
    *)
        echo "Usage: tools/engine.sh up|down|answers" >&2
        exit 2
        ;;
esac
