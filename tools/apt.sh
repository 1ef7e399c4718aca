# shellcheck shell=bash
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Functions for the other scripts: run a command as root, and install missing packages.

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # On Debian a user's PATH lacks these, where dockerd and debootstrap are.

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "This needs root for: $*. There is no sudo here: run that as root, then run this again." >&2
        return 1
    fi
}

apt_install() {  # apt_install "what for" package...
    local what=$1
    shift
    if ! command -v apt-get >/dev/null; then
        echo "$what is missing, and this is neither Debian nor Ubuntu: install it with the system's own tools" \
            "(there: $*) and run this again." >&2
        return 1
    fi
    echo "$what is missing: installing $* with apt-get ..."
    {
        as_root apt-get -qq update &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@"
    } </dev/null >.cache/apt.log 2>&1 || {
        tail -n 5 .cache/apt.log >&2
        echo "apt-get could not install $*: see above and .cache/apt.log." >&2
        return 1
    }
}

mkdir -p .cache
