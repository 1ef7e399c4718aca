#!/bin/sh
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Starts what Docker could not start for want of the network card's devices, which it looks for once: when it starts the
# container. Its arguments are for tests: where the devices are, and for how many seconds there must be no new one.
set -u
directory=${1:-/dev/infiniband}
settle=${2:-3}

nodes() {
    ls -d "$directory"/uverbs* 2>/dev/null
}

# The containers of a cluster that Docker could not start without the NIC, also one on standby (always). A stopped one is
# not among them: stop.yml removes its restart policy, and 'docker stop' leaves no error.
refused() {
    docker ps --all --quiet --filter label=dgx_spark.speculative.rank --filter status=created --filter status=exited |
        xargs -r docker inspect --format '{{.Id}} {{.HostConfig.RestartPolicy.Name}} {{.State.Error}}' |
        sed -n 's,^\([0-9a-f]*\) \(unless-stopped\|always\) .*adding custom device "/dev/infiniband.*,\1,p'
}

# A request to a Docker that a user has stopped would start it.
while [ "$(systemctl is-active docker.service)" = activating ]; do sleep 1; done
[ "$(systemctl is-active docker.service)" = active ] || exit 0

# What comes while this runs starts it no second time.
while [ -n "$(refused)" ]; do
    now=$(nodes)
    while sleep "$settle" && [ "$(nodes)" != "$now" ]; do now=$(nodes); done
    [ -n "$now" ] || break
    refused | xargs -r -n 1 docker start
    [ "$(nodes)" != "$now" ] || break
done
