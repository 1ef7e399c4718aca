# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Actions that need no lease, each with the reason: modules that change nothing on a Spark, or ask by themselves."""

from __future__ import annotations

OWN = {
    "api_proxy": "plans, and sends requests",
    "completions_probe": "waits for the server and asks it; its action asks before and after each call",
    "deployment_diagnosis": "looks",
    "deployment_info": "looks",
    "fabric_check": "sends packets over the cable, and leaves nothing behind",
    "field_info": "looks, also in a container of its own that it removes again",
    "huggingface_snapshot": "looks",
    "lease": "takes the lease",
    "registry_image_info": "looks",
    "spark_info": "looks",
    "update_info": "looks",
}
BUILTIN = {
    "async_status": "looks at what another task has started",
    "find": "looks",
    "gather_facts": "looks",
    "setup": "looks",
    "slurp": "reads a file",
    "stat": "looks",
    "uri": "waits for an answer",
    "wait_for": "waits for a port",
}
HARMLESS: dict[str, str] = {
    **{f"dgx_spark.speculative.{name}": why for name, why in OWN.items()},
    **{f"ansible.builtin.{name}": why for name, why in BUILTIN.items()},
    # The first task of a play with gather_facts.
    "gather_facts": BUILTIN["gather_facts"],
    "community.docker.docker_host_info": "looks",
}
